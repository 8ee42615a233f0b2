"""Workflows and everything else of an app: one commit, one status that others read, several apps and openings."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import UsageError, WriteError
from headwater.runtime.options import Options
from tests.app.holding import in_thread
from tests.runtime.workflows.mill import SAFETY_S, Mill, Note, until

# --- next -----------------------------------------------------------------------------------------------------


def test_cells_events_and_the_end_of_a_run_are_one_commit() -> None:
    mill = Mill()
    letters = mill.flow.topic("letters", str)
    fails = [True]

    def after(_: object, run: hw.Run, data: list[str], outcome: object) -> None:
        mill.total.value += len(data)
        letters.publish("hello", id=data[0])
        if fails:
            raise hw.TransientError(f"{fails.pop()}")

    mill.take(next=after)
    mill.flow.consumer(letters, name="Other")(mill.taker(prepare=lambda _, pending: hw.Plan.idle()))
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.total.value == 0
        assert mill.events("letters") == {}
        assert mill.events() == {"a": "reserved"}
        mill.advance(10)
        space.workflows.drain()
        assert mill.total.value == 1
        assert mill.events("letters") == {"a": "pending"}
        assert mill.events() == {"a": "consumed"}
        # And so is the status: whoever sees the one sees the other.
        assert mill.flow.status.pending == {"notes": 0, "letters": 1}


def test_what_next_read_and_others_wrote_has_it_called_again(tmp_path: Path) -> None:
    mill, seen = Mill(tmp_path), []
    letters = mill.flow.topic("letters", str)

    def after(_: object, run: hw.Run, data: list[str], outcome: object) -> None:
        seen.append(mill.total.value)
        letters.publish(f"saw {mill.total.value}", id=f"{mill.total.value}")
        if len(seen) < 3:
            in_thread(overtake)
        mill.total.value = mill.total.value + 1

    def overtake() -> None:
        with rival.transaction():
            mill.total.value = 10 * len(seen)
        rival.sync()

    mill.take(next=after)
    mill.flow.consumer(letters, name="Other")(mill.taker(prepare=lambda _, pending: hw.Plan.idle()))
    with mill.open() as rival, mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert seen == [0, 10, 20]
        assert mill.total.value == 21
        assert mill.events("letters") == {"20": "pending"}
        # Nobody's failure: it is the same attempt.
        assert [(run.status, run.attempt) for run in mill.runs if run.handler == "Take"] == [("committed", 1)]
        assert [entry[0] for entry in mill.log] == ["mutate"]


def test_prepare_reads_cells_as_they_are() -> None:
    mill = Mill()
    doubled = mill.app.computed(name="doubled")(lambda: mill.total.value * 2)

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        return hw.Plan([doubled(), len(pending)], take=pending)

    mill.take(prepare=prepare, mutate=None)
    with mill.open() as space:
        for n, name in enumerate("ab"):
            mill.total.value = n + 1
            mill.put(name)
            space.workflows.drain()
        assert mill.log == [("next", [2, 1], None), ("next", [4, 1], None)]


def test_what_follows_from_a_run_happens_after_it() -> None:
    mill, shown = Mill(), []

    @mill.app.sink
    def show() -> None:
        shown.append(mill.total.value)

    def after(_: object, run: hw.Run, data: list[str], outcome: object) -> None:
        mill.total.value += len(data)

    mill.take(mutate=None, next=after)
    with mill.open() as space:
        mill.put("a", "b")
        space.workflows.drain()
        assert shown == [0, 2]


def test_a_handler_of_events_and_a_workflow_hand_things_to_each_other() -> None:
    mill, done = Mill(), []

    @mill.app.handler
    def submit(name: str) -> None:
        mill.put(name)

    @mill.app.handler
    def finished(name: str, count: int) -> None:
        mill.total.value += count
        done.append(name)

    def after(_: object, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
        finished.send(data[0], outcome.result or 0)

    mill.take(next=after)
    with mill.open() as space:
        submit.send("a").result(timeout=f"{SAFETY_S}s")
        space.workflows.drain()
        space.settle()
        assert done == ["a"]
        assert mill.total.value == 1


# --- the status -----------------------------------------------------------------------------------------------


def test_a_computed_function_reads_how_many_wait_and_is_run_again() -> None:
    mill, runs = Mill(), []
    others = mill.flow.topic("others", int)

    @mill.app.computed
    def backlog() -> int:
        runs.append("run")
        return mill.flow.status.pending.get("notes", 0)

    mill.take(prepare=lambda _, pending: hw.Plan(None, take=pending[:1]), mutate=None, next=None)
    mill.flow.consumer(others, name="Other")(mill.taker(mutate=None, next=None))
    with mill.open() as space:
        assert backlog() == 0
        mill.put("a", "b")
        space.sync()
        space.settle()
        assert backlog() == 2
        before = len(runs)
        # Who reads the number of one topic is not told of another's.
        others.publish(1, id="x")
        space.sync()
        space.settle()
        assert backlog() == 2
        assert len(runs) == before
        space.workflows.drain()
        assert backlog() == 0


def test_a_sink_watches_how_a_workflow_is() -> None:
    mill, states = Mill(), []

    @mill.app.sink
    def watch() -> None:
        states.append(mill.flow.status.state)

    def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        if not pending:
            return hw.Plan.idle()
        return hw.Plan(None, take=pending, ask=True, title="Do it")

    mill.take(prepare=prepare, next=None, mutate=lambda _, run, data: None)
    with mill.open() as space:
        space.workflows.drain()
        mill.put("a")
        space.workflows.drain()
        mill.flow.approve(mill.last.id)
        space.workflows.drain()
        mill.flow.pause()
        space.sync()
        space.settle()
        assert states[0] in ("Idle", "Stopped")
        assert [state for state in states if state != "Running"][-3:] == ["Needs attention", "Idle", "Stopped"]


def test_the_status_cannot_be_assigned() -> None:
    mill = Mill()
    mill.take()
    with mill.open():
        with pytest.raises(WriteError, match="written by its host"):
            mill.flow.status.state = "Fine"
        assert mill.flow.status.state == "Idle"


def test_the_status_is_a_document_like_any_other() -> None:
    mill = Mill()
    mill.take()
    with mill.open() as space:
        assert space.doc("mill.notes").state == "Idle"
        assert mill.flow.status.version == 1
        assert mill.flow.status.next_at is None
        assert mill.flow.schedule == "when something is published"
        mill.put("a")
        space.workflows.drain()
        [line] = mill.flow.status.recent
        assert line["text"] == "Note a -> Take 1"
        assert line["at"] == mill.clock.now_ms()


# --- several apps, several openings ---------------------------------------------------------------------------


def test_two_apps_in_one_file_have_their_own_workflows(tmp_path: Path) -> None:
    mill = Mill(tmp_path)
    mill.take()
    desk = hw.App("desk")
    flow = desk.workflow("notes")
    letters = flow.topic("notes", Note)
    done: list[str] = []

    @flow.consumer(letters)
    class Take(hw.Consumer[Note, list[str], None]):
        def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            return hw.Plan([e.id for e in pending], take=pending)

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[None]) -> None:
            done.extend(data)

    options = Options(wall=mill.clock.now_ms, durability="normal")
    with mill.open() as space, desk.open_with(mill.url, options) as other:
        mill.put("a")
        letters.publish(Note("b"), id="b")
        assert space.workflows.names == ["mill.notes"]
        assert other.workflows.names == ["desk.notes"]
        space.workflows.drain()
        assert mill.log[0] == ("mutate", ["a"])
        assert done == []
        other.workflows.drain()
        assert done == ["b"]
        assert [run.workflow for run in flow.runs()] == ["desk.notes"] * len(flow.runs())
        with pytest.raises(hw.TransitionError, match=r"is not one of desk.notes"):
            flow.retry(mill.last.id)


def test_two_workflows_of_an_app_take_turns() -> None:
    mill = Mill()
    mill.take(consumer={"peek": 1}, mutate=None)
    other = mill.app.workflow("other")
    letters = other.topic("letters", Note)
    other.consumer(letters, peek=1)(mill.taker(mutate=None))
    with mill.open() as space:
        mill.put("a", "b", "c")
        for name in "xyz":
            letters.publish(Note(name), id=name)
        space.workflows.drain()
        assert [entry[1][0] for entry in mill.log] == ["a", "x", "b", "y", "c", "z"]


def test_an_app_that_is_open_twice_runs_everything_once(tmp_path: Path) -> None:
    mill = Mill(tmp_path)
    mill.take()
    with mill.open() as one, mill.open() as two:
        mill.put("a", "b")
        for space in (one, two, one):
            space.workflows.drain()
        assert mill.log == [("mutate", ["a", "b"]), ("next", ["a", "b"], 2)]


def test_an_opening_that_ends_leaves_the_others_their_workflows(tmp_path: Path) -> None:
    mill = Mill(tmp_path)
    mill.take()
    with mill.open() as one:
        with mill.open() as two:
            mill.put("a")
            two.workflows.drain()
        assert one.workflows.names == ["mill.notes"]
        mill.put("b")
        one.workflows.drain()
        assert mill.events() == {"a": "consumed", "b": "consumed"}


def test_an_opening_that_began_first_and_ends_first_leaves_the_others_theirs(tmp_path: Path) -> None:
    mill = Mill(tmp_path)
    mill.take()
    one = mill.app.open_with(mill.url, Options(wall=mill.clock.now_ms, durability="normal"))
    with mill.open() as two:
        one.close()
        mill.put("a")
        two.workflows.drain()
        assert mill.events() == {"a": "consumed"}


def test_two_hosts_of_one_process_run_everything_once(tmp_path: Path) -> None:
    mill = Mill(tmp_path)
    mill.take(consumer={"peek": 1})
    with mill.open() as one, mill.open() as two:
        one.workflows.start()
        two.workflows.start()
        mill.put(*(f"n{n}" for n in range(20)))
        until(lambda: list(mill.events().values()) == ["consumed"] * 20)
        assert sorted(entry[1][0] for entry in mill.log if entry[0] == "mutate") == sorted(f"n{n}" for n in range(20))


def test_a_host_runs_what_is_published_and_what_is_due() -> None:
    mill = Mill()
    mill.take(mutate=None)

    @mill.flow.producer(every="5m")
    def poll() -> None:
        mill.put(f"p{mill.clock.now_ms()}")

    with mill.open() as space:
        space.workflows.start()
        space.workflows.start()
        assert space.workflows.is_running
        until(lambda: len(mill.events()) == 1)
        in_thread(lambda: mill.put("a"))
        until(lambda: mill.events().get("a") == "consumed")
        assert space.workflows.stop()
        assert not space.workflows.is_running
        mill.put("b")
        space.sync()
        assert mill.events()["b"] == "pending"


def test_closing_waits_for_a_run_that_acts() -> None:
    mill, began, go = Mill(), threading.Event(), threading.Event()

    def mutate(_: object, run: hw.Run, data: list[str]) -> int:
        began.set()
        assert go.wait(SAFETY_S)
        mill.log.append("acted")
        return 1

    mill.take(mutate=mutate, next=None)
    with mill.open() as space:
        space.workflows.start()
        mill.put("a")
        assert began.wait(SAFETY_S)
        threading.Timer(0.05, go.set).start()
    assert mill.log == ["acted"]


def test_a_run_is_drained_inside_of_no_other() -> None:
    """Asked for by a handler of it: there is nothing that could be run beside it."""
    mill = Mill()

    def after(_: object, run: hw.Run, data: list[str], outcome: object) -> None:
        mill.log.append(space.workflows.drain())

    mill.take(mutate=None, next=after)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == [0]
        assert mill.statuses == ["committed"]


def test_a_workflow_without_an_open_app_says_so() -> None:
    mill = Mill()
    mill.take()
    with pytest.raises(UsageError):
        mill.flow.runs()


def test_who_reads_the_count_of_one_topic_is_not_told_of_another() -> None:
    mill = Mill()
    letters = mill.flow.topic("letters", Note)

    class Wait(hw.Consumer[Note, str, int]):
        def prepare(self, pending: Any) -> hw.Plan[str]:  # as authors write it
            return hw.Plan.idle()

    mill.flow.consumer(mill.notes, name="first")(Wait)
    mill.flow.consumer(letters, name="second")(Wait)

    @mill.app.sink
    def show() -> None:
        mill.log.append(mill.flow.status.pending["notes"])

    with mill.open() as space:
        mill.log.clear()
        letters.publish(Note("b"), id="b")
        space.sync()
        assert mill.log == []
        mill.put("a")
        space.sync()
        assert mill.log == [1]
