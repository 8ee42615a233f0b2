"""What consumers are shown and take, and that what one phase hands to the next is the same after a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

import pytest

import headwater as hw
from tests.runtime.workflows.mill import Mill, Note

T = TypeVar("T")


# --- what is shown --------------------------------------------------------------------------------------------


def test_an_event_tells_what_it_is() -> None:
    mill, seen = Mill(), list[Any]()

    def prepare(_: object, pending: Sequence[hw.Event[Note]]) -> hw.Plan[None]:
        seen.extend((e.id, e.topic, e.attempt, e.at, e.data) for e in pending)
        if pending[0].attempt == 1:
            raise hw.TransientError("not yet")
        return hw.Plan(None, take=pending)

    mill.take(prepare=prepare, mutate=lambda _, run, data: None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        at = datetime.fromtimestamp(mill.clock.now_ms() / 1000, UTC)
        # What a run did not take has not been tried.
        assert seen == [("a", "notes", 1, at, Note("a", "text of a"))]


def test_an_event_counts_the_runs_that_gave_it_back() -> None:
    mill, attempts = Mill(), []

    def mutate(_: object, run: hw.Run, data: object) -> object:
        raise hw.TransientError("later", definite=True)

    def prepare(_: object, pending: Sequence[hw.Event[Note]]) -> hw.Plan[None]:
        attempts.append([e.attempt for e in pending])
        return hw.Plan(None, take=pending)

    mill.take(prepare=prepare, mutate=mutate)
    with mill.open() as space:
        mill.put("a")
        for _ in range(3):
            space.workflows.drain()
            mill.advance(600)
        assert attempts == [[1], [2], [3]]


def test_pending_events_are_a_sequence() -> None:
    mill = Mill()

    def prepare(_: object, pending: Sequence[hw.Event[Note]]) -> hw.Plan[None]:
        mill.log.append([
            len(pending), [e.id for e in pending], [e.id for e in pending[1:]], pending[-1].id, bool(pending),
            [e.id for e in reversed(pending)], pending[0] is pending[0], pending[0] in pending, repr(pending),
        ])  # fmt: skip
        with pytest.raises(IndexError):
            pending[3]
        return hw.Plan(None, take=pending[::2])

    mill.take(prepare=prepare, mutate=None, next=None)
    with mill.open() as space:
        mill.put("a", "b", "c")
        space.workflows.drain(1)
        shown = [3, ["a", "b", "c"], ["b", "c"], "c", True, ["c", "b", "a"], True, True, "<3 pending events>"]
        assert mill.log == [shown]
        assert mill.events() == {"a": "consumed", "b": "pending", "c": "consumed"}


def test_the_oldest_are_shown_first_and_no_more_than_asked_for() -> None:
    mill = Mill()
    mill.take(consumer={"peek": 2}, mutate=None)
    with mill.open() as space:
        mill.put(*"edcba")
        space.workflows.drain()
        assert [entry[1] for entry in mill.log] == [["e", "d"], ["c", "b"], ["a"]]


def test_several_topics_are_shown_together_in_their_order() -> None:
    mill = Mill()
    numbers = mill.flow.topic("numbers", int)

    class Both(hw.Consumer[Note | int, list[str], None]):
        def prepare(self, pending: Sequence[hw.Event[Note | int]]) -> hw.Plan[list[str]]:
            found = [f"{e.topic} {e.data.name if isinstance(e.data, Note) else e.data}" for e in pending]
            return hw.Plan(found, take=pending)

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[None]) -> None:
            mill.log.append(data)

    mill.flow.consumer(mill.notes, numbers, peek=3)(Both)
    with mill.open() as space:
        for n in range(2):
            mill.put(f"n{n}")
            numbers.publish(n, id=str(n))
        space.workflows.drain()
        assert mill.log == [["notes n0", "numbers 0", "notes n1"], ["numbers 1"]]


def test_a_workflow_of_several_consumers_is_a_chain_of_topics() -> None:
    mill = Mill()
    letters = mill.flow.topic("letters", str)

    def forward(_: object, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
        for name in data:
            letters.publish(name.upper(), id=name)

    mill.take(next=forward)
    mill.flow.consumer(letters, name="Second")(
        mill.taker(prepare=lambda _, pending: hw.Plan([e.data for e in pending], take=pending))
    )
    with mill.open() as space:
        mill.put("a", "b")
        space.workflows.drain()
        assert mill.log == [("mutate", ["a", "b"]), ("mutate", ["A", "B"]), ("next", ["A", "B"], 2)]
        # Everything is about what came in, however far it has come.
        assert [(found.title, found.status) for found in mill.flow.inputs()] == [("Note b", "done"), ("Note a", "done")]


# --- what is planned ------------------------------------------------------------------------------------------


def test_nothing_to_do_calls_neither_mutate_nor_next() -> None:
    mill = Mill()
    mill.take(prepare=lambda _, pending: hw.Plan.idle())
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == []
        assert mill.statuses == ["committed"]
        assert mill.events() == {"a": "pending"}
        # It does not look again before something happens.
        assert space.workflows.drain() == 0
        assert space.workflows.wake_at is None
        mill.put("b")
        assert space.workflows.drain() == 1


def test_a_plan_that_takes_nothing_calls_next_without_an_effect() -> None:
    mill = Mill()
    mill.take(prepare=lambda _, pending: hw.Plan(["nothing"]))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == [("next", ["nothing"], None)]
        assert mill.events() == {"a": "pending"}


@pytest.mark.parametrize("made", [None, [], "plan", hw.Plan, 3])
def test_what_is_no_plan_is_an_error_of_the_program(made: Any) -> None:
    mill = Mill()
    mill.take(prepare=lambda _, pending: made)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert "a hw.Plan is expected, or hw.Plan.idle()" in str(mill.last.error)


@pytest.mark.parametrize(
    ("take", "told"),
    [
        (lambda pending: [pending[0], pending[0]], "takes <Event a of notes> twice; take each event once"),
        (lambda pending: pending[0], r"takes a list of events, not <Event a of notes>; write take=[event]"),
        (lambda pending: None, "takes a list of events, not None"),
        (lambda pending: ["a"], "takes events that prepare was given, not 'a'"),
        (lambda pending: "a", "takes events that prepare was given, not 'a'"),
        (lambda pending: [e.id for e in pending], "takes events that prepare was given, not 'a'"),
    ],
    ids=range(6),
)
def test_what_cannot_be_taken_is_an_error_of_the_program(take: Any, told: str) -> None:
    mill = Mill()
    mill.take(prepare=lambda _, pending: hw.Plan(None, take=take(pending)))
    with mill.open() as space:
        mill.put("a", "b")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert told in str(mill.last.error)
        assert mill.events() == {"a": "pending", "b": "pending"}
        assert mill.log == []


def test_an_event_of_another_run_or_workflow_is_not_taken() -> None:
    mill, kept = Mill(), []
    other = Mill()

    def prepare(_: object, pending: Any) -> hw.Plan[None]:
        kept.extend(pending)
        return hw.Plan(None, take=pending)

    other.take(prepare=prepare, mutate=None)
    with other.open() as space:
        other.put("foreign")
        space.workflows.drain()
    mill.take(prepare=lambda _, pending: hw.Plan(None, take=[pending[0], kept[0]]), mutate=None)
    with mill.open() as space:
        mill.put("a", "b")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert "Take cannot take <Event foreign of notes>: prepare was not given it now" in str(mill.last.error)
        assert mill.events() == {"a": "pending", "b": "pending"}


def test_an_event_that_was_taken_already_is_not_taken_again() -> None:
    mill, kept = Mill(), []

    def prepare(_: object, pending: Any) -> hw.Plan[None]:
        kept.extend(pending)
        return hw.Plan(None, take=kept[:1])

    mill.take(prepare=prepare, mutate=None)
    with mill.open() as space:
        mill.put("a", "b")
        space.workflows.drain()
        assert mill.statuses == ["committed", "failed:logic"]
        assert mill.events() == {"a": "consumed", "b": "pending"}


def test_the_title_of_a_plan_is_what_people_are_told() -> None:
    mill = Mill()
    mill.take(prepare=lambda _, pending: hw.Plan(1, take=pending, title="x" * 10_000), mutate=None, next=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.title == "x" * 500


# --- what is handed on ----------------------------------------------------------------------------------------


@dataclass
class Batch:
    names: list[str]
    at: datetime
    more: dict[str, tuple[int, ...]] = field(default_factory=dict)


class Keeps(hw.Consumer[Note, Batch, Batch]):
    log: list[Any]

    def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[Batch]:
        batch = Batch([e.id for e in pending], datetime(2024, 1, 2, tzinfo=UTC), {"x": (1, 2)})
        return hw.Plan(batch, take=pending)

    def mutate(self, run: hw.Run, data: Batch) -> Batch:
        self.log.append(("mutate", data))
        return Batch(data.names[::-1], data.at)

    def next(self, run: hw.Run, data: Batch, outcome: hw.Outcome[Batch]) -> None:
        self.log.append(("next", data, outcome.result))
        if len(self.log) < 3:
            raise hw.TransientError("again")


def test_what_is_handed_on_is_the_same_after_a_restart(tmp_path: Path) -> None:
    def declared() -> Mill:
        mill = Mill(tmp_path)
        kind = type("Take", (Keeps,), {"log": log})
        mill.flow.consumer(mill.notes)(kind)
        return mill

    log: list[Any] = []
    mill = declared()
    with mill.open() as space:
        mill.put("a", "b")
        space.workflows.drain()
        assert mill.statuses == ["paused:transient"]
    again = declared()
    again.clock = mill.clock
    again.advance(10)
    with again.open() as space:
        space.workflows.drain()
        assert again.statuses == ["paused:transient", "committed"]
    batch = Batch(["a", "b"], datetime(2024, 1, 2, tzinfo=UTC), {"x": (1, 2)})
    first, second = ("next", batch, Batch(["b", "a"], batch.at)), ("next", batch, Batch(["b", "a"], batch.at))
    assert log == [("mutate", batch), first, second]
    assert all(isinstance(entry[1], Batch) for entry in log)


def test_types_are_found_in_a_base_class() -> None:
    class Base(hw.Consumer[T, list[T], dict[str, T]], Generic[T]):
        def prepare(self, pending: Sequence[hw.Event[T]]) -> hw.Plan[list[T]]:
            return hw.Plan([e.data for e in pending], take=pending)

        def mutate(self, run: hw.Run, data: list[T]) -> dict[str, T]:
            return {"first": data[0]}

        def next(self, run: hw.Run, data: list[T], outcome: hw.Outcome[dict[str, T]]) -> None:
            mill.log.append((data, outcome.result))

    class Middle(Base[T]):
        pass

    class Take(Middle[Note]):
        pass

    mill = Mill()
    mill.flow.consumer(mill.notes)(Take)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        note = Note("a", "text of a")
        assert mill.log == [([note], {"first": note})]
        assert isinstance(mill.log[0][0][0], Note)


@pytest.mark.parametrize("data", [object(), {1, 2}, lambda: None, float("nan"), {1: 2}], ids=range(5))
def test_a_plan_that_cannot_be_kept_is_an_error_of_the_program(data: Any) -> None:
    mill = Mill()
    mill.take(prepare=lambda _, pending: hw.Plan(data, take=pending))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert "consumer Take, data" in str(mill.last.error)
        assert mill.events() == {"a": "pending"}


def test_a_plan_of_another_type_is_an_error_of_the_program() -> None:
    mill = Mill()

    class Wrong(Keeps):
        def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[Batch]:
            return hw.Plan({"names": []}, take=pending)  # type: ignore[return-value]  # that is what is refused

    mill.flow.consumer(mill.notes)(Wrong)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "failed:logic"
        assert "consumer Wrong, data: expected Batch" in str(mill.last.error)


@pytest.mark.parametrize("result", [object(), "text", None])
def test_a_result_that_cannot_be_kept_is_never_a_reason_to_act_again(result: Any) -> None:
    mill = Mill()

    class Take(hw.Consumer[Note, int, int]):
        def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[int]:
            return hw.Plan(3, take=pending, title="Act")

        def mutate(self, run: hw.Run, data: int) -> int:
            mill.log.append("acted")
            return result  # type: ignore[no-any-return]

        def next(self, run: hw.Run, data: int, outcome: hw.Outcome[int]) -> None:
            mill.log.append(outcome.result)

    mill.flow.consumer(mill.notes)(Take)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (mill.last.status, mill.last.outcome) == ("paused:reconciliation", "unknown")
        assert "expected int" in str(mill.last.error)
        mill.flow.reconcile(mill.last.id, hw.Applied(5))
        space.workflows.drain()
        assert mill.log == ["acted", 5]


def test_mutate_gets_what_is_kept_and_not_what_was_planned() -> None:
    """What `prepare` handed over and changed afterwards, or what is lost on the way to the disk, is seen at once."""
    mill, plans = Mill(), []

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        plans.append([("a", 1)])
        return hw.Plan(plans[-1], take=pending)

    mill.take(prepare=prepare, mutate=lambda _, run, data: mill.log.append(data))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log[0] == [["a", 1]]
