"""What handlers remember between their runs: read in prepare, assigned in next, and there after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.testing import SimClock
from tests.runtime.workflows.mill import Mill, Note


@dataclass
class Cursor:
    seen: int = 0
    names: list[str] = field(default_factory=list)


def counting(folder: Path | None = None, clock: SimClock | None = None) -> Mill:
    """A consumer that counts what it has taken."""
    mill = Mill(folder, clock)

    class Count(hw.Consumer[Note, list[str], None]):
        state: Cursor = Cursor()

        def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[list[str]]:
            mill.log.append(("prepare", self.state))
            return hw.Plan([e.id for e in pending], take=pending) if pending else hw.Plan.idle()

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[None]) -> None:
            mill.log.append(("next", self.state))
            self.state = Cursor(self.state.seen + len(data), [*self.state.names, *data])

    mill.flow.consumer(mill.notes)(Count)
    return mill


def test_a_state_is_what_next_has_assigned() -> None:
    mill = counting()
    with mill.open() as space:
        for name in "ab":
            mill.put(name)
            space.workflows.drain()
        assert mill.log == [
            ("prepare", Cursor()),
            ("next", Cursor()),
            ("prepare", Cursor(1, ["a"])),
            ("next", Cursor(1, ["a"])),
        ]
        assert all(isinstance(state, Cursor) for _, state in mill.log)


def test_a_state_survives_a_restart(tmp_path: Path) -> None:
    mill = counting(tmp_path)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
    again = counting(tmp_path, mill.clock)
    with again.open() as space:
        again.put("b")
        space.workflows.drain()
        assert again.log[0] == ("prepare", Cursor(1, ["a"]))


class Recorder:
    """Consumers whose methods say what they do to the state."""

    def __init__(self, **methods: Any) -> None:
        self.mill = Mill()
        self.seen: list[Any] = []
        recorder = self

        class Take(hw.Consumer[Note, int, int]):
            state: list[int] = [1]  # noqa: RUF012  # what stands in a class body is never the data itself

            def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[int]:
                recorder.seen.append(list(self.state))
                if "prepare" in methods:
                    methods["prepare"](self)
                return hw.Plan(1, take=pending)

            def mutate(self, run: hw.Run, data: int) -> int:
                if "mutate" in methods:
                    methods["mutate"](self)
                return 1

            def next(self, run: hw.Run, data: int, outcome: hw.Outcome[int]) -> None:
                if "next" in methods:
                    methods["next"](self)

        self.kind = Take
        self.mill.flow.consumer(self.mill.notes)(Take)

    def run(self, *names: str) -> list[Any]:
        with self.mill.open() as space:
            for name in names:
                self.mill.put(name)
                space.workflows.drain()
            self.statuses = self.mill.statuses
            self.error = self.mill.last.error
        return self.seen


def test_a_state_that_is_not_assigned_stays_as_it_is() -> None:
    assert Recorder().run("a", "b") == [[1], [1]]


def test_a_state_can_be_taken_back_to_nothing() -> None:
    def forget(consumer: Any) -> None:
        consumer.state = []

    assert Recorder(next=forget).run("a", "b", "c") == [[1], [], []]


def test_a_state_does_not_change_in_place() -> None:
    recorder = Recorder(next=lambda consumer: consumer.state.append(2))
    assert recorder.run("a", "b") == [[1]]
    assert recorder.statuses == ["failed:logic"]
    assert recorder.kind.state == [1]

    mill = Mill()

    class Take(hw.Consumer[Note, int, None]):
        state: Cursor = Cursor()

        def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[int]:
            return hw.Plan(1, take=pending)

        def next(self, run: hw.Run, data: int, outcome: hw.Outcome[None]) -> None:
            self.state.seen += 1

    mill.flow.consumer(mill.notes)(Take)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert Take.state == Cursor()


def test_a_state_that_is_assigned_in_prepare_ends_the_run() -> None:
    def assign(consumer: Any) -> None:
        consumer.state = [7]

    recorder = Recorder(prepare=assign)
    assert recorder.run("a") == [[1]]
    assert recorder.statuses == ["failed:logic"]
    assert recorder.error == "Take assigns its state in prepare, where it is not kept: assign it in next"


def test_a_state_that_is_assigned_in_mutate_is_told_and_let_go(caplog: pytest.LogCaptureFixture) -> None:
    def assign(consumer: Any) -> None:
        consumer.state = [7]

    recorder = Recorder(mutate=assign)
    # It may have acted: that goes on.
    assert recorder.run("a", "b") == [[1], [1]]
    assert recorder.statuses == ["committed", "committed"]
    assert "Take assigns its state in mutate, where it is not kept: assign it in next" in caplog.text


@pytest.mark.parametrize("state", ["text", [None], object(), None])
def test_a_state_of_another_type_is_an_error_of_the_program(state: Any) -> None:
    def assign(consumer: Any) -> None:
        consumer.state = state

    recorder = Recorder(next=assign)
    recorder.run("a")
    assert recorder.statuses == ["failed:logic"]
    assert "consumer Take, state" in str(recorder.error)


def test_next_that_is_called_again_begins_with_the_same_state() -> None:
    mill, fails = Mill(), [True, False]

    class Take(hw.Consumer[Note, int, None]):
        state: int = 0

        def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[int]:
            return hw.Plan(1, take=pending)

        def next(self, run: hw.Run, data: int, outcome: hw.Outcome[None]) -> None:
            mill.log.append(self.state)
            self.state = self.state + 10
            if fails.pop(0):
                raise hw.TransientError("again")

    mill.flow.consumer(mill.notes)(Take)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        mill.advance(10)
        space.workflows.drain()
        assert mill.log == [0, 0]


# --- producers ------------------------------------------------------------------------------------------------


def polling(folder: Path | None = None, clock: SimClock | None = None) -> Mill:
    mill = Mill(folder, clock)
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="5m")
    def poll(run: hw.Run, since: Cursor = Cursor()) -> Cursor:  # noqa: B008  # what stands there is never the data
        mill.log.append((since.seen, run.handler, run.why, run.attempt))
        mill.put(f"n{since.seen}")
        return Cursor(since.seen + 1)

    return mill


def test_a_producer_gets_what_it_returned(tmp_path: Path) -> None:
    mill = polling(tmp_path)
    with mill.open() as space:
        space.workflows.drain()
        space.workflows.drain()
        mill.advance(300)
        space.workflows.drain()
        assert mill.log == [(0, "poll", "schedule", 1), (1, "poll", "schedule", 1)]
    again = polling(tmp_path, mill.clock)
    again.advance(300)
    with again.open() as space:
        space.workflows.drain()
        assert again.log == [(2, "poll", "schedule", 1)]
        assert list(again.events()) == ["n0", "n1", "n2"]


def test_a_producer_that_fails_keeps_its_state_and_publishes_nothing() -> None:
    mill, fails = Mill(), [True, False]
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="5m")
    def poll(since: int = 0) -> int:
        mill.log.append(since)
        mill.put(f"n{since}")
        if fails.pop(0):
            raise hw.TransientError("down")
        return since + 1

    with mill.open() as space:
        space.workflows.drain()
        assert mill.events() == {}
        mill.advance(10)
        space.workflows.drain()
        assert mill.log == [0, 0]
        assert mill.events() == {"n0": "consumed"}


def test_a_producer_that_returns_nothing_keeps_its_state() -> None:
    mill = Mill()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="5m")
    def poll(since: int = 4) -> int | None:
        mill.log.append(since)
        return 5 if since == 4 else None

    with mill.open() as space:
        for _ in range(3):
            space.workflows.drain()
            mill.advance(300)
        assert mill.log == [4, 5, 5]


def test_what_a_producer_returns_has_the_type_of_its_state() -> None:
    mill = Mill()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="5m")
    def poll(since: int = 0) -> Any:
        return "five"

    with mill.open() as space:
        space.workflows.drain()
        run = next(run for run in mill.runs if run.kind == "producer")
        assert run.status == "failed:logic"
        assert "producer poll(), state: expected int" in str(run.error)


def test_an_async_producer_is_one_like_any_other() -> None:
    mill = Mill()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="5m")
    async def poll(since: int = 0, *, run: hw.Run) -> int:
        await asyncio.sleep(0)
        mill.put(f"n{since}")
        mill.total.value += 1
        mill.log.append(run.handler)
        return since + 1

    with mill.open() as space:
        for _ in range(2):
            space.workflows.drain()
            mill.advance(300)
        assert list(mill.events()) == ["n0", "n1"]
        assert mill.total.value == 2
        assert mill.log == ["poll", "poll"]


def test_a_default_is_handed_out_anew_each_time() -> None:
    mill, defaults = Mill(), [[1]]
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="5m")
    def poll(since: list[int] = defaults[0]) -> None:  # that is what this is about
        mill.log.append(list(since))
        since.append(2)

    with mill.open() as space:
        space.workflows.drain()
        assert mill.log == [[1]]
        assert defaults == [[1]]
