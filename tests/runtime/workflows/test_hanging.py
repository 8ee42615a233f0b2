"""Plain functions that do not come back in time, or never: they hold their own thread, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import headwater as hw
from headwater.runtime.workflows import repair
from headwater.workflow import transitions
from headwater.workflow.workflow_limits import RECONCILE_TRIES
from tests.runtime.workflows.mill import Mill, until, waited

SHORT = "250ms"


class Doubtful(Mill):
    """A consumer whose `mutate` fails after its effect, and whose `reconcile` hangs as often as it is told to."""

    def __init__(self, hangs: int = 1, next_fails: Any = None) -> None:
        super().__init__()
        self.go = threading.Event()
        self.asked: list[int] = []
        self.done: list[list[str]] = []
        self.next_fails = next_fails
        doubtful = self

        def mutate(_: object, run: hw.Run, data: list[str]) -> int:
            doubtful.done.append(data)
            raise OSError("lost")

        def reconcile(_: object, run: hw.Run, data: list[str]) -> hw.Answer[int]:
            doubtful.asked.append(run.id)
            if len(doubtful.asked) <= hangs:
                waited(doubtful.go)
            return hw.Applied(7)

        def after(_: object, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
            if doubtful.next_fails is not None:
                raise doubtful.next_fails

        consumer = {"timeout": {"reconcile": SHORT}}
        self.take(consumer=consumer, mutate=mutate, reconcile=reconcile, next=after)

    def newest_is(self, status: str) -> bool:
        return [run.status for run in self.flow.runs(1)] == [status]

    def ring(self, space: hw.Space, seconds: float = 600) -> bool:
        """What waits for its time need not wait any longer."""
        self.advance(seconds)
        space.workflows.hub.ring("mill.notes")
        return True


@pytest.fixture(autouse=True)
def everything_comes_back() -> Iterator[list[Mill]]:
    """At the end of a test: threads that are left behind would report into the next one."""
    mills: list[Mill] = []
    yield mills
    for mill in mills:
        getattr(mill, "go").set()  # noqa: B009  # of whatever kind


def test_a_reconcile_that_is_late_leaves_the_run_unknown_and_is_asked_again(everything_comes_back: list[Mill]) -> None:
    mill = Doubtful()
    everything_comes_back.append(mill)
    with mill.open() as space:
        space.workflows.start()
        mill.put("a")
        until(lambda: mill.newest_is("paused:reconciliation"))
        assert "Take.reconcile took longer than 0.25 s" in (mill.last.error or "")
        assert mill.flow.status.state == "Running"
        until(lambda: mill.ring(space) and mill.events() == {"a": "consumed"})
        assert len(mill.asked) == 2, "the first one has not come back yet"
        assert len(mill.done) == 1
        mill.go.set()


def test_what_a_late_reconcile_says_counts(everything_comes_back: list[Mill]) -> None:
    mill = Doubtful()
    everything_comes_back.append(mill)
    with mill.open() as space:
        space.workflows.start()
        mill.put("a")
        until(lambda: mill.newest_is("paused:reconciliation"))
        mill.go.set()
        # No command is needed for it.
        until(lambda: mill.events() == {"a": "consumed"})
        assert len(mill.asked) == 1
        call = mill.details(mill.last.id).call
        assert call is not None and call.resolved_by == "reconciliation"


@pytest.mark.parametrize(
    ("error", "status"), [(ValueError("typo"), "failed:logic"), (hw.TransientError("down"), "paused:transient")]
)
def test_what_next_raises_after_a_late_reconcile_is_not_lost(
    error: Exception, status: str, everything_comes_back: list[Mill]
) -> None:
    mill = Doubtful(next_fails=error)
    everything_comes_back.append(mill)
    with mill.open() as space:
        space.workflows.start()
        mill.put("a")
        until(lambda: mill.newest_is("paused:reconciliation"))
        mill.go.set()
        until(lambda: mill.newest_is(status))
        # Before the run is abandoned: the next one may start at once. Its pause would last, as the clock stands still.
        mill.next_fails = None
        mill.put("b")
        mill.flow.abandon(mill.last.id)
        until(lambda: mill.events() == {"a": "parked", "b": "consumed"})


def test_a_reconcile_that_never_comes_back_is_a_persons_to_answer_and_others_go_on(
    everything_comes_back: list[Mill],
) -> None:
    mill = Doubtful(hangs=1000)
    everything_comes_back.append(mill)
    other = mill.app.workflow("other")
    letters = other.topic("letters", str)
    other.consumer(letters)(mill.taker())
    with mill.open() as space:
        # As many as there are hangs, and one thread: each that is lost is replaced.
        space.workflows.start(concurrency=1)
        mill.put("a")
        until(lambda: mill.ring(space) and mill.flow.status.state == "Needs attention")
        assert len(mill.asked) == RECONCILE_TRIES + 1
        letters.publish("x", id="x")
        until(lambda: mill.events("letters") == {"x": "consumed"})
        mill.flow.reconcile(mill.last.id, hw.Applied(1))
        until(lambda: mill.events() == {"a": "consumed"})


def test_a_person_can_answer_while_a_question_hangs(everything_comes_back: list[Mill]) -> None:
    mill = Doubtful(hangs=1000)
    everything_comes_back.append(mill)
    with mill.open() as space:
        space.workflows.start(concurrency=1)
        mill.put("a")
        until(lambda: mill.newest_is("paused:reconciliation"))
        until(lambda: mill.ring(space) and len(mill.asked) == 2)
        mill.flow.reconcile(mill.last.id, hw.Skipped())
        until(lambda: mill.events() == {"a": "skipped"})


def test_a_fixer_that_never_comes_back_is_given_up(
    monkeypatch: pytest.MonkeyPatch, everything_comes_back: list[Mill]
) -> None:
    monkeypatch.setattr(repair, "FIXER_S", 0.25)
    mill, go, began = Mill(), threading.Event(), threading.Event()
    mill.go = go  # type: ignore[attr-defined]
    everything_comes_back.append(mill)
    bad = lambda _, pending: hw.Plan(1 // len([e for e in pending if e.id != "a"]), take=pending)  # noqa: E731  # short
    mill.take(prepare=bad, mutate=None, next=None)

    @mill.flow.fixer
    def fix(broken: hw.Broken) -> str | None:
        began.set()
        waited(go)
        return None

    with mill.open() as space:
        space.workflows.start(concurrency=1)
        mill.put("a")
        waited(began)
        until(lambda: mill.flow.status.state == "Needs attention")
        assert "the fixer took longer than 0.25 s" in mill.flow.status.sentence
        mill.put("b")
        mill.flow.resume()
        until(lambda: mill.events() == {"a": "consumed", "b": "consumed"})


def test_only_the_call_that_has_come_back_is_asked_about() -> None:
    mill = Mill()
    mill.take(mutate=lambda _, run, data: 1 // 0, reconcile=lambda _, run, data: hw.Unknown())
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        hub, run_id = space.workflows.hub, mill.last.id
        hub.do(lambda tables: tables.execute("update flow set block = 'late', block_kind = 'hung'"))
        hub.do(lambda tables: transitions.came_back(tables, run_id + 1))
        assert hub.look(lambda tables: tables.execute("select block_kind from flow")) == [("hung",)]
        hub.do(lambda tables: transitions.came_back(tables, run_id))
        assert hub.look(lambda tables: tables.execute("select block_kind from flow")) == [(None,)]
