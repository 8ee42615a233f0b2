"""The table of steps of a run, and how a stopped run restarts.

A run has three states: the phase (how far it came), the status (what it waits for) and the outcome (what is known of
its effect). A step changes them; a step that the table does not allow is refused. Only the outcome decides how a
stopped run and its events continue (`restart_of`), never the phase.
"""

from __future__ import annotations

from enum import Enum, StrEnum
from typing import Final

import msgspec

from headwater.errors import TransitionError
from headwater.workflow.rows import EffectOutcome, RunPhase, RunRow, RunStatus

_P, _S, _O = RunPhase, RunStatus, EffectOutcome


class RunStep(StrEnum):
    """The steps of a run."""

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


class RunPosition(msgspec.Struct, frozen=True):
    """The position of a run: phase, status, outcome."""

    phase: RunPhase
    status: RunStatus
    outcome: EffectOutcome

    def __str__(self) -> str:
        return f"{self.phase}, {self.status}, outcome {self.outcome}"


class StepRule(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step is allowed, and where it leads. A state without a target stays the same."""

    phases: tuple[RunPhase, ...]
    statuses: tuple[RunStatus, ...] = (_S.ACTIVE,)
    outcomes: tuple[EffectOutcome, ...]
    phase: RunPhase | None = None
    status: RunStatus | None = None
    outcome: EffectOutcome | None = None


_ANY: Final = tuple(EffectOutcome)
_WAITS: Final = (_S.ACTIVE, _S.RECONCILIATION, _S.CRASHED)
_UNFINISHED: Final = (_P.PREPARING, _P.PREPARED, _P.MUTATING, _P.MUTATED, _P.EMITTING)

STEPS: Final[dict[RunStep, tuple[StepRule, ...]]] = {
    RunStep.PREPARED: (StepRule(phases=(_P.PREPARING,), outcomes=(_O.NONE,), phase=_P.PREPARED),),
    # W6: written before the call leaves; its outcome is unknown from here on. W4: from `prepared` only, so a run calls
    # once.
    RunStep.IN_FLIGHT: (StepRule(phases=(_P.PREPARED,), outcomes=(_O.NONE,), phase=_P.MUTATING, outcome=_O.UNKNOWN),),
    # The outcome of a call can be reported long after the run has stopped: the status stays the same.
    RunStep.APPLIED: (
        StepRule(phases=(_P.MUTATING,), statuses=_WAITS, outcomes=(_O.UNKNOWN,), phase=_P.MUTATED, outcome=_O.APPLIED),
    ),
    RunStep.NOT_APPLIED: (
        StepRule(phases=(_P.MUTATING,), statuses=_WAITS, outcomes=(_O.UNKNOWN,), phase=_P.MUTATED, outcome=_O.FAILED),
    ),
    RunStep.SKIPPED: (
        StepRule(
            phases=(_P.PREPARED,),
            statuses=(_S.ACTIVE, _S.APPROVAL),
            outcomes=(_O.NONE,),
            phase=_P.MUTATED,
            outcome=_O.SKIPPED,
        ),
        StepRule(
            phases=(_P.MUTATING,),
            statuses=(_S.RECONCILIATION, _S.CRASHED),
            outcomes=(_O.UNKNOWN,),
            phase=_P.MUTATED,
            outcome=_O.SKIPPED,
        ),
    ),
    RunStep.EMITTING: (
        StepRule(phases=(_P.PREPARED,), outcomes=(_O.NONE,), phase=_P.EMITTING),
        StepRule(phases=(_P.MUTATED,), outcomes=(_O.APPLIED, _O.SKIPPED), phase=_P.EMITTING),
    ),
    RunStep.COMMITTED: (
        # A producer, or a consumer that found nothing to do.
        StepRule(phases=(_P.PREPARING, _P.PREPARED), outcomes=(_O.NONE,), phase=_P.COMMITTED, status=_S.COMMITTED),
        StepRule(
            phases=(_P.EMITTING,),
            outcomes=(_O.NONE, _O.APPLIED, _O.SKIPPED),
            phase=_P.COMMITTED,
            status=_S.COMMITTED,
        ),
    ),
    RunStep.TRANSIENT: (
        StepRule(
            phases=(_P.PREPARING, _P.PREPARED, _P.MUTATED, _P.EMITTING),
            outcomes=(_O.NONE, _O.APPLIED, _O.FAILED, _O.SKIPPED),
            status=_S.TRANSIENT,
        ),
    ),
    RunStep.APPROVAL: (
        StepRule(
            phases=(_P.PREPARING, _P.PREPARED, _P.MUTATED, _P.EMITTING),
            outcomes=(_O.NONE, _O.APPLIED, _O.FAILED, _O.SKIPPED),
            status=_S.APPROVAL,
        ),
    ),
    RunStep.RECONCILIATION: (StepRule(phases=(_P.MUTATING,), outcomes=(_O.UNKNOWN,), status=_S.RECONCILIATION),),
    # Never with an unknown outcome: a repair must not get a call that may have happened.
    RunStep.LOGIC: (
        StepRule(
            phases=(_P.PREPARING, _P.PREPARED, _P.MUTATED, _P.EMITTING),
            outcomes=(_O.NONE, _O.APPLIED, _O.FAILED, _O.SKIPPED),
            status=_S.LOGIC,
        ),
    ),
    RunStep.INTERNAL: (
        StepRule(
            phases=(_P.PREPARING, _P.PREPARED, _P.MUTATED, _P.EMITTING),
            outcomes=(_O.NONE, _O.APPLIED, _O.FAILED, _O.SKIPPED),
            status=_S.INTERNAL,
        ),
    ),
    RunStep.CRASHED: (StepRule(phases=_UNFINISHED, outcomes=_ANY, status=_S.CRASHED),),
    RunStep.APPROVED: (
        StepRule(phases=(_P.PREPARED,), statuses=(_S.APPROVAL,), outcomes=(_O.NONE,), status=_S.ACTIVE),
    ),
}


def _targets() -> dict[tuple[RunStep, RunPhase, RunStatus, EffectOutcome], RunPosition]:
    """The rules, unfolded: where each step leads from each position that allows it."""
    return {
        (step, phase, status, outcome): RunPosition(rule.phase or phase, rule.status or status, rule.outcome or outcome)
        for step, rules in STEPS.items()
        # The first rule that fits counts, so it is written last.
        for rule in reversed(rules)
        for phase in rule.phases
        for status in rule.statuses
        for outcome in rule.outcomes
    }


_TARGETS: Final = _targets()


def apply_step(place: RunPosition, what: RunStep, whose: str = "a run") -> RunPosition:
    """The position after a step. Raises TransitionError.

    W2: no rule leads to an earlier phase, and none leaves a final status.
    """
    target = _TARGETS.get((what, place.phase, place.status, place.outcome))
    if target is None:
        raise TransitionError(f"{whose} cannot be {what.value}: it is {place}", place=place, step=what.value)
    return target


class Restart(Enum):
    """How a chain continues after a run that stopped."""

    FRESH = "fresh"
    """From the beginning: there is no effect outside. The events are released."""
    EMIT = "emit"
    """From `next`, with the stored plan and result: the effect happened, or a person skipped it."""
    WAIT = "wait"
    """Not before the outcome of the call is known."""


_RESTARTS: Final = {
    EffectOutcome.NONE: Restart.FRESH,
    EffectOutcome.FAILED: Restart.FRESH,
    EffectOutcome.APPLIED: Restart.EMIT,
    EffectOutcome.SKIPPED: Restart.EMIT,
    EffectOutcome.UNKNOWN: Restart.WAIT,
}


def restart_of(outcome: EffectOutcome) -> Restart:
    """W7: only the outcome of the effect decides."""
    return _RESTARTS[outcome]


def position_of(run: RunRow) -> RunPosition:
    """The position of a run, from its row. The words of a row that was read are equal to the members."""
    return RunPosition(run.phase, run.status, run.outcome)
