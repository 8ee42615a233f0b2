"""What each phase may do. What it may not ends the run as an error of the program, whatever its code catches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import headwater as hw
from tests.runtime.workflows.mill import Mill

OPERATIONS = ["read", "mutation", "publish", "write", "look"]
PHASES = ["producer", "prepare", "mutate", "call", "reconcile", "next"]
"""`mutate` acts itself; `call` is that of a consumer which says what is to be called."""

ALLOWED = {
    "read": {"producer", "prepare", "reconcile"},
    "mutation": {"call"},
    "publish": {"producer", "next"},
    "write": {"producer", "next"},
    "look": set(PHASES),
}


def plainly(act: Callable[[], object]) -> None:
    act()


def catching_exceptions(act: Callable[[], object]) -> None:
    with suppress(Exception):
        act()


def catching_everything(act: Callable[[], object]) -> None:
    with suppress(BaseException):
        act()


def in_a_finally(act: Callable[[], object]) -> None:
    try:
        raise KeyError("something else")
    except KeyError:
        pass
    finally:
        act()


MANNERS = [plainly, catching_exceptions, catching_everything, in_a_finally]


class Trial(Mill):
    """One operation in one phase: of a producer that publishes, or of a consumer that takes what is there."""

    def __init__(  # noqa: C901  # one method for each phase
        self, phase: str, operation: str, manner: Callable[[Callable[[], object]], None]
    ) -> None:
        super().__init__()
        self.phase, self.operation, self.manner = phase, operation, manner
        self.others = self.flow.topic("others", int)
        self.outside: list[str] = []
        mail = self.flow.connector("mail")
        shop = self.flow.connector("shop")

        @shop.read
        def look() -> str:
            self.outside.append("read")
            return "seen"

        @mail.mutation
        def send(text: str) -> str:
            self.outside.append(text)
            return text

        self.look, self.send = look, send
        uses = (mail, shop) if phase == "call" or operation == "mutation" else (shop,)
        if phase in ("mutate", "reconcile", "next"):
            # One that acts itself has no mutations to name.
            uses = (shop,)
        trial = self

        class Take(hw.Consumer[Any, list[str], str]):
            def prepare(self, pending: Any) -> hw.Plan[list[str]]:
                trial.at("prepare", self.run)
                return hw.Plan([event.id for event in pending], take=pending)

            def mutate(self, run: hw.Run, data: list[str]) -> str | None:
                trial.at("mutate", run)
                trial.at("call", run)
                if trial.phase == "reconcile":
                    raise ConnectionError("lost")
                trial.log.append("mutated")
                # One that says what to call has nothing else to say.
                return None if trial.phase == "call" else "done"

            def reconcile(self, run: hw.Run, data: list[str]) -> hw.Answer[str]:
                trial.at("reconcile", run)
                return hw.Applied("done") if trial.phase == "reconcile" else hw.NotApplied()

            def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[str]) -> None:
                trial.at("next", run)
                trial.log.append(outcome.result)

        self.flow.consumer(self.notes, uses=uses, acts=False if phase == "call" else None)(Take)
        self.flow.consumer(self.others, name="Other")(self.taker(prepare=lambda _, pending: hw.Plan.idle()))

        if phase == "producer":

            @self.flow.producer(every="1h", uses=uses)
            def poll(run: hw.Run) -> None:
                self.at("producer", run)
                self.log.append("polled")

    def at(self, phase: str, run: hw.Run) -> None:
        if phase != self.phase:
            return
        acts: dict[str, Callable[[], object]] = {
            "read": lambda: run.call(self.look),
            "mutation": lambda: run.call(self.send, "sent"),
            "publish": lambda: self.others.publish(1, id="x"),
            "write": self.write,
            "look": lambda: self.total.value,
        }
        self.manner(acts[self.operation])

    def write(self) -> None:
        self.total.value = 7


CASES = [(phase, operation, manner) for phase in PHASES for operation in OPERATIONS for manner in MANNERS]


@pytest.mark.parametrize(("phase", "operation", "manner"), CASES, ids=[f"{p}-{o}-{m.__name__}" for p, o, m in CASES])
def test_a_phase_may_do_what_the_matrix_says_and_nothing_else(phase: str, operation: str, manner: Any) -> None:
    trial = Trial(phase, operation, manner)
    with trial.open() as space:
        if phase != "producer":
            trial.put("a")
        space.workflows.drain()
        run = next(run for run in trial.runs if run.handler == ("poll" if phase == "producer" else "Take"))
        if phase in ALLOWED[operation]:
            assert run.status == "committed", run.error
            check_effect(trial, phase, operation)
            return
        assert trial.total.value == 0
        assert trial.events("others") == {}
        assert trial.outside == []
        if phase == "mutate" and manner in (plainly, in_a_finally):
            # It may have acted before: it was asked, and says that it has not.
            assert run.outcome == "failed"
        if phase == "reconcile" and manner in (plainly, in_a_finally):
            # A question that fails is not answered; nobody takes that for an answer.
            assert run.status == "paused:reconciliation"
            return
        assert run.status == "failed:logic", run
        assert run.error is not None
        assert_tells(run.error, operation, phase)
        assert trial.flow.status.state == "Needs attention"


def check_effect(trial: Trial, phase: str, operation: str) -> None:
    assert trial.outside == {"read": ["read"], "mutation": ["sent"]}.get(operation, [])
    assert trial.total.value == (7 if operation == "write" else 0)
    assert trial.events("others") == ({"x": "pending"} if operation == "publish" else {})
    if phase == "call":
        # What follows the one mutation is not executed; unless it is caught, and then it is of no effect.
        assert trial.log[-1] == ("sent" if operation == "mutation" else None)
    else:
        assert trial.log[-1] == ("polled" if phase == "producer" else "done")


def assert_tells(error: str, operation: str, phase: str) -> None:
    told = {"read": "shop.look()", "mutation": "mail.send()", "publish": "mill.notes.others", "write": "mill.total"}
    assert told[operation] in error, error


# --- what swallows more than that -----------------------------------------------------------------------------


def test_a_second_mutation_ends_the_run_before_the_first_is_made() -> None:
    trial = Trial("call", "look", plainly)

    def twice(run: hw.Run) -> None:
        catching_everything(lambda: run.call(trial.send, "one"))
        catching_everything(lambda: run.call(trial.send, "two"))

    trial.at = lambda phase, run: twice(run) if phase == "call" else None  # type: ignore[method-assign]
    with trial.open() as space:
        trial.put("a")
        space.workflows.drain()
        run = trial.runs[-1]
        assert run.status == "failed:logic"
        assert "has asked for its one mutation; mail.send() would be a second" in str(run.error)
        assert trial.outside == []
        assert trial.events() == {"a": "pending"}


def test_code_after_the_mutation_has_no_effect() -> None:
    trial = Trial("call", "look", plainly)

    def more(run: hw.Run) -> None:
        try:
            run.call(trial.send, "one")
        finally:
            trial.log.append("after")
            raise ZeroDivisionError

    trial.at = lambda phase, run: more(run) if phase == "call" else None  # type: ignore[method-assign]
    with trial.open() as space:
        trial.put("a")
        space.workflows.drain()
        assert trial.runs[-1].status == "committed"
        assert trial.outside == ["one"]
        assert trial.log[-2:] == ["after", "one"]


def test_async_methods_are_held_to_the_same() -> None:
    mill = Mill()

    async def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        await asyncio.sleep(0)
        try:
            mill.total.value = 3
        except hw.HeadwaterError:
            await asyncio.sleep(0)
        return hw.Plan(None, take=pending)

    mill.take(prepare=prepare)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert "only reads: it cannot write mill.total; write cells in next" in str(mill.last.error)
        assert mill.total.value == 0


def test_a_block_within_prepare_only_reads_as_well() -> None:
    mill = Mill()

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        with space.transaction():
            mill.total.value = 3
        return hw.Plan(None, take=pending)

    mill.take(prepare=prepare)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert mill.total.value == 0


def test_a_run_that_is_kept_for_later_calls_nothing() -> None:
    kept: list[hw.Run] = []
    trial = Trial("next", "look", plainly)
    trial.at = lambda phase, run: kept.append(run)  # type: ignore[method-assign]
    with trial.open() as space:
        trial.put("a")
        space.workflows.drain()
        with pytest.raises(hw.LogicError, match=r"shop.look\(\) is a read and cannot be called in no phase"):
            kept[-1].call(trial.look)
        assert trial.outside == []
