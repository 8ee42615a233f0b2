"""A phase that takes too long is given up; and what it still does, or comes to, afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headwater as hw
from headwater.errors import StoreFullError, TransitionError
from headwater.host import workflow_threads
from headwater.workflow import transitions
from tests.runtime.workflows.mill import SAFETY_S, Mill, until, waited

SHORT = "250ms"
"""Long enough for a machine that is busy with other things to do what does not wait."""


class Slow(Mill):
    """A consumer of which one phase does not end before it may."""

    def __init__(self, phase: str, *, is_async: bool = False, once: bool = True, **options: Any) -> None:
        super().__init__()
        self.began, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.phase, self.once = phase, once
        self.calls: list[str] = []
        self.reconciled: list[bool] = []
        self.answer: Any = hw.NotApplied()
        self.late_error: Exception | None = None
        slow = self

        class Take(hw.Consumer[Any, list[str], int]):
            def prepare(self, pending: Any) -> hw.Plan[list[str]]:
                slow.at("prepare")
                return hw.Plan([e.id for e in pending], take=pending) if pending else hw.Plan.idle()

            def mutate(self, run: hw.Run, data: list[str]) -> int:
                slow.at("mutate")
                return 1

            def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
                slow.at("next")
                slow.total.value += 1

        class AsyncTake(hw.Consumer[Any, list[str], int]):
            async def prepare(self, pending: Any) -> hw.Plan[list[str]]:
                await slow.at_async("prepare")
                return hw.Plan([e.id for e in pending], take=pending) if pending else hw.Plan.idle()

            async def mutate(self, run: hw.Run, data: list[str]) -> int:
                await slow.at_async("mutate")
                return 1

            async def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
                await slow.at_async("next")
                slow.total.value += 1

        kind: Any = AsyncTake if is_async else Take
        if options.pop("reconciles", False):

            def reconcile(_: object, run: hw.Run, data: object) -> Any:
                slow.reconciled.append(slow.ended.is_set())
                return slow.answer

            kind.reconcile = reconcile
        self.flow.consumer(self.notes, name="Take", **{"timeout": {phase: SHORT}, **options})(kind)

    def is_slow(self, phase: str) -> bool:
        self.calls.append(phase)
        return phase == self.phase and (not self.once or self.calls.count(phase) == 1)

    def at(self, phase: str) -> None:
        if self.is_slow(phase):
            self.began.set()
            waited(self.go)
            self.ended.set()
            if self.late_error is not None:
                raise self.late_error

    async def at_async(self, phase: str) -> None:
        if not self.is_slow(phase):
            return
        self.began.set()
        try:
            await asyncio.sleep(SAFETY_S)
        finally:
            self.ended.set()

    def status_is(self, status: str) -> bool:
        return any(run.status == status for run in self.runs)


def retried(mill: Mill, space: hw.Space) -> bool:
    """What waits for its time need not wait any longer."""
    mill.advance(60)
    space.workflows.hub.ring("mill.notes")
    return True


@pytest.fixture(autouse=True)
def no_thread_dies(recwarn: pytest.WarningsRecorder) -> Iterator[None]:
    yield
    assert [str(warning.message) for warning in recwarn] == []


def test_a_next_that_comes_back_late_is_not_called_again_because_others_wrote_what_it_read() -> None:
    mill, began, go, ended = Mill(), threading.Event(), threading.Event(), threading.Event()

    def after(_: object, run: hw.Run, data: Any, outcome: Any) -> None:
        mill.log.append(run.attempt)
        mill.total.value += 1
        if run.attempt == 1:
            began.set()
            waited(go)
            ended.set()

    mill.take(consumer={"timeout": {"next": SHORT}}, mutate=None, next=after)
    with mill.open() as space:
        space.workflows.start()
        mill.put("a")
        waited(began)
        until(lambda: retried(mill, space) and mill.events() == {"a": "consumed"})
        # By now the total that the first one has read is another.
        go.set()
        waited(ended)
        until(lambda: len(space.workflows._host._lost) == 0)  # type: ignore[union-attr]  # it has ended
        assert (mill.log, mill.total.value) == ([1, 2], 1)


@pytest.mark.parametrize("phase", ["prepare", "next"])
def test_a_phase_that_is_late_is_tried_again_and_what_it_still_does_is_lost(phase: str) -> None:
    slow = Slow(phase)
    with slow.open() as space:
        space.workflows.start()
        slow.put("a")
        until(lambda: slow.status_is("paused:transient"))
        assert slow.last.error == f"Take.{phase} took longer than 0.25 s"
        slow.go.set()
        waited(slow.ended)
        until(lambda: retried(slow, space) and slow.events() == {"a": "consumed"})
        space.settle()
        assert slow.total.value == 1
        assert slow.calls.count("mutate") == 1
        assert slow.calls.count(phase) >= 2


@pytest.mark.parametrize("phase", ["prepare", "next"])
@pytest.mark.parametrize("started", [True, False])
def test_an_async_phase_that_is_late_is_cancelled(phase: str, started: bool) -> None:
    slow = Slow(phase, is_async=True)
    with slow.open() as space:
        slow.put("a")
        if started:
            space.workflows.start()
            until(lambda: slow.status_is("paused:transient"))
        else:
            space.workflows.drain()
        waited(slow.ended)
        assert f"Take.{phase} took longer than 0.25 s" in [run.error for run in slow.runs]
        if started:
            until(lambda: retried(slow, space) and slow.events() == {"a": "consumed"})
        else:
            slow.advance(10)
            space.workflows.drain()
        space.settle()
        assert slow.total.value == 1
        assert slow.calls.count("mutate") == 1


def test_a_timeout_of_the_authors_own_is_told_as_it_was_raised() -> None:
    mill = Mill()

    async def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        async with asyncio.timeout(0):
            await asyncio.sleep(SAFETY_S)
        return hw.Plan.idle()

    mill.take(prepare=prepare)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (mill.last.status, mill.last.error) == ("paused:transient", "TimeoutError: ")


# --- mutate ---------------------------------------------------------------------------------------------------


def test_a_mutate_that_is_late_is_not_known_and_its_result_still_counts() -> None:
    slow = Slow("mutate")
    with slow.open() as space:
        space.workflows.start()
        slow.put("a")
        until(lambda: slow.status_is("paused:reconciliation"))
        assert slow.last.outcome == "unknown"
        assert slow.flow.status.state == "Needs attention"
        slow.go.set()
        until(lambda: slow.events() == {"a": "consumed"})
        assert slow.calls.count("mutate") == 1
        space.settle()
        assert slow.total.value == 1


def test_a_mutate_that_is_late_is_not_asked_about_while_it_can_still_act() -> None:
    slow = Slow("mutate", reconciles=True)
    with slow.open() as space:
        space.workflows.start()
        slow.put("a")
        until(lambda: slow.status_is("paused:reconciliation"))
        for _ in range(3):
            space.workflows.hub.ring("mill.notes")
        slow.go.set()
        until(lambda: slow.events() == {"a": "consumed"})
        assert slow.calls.count("mutate") == 1
        # Whatever it says: it was not asked before the call had come back, or not at all.
        assert all(slow.reconciled)


def test_an_async_mutate_that_is_late_is_asked_about_when_it_has_ended() -> None:
    slow = Slow("mutate", is_async=True, reconciles=True)
    with slow.open() as space:
        slow.put("a")
        space.workflows.drain()
        assert slow.reconciled == [True]
        assert (slow.last.status, slow.last.outcome) == ("paused:transient", "failed")
        slow.advance(10)
        space.workflows.drain()
        assert slow.calls.count("mutate") == 2
        assert slow.events() == {"a": "consumed"}


@pytest.mark.parametrize("started", [True, False])
def test_a_cancellation_that_is_swallowed_is_not_taken_for_an_end(started: bool) -> None:
    """What goes on after it was cancelled may act: whoever is asked before that might say that nothing has happened."""
    mill, asked = Mill(), []
    acted, cancelled, go = threading.Event(), threading.Event(), threading.Event()

    class Take(hw.Consumer[Any, list[str], int]):
        async def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            return hw.Plan([e.id for e in pending], take=pending) if pending else hw.Plan.idle()

        async def mutate(self, run: hw.Run, data: list[str]) -> int:
            try:
                await asyncio.sleep(SAFETY_S)
            except asyncio.CancelledError:
                cancelled.set()
            await asyncio.to_thread(waited, go)
            acted.set()
            return 7

        def reconcile(self, run: hw.Run, data: list[str]) -> hw.Answer[int]:
            asked.append(acted.is_set())
            return hw.NotApplied()

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
            mill.log.append(outcome.result)

    def let_go() -> None:
        waited(cancelled)
        go.set()

    mill.flow.consumer(mill.notes, timeout={"mutate": SHORT})(Take)
    with mill.open() as space:
        mill.put("a")
        if started:
            space.workflows.start()
            until(lambda: any(run.outcome == "unknown" for run in mill.runs))
            waited(cancelled)
            go.set()
            until(lambda: mill.events() == {"a": "consumed"})
        else:
            threading.Thread(target=let_go).start()
            space.workflows.drain()
        assert all(asked)
        assert mill.log == [7]


def test_a_late_error_of_a_mutate_is_one_that_is_asked_about() -> None:
    slow = Slow("mutate", reconciles=True)
    slow.answer = hw.Applied(3)
    slow.late_error = OSError("lost")
    with slow.open() as space:
        space.workflows.start()
        slow.put("a")
        until(lambda: slow.status_is("paused:reconciliation"))
        slow.go.set()
        until(lambda: slow.events() == {"a": "consumed"})
        assert slow.reconciled == [True]
        assert slow.calls.count("mutate") == 1


# --- producers and reconciles ---------------------------------------------------------------------------------


def test_a_producer_that_is_late_publishes_nothing() -> None:
    mill, go, ended = Mill(), threading.Event(), threading.Event()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="1h", timeout=SHORT)
    def poll() -> None:
        mill.put(f"n{len(mill.log)}")
        mill.log.append("called")
        if len(mill.log) == 1:
            waited(go)
            ended.set()

    with mill.open() as space:
        space.workflows.start()
        until(lambda: any(run.status == "paused:transient" for run in mill.runs))
        go.set()
        waited(ended)
        until(lambda: retried(mill, space) and list(mill.events().values()) == ["consumed"])
        assert "n0" not in mill.events()


def test_a_reconcile_that_is_late_has_not_answered() -> None:
    mill = Mill()

    class Take(hw.Consumer[Any, list[str], int]):
        def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            return hw.Plan([e.id for e in pending], take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: list[str]) -> int:
            raise OSError("lost")

        async def reconcile(self, run: hw.Run, data: list[str]) -> hw.Answer[int]:
            await asyncio.sleep(SAFETY_S)
            return hw.Applied(1)

    mill.flow.consumer(mill.notes, timeout={"reconcile": SHORT})(Take)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (mill.last.status, mill.last.outcome) == ("paused:reconciliation", "unknown")
        call = mill.details(mill.last.id).call
        assert call is not None
        assert call.status == "needs_reconcile"


# --- exceptions that end programs -----------------------------------------------------------------------------


class Odd(BaseException):
    pass


ENDS = [SystemExit(3), KeyboardInterrupt(), Odd("odd"), GeneratorExit(), asyncio.CancelledError()]


@pytest.mark.parametrize("error", ENDS, ids=repr)
@pytest.mark.parametrize("phase", ["prepare", "mutate", "next"])
@pytest.mark.parametrize("is_async", [False, True])
def test_a_handler_cannot_end_the_thread_it_is_called_in(error: BaseException, phase: str, is_async: bool) -> None:
    mill, raised = Mill(), list[str]()

    def fail(at: str) -> None:
        if at == phase and not raised:
            raised.append(at)
            raise error

    class Take(hw.Consumer[Any, list[str], int]):
        def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            fail("prepare")
            return hw.Plan([e.id for e in pending], take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: list[str]) -> int:
            fail("mutate")
            return 1

        def reconcile(self, run: hw.Run, data: list[str]) -> hw.Answer[int]:
            return hw.NotApplied("it did not")

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
            fail("next")

    if is_async:
        method = getattr(Take, phase)

        async def awaited(self: Any, *args: Any) -> Any:
            await asyncio.sleep(0)
            return method(self, *args)

        setattr(Take, phase, awaited)
    mill.flow.consumer(mill.notes)(Take)
    other = mill.app.workflow("other")
    letters = other.topic("letters", str)
    other.consumer(letters)(mill.taker())
    with mill.open() as space:
        space.workflows.start(concurrency=1)
        mill.put("a")
        until(lambda: raised)
        until(lambda: mill.flow.status.state != "Running")
        # The only thread there is goes on with what else there is to do.
        letters.publish("x", id="x")
        until(lambda: mill.events("letters") == {"x": "consumed"})
        until(lambda: any(mill.events() == {"a": "consumed"} or run.status == "failed:logic" for run in mill.runs))


def raising_once(mill: Mill, error: BaseException) -> None:
    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        if not mill.log:
            mill.log.append("raised")
            raise error
        return hw.Plan(None, take=pending)

    mill.take(prepare=prepare, mutate=None, next=None)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Odd("odd")], ids=repr)
def test_whoever_runs_them_here_and_now_can_interrupt_it(error: BaseException) -> None:
    mill = Mill()
    raising_once(mill, error)
    with mill.open() as space:
        mill.put("a")
        with pytest.raises(type(error)):
            space.workflows.drain()
        assert mill.statuses == ["crashed"]
        space.workflows.drain()
        assert mill.statuses == ["crashed", "committed"]


def test_what_would_end_a_program_ends_the_run_and_says_so() -> None:
    mill = Mill()
    raising_once(mill, SystemExit(3))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.statuses == ["failed:logic"]
        assert "SystemExit" in (mill.last.error or "")
        mill.flow.retry(mill.last.id)
        space.workflows.drain()
        assert mill.statuses == ["failed:logic", "committed"]


# --- the end of the host --------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["produce", "prepare", "next"])
def test_an_async_phase_that_does_not_end_with_its_host_is_no_failure(phase: str) -> None:
    mill, began = Mill(), threading.Event()

    async def hang(at: str) -> None:
        if at == phase and not began.is_set():
            began.set()
            await asyncio.sleep(SAFETY_S)

    class Take(hw.Consumer[Any, list[str], int]):
        async def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            if not pending:
                return hw.Plan.idle()
            await hang("prepare")
            return hw.Plan([e.id for e in pending], take=pending)

        def mutate(self, run: hw.Run, data: list[str]) -> int:
            mill.log.append("acted")
            return 1

        async def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
            await hang("next")

    mill.flow.consumer(mill.notes)(Take)

    @mill.flow.producer(every="1h")
    async def poll() -> None:
        mill.put("a")
        await hang("produce")

    with mill.open() as space:
        space.workflows.start()
        waited(began)
        assert not space.workflows.stop(timeout="50ms")
        until(lambda: "active" not in mill.statuses)
        stopped = next(run for run in mill.runs if run.status != "committed")
        assert (stopped.status, stopped.error_kind) == ("paused:transient", "stopped")
        assert mill.errors == []
        assert mill.flow.status.state != "Needs attention"
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}
        assert mill.log == ["acted"]


@pytest.mark.parametrize("ends", ["returns", "refuses"])
def test_a_call_that_ends_while_it_is_being_given_up_is_not_left_to_nobody(ends: str) -> None:
    """That it is late is written first, and what became of it second: neither is lost."""
    slow = Slow("mutate", once=True)
    if ends == "refuses":
        slow.late_error = hw.TransientError("busy", definite=True)
    with slow.open() as space:
        hub = space.workflows.hub
        look = hub.look

        def late(question: Any) -> Any:
            if threading.current_thread().name == "headwater-workflows":
                # Whoever keeps the time is about to give it up: it ends right now.
                slow.go.set()
                waited(slow.ended)
            return look(question)

        hub.look = late  # type: ignore[method-assign]
        space.workflows.start()
        slow.put("a")
        waited(slow.ended)
        until(lambda: "active" not in slow.statuses)
        until(lambda: retried(slow, space) and slow.events() == {"a": "consumed"})
        assert slow.calls.count("mutate") == (1 if ends == "returns" else 2)
        space.settle()
        assert slow.total.value == 1
        # And the time is kept as before.
        slow.put("b")
        until(lambda: slow.events() == {"a": "consumed", "b": "consumed"})


def test_a_mutate_that_does_not_come_back_needs_attention_until_it_does() -> None:
    mill = Mill()
    begun, may_end = threading.Event(), threading.Event()

    def mutate(_: object, run: hw.Run, data: Any) -> Any:
        begun.set()
        waited(may_end)
        raise ConnectionError("no answer")

    def reconcile(_: object, run: hw.Run, data: Any) -> Any:
        return hw.Applied(1)

    mill.take(consumer={"timeout": {"mutate": "50ms"}}, mutate=mutate, reconcile=reconcile)
    with mill.open() as space:
        space.workflows.start()
        mill.put("a")
        waited(begun)
        until(lambda: mill.flow.status.state == "Needs attention")
        assert "took longer than 0.05 s. It may still act." in mill.flow.status.sentence
        with pytest.raises(TransitionError, match="has not come back"):
            mill.flow.reconcile(mill.last.id, hw.Unknown())
        may_end.set()
        until(lambda: mill.events() == {"a": "consumed"})
        until(lambda: mill.flow.status.state == "Idle")


def test_a_late_call_that_ends_while_the_disk_is_full_does_not_block_its_workflow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither its result nor its end could be stored. When there is room again, `reconcile` reports the outcome."""
    monkeypatch.setattr(workflow_threads, "_ROOM_MS", 20)
    slow = Slow("mutate", reconciles=True)
    slow.answer = hw.Applied(1)
    refused = threading.Event()
    with slow.open() as space:
        hub = space.workflows.hub
        do = hub.do
        room = threading.Event()

        def full(step: Any) -> Any:
            if slow.go.is_set() and not room.is_set():
                if getattr(step, "func", None) is transitions.came_back:
                    refused.set()
                raise StoreFullError("no room", path="")
            return do(step)

        space.workflows.start()
        slow.put("a")
        until(lambda: slow.status_is("paused:reconciliation"))
        hub.do = full  # type: ignore[method-assign]
        slow.go.set()
        waited(refused)
        assert slow.flow.status.state == "Needs attention"
        room.set()
        until(lambda: slow.events() == {"a": "consumed"})
        assert slow.calls.count("mutate") == 1
