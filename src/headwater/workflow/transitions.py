"""The transitions of a run, one transaction each.

    begin -> prepared -> in_flight -> applied | not_applied | uncertain -> consumed
          failed, at any of these; and the chain continues with `begin`

Length: every transition of a run is here, so that everything that can happen to one is in one place.

Actions of users on runs are in `operator_actions`, recovery after a restart in `run_recovery`.
"""

from __future__ import annotations

import msgspec

from headwater.errors import TransitionError
from headwater.values.ids import Millis
from headwater.workflow import run_rows
from headwater.workflow.beginning import Begun, Next, ReconcileCall, Repair, begin, begin_after, peek
from headwater.workflow.phases import RunStep
from headwater.workflow.rates import take_call
from headwater.workflow.retry_policy import DEFAULT, clamp_wake
from headwater.workflow.rows import (
    HUNG_HEADS,
    EffectOutcome,
    EventStatus,
    FailureKind,
    HandlerRow,
    Intent,
    ResolvedBy,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.run_lanes import within
from headwater.workflow.run_retention import is_due, prune
from headwater.workflow.schedule import next_after
from headwater.workflow.stopping import RunFailure, active, after_crash, crashed, failed, stop, unknown
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.captions import run_caption
from headwater.workflow.workflow_limits import ERROR_MAX
from headwater.workflow.workflow_rows import set_flow, set_handler
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec

# --- on its way -----------------------------------------------------------------------------------------------


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `prepare`."""

    events: tuple[int, ...] = ()
    result: bytes
    title: str = ""
    wake_at: Millis | None = None
    approval: bytes | None = None
    """What a person would approve. The person is asked unless this chain has the approval already."""
    acts: str | None = None
    """The operation, if the plan itself is its only argument: then the call leaves with this transaction."""


def prepared(tables: WorkflowTables, run_id: int, plan: Prepared, spec: FlowSpec) -> RunRow:
    """W3, W9: store the plan, the events it takes and the wake-up time together."""
    run = active(tables, run_id)
    flow = tables.flow_of(run)
    row = tables.handler_of(run)
    # W12: the limits hold for the time of this transaction, which may have waited for the disk.
    wake_at = None if plan.wake_at is None else Millis(clamp_wake(plan.wake_at, tables.now))
    if row.wake_at != wake_at:
        set_handler(tables, row, wake_at=wake_at)
    topics = tables.topic_ids(flow.id)
    consumer = spec.consumer(run.handler)
    allowed = [topics[name] for name in consumer.topics]
    taken = run_rows.reserve(tables, run, plan.events, allowed)
    asks = plan.approval is not None and plan.approval != run.approval
    columns = {"prepare_result": plan.result, "taken": taken, "title": plan.title, "ask": int(asks)}
    if asks:
        # An earlier approval was for another plan.
        columns["approval"] = None
    calls = plan.acts is not None and not asks and taken and not run.cancelled and flow.intent == Intent.ACTIVE
    is_early = calls and consumer.call_every_us is not msgspec.UNSET and take_call(tables, row, consumer) is not None
    if plan.acts is None or not calls or is_early:
        return run_rows.move(tables, run, RunStep.PREPARED, **columns)
    # W6, as in `in_flight`. Together with the plan, because nothing is decided in between.
    run_rows.write_call(tables, flow, run, plan.acts, plan.result)
    return run_rows.move(tables, run, RunStep.PREPARED, RunStep.IN_FLIGHT, **columns)


def ask(tables: WorkflowTables, run_id: int) -> RunRow:
    """Stop before the mutation and ask a person. The events stay reserved: the approval is for this very plan."""
    run = active(tables, run_id)
    what = run.title or f"the next step of {run.handler}"
    return stop(tables, run, RunStep.APPROVAL, FailureKind.ASK, f"waits for an approval of: {what}", block="ask")


class Later(msgspec.Struct, frozen=True):
    """A call may leave at this time."""

    at: Millis


def in_flight(
    tables: WorkflowTables, run_id: int, operation: str, params: bytes, consumer: ConsumerSpec | None = None
) -> RunRow | Later:
    """W6: store on disk that a call is about to leave. From here on its outcome is unknown.

    An earlier pause of the workflow, or cancellation of the run, prevents the call; the rate of its consumer delays it.
    """
    run = active(tables, run_id)
    flow = tables.flow_of(run)
    if flow.intent != Intent.ACTIVE:
        raise TransitionError(f"{flow.name} was paused before run {run_id} acted", stopped=True)
    if run.cancelled:
        return run_rows.move(tables, run, RunStep.SKIPPED)
    at = None if consumer is None else take_call(tables, tables.handler_of(run), consumer)
    if at is not None:
        return Later(at)
    run_rows.write_call(tables, flow, run, operation, params)
    return run_rows.move(tables, run, RunStep.IN_FLIGHT)


def skipped(tables: WorkflowTables, run_id: int) -> RunRow:
    """Nothing was called, because the run was cancelled."""
    return run_rows.move(tables, active(tables, run_id), RunStep.SKIPPED)


def applied(tables: WorkflowTables, run_id: int, result: bytes, by: ResolvedBy = "call") -> RunRow:
    """The call happened."""
    run = unknown(tables, run_id)
    run_rows.resolve_call(tables, run, by, result=result)
    run = run_rows.move(tables, run, RunStep.APPLIED, mutation_result=result)
    if run.status != RunStatus.ACTIVE:
        _known_now(tables, run, by)
    return run


def not_applied(tables: WorkflowTables, run_id: int, error: str, by: ResolvedBy = "call") -> RunRow:
    """The call certainly had no effect. The events of the run are released."""
    run = unknown(tables, run_id)
    run_rows.resolve_call(tables, run, by, result=None, error=error[:ERROR_MAX])
    run = run_rows.move(tables, run, RunStep.NOT_APPLIED)
    if run.status != RunStatus.ACTIVE:
        run_rows.release(tables, run)
        _known_now(tables, run, by)
    return run


def _known_now(tables: WorkflowTables, run: RunRow, by: ResolvedBy) -> None:
    """Continue the chain. L7: a call that is repeated and never has an effect is not repeated for ever."""
    flow = set_flow(tables, tables.flow_of(run), block=None, block_kind=None)
    if by.startswith("user"):
        set_flow(tables, flow, retry_at=tables.now, failures=0)
    elif run.status == RunStatus.CRASHED:
        after_crash(tables, flow, run)
    elif run.outcome == EffectOutcome.APPLIED:
        set_flow(tables, flow, retry_at=tables.now)
    elif flow.failures < DEFAULT.tries:
        wait = DEFAULT.delay_ms(flow.failures + 1)
        set_flow(tables, flow, failures=flow.failures + 1, retry_at=Millis(tables.now + wait))
    else:
        text = f"{run.handler} was tried {flow.failures + 1} times, and each time it did not happen: {run.error}"
        set_flow(tables, flow, failures=flow.failures + 1, block=text[:ERROR_MAX], block_kind="exhausted")


def uncertain(tables: WorkflowTables, run_id: int, error: str, next_at: Millis | None, details: str = "") -> RunRow:
    """The outcome is unknown, and the run stops. It keeps its events (D4)."""
    active(tables, run_id)
    run = unknown(tables, run_id)
    run_rows.leave_call_open(tables, run, next_at, error=error[:ERROR_MAX])
    block = None if next_at is not None else "indeterminate"
    message = f"it is not known whether {run_caption(run)} happened: {error}"
    return stop(tables, run, RunStep.RECONCILIATION, FailureKind.INDETERMINATE, message, block=block, details=details)


def hung(tables: WorkflowTables, run_id: int, error: str) -> RunRow:
    """A call has not returned in time and may still act. The connector is not asked about it before it has ended."""
    run = uncertain(tables, run_id, error, tables.now)
    set_flow(tables, tables.flow_of(run), block=error[:ERROR_MAX], block_kind="hung")
    return run


def came_back(tables: WorkflowTables, run_id: int | None = None) -> None:
    """A late call has ended: the call of one run, or, with the process that made them, the calls of all runs."""
    for flow_id, lane, head in tables.execute(HUNG_HEADS):
        if run_id in (None, head):
            set_flow(tables, tables.flow(flow_id, lane), block=None, block_kind=None)


def still_uncertain(tables: WorkflowTables, run_id: int, error: str, tries: int, next_at: Millis | None) -> RunRow:
    """The connector was asked again, without result. Without a next time, only a person can report the outcome."""
    run = unknown(tables, run_id)
    run_rows.leave_call_open(tables, run, next_at, tries=tries, error=error[:ERROR_MAX])
    if next_at is None:
        text = f"it is not known whether {run_caption(run)} happened"
        set_flow(tables, tables.flow_of(run), block=text, block_kind="indeterminate")
    return run


# --- the end --------------------------------------------------------------------------------------------------


def consumed(
    tables: WorkflowTables, run_id: int, state: bytes | None, spec: FlowSpec, result: bytes | None = None
) -> RunRow:
    """W9: the reserved events are consumed in the same transaction as the commit of the run.

    `result`: what its call has returned, if that may not be stored yet. Then it is stored here.
    """
    run = active(tables, run_id)
    if run.cancelled and run.taken and run.outcome == EffectOutcome.NONE:
        # The run was cancelled first. It has no call, so this was the last moment to cancel.
        raise TransitionError(f"run {run_id} was cancelled before it had ended", run=run_id, cancelled=True)
    steps = [RunStep.COMMITTED] if run.phase == RunPhase.EMITTING else [RunStep.EMITTING, RunStep.COMMITTED]
    columns: dict[str, object] = {}
    if result is not None and run.outcome == EffectOutcome.UNKNOWN:
        # W3, as in `applied`.
        run_rows.resolve_call(tables, run, "call", result=result)
        steps.insert(0, RunStep.APPLIED)
        columns["mutation_result"] = result
    row = tables.handler_of(run)
    if run.outcome == EffectOutcome.SKIPPED:
        run_rows.release(tables, run, EventStatus.SKIPPED, "skipped")
    else:
        run_rows.release(tables, run, EventStatus.CONSUMED, "consumed")
    _widen(tables, run, row, spec)
    if state is not None:
        set_handler(tables, row, state=state)
    run = run_rows.move(tables, run, *steps, **columns)
    if run.taken:
        tables.captions[run.flow] = run_caption(run, tables)
    return _finished(tables, run, spec)


def idle(tables: WorkflowTables, run_id: int, plan: Prepared, spec: FlowSpec) -> RunRow:
    """`prepare` found nothing to do: only the wake-up time is stored."""
    prepared(tables, run_id, plan, spec)
    run = run_rows.move(tables, tables.run(run_id), RunStep.COMMITTED)
    _widen(tables, run, tables.handler_of(run), spec)
    return _finished(tables, run, spec)


def _widen(tables: WorkflowTables, run: RunRow, row: HandlerRow, spec: FlowSpec) -> None:
    """Show a consumer more events again after a failure: all, once the few are done or are not enough for a plan."""
    if row.span is None or not run.offered:
        return
    consumer = spec.consumer(run.handler)
    if run.taken:
        span = row.span * 2
        set_handler(tables, row, span=span if 0 < span < consumer.peek else None)
    elif row.span:
        set_handler(tables, row, span=0)
        # There may be more events than it was shown.
        which = within(run.lane)
        lane = which if isinstance(which, str) else None
        tables.published |= dict.fromkeys((run.flow, topic, lane) for topic in consumer.topics)


def produced(tables: WorkflowTables, run_id: int, state: bytes | None, spec: FlowSpec) -> RunRow:
    """The events that a producer publishes and its next time are stored in the same transaction."""
    run = active(tables, run_id)
    row = tables.handler_of(run)
    schedule = spec.producer(run.handler).schedule
    # W11: counted from now, so that missed times become one.
    next_at = None if schedule is None else next_after(schedule, tables.now)
    set_handler(tables, row, next_run_at=next_at, state=row.state if state is None else state)
    run = run_rows.move(tables, run, RunStep.COMMITTED)
    return _finished(tables, run, spec)


def _finished(tables: WorkflowTables, run: RunRow, spec: FlowSpec) -> RunRow:
    """The chain is finished: reset its counts."""
    flow = tables.flow_of(run)
    if flow.head is not None or flow.failures or flow.repairs:
        none = {"head": None, "retry_at": None, "failures": 0, "repairs": 0}
        set_flow(tables, flow, **none)
    tables.touch(flow.id)
    if spec.keep_runs is not None and is_due(tables, run):
        prune(tables, flow.id, spec.keep_runs)
    return run


__all__ = [
    "Begun",
    "Later",
    "Next",
    "Prepared",
    "ReconcileCall",
    "Repair",
    "RunFailure",
    "applied",
    "ask",
    "begin",
    "begin_after",
    "came_back",
    "consumed",
    "crashed",
    "failed",
    "hung",
    "idle",
    "in_flight",
    "not_applied",
    "peek",
    "prepared",
    "produced",
    "skipped",
    "still_uncertain",
    "uncertain",
]
