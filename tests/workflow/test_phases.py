"""The table of what can happen to a run, over every phase, status and outcome there is; and the database agrees."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import pytest

from headwater.errors import InvariantError, TransitionError
from headwater.workflow import run_rows
from headwater.workflow.phases import Restart, RunPosition, RunStep, apply_step, position_of, restart_of
from headwater.workflow.rows import EffectOutcome, HandlerKind, RunPhase, RunRow, RunStatus
from tests.support.flows import Desk, packed

PLACES = [RunPosition(*each) for each in product(RunPhase, RunStatus, EffectOutcome)]
STARTS = [
    RunPosition(RunPhase.PREPARING, RunStatus.ACTIVE, EffectOutcome.NONE),
    # Of a run that goes on from another's call.
    RunPosition(RunPhase.MUTATED, RunStatus.ACTIVE, EffectOutcome.APPLIED),
    RunPosition(RunPhase.MUTATED, RunStatus.ACTIVE, EffectOutcome.SKIPPED),
]
ENDED = (RunStatus.COMMITTED, RunStatus.LOGIC, RunStatus.INTERNAL, RunStatus.CRASHED)
ORDER = list(RunPhase)

STOPS = "TRANSIENT APPROVAL LOGIC INTERNAL CRASHED"
EXPECTED = {
    "preparing active none": f"PREPARED COMMITTED {STOPS}",
    "prepared active none": f"IN_FLIGHT SKIPPED EMITTING COMMITTED {STOPS}",
    "mutating active unknown": "APPLIED NOT_APPLIED RECONCILIATION CRASHED",
    "mutated active applied": f"EMITTING {STOPS}",
    "mutated active skipped": f"EMITTING {STOPS}",
    "mutated active failed": STOPS,
    "emitting active none": f"COMMITTED {STOPS}",
    "emitting active applied": f"COMMITTED {STOPS}",
    "emitting active skipped": f"COMMITTED {STOPS}",
    "prepared paused:approval none": "APPROVED SKIPPED",
    "mutating paused:reconciliation unknown": "APPLIED NOT_APPLIED SKIPPED",
    "mutating crashed unknown": "APPLIED NOT_APPLIED SKIPPED",
}
"""By hand: every step from every place that a run can come to. From all others, none."""


def steps_from(place: RunPosition) -> dict[RunStep, RunPosition]:
    """The steps that are allowed, and where they lead."""
    found: dict[RunStep, RunPosition] = {}
    for what in RunStep:
        with suppress(TransitionError):
            found[what] = apply_step(place, what)
    return found


def reachable() -> set[RunPosition]:
    """Where a run can come to, from where one can begin."""
    found: set[RunPosition] = set()
    ahead = list(STARTS)
    while ahead:
        place = ahead.pop()
        if place not in found:
            found.add(place)
            ahead.extend(steps_from(place).values())
    return found


REACHABLE = reachable()


def words(place: RunPosition) -> str:
    return f"{place.phase} {place.status} {place.outcome}"


# --- the table ------------------------------------------------------------------------------------------------


def test_every_step_from_every_place_that_can_be_reached_is_as_written_here() -> None:
    for place in REACHABLE:
        allowed = {what.name for what in steps_from(place)}
        assert allowed == set(EXPECTED.get(words(place), "").split()), place
    assert set(EXPECTED) <= set(map(words, REACHABLE))


def test_a_step_that_is_not_allowed_is_refused_with_where_the_run_is() -> None:
    place = RunPosition(RunPhase.MUTATING, RunStatus.ACTIVE, EffectOutcome.UNKNOWN)
    with pytest.raises(TransitionError) as refused:
        apply_step(place, RunStep.LOGIC, "run 3 of work")
    assert refused.value.message == "run 3 of work cannot be failed: logic: it is mutating, active, outcome unknown"
    assert refused.value.facts == {"place": place, "step": "failed: logic"}


def test_a_phase_goes_forward_only_and_a_stop_does_not_move_it() -> None:
    for place in PLACES:
        for what, after in steps_from(place).items():
            moved = ORDER.index(after.phase) - ORDER.index(place.phase)
            assert moved >= 0, (place, what)
            if after.status not in (place.status, RunStatus.ACTIVE, RunStatus.COMMITTED):
                assert (moved, after.outcome) == (0, place.outcome), (place, what)


def test_a_run_that_has_ended_stays_where_it_is_but_what_became_of_its_call_may_be_learnt() -> None:
    for place in REACHABLE:
        if place.status in ENDED:
            for what, after in steps_from(place).items():
                assert what in (RunStep.APPLIED, RunStep.NOT_APPLIED, RunStep.SKIPPED)
                assert (place.status, place.outcome) == (RunStatus.CRASHED, EffectOutcome.UNKNOWN)
                assert (after.status, after.phase) == (RunStatus.CRASHED, RunPhase.MUTATED)


def test_an_outcome_that_is_known_is_known_for_good() -> None:
    for place in PLACES:
        for what, after in steps_from(place).items():
            if place.outcome in (EffectOutcome.APPLIED, EffectOutcome.FAILED, EffectOutcome.SKIPPED):
                assert after.outcome == place.outcome, (place, what)
            if place.outcome == EffectOutcome.UNKNOWN and what not in (
                RunStep.APPLIED,
                RunStep.NOT_APPLIED,
                RunStep.SKIPPED,
            ):
                assert after.outcome == EffectOutcome.UNKNOWN, (place, what)


def test_the_outcome_alone_says_how_a_chain_goes_on() -> None:
    assert {outcome: restart_of(outcome) for outcome in EffectOutcome} == {
        EffectOutcome.NONE: Restart.FRESH,
        EffectOutcome.FAILED: Restart.FRESH,
        EffectOutcome.APPLIED: Restart.EMIT,
        EffectOutcome.SKIPPED: Restart.EMIT,
        EffectOutcome.UNKNOWN: Restart.WAIT,
    }


def test_whoever_stops_with_an_unknown_outcome_waits_to_be_told() -> None:
    stopped = [
        place for place in REACHABLE if place.outcome == EffectOutcome.UNKNOWN and place.status != RunStatus.ACTIVE
    ]
    assert {place.status for place in stopped} == {RunStatus.RECONCILIATION, RunStatus.CRASHED}
    assert all(steps_from(place) for place in stopped)


# --- and the database -----------------------------------------------------------------------------------------


def insert(desk: Desk, place: RunPosition, kind: HandlerKind = "consumer") -> RunRow:
    """A run that stands there, with what belongs to it: written past the table of steps."""
    values = {
        "flow": desk.flow.id,
        "handler": "work",
        "kind": kind,
        "chain": 1,
        "attempt": 1,
        "why": "event",
        "version": 1,
        "phase": str(place.phase),
        "status": str(place.status),
        "outcome": str(place.outcome),
        "prepare_result": None if place.phase == RunPhase.PREPARING else packed("a plan"),
        "mutation_result": packed("done") if place.outcome == EffectOutcome.APPLIED else None,
        "error_kind": None if place.status in (RunStatus.ACTIVE, RunStatus.COMMITTED) else "transient",
        "created_at": 1,
        "updated_at": 1,
    }
    query = f"insert into flow_run({', '.join(values)}) values ({', '.join('?' * len(values))}) returning id"  # noqa: S608
    return desk.run(desk.tables.execute(query, *values.values())[0][0])


def is_taken(desk: Desk, place: RunPosition, kind: HandlerKind) -> bool:
    """Does the database take such a row?"""
    desk.backend.begin()
    try:
        insert(desk, place, kind)
    except InvariantError:
        return False
    finally:
        desk.backend.roll_back()
    return True


def test_the_database_takes_a_run_exactly_where_one_can_come_to(desk: Desk) -> None:
    assert {place for place in PLACES if is_taken(desk, place, "consumer")} == REACHABLE


def test_the_database_takes_a_producer_only_where_one_can_come_to(desk: Desk) -> None:
    """It prepares nothing and calls nothing."""
    possible = {
        place
        for place in REACHABLE
        if place.phase in (RunPhase.PREPARING, RunPhase.COMMITTED) and place.outcome == EffectOutcome.NONE
    }
    assert {place for place in PLACES if is_taken(desk, place, "producer")} == possible


@pytest.mark.parametrize("what", RunStep)
def test_every_step_that_is_allowed_can_be_written_and_every_other_changes_nothing(desk: Desk, what: RunStep) -> None:
    for place in REACHABLE:
        desk.backend.begin()
        run = insert(desk, place)
        before = desk.rows()
        extra: dict[str, object] = {"error_kind": "transient"}
        if what is RunStep.PREPARED or (what is RunStep.COMMITTED and place.phase == RunPhase.PREPARING):
            extra["prepare_result"] = packed("a plan")
        if what is RunStep.APPLIED:
            extra["mutation_result"] = packed("done")
        if what in steps_from(place):
            moved = run_rows.move(desk.tables, run, what, **extra)
            assert position_of(desk.run(run)) == position_of(moved) == apply_step(place, what)
        else:
            with pytest.raises(TransitionError):
                run_rows.move(desk.tables, run, what, **extra)
            assert desk.rows() == before
        desk.backend.roll_back()


def test_no_row_goes_back_to_an_earlier_phase_whoever_writes_it(desk: Desk) -> None:
    for place, phase in product(REACHABLE, RunPhase):
        if ORDER.index(phase) >= ORDER.index(place.phase):
            continue
        desk.backend.begin()
        run = insert(desk, place)
        with pytest.raises(InvariantError, match=r"forward only|has ended"):
            desk.tables.execute("update flow_run set phase = ? where id = ?", phase.value, run.id)
        desk.backend.roll_back()


def test_no_row_of_a_run_that_has_ended_is_moved_whoever_writes_it(desk: Desk) -> None:
    values: dict[str, list[object]] = {
        "phase": [each.value for each in RunPhase],
        "status": [each.value for each in RunStatus],
        "outcome": [each.value for each in EffectOutcome],
        "prepare_result": [b"another"],
        "mutation_result": [b"another"],
    }
    for place, name in product(REACHABLE, values):
        if place.status not in ENDED:
            continue
        for value in values[name]:
            desk.backend.begin()
            run = insert(desk, place)
            if name in ("phase", "outcome") and getattr(place, name) == value:
                desk.backend.roll_back()
                continue
            with pytest.raises(InvariantError):
                desk.tables.execute(f"update flow_run set {name} = ? where id = ?", value, run.id)  # noqa: S608
            desk.backend.roll_back()


def test_whoever_moves_a_run_that_another_has_moved_meanwhile_is_told(desk: Desk) -> None:
    desk.publish("a")
    run = desk.begin()
    desk.prepare(run, "a")
    with pytest.raises(InvariantError, match="no longer"):
        desk.do(run_rows.move, run, RunStep.PREPARED, prepare_result=packed(None))
