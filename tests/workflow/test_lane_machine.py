"""Lanes against a naive model: lists of events, and what is open in each lane.

A state machine begins and ends runs as a host with several threads does, in any interleaving, on tables and a simulated
clock, and compares each beginning with the model.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from headwater.workflow import operator_actions, transitions
from headwater.workflow.rates import interval_of
from headwater.workflow.rows import FailureKind, RunRow
from headwater.workflow.table_checks import check_all
from headwater.workflow.transitions import Later
from tests.support.flows import Desk, packed
from tests.support.halves import examples
from tests.support.spaces import EITHER
from tests.workflow.test_lanes import SECOND, laned


class Lanes(RuleBasedStateMachine):
    """Runs begin and end as threads of a host begin and end them, in any interleaving."""

    kind = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        # The model: what waits, as (-priority, number, id, key); what is at work, and what has to be finished, by lane.
        self.waiting: list[tuple[int, int, str, str]] = []
        self.running: dict[str, tuple[RunRow, str]] = {}
        self.failed: dict[str, tuple[int, str]] = {}
        self.calls: list[int] = []
        self.count = 0

    @initialize(at_once=st.sampled_from([1, 2, 3, None]), rate=st.sampled_from([None, "10/s", "1/m"]))
    def begin(self, at_once: int | None, rate: str | None) -> None:
        self.at_once = at_once
        self.interval = 0 if rate is None else interval_of(rate, "work") // 1000
        self.desk = Desk(self.kind, Path(self.folder.name), laned(at_once=at_once, rate=rate, peek=3))

    @rule(who=st.sampled_from("abcd"), priority=st.sampled_from([5, 5, 5, 9]))
    def publish(self, who: str, priority: int) -> None:
        self.count += 1
        self.desk.publish(f"e{self.count}", payload={"who": who}, priority=priority)
        self.waiting.append((-priority, self.count, f"e{self.count}", who))

    def _expected(self) -> str | None:
        """The event that the next run is about, by the model. None: nothing can begin."""
        now = self.desk.clock.now_ms()
        if self.at_once is not None and len(self.running) >= self.at_once:
            return None
        early = sum(1 for run, _ in self.running.values() if self.desk.run(run).phase in ("preparing", "prepared"))
        is_held = self.interval and (
            (self.calls and now < self.calls[-1] + self.interval) or early * self.interval > SECOND
        )
        due = [(at, one) for lane, (at, one) in self.failed.items() if lane not in self.running and at <= now]
        if is_held:
            return None
        if due:
            return min(due)[1]
        taken = self.running.keys() | self.failed.keys()
        free = [each for each in self.waiting if f"work who={each[3]}" not in taken]
        return min(free)[2] if free else None

    @rule()
    def a_thread_looks_for_work(self) -> None:
        expected, found = self._expected(), self.desk.next()
        if not isinstance(found, transitions.Begun):
            assert expected is None, f"{expected} could begin"
            return
        lane, first = found.run.lane, found.events[0].message
        assert lane not in self.running, "two runs in one lane"
        assert expected is not None, f"{first} begins too early"
        if lane in self.failed:
            at, one = self.failed.pop(lane)
            assert (first, at <= self.desk.clock.now_ms()) == (one, True)
        else:
            assert first == expected
        self.running[lane] = found.run, first

    @precondition(lambda self: self.running)
    @rule(data=st.data(), fails=st.sampled_from(["", "", "", "before", "after", "crash"]))
    def a_run_ends(self, data: Any, fails: str) -> None:
        lane = data.draw(st.sampled_from(sorted(self.running)))
        run, message = self.running[lane]
        run = self.desk.run(run)
        if run.phase == "preparing":
            run = self.desk.prepare(run, message)
        if fails == "before":
            self.desk.fail(run, FailureKind.TRANSIENT)
            del self.running[lane]
            self.failed[lane] = self.desk.tables.flow_of(run).retry_at or 0, message
            return
        if fails == "crash":
            self.desk.crash(run)
            del self.running[lane]
            self.failed[lane] = self.desk.tables.flow_of(run).retry_at or 0, message
            return
        now = self.desk.clock.now_ms()
        found = self.desk.do(
            transitions.in_flight, run.id, "work.mutate", packed(None), self.desk.spec.consumer("work")
        )
        if isinstance(found, Later):
            assert self.interval and self.calls and found.at == self.calls[-1] + self.interval > now
            return
        if self.interval and self.calls:
            assert now >= self.calls[-1] + self.interval
        self.calls.append(now)
        self.desk.do(transitions.applied, run.id, packed("done"))
        self.desk.commit(run)
        del self.running[lane]
        self.waiting = [each for each in self.waiting if each[2] != message]

    @rule(ms=st.sampled_from([1, 50, 100, SECOND, 60 * SECOND, 600 * SECOND]))
    def time_passes(self, ms: int) -> None:
        self.desk.clock.advance(ms)

    @rule()
    def the_process_is_killed(self) -> None:
        """What was at work is found active, and recovered before anything else."""
        for lane, (run, message) in sorted(self.running.items()):
            self.desk.crash(run)
            self.failed[lane] = self.desk.tables.flow_of(run).retry_at or 0, message
            flow = self.desk.tables.flow_of(run)
            if flow.block is not None:
                # Five in a row count as its fault; a person says that they were not.
                self.desk.do(operator_actions.retry, self.desk.tables.flow_of(run).head)
                self.failed[lane] = self.desk.tables.flow_of(run).retry_at or 0, message
        self.running.clear()
        self.desk.reopen()

    @invariant()
    def tables_hold_what_they_must(self) -> None:
        if hasattr(self, "desk"):
            check_all(self.desk.tables, [run.id for run, _ in self.running.values()])
            assert self.desk.tables.actives(self.desk.flow.id) == {
                lane: run.id for lane, (run, _) in self.running.items()
            }

    def teardown(self) -> None:
        if hasattr(self, "desk"):
            self.desk.close()
        self.folder.cleanup()


@pytest.mark.machine
@pytest.mark.parametrize("kind", EITHER)
def test_lanes_do_what_a_naive_model_does(kind: str) -> None:
    made = type("Lanes", (Lanes,), {"kind": kind})
    run_state_machine_as_test(made, settings=settings(stateful_step_count=40, max_examples=examples(60)))
