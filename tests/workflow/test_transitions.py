"""Wherever a run can come to: what a crash there leads to, and what each thing that people can do does there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.errors import TransitionError
from headwater.workflow import resolution
from headwater.workflow.invariants import check_all
from headwater.workflow.model import EventStatus, Outcome, Phase, RunRow, Status, Why
from headwater.workflow.phases import Restart, Step, place_of, restart_of
from headwater.workflow.recovery import left_active, recover
from headwater.workflow.transitions import Ask, Begun
from tests.support.flows import POLLING, Desk, packed
from tests.workflow.roads import EVENTS, PLAN, RESULT, ROADS, Road, drive, name_of
from tests.workflow.test_phases import REACHABLE

SOLVED = (Step.APPLIED, Step.NOT_APPLIED, Step.SKIPPED)
ACTIVE = [road for road, place in ROADS.items() if place.status == Status.ACTIVE]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """With a producer, which is not due; in memory, for there are many roads."""
    desk = Desk("memory", tmp_path, POLLING)
    desk.idle(desk.begin())
    desk.produce(desk.begin())
    yield desk
    desk.close()


def test_every_place_that_the_table_knows_is_reached_by_what_hosts_and_people_do() -> None:
    assert set(ROADS.values()) == REACHABLE


@pytest.mark.parametrize("road", ROADS, ids=name_of)
def test_every_step_leads_where_the_table_says_and_leaves_everything_sound(desk: Desk, road: Road) -> None:
    run = drive(desk, road)
    assert place_of(run) == place_of(desk.run(run)) == ROADS[road]
    check_all(desk.book)
    assert desk.foreign_keys() == []


# --- a crash --------------------------------------------------------------------------------------------------


def held(desk: Desk, run: RunRow) -> list[str]:
    return [event.message for event in desk.book.events_of(run)]


@pytest.mark.parametrize("road", ACTIVE, ids=name_of)
def test_a_run_that_a_host_ended_in_goes_on_by_what_is_known_of_its_effect(desk: Desk, road: Road) -> None:
    run = drive(desk, road)
    place = place_of(run)
    assert left_active(desk.book) == [run.id]
    assert left_active(desk.book, alive={run.id}) == []
    crashed = desk.crash(run)
    assert place_of(crashed) == type(place)(place.phase, Status.CRASHED, place.outcome)
    assert desk.do(recover, run.id) == crashed, "once more, and nothing happens"
    assert left_active(desk.book) == []
    assert desk.flow.head == run.id
    check_all(desk.book)
    match restart_of(place.outcome):
        case Restart.FRESH:
            goes_on_from_the_beginning(desk, crashed)
        case Restart.EMIT:
            goes_on_from_next(desk, crashed)
        case Restart.WAIT:
            waits_to_be_told(desk, crashed)
    check_all(desk.book)


def goes_on_from_the_beginning(desk: Desk, before: RunRow, why: Why = Why.RECOVERY) -> None:
    """Nothing was done outside: what it held waits again, and a new run is shown it."""
    assert desk.events() == dict.fromkeys(EVENTS, EventStatus.PENDING)
    assert set(desk.taken(before).values()) <= {"released"}
    found = desk.next()
    assert isinstance(found, Begun)
    run = found.run
    assert (run.retry_of, run.chain, run.attempt, run.why) == (before.id, before.chain, before.attempt + 1, why)
    assert place_of(run) == ROADS[()]
    assert (run.prepare_result, run.mutation_result, run.effect_of, run.taken) == (None, None, None, 0)
    assert [(event.message, event.attempt) for event in found.events] == [
        (message, 2 if before.taken else 1) for message in EVENTS
    ]
    assert desk.flow.head == run.id
    ends_well(desk, run, fresh=True)


def goes_on_from_next(desk: Desk, before: RunRow, why: Why = Why.RECOVERY) -> None:
    """It is there, or was given up: the next run has what was prepared and what came of it, and holds the events."""
    assert held(desk, before) == list(EVENTS)
    found = desk.next()
    assert isinstance(found, Begun)
    run = found.run
    assert (run.retry_of, run.chain, run.attempt, run.why) == (before.id, before.chain, before.attempt + 1, why)
    assert (run.phase, run.status, run.outcome) == (Phase.MUTATED, Status.ACTIVE, before.outcome)
    assert (run.prepare_result, run.mutation_result) == (packed(PLAN), before.mutation_result)
    assert (run.taken, run.title, run.call) == (2, "Send it", before.id)
    assert [event.message for event in found.events] == list(EVENTS)
    assert held(desk, run) == list(EVENTS) and held(desk, before) == []
    assert set(desk.taken(before).values()) == {"moved"}
    assert set(desk.taken(run).values()) == {"reserved"}
    if before.outcome == Outcome.APPLIED:
        assert found.call is not None and (found.call.run, found.call.result) == (before.id, RESULT)
    ends_well(desk, run, fresh=False)


def waits_to_be_told(desk: Desk, before: RunRow) -> None:
    """No successor until somebody knows; then, as always, by the outcome."""
    assert held(desk, before) == list(EVENTS)
    found = desk.next()
    assert isinstance(found, Ask) and found.run.id == before.id
    assert desk.runs()[-1].id == before.id
    answers: list[tuple[Callable[[], RunRow], Restart]] = [
        (lambda: resolution.reconcile_applied(desk.book, before.id, RESULT), Restart.EMIT),
        (lambda: resolution.reconcile_not_applied(desk.book, before.id), Restart.FRESH),
        (lambda: resolution.reconcile_skip(desk.book, before.id), Restart.EMIT),
    ]
    for answer, restart in answers:
        desk.backend.begin()
        told = answer()
        assert (told.phase, told.status) == (Phase.MUTATED, Status.CRASHED)
        desk.backend.append([], None)
        check_all(desk.book)
        return_to = desk.backend.tables.execute("select count(*) from flow_run")
        assert return_to
        if restart is Restart.EMIT:
            goes_on_from_next(desk, told, Why.RECONCILED)
        else:
            goes_on_from_the_beginning(desk, told, Why.RECONCILED)
        return


def ends_well(desk: Desk, run: RunRow, *, fresh: bool) -> None:
    """To its end: the events are done with, and so is the chain."""
    skipped = run.outcome == Outcome.SKIPPED
    if fresh:
        desk.prepare(run, *EVENTS)
        desk.act(run)
    desk.commit(run)
    assert desk.events() == dict.fromkeys(EVENTS, EventStatus.SKIPPED if skipped else EventStatus.CONSUMED)
    flow = desk.flow
    assert (flow.head, flow.retry_at, flow.failures, flow.block) == (None, None, 0, None)
