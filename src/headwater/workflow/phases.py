"""The one table of what can happen to a run, and what follows from where it stopped.

Phase, status and outcome are three things: how far it came, what it waits for, and what is known of its effect. A step
moves them; a pair that is not in the table is refused. What becomes of a run that stopped, and of the events it
held, is decided by the outcome alone (`restart_of`): never by the phase.

Must never know: rows, and who asks.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final

import msgspec

from headwater.errors import TransitionError
from headwater.workflow.rows import Outcome, Phase, RunRow, Status

_P, _S, _O = Phase, Status, Outcome


class Step(StrEnum):
    """What can happen to a run."""

    PREPARED = "prepared"
    IN_FLIGHT = "in flight"
    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    SKIPPED = "skipped"
    EMITTING = "emitting"
    COMMITTED = "committed"
    TRANSIENT = "paused: transient"
    APPROVAL = "paused: approval"
    RECONCILIATION = "paused: reconciliation"
    LOGIC = "failed: logic"
    INTERNAL = "failed: internal"
    CRASHED = "crashed"
    APPROVED = "approved"


class Place(msgspec.Struct, frozen=True):
    """Where a run stands."""

    phase: Phase
    status: Status
    outcome: Outcome

    def __str__(self) -> str:
        return f"{self.phase.value}, {self.status.value}, outcome {self.outcome.value}"


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step is allowed, and where it leads. What it leads nowhere with stays as it is."""

    phases: tuple[Phase, ...]
    statuses: tuple[Status, ...] = (_S.ACTIVE,)
    outcomes: tuple[Outcome, ...]
    phase: Phase | None = None
    status: Status | None = None
    outcome: Outcome | None = None


_ANY: Final = tuple(Outcome)
_WAITS: Final = (_S.ACTIVE, _S.RECONCILIATION, _S.CRASHED)
_UNFINISHED: Final = (_P.PREPARING, _P.PREPARED, _P.MUTATING, _P.MUTATED, _P.EMITTING)

STEPS: Final[dict[Step, tuple[Rule, ...]]] = {
    Step.PREPARED: (Rule(phases=(_P.PREPARING,), outcomes=(_O.NONE,), phase=_P.PREPARED),),
    # Unknown from here on: written before the call leaves (W6). W4: from `prepared` only, so a run calls once.
    Step.IN_FLIGHT: (Rule(phases=(_P.PREPARED,), outcomes=(_O.NONE,), phase=_P.MUTATING, outcome=_O.UNKNOWN),),
    # What became of a call may be learnt long after the run was stopped: its status stays what it was.
    Step.APPLIED: (
        Rule(phases=(_P.MUTATING,), statuses=_WAITS, outcomes=(_O.UNKNOWN,), phase=_P.MUTATED, outcome=_O.APPLIED),
    ),
    Step.NOT_APPLIED: (
        Rule(phases=(_P.MUTATING,), statuses=_WAITS, outcomes=(_O.UNKNOWN,), phase=_P.MUTATED, outcome=_O.FAILED),
    ),
    Step.SKIPPED: (
        Rule(
            phases=(_P.PREPARED,),
            statuses=(_S.ACTIVE, _S.APPROVAL),
            outcomes=(_O.NONE,),
            phase=_P.MUTATED,
            outcome=_O.SKIPPED,
        ),
        Rule(
            phases=(_P.MUTATING,),
            statuses=(_S.RECONCILIATION, _S.CRASHED),
            outcomes=(_O.UNKNOWN,),
            phase=_P.MUTATED,
            outcome=_O.SKIPPED,
        ),
    ),
    Step.EMITTING: (
        Rule(phases=(_P.PREPARED,), outcomes=(_O.NONE,), phase=_P.EMITTING),
        Rule(phases=(_P.MUTATED,), outcomes=(_O.APPLIED, _O.SKIPPED), phase=_P.EMITTING),
    ),
    Step.COMMITTED: (
        # A producer, or a consumer that found nothing to do.
        Rule(phases=(_P.PREPARING, _P.PREPARED), outcomes=(_O.NONE,), phase=_P.COMMITTED, status=_S.COMMITTED),
        Rule(
            phases=(_P.EMITTING,),
            outcomes=(_O.NONE, _O.APPLIED, _O.SKIPPED),
            phase=_P.COMMITTED,
            status=_S.COMMITTED,
        ),
    ),
    Step.TRANSIENT: (
        Rule(
            phases=(_P.PREPARING, _P.PREPARED, _P.MUTATED, _P.EMITTING),
            outcomes=(_O.NONE, _O.APPLIED, _O.FAILED, _O.SKIPPED),
            status=_S.TRANSIENT,
        ),
    ),
    Step.APPROVAL: (
        Rule(
            phases=(_P.PREPARING, _P.PREPARED, _P.MUTATED, _P.EMITTING),
            outcomes=(_O.NONE, _O.APPLIED, _O.FAILED, _O.SKIPPED),
            status=_S.APPROVAL,
        ),
    ),
    Step.RECONCILIATION: (Rule(phases=(_P.MUTATING,), outcomes=(_O.UNKNOWN,), status=_S.RECONCILIATION),),
    # Never of an unknown outcome: whoever repairs code must not be handed a call that may have happened.
    Step.LOGIC: (
        Rule(
            phases=(_P.PREPARING, _P.PREPARED, _P.MUTATED, _P.EMITTING),
            outcomes=(_O.NONE, _O.APPLIED, _O.FAILED, _O.SKIPPED),
            status=_S.LOGIC,
        ),
    ),
    Step.INTERNAL: (
        Rule(
            phases=(_P.PREPARING, _P.PREPARED, _P.MUTATED, _P.EMITTING),
            outcomes=(_O.NONE, _O.APPLIED, _O.FAILED, _O.SKIPPED),
            status=_S.INTERNAL,
        ),
    ),
    Step.CRASHED: (Rule(phases=_UNFINISHED, outcomes=_ANY, status=_S.CRASHED),),
    Step.APPROVED: (Rule(phases=(_P.PREPARED,), statuses=(_S.APPROVAL,), outcomes=(_O.NONE,), status=_S.ACTIVE),),
}


def step(place: Place, what: Step, whose: str = "a run") -> Place:
    """Where a step leads from here. Raises TransitionError.

    W2: no rule leads to an earlier phase, nor away from where a run has ended.
    """
    for rule in STEPS[what]:
        if place.phase in rule.phases and place.status in rule.statuses and place.outcome in rule.outcomes:
            return Place(rule.phase or place.phase, rule.status or place.status, rule.outcome or place.outcome)
    raise TransitionError(f"{whose} cannot be {what.value}: it is {place}", place=place, step=what.value)


class Restart(Enum):
    """How a chain goes on after a run that stopped."""

    FRESH = "fresh"
    """From the beginning: nothing was done outside. Its events are given back."""
    EMIT = "emit"
    """From `next`, with what was prepared and what came of it: the effect is there, or was given up by a person."""
    WAIT = "wait"
    """Not before somebody knows what became of the call."""


_RESTARTS: Final = {
    Outcome.NONE: Restart.FRESH,
    Outcome.FAILED: Restart.FRESH,
    Outcome.APPLIED: Restart.EMIT,
    Outcome.SKIPPED: Restart.EMIT,
    Outcome.UNKNOWN: Restart.WAIT,
}


def restart_of(outcome: Outcome) -> Restart:
    """W7: by what is known of the effect, and by nothing else."""
    return _RESTARTS[outcome]


def place_of(run: RunRow) -> Place:
    """Where a run stands, from its row."""
    return Place(Phase(run.phase), Status(run.status), Outcome(run.outcome))
