"""Every way that a run can come to where it is: each step taken as a host or a person takes it.

Must never know: what is expected where it leads.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.errors import TransitionError
from headwater.values.ids import Millis
from headwater.workflow import operator_actions, run_rows, transitions
from headwater.workflow.phases import Place, Step, step
from headwater.workflow.rows import Outcome, Phase, RunRow, Status, Trouble
from tests.support.flows import Desk, packed

Road = tuple[Step, ...]

START = Place(Phase.PREPARING, Status.ACTIVE, Outcome.NONE)
EVENTS = ("a", "b")
RESULT = packed({"receipt": 1})
PLAN = {"rows": ["a", "b"]}
FAILURES = {
    Step.TRANSIENT: Trouble.TRANSIENT,
    Step.LOGIC: Trouble.LOGIC,
    Step.INTERNAL: Trouble.INTERNAL,
}


def _roads() -> dict[Road, Place]:
    found: dict[Road, Place] = {}
    ahead: list[tuple[Road, Place]] = [((), START)]
    while ahead:
        road, place = ahead.pop()
        found[road] = place
        for what in Step:
            # Asking and approving could go on for ever.
            if what is Step.APPROVAL and Step.APPROVED in road and place.phase == Phase.PREPARED:
                continue
            try:
                ahead.append(((*road, what), step(place, what)))
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
        if road[place:] != (Step.PREPARED, Step.COMMITTED):
            run = _take(desk, run, what)
    return run


def _take(desk: Desk, run: RunRow, what: Step) -> RunRow:
    if what in FAILURES:
        return desk.fail(run, FAILURES[what], "it broke")
    return TAKEN[what](desk, run)


def _skip(desk: Desk, run: RunRow) -> RunRow:
    if run.phase == Phase.MUTATING:
        return desk.do(operator_actions.reconcile_skip, run.id)
    if run.status == Status.APPROVAL:
        return desk.do(operator_actions.reject, run.id)
    desk.do(operator_actions.cancel, run.id)
    return desk.leave(run)


def _commit(desk: Desk, run: RunRow) -> RunRow:
    # There was nothing to do: that is found, and the run over, in one transaction.
    return desk.idle(run) if run.phase == Phase.PREPARING else desk.commit(run)


def _ask(desk: Desk, run: RunRow) -> RunRow:
    if run.phase == Phase.PREPARED:
        return desk.do(transitions.ask, run.id)
    return desk.fail(run, Trouble.AUTH, "sign in again")


def _doubt(desk: Desk, run: RunRow) -> RunRow:
    return desk.do(transitions.uncertain, run.id, "no answer", Millis(desk.clock.now_ms() + 10_000))


def _approve(desk: Desk, run: RunRow) -> RunRow:
    desk.do(operator_actions.approve, run.id)
    return desk.begin()


TAKEN: dict[Step, Callable[[Desk, RunRow], RunRow]] = {
    Step.PREPARED: lambda desk, run: desk.prepare(run, *EVENTS, data=PLAN, title="Send it", ask=True),
    Step.IN_FLIGHT: Desk.leave,
    Step.APPLIED: lambda desk, run: desk.do(transitions.applied, run.id, RESULT),
    Step.NOT_APPLIED: lambda desk, run: desk.do(transitions.not_applied, run.id, "it said no"),
    Step.SKIPPED: _skip,
    Step.EMITTING: lambda desk, run: desk.do(run_rows.move, run, Step.EMITTING),
    Step.COMMITTED: _commit,
    Step.APPROVAL: _ask,
    Step.RECONCILIATION: _doubt,
    Step.CRASHED: Desk.crash,
    Step.APPROVED: _approve,
}
