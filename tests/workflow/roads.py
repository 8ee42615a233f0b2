"""Every way that a run can come to where it is: each step taken as a host or a person takes it.

Must never know: what is expected where it leads.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import TransitionError
from headwater.values.ids import Millis
from headwater.workflow import operator_actions, run_rows, transitions
from headwater.workflow.phases import RunPosition, RunStep, apply_step
from headwater.workflow.rows import EffectOutcome, FailureKind, RunPhase, RunRow, RunStatus
from tests.support.flows import Desk, packed

Road = tuple[RunStep, ...]

START = RunPosition(RunPhase.PREPARING, RunStatus.ACTIVE, EffectOutcome.NONE)
EVENTS = ("a", "b")
RESULT = packed({"receipt": 1})
PLAN = {"rows": ["a", "b"]}
FAILURES = {
    RunStep.TRANSIENT: FailureKind.TRANSIENT,
    RunStep.LOGIC: FailureKind.LOGIC,
    RunStep.INTERNAL: FailureKind.INTERNAL,
}


def _roads() -> dict[Road, RunPosition]:
    found: dict[Road, RunPosition] = {}
    ahead: list[tuple[Road, RunPosition]] = [((), START)]
    while ahead:
        road, place = ahead.pop()
        found[road] = place
        for what in RunStep:
            # Asking and approving could go on for ever.
            if what is RunStep.APPROVAL and RunStep.APPROVED in road and place.phase == RunPhase.PREPARED:
                continue
            try:
                ahead.append(((*road, what), apply_step(place, what)))
            except TransitionError:
                continue
    return found


ROADS = _roads()
"""Every sequence of steps, with one approval at most, and where it leads."""


def name_of(road: Road) -> str:
    return ", ".join(road) or "begun"


def drive(desk: Desk, road: Road) -> RunRow:
    """A run about two events, brought there."""
    desk.publish(*EVENTS)
    run = desk.begin()
    for place, what in enumerate(road):
        if road[place:] != (RunStep.PREPARED, RunStep.COMMITTED):
            run = _take(desk, run, what)
    return run


def _take(desk: Desk, run: RunRow, what: RunStep) -> RunRow:
    if what in FAILURES:
        return desk.fail(run, FAILURES[what], "it broke")
    return TAKEN[what](desk, run)


def _skip(desk: Desk, run: RunRow) -> RunRow:
    if run.phase == RunPhase.MUTATING:
        return desk.do(operator_actions.reconcile_skip, run.id)
    if run.status == RunStatus.APPROVAL:
        return desk.do(operator_actions.reject, run.id)
    desk.do(operator_actions.cancel, run.id)
    return desk.leave(run)


def _commit(desk: Desk, run: RunRow) -> RunRow:
    # There was nothing to do: that is found, and the run over, in one transaction.
    return desk.idle(run) if run.phase == RunPhase.PREPARING else desk.commit(run)


def _ask(desk: Desk, run: RunRow) -> RunRow:
    if run.phase == RunPhase.PREPARED:
        return desk.do(transitions.ask, run.id)
    return desk.fail(run, FailureKind.AUTH, "sign in again")


def _doubt(desk: Desk, run: RunRow) -> RunRow:
    return desk.do(transitions.uncertain, run.id, "no answer", Millis(desk.clock.now_ms() + 10_000))


def _approve(desk: Desk, run: RunRow) -> RunRow:
    desk.do(operator_actions.approve, run.id)
    return desk.begin()


TAKEN: dict[RunStep, Callable[[Desk, RunRow], RunRow]] = {
    RunStep.PREPARED: lambda desk, run: desk.prepare(run, *EVENTS, data=PLAN, title="Send it", ask=True),
    RunStep.IN_FLIGHT: Desk.leave,
    RunStep.APPLIED: lambda desk, run: desk.do(transitions.applied, run.id, RESULT),
    RunStep.NOT_APPLIED: lambda desk, run: desk.do(transitions.not_applied, run.id, "it said no"),
    RunStep.SKIPPED: _skip,
    RunStep.EMITTING: lambda desk, run: desk.do(run_rows.move, run, RunStep.EMITTING),
    RunStep.COMMITTED: _commit,
    RunStep.APPROVAL: _ask,
    RunStep.RECONCILIATION: _doubt,
    RunStep.CRASHED: Desk.crash,
    RunStep.APPROVED: _approve,
}
