"""Wherever a run can come to: what a crash there leads to, and what each thing that people can do does there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from headwater.errors import TransitionError
from headwater.workflow import operator_actions, transitions
from headwater.workflow.phases import Restart, RunStep, position_of, restart_of
from headwater.workflow.rows import EffectOutcome, EventStatus, RunCause, RunPhase, RunRow, RunStatus
from headwater.workflow.run_recovery import left_active, recover
from headwater.workflow.schedule import Every
from headwater.workflow.table_checks import check_all
from headwater.workflow.transitions import Begun, ReconcileCall
from headwater.workflow.workflow_limits import BACKOFF_MS
from tests.support.flows import MINUTE_MS, Desk, flow_spec, packed
from tests.workflow.roads import EVENTS, PLAN, RESULT, ROADS, Road, drive, name_of
from tests.workflow.test_phases import REACHABLE

ASKED = flow_spec(producers={"poll": Every(5 * MINUTE_MS)}, reconciles=True)
"""With a producer, and a consumer that can be asked what became of its calls."""

SOLVED = (RunStep.APPLIED, RunStep.NOT_APPLIED, RunStep.SKIPPED)
ACTIVE = [road for road, place in ROADS.items() if place.status == RunStatus.ACTIVE]


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """With a producer, which is not due; in memory, for there are many roads."""
    desk = Desk("memory", tmp_path, ASKED)
    desk.idle(desk.begin())
    desk.produce(desk.begin())
    yield desk
    desk.close()


def test_every_place_that_the_table_knows_is_reached_by_what_hosts_and_people_do() -> None:
    assert set(ROADS.values()) == REACHABLE


@pytest.mark.parametrize("road", ROADS, ids=name_of)
def test_every_step_leads_where_the_table_says_and_leaves_everything_sound(desk: Desk, road: Road) -> None:
    run = drive(desk, road)
    assert position_of(run) == position_of(desk.run(run)) == ROADS[road]
    check_all(desk.tables)
    assert desk.foreign_keys() == []


# --- a crash --------------------------------------------------------------------------------------------------


def held(desk: Desk, run: RunRow) -> list[str]:
    return [event.message for event in desk.tables.events_of(run)]


@pytest.mark.parametrize("road", ACTIVE, ids=name_of)
def test_a_run_that_a_host_ended_in_goes_on_by_what_is_known_of_its_effect(desk: Desk, road: Road) -> None:
    run = drive(desk, road)
    place = position_of(run)
    assert left_active(desk.tables) == [run.id]
    assert left_active(desk.tables, alive={run.id}) == []
    crashed = desk.crash(run)
    assert position_of(crashed) == type(place)(place.phase, RunStatus.CRASHED, place.outcome)
    assert desk.do(recover, run.id) == crashed, "once more, and nothing happens"
    assert left_active(desk.tables) == []
    assert desk.flow.head == run.id
    check_all(desk.tables)
    match restart_of(place.outcome):
        case Restart.FRESH:
            goes_on_from_the_beginning(desk, crashed)
        case Restart.EMIT:
            goes_on_from_next(desk, crashed)
        case Restart.WAIT:
            waits_to_be_told(desk, crashed)
    check_all(desk.tables)


def goes_on_from_the_beginning(desk: Desk, before: RunRow, why: RunCause = RunCause.RECOVERY) -> None:
    """Nothing was done outside: what it held waits again, and a new run is shown it."""
    assert desk.events() == dict.fromkeys(EVENTS, EventStatus.PENDING)
    assert set(desk.taken(before).values()) <= {"released"}
    found = desk.next()
    assert isinstance(found, Begun)
    run = found.run
    assert (run.retry_of, run.chain, run.attempt, run.why) == (before.id, before.chain, before.attempt + 1, why)
    assert position_of(run) == ROADS[()]
    assert (run.prepare_result, run.mutation_result, run.effect_of, run.taken) == (None, None, None, 0)
    assert [(event.message, event.attempt) for event in found.events] == [
        (message, 2 if before.taken else 1) for message in EVENTS
    ]
    assert desk.flow.head == run.id
    ends_well(desk, run, fresh=True)


def goes_on_from_next(desk: Desk, before: RunRow, why: RunCause = RunCause.RECOVERY) -> None:
    """It is there, or was given up: the next run has what was prepared and what came of it, and holds the events."""
    assert held(desk, before) == list(EVENTS)
    found = desk.next()
    assert isinstance(found, Begun)
    run = found.run
    assert (run.retry_of, run.chain, run.attempt, run.why) == (before.id, before.chain, before.attempt + 1, why)
    assert (run.phase, run.status, run.outcome) == (RunPhase.MUTATED, RunStatus.ACTIVE, before.outcome)
    assert (run.prepare_result, run.mutation_result) == (packed(PLAN), before.mutation_result)
    assert (run.taken, run.title, run.call) == (2, "Send it", before.id)
    assert [event.message for event in found.events] == list(EVENTS)
    assert held(desk, run) == list(EVENTS) and held(desk, before) == []
    assert set(desk.taken(before).values()) == {"moved"}
    assert set(desk.taken(run).values()) == {"reserved"}
    if before.outcome == EffectOutcome.APPLIED:
        assert found.call is not None and (found.call.run, found.call.result) == (before.id, RESULT)
    ends_well(desk, run, fresh=False)


def waits_to_be_told(desk: Desk, before: RunRow) -> None:
    """It has no successor, however often somebody looks."""
    assert held(desk, before) == list(EVENTS)
    for _ in range(2):
        found = desk.next()
        assert isinstance(found, ReconcileCall) and found.run.id == before.id
        assert desk.runs()[-1].id == before.id


ANSWERS: dict[str, Callable[[Desk, int], RunRow]] = {
    "applied": lambda desk, run: desk.do(operator_actions.reconcile_applied, run, RESULT),
    "not applied": lambda desk, run: desk.do(operator_actions.reconcile_not_applied, run),
    "skipped": lambda desk, run: desk.do(operator_actions.reconcile_skip, run),
}
UNKNOWN = [
    road for road, place in ROADS.items() if place.outcome == EffectOutcome.UNKNOWN and place.status != RunStatus.ACTIVE
]


@pytest.mark.parametrize("road", UNKNOWN, ids=name_of)
@pytest.mark.parametrize("answer", ANSWERS)
def test_a_chain_whose_effect_was_not_known_goes_on_when_somebody_says_what_it_is(
    desk: Desk, road: Road, answer: str
) -> None:
    run = drive(desk, road)
    told = ANSWERS[answer](desk, run.id)
    assert (told.phase, told.status) == (RunPhase.MUTATED, run.status)
    check_all(desk.tables)
    if answer == "not applied":
        goes_on_from_the_beginning(desk, told, RunCause.RECONCILED)
    else:
        goes_on_from_next(desk, told, RunCause.RECONCILED)


def ends_well(desk: Desk, run: RunRow, *, fresh: bool) -> None:
    """To its end: the events are done with, and so is the chain."""
    skipped = run.outcome == EffectOutcome.SKIPPED
    if fresh:
        desk.prepare(run, *EVENTS)
        desk.act(run)
    desk.commit(run)
    assert desk.events() == dict.fromkeys(EVENTS, EventStatus.SKIPPED if skipped else EventStatus.CONSUMED)
    flow = desk.flow
    assert (flow.head, flow.retry_at, flow.failures, flow.block) == (None, None, 0, None)


# --- what people do -------------------------------------------------------------------------------------------

ACTIONS: dict[str, Callable[[Desk, RunRow], object]] = {
    "approve": lambda desk, run: operator_actions.approve(desk.tables, run.id),
    "reject": lambda desk, run: operator_actions.reject(desk.tables, run.id),
    "retry": lambda desk, run: operator_actions.retry(desk.tables, run.id),
    "cancel": lambda desk, run: operator_actions.cancel(desk.tables, run.id),
    "abandon": lambda desk, run: operator_actions.abandon(desk.tables, run.id),
    "applied": lambda desk, run: operator_actions.reconcile_applied(desk.tables, run.id, RESULT),
    "not applied": lambda desk, run: operator_actions.reconcile_not_applied(desk.tables, run.id),
    "skip": lambda desk, run: operator_actions.reconcile_skip(desk.tables, run.id),
    "again": lambda desk, run: operator_actions.reconcile_again(desk.tables, run.id),
    "pause": lambda desk, _: operator_actions.pause(desk.tables, desk.spec.name),
    "resume": lambda desk, _: operator_actions.resume(desk.tables, desk.spec.name),
    "now": lambda desk, _: operator_actions.run_now(desk.tables, desk.spec.name),
    "archive": lambda desk, _: operator_actions.archive(desk.tables, desk.spec.name),
    "restore": lambda desk, _: operator_actions.restore(desk.tables, desk.spec.name),
}


def possible(road: Road) -> set[str]:
    """What makes sense there, in words of its own."""
    place = ROADS[road]
    is_fresh = place.outcome in (EffectOutcome.NONE, EffectOutcome.FAILED)
    if place.status == RunStatus.COMMITTED:
        return {"pause", "now"}
    if place.status == RunStatus.ACTIVE:
        return {"pause", "cancel"} if place.phase in (RunPhase.PREPARING, RunPhase.PREPARED) else {"pause"}
    if place.status == RunStatus.RECONCILIATION and place.outcome == EffectOutcome.UNKNOWN:
        return {"pause", "applied", "not applied", "skip", "again", "retry"}
    if place.outcome == EffectOutcome.UNKNOWN:
        # It is about to be asked anyway.
        return {"pause", "applied", "not applied", "skip"}
    # Before the effect it is given up; after it, put aside.
    found = {"pause", "cancel"} if is_fresh else {"pause", "abandon"}
    if road[-1] in (*SOLVED, RunStep.CRASHED) and road[-2:] != (RunStep.RECONCILIATION, RunStep.NOT_APPLIED):
        # It goes on in a moment by itself; after a call that did not happen, in ten seconds.
        return found
    if place.status == RunStatus.APPROVAL and place.phase == RunPhase.PREPARED:
        return {"pause", "cancel", "approve", "reject"}
    if place.status == RunStatus.APPROVAL:
        found.add("approve")
    return found | {"retry", "resume"}


@pytest.mark.parametrize("road", ROADS, ids=name_of)
def test_what_makes_no_sense_is_refused_and_changes_nothing(desk: Desk, road: Road) -> None:
    run = drive(desk, road)
    before = desk.rows()
    done: set[str] = set()
    for name, action in ACTIONS.items():
        desk.backend.begin()
        with suppress(TransitionError):
            action(desk, run)
            done.add(name)
            check_all(desk.tables)
        desk.backend.roll_back()
    assert done == possible(road)
    assert desk.rows() == before


@pytest.mark.parametrize("road", ROADS, ids=name_of)
def test_a_second_click_is_refused_and_changes_nothing(desk: Desk, road: Road) -> None:
    run = drive(desk, road)
    # Whoever asks twice that something runs now has asked for it once.
    for name in possible(road) - {"now"}:
        desk.backend.begin()
        ACTIONS[name](desk, run)
        once = desk.rows()
        with pytest.raises(TransitionError):
            ACTIONS[name](desk, run)
        assert desk.rows() == once, name
        desk.backend.roll_back()


@pytest.mark.parametrize("road", ROADS, ids=name_of)
def test_whatever_is_done_a_crash_or_a_stop_leads_on_to_an_end(desk: Desk, road: Road) -> None:
    """Nothing is left that nobody comes for: every event is done with, or waits where somebody is told of it."""
    for name in sorted(possible(road) - {"pause", "now"}):
        with_it = Desk("memory", desk.path.parent, ASKED)
        with_it.idle(with_it.begin())
        with_it.produce(with_it.begin())
        run = drive(with_it, road)
        with_it.backend.begin()
        ACTIONS[name](with_it, run)
        with_it.backend.append([], None)
        finish(with_it)
        flow = with_it.flow
        check_all(with_it.tables)
        assert (flow.head, flow.block) == (None, None), name
        assert not {EventStatus.RESERVED, EventStatus.PENDING} & set(with_it.events().values()), name
        with_it.close()


def finish(desk: Desk) -> None:
    """As a host would: whatever is due is done, and works."""
    for _ in range(10):
        active = desk.tables.active(desk.flow.id)
        if active is None:
            found = desk.next()
            if isinstance(found, ReconcileCall):
                desk.do(transitions.applied, found.run.id, RESULT)
                continue
            if not isinstance(found, Begun):
                return
            active = found.run
        perform(desk, active)


def perform(desk: Desk, run: RunRow) -> None:
    if run.kind == "producer":
        desk.produce(run)
        return
    if run.phase == RunPhase.PREPARING:
        pending = [message for message, status in desk.events().items() if status == EventStatus.PENDING]
        if not pending:
            desk.idle(run)
            return
        run = desk.prepare(run, *pending, data=PLAN, title="Send it")
    if run.phase == RunPhase.PREPARED:
        run = desk.leave(run)
    if run.phase == RunPhase.MUTATING:
        run = desk.do(transitions.applied, run.id, RESULT)
    if run.outcome == EffectOutcome.FAILED:
        desk.fail(run)
        desk.clock.advance(BACKOFF_MS)
    else:
        desk.commit(run)
