"""Runs that stop: failure, block, retry time.

Part of `transitions`, which has the other transitions. Each function is part of one transaction.
"""

from __future__ import annotations

import msgspec

from headwater.errors import TransitionError
from headwater.values.ids import Millis
from headwater.workflow import run_rows
from headwater.workflow.phases import Restart, RunStep, restart_of
from headwater.workflow.retry_policy import DEFAULT, Retry
from headwater.workflow.rows import EffectOutcome, FailureKind, FlowRow, RunPhase, RunRow, RunStatus
from headwater.workflow.run_lanes import within
from headwater.workflow.set_aside import put_aside
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.captions import run_caption
from headwater.workflow.workflow_limits import CRASHES, ERROR_MAX, REPAIRS, SERVICE_MAX
from headwater.workflow.workflow_rows import set_flow, set_handler
from headwater.workflow.workflow_spec import FlowSpec


class RunFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure of a run, classified where it happened."""

    kind: FailureKind
    message: str
    details: str = ""
    service: str = ""
    after_ms: int = 0
    """How long the service asked to wait, if it did."""


_STEPS = {
    FailureKind.TRANSIENT: RunStep.TRANSIENT,
    FailureKind.STOPPED: RunStep.TRANSIENT,
    FailureKind.LOGIC: RunStep.LOGIC,
    FailureKind.AUTH: RunStep.APPROVAL,
    FailureKind.PERMISSION: RunStep.APPROVAL,
    FailureKind.INTERNAL: RunStep.INTERNAL,
}


def failed(  # noqa: PLR0917  # what is known where it happens
    tables: WorkflowTables,
    run_id: int,
    why: RunFailure,
    spec: FlowSpec,
    retry: Retry,
    chance: float = 0.0,
    *,
    undone: str = "",
    emitting: bool = False,
) -> RunRow:
    """Stop a run after a failure or pause: store status, error, the state of its events, and when the chain continues.

    `undone`: this failure also proves that the call had no effect. `emitting`: `next` failed. Calling `next` is not a
    checkpoint of its own, because its writes are part of the commit.
    """
    run = active(tables, run_id)
    flow = tables.flow_of(run)
    steps = [_STEPS[why.kind]]
    if emitting and run.phase != RunPhase.EMITTING:
        steps.insert(0, RunStep.EMITTING)
    if undone:
        run_rows.resolve_call(tables, run, "call", result=None, error=undone[:ERROR_MAX])
        steps.insert(0, RunStep.NOT_APPLIED)
    run = end(tables, run, steps, why)
    # W5: events are released only if the run has had no effect.
    if restart_of(EffectOutcome(run.outcome)) is Restart.FRESH:
        run_rows.release(tables, run)
    flow = set_flow(tables, flow, head=run.id, retry_at=None)
    if why.kind is FailureKind.STOPPED:
        set_flow(tables, flow, retry_at=tables.now)
    elif why.kind is FailureKind.TRANSIENT:
        _later(tables, flow, run, why, spec, retry, chance)
    elif why.kind is FailureKind.LOGIC:
        _wrong(tables, flow, run, why, spec)
    else:
        text = f"{why.service}: {why.message}" if why.service else why.message
        set_flow(tables, flow, block=text[:ERROR_MAX], block_kind=why.kind.value)
    return run


def _later(  # noqa: PLR0917  # likewise
    tables: WorkflowTables, flow: FlowRow, run: RunRow, why: RunFailure, spec: FlowSpec, retry: Retry, chance: float
) -> None:
    """L6: the time of the next retry and the number of failures survive the process."""
    failures = flow.failures + 1
    if failures <= retry.tries:
        wait = max(retry.delay_ms(failures, chance), why.after_ms)
        set_flow(tables, flow, failures=failures, retry_at=Millis(tables.now + wait))
    elif not _is_parked(tables, flow, run, spec):
        text = f"{run.handler} failed {failures} times: {why.message}"
        set_flow(tables, flow, failures=failures, block=text[:ERROR_MAX], block_kind="exhausted")


def _wrong(tables: WorkflowTables, flow: FlowRow, run: RunRow, why: RunFailure, spec: FlowSpec) -> None:
    """The code failed. It needs a new version, unless a single event causes the failure and is parked."""
    if _is_parked(tables, flow, run, spec):
        return
    if spec.has_fixer and flow.repairs < REPAIRS:
        set_flow(tables, flow, repairing=1)
    else:
        text = f"{run.handler} is wrong: {why.message}"
        set_flow(tables, flow, block=text[:ERROR_MAX], block_kind="logic")


def _is_parked(tables: WorkflowTables, flow: FlowRow, run: RunRow, spec: FlowSpec) -> bool:
    """Narrow the run to one event at a time, and park the event that fails alone. False if the workflow has to stop.

    After the effect, the run is set aside with all of its events.

    This ends: each round shows fewer events or parks some. If one event at a time is not enough to get a plan, the
    events that were taken together are parked.
    """
    if spec.on_poison != "park" or run.kind != "consumer":
        return False
    if restart_of(EffectOutcome(run.outcome)) is Restart.EMIT:
        # The effect has happened with these events, so only this run may finish them.
        tables.captions[flow.id] = f"{run_caption(run, tables)}: parked after it was done, {run.error}"
        put_aside(tables, flow, run)
        return True
    shown = _poison(tables, flow, run, spec)
    if not shown:
        return False
    row = tables.handler_of(run)
    parks = len(shown) == 1 or (row.span == 0 and bool(run.taken))
    if row.span == 0 and not parks:
        return False
    set_handler(tables, row, span=1)
    if parks:
        for event in shown:
            tables.execute("update flow_event set status = 'parked' where id = ? and status = 'pending'", event)
        tables.captions[flow.id] = f"{run_caption(run, tables)}: parked, {run.error}"
        set_flow(tables, flow, head=None, retry_at=None, failures=0)
    else:
        set_flow(tables, flow, retry_at=tables.now, failures=0)
    return True


def _poison(tables: WorkflowTables, flow: FlowRow, run: RunRow, spec: FlowSpec) -> list[int]:
    """The events that may cause the failure: those the run took, or those it was shown."""
    if run.taken:
        return [row[0] for row in tables.execute("select event from flow_take where run = ?", run.id)]
    pending = tables.pending(flow.id, spec.consumer(run.handler).topics, run.offered, within(run.lane))
    return [event.id for event in pending]


def crashed(tables: WorkflowTables, run: RunRow) -> RunRow:
    """Store that the host ended during the run. It stays the head of its chain until it has a successor (W8)."""
    crashes = run.crashes + 1
    text = f"the host ended while {run.handler} was {run.phase}"
    run = end(tables, run, [RunStep.CRASHED], RunFailure(kind=FailureKind.CRASHED, message=text), crashes=crashes)
    flow = tables.flow_of(run)
    restart = restart_of(EffectOutcome(run.outcome))
    if restart is Restart.WAIT:
        run_rows.leave_call_open(tables, run, tables.now, error=text)
        set_flow(tables, flow, head=run.id, retry_at=None)
        return run
    if restart is Restart.FRESH:
        run_rows.release(tables, run)
    after_crash(tables, set_flow(tables, flow, head=run.id), run)
    return run


def after_crash(tables: WorkflowTables, flow: FlowRow, run: RunRow) -> None:
    """L7: if the host ends repeatedly during the same run, the run is taken as the cause and blocked."""
    if run.crashes >= CRASHES:
        text = f"the host has ended {run.crashes} times in a row while {run.handler} was at work"
        set_flow(tables, flow, retry_at=None, block=text, block_kind="crashes")
    else:
        # The first retry is immediate. Later ones are delayed as after failures, so that the host crashes less often.
        wait = DEFAULT.delay_ms(run.crashes - 1) if run.crashes > 1 else 0
        set_flow(tables, flow, retry_at=Millis(tables.now + wait))


# --- parts ----------------------------------------------------------------------------------------------------


def active(tables: WorkflowTables, run_id: int) -> RunRow:
    """A run that is being executed. Raises TransitionError if another transaction has ended it."""
    run = tables.run(run_id)
    if run.status != RunStatus.ACTIVE:
        raise TransitionError(f"run {run_id} of {run.handler} is not active any more: it is {run.status}", run=run_id)
    return run


def unknown(tables: WorkflowTables, run_id: int) -> RunRow:
    """A run whose call has an unknown outcome. Raises TransitionError if it was resolved in between."""
    run = tables.run(run_id)
    if run.outcome != EffectOutcome.UNKNOWN:
        raise TransitionError(f"the outcome of run {run_id} is known already: {run.outcome}", run=run_id)
    return run


def end(tables: WorkflowTables, run: RunRow, steps: list[RunStep], why: RunFailure, **more: object) -> RunRow:
    """Apply steps that end a run, and store the reason."""
    columns = {"error_kind": why.kind, "error": why.message[:ERROR_MAX], "error_details": why.details[:ERROR_MAX]}
    if why.service:
        columns["service"] = why.service[:SERVICE_MAX]
    run = run_rows.move(tables, run, *steps, **columns, **more)
    tables.touch(run.flow)
    return run


def stop(  # what is known where it happens
    tables: WorkflowTables,
    run: RunRow,
    what: RunStep,
    kind: FailureKind,
    message: str,
    *,
    block: str | None,
    details: str = "",
) -> RunRow:
    """Stop a run that keeps its events."""
    run = end(tables, run, [what], RunFailure(kind=kind, message=message, details=details))
    flow = tables.flow_of(run)
    text = None if block is None else message[:ERROR_MAX]
    set_flow(tables, flow, head=run.id, retry_at=None, block=text, block_kind=block)
    return run
