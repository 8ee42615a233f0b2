"""The transitions of a run, one transaction each.

    begin -> prepared -> in_flight -> applied | not_applied | uncertain -> consumed
          failed, at any of these; and the chain continues with `begin`

Length: every transition of a run is here, so that everything that can happen to one is in one place.

Actions of users on runs are in `operator_actions`, recovery after a restart in `run_recovery`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from headwater.errors import TransitionError
from headwater.values.ids import Millis
from headwater.workflow import run_rows
from headwater.workflow.phases import Restart, RunStep, restart_of
from headwater.workflow.planner import Due, Flags, IdleUntil, choose
from headwater.workflow.retry_policy import DEFAULT, clamp_wake
from headwater.workflow.rows import (
    CallRow,
    EffectOutcome,
    EventRow,
    EventStatus,
    FailureKind,
    FlowRow,
    HandlerKind,
    HandlerRow,
    Intent,
    ResolvedBy,
    RunCause,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.run_retention import is_due, prune
from headwater.workflow.schedule import next_after
from headwater.workflow.set_aside import take_up, waits
from headwater.workflow.stopping import RunFailure, active, after_crash, crashed, failed, stop, unknown
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.captions import run_caption
from headwater.workflow.workflow_limits import ERROR_MAX, PAGE, WAKE_MAX_MS
from headwater.workflow.workflow_rows import set_flow, set_handler
from headwater.workflow.workflow_spec import FlowSpec

# --- beginning ------------------------------------------------------------------------------------------------


class Begun(msgspec.Struct, frozen=True):
    """A run to execute now, from its phase on."""

    flow: FlowRow
    run: RunRow
    state: bytes | None
    events: tuple[EventRow, ...] = ()
    """The first events of the `run.offered` that `prepare` gets; or the events of the run, if it continues later."""
    call: CallRow | None = None


class Repair(msgspec.Struct, frozen=True):
    """A handler has to be repaired."""

    flow: FlowRow
    run: RunRow


class ReconcileCall(msgspec.Struct, frozen=True):
    """A connector has to be asked now about a call with an unknown outcome."""

    flow: FlowRow
    run: RunRow
    call: CallRow


Next: TypeAlias = Begun | ReconcileCall | Repair | IdleUntil


def begin(tables: WorkflowTables, name: str, spec: FlowSpec, flags: Flags) -> Next:
    """Begin the next run of a workflow, as the planner chooses it; or return when to ask again.

    W1: never a second active run, and no new chain while one is unfinished.
    """
    flow = tables.flow_named(name)
    assert flow is not None
    if tables.active(flow.id) is not None:
        return IdleUntil()
    flow = _correct_clock(tables, flow, spec)
    if flow.head is None and tables.has_runs_to_resume(flow.id):
        flow = take_up(tables, flow)
    if flow.head is not None:
        return _go_on(tables, flow, tables.run(flow.head), spec, flags)
    due = choose(tables, flow, spec, flags)
    if isinstance(due, IdleUntil) and _correct_times(tables, flow, spec):
        due = choose(tables, flow, spec, flags)
    if isinstance(due, IdleUntil):
        return due
    events, offered = _shown(tables, flow, due.handler, due.kind, spec)
    run = run_rows.insert(tables, flow, due.handler.name, due.kind, due.why, offered=offered)
    _begins(tables, due)
    return Begun(flow, run, due.handler.state, tuple(events))


def begin_after(tables: WorkflowTables, handler: str, name: str, spec: FlowSpec, flags: Flags) -> Next:
    """The same, in the transaction that ends a run of `handler`, whose leftover events are not in the flags yet.

    Empty: the run took nothing, so its leftover events are no reason to run it again.
    """
    dirty = flags.dirty | {handler}
    flow = tables.flow_named(name) if tables.published else None
    if flow is not None:
        # The events it has published are not in the flags, either.
        news = {topic for known, topic in tables.published if known == flow.id}
        dirty |= {consumer.name for consumer in spec.consumers if news & set(consumer.topics)}
    return begin(tables, name, spec, Flags(flags.fresh, dirty, flags.resumed))


def peek(tables: WorkflowTables, name: str, spec: FlowSpec, flags: Flags) -> IdleUntil:
    """When something is due, without beginning it."""
    flow = tables.flow_named(name)
    assert flow is not None
    if tables.active(flow.id) is not None or flow.intent != Intent.ACTIVE or flow.block is not None:
        return IdleUntil()
    if flow.head is None:
        due = choose(tables, flow, spec, flags)
        return due if isinstance(due, IdleUntil) and waits(tables, flow) is None else IdleUntil(tables.now)
    head = tables.run(flow.head)
    if flow.repairing:
        return IdleUntil(tables.now)
    if restart_of(EffectOutcome(head.outcome)) is not Restart.WAIT:
        return IdleUntil(flow.retry_at)
    call = tables.call_of(head)
    return IdleUntil(None if call is None else call.next_at)


def _correct_clock(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec) -> FlowRow:
    """W11: after the clock was set back, times that were near stay near."""
    if flow.updated_at <= tables.now:
        return flow
    _correct_times(tables, flow, spec)
    # From here on, times are measured by the corrected clock.
    return set_flow(tables, flow)


def _correct_times(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec) -> bool:
    """The same for the times of handlers. Returns whether one was corrected.

    A time is wrong if it is later than its schedule allows. The workflow's own timestamp is no evidence: the last write
    may be older than the change of the clock.
    """
    is_mended = False
    for row in tables.handlers(flow.id):
        if row.kind == "producer" and row.next_run_at is not None:
            schedule = spec.producer(row.name).schedule
            latest = tables.now if schedule is None else next_after(schedule, tables.now)
            if row.next_run_at > latest:
                set_handler(tables, row, next_run_at=latest)
                is_mended = True
        elif row.wake_at is not None and row.wake_at > tables.now + WAKE_MAX_MS:
            set_handler(tables, row, wake_at=tables.now + WAKE_MAX_MS)
            is_mended = True
    return is_mended


def _begins(tables: WorkflowTables, due: Due) -> None:
    """D17: a wake-up time that a consumer asked for is cleared when its run begins."""
    if due.kind == "consumer" and due.handler.wake_at is not None and due.handler.wake_at <= tables.now:
        set_handler(tables, due.handler, wake_at=None)
    if due.handler.asked:
        set_handler(tables, due.handler, asked=0)


def _shown(
    tables: WorkflowTables, flow: FlowRow, row: HandlerRow, kind: HandlerKind, spec: FlowSpec
) -> tuple[list[EventRow], int]:
    """The first events that a handler gets, and how many it may read in all."""
    if kind == "producer":
        return [], 0
    consumer = spec.consumer(row.name)
    topics = tables.topics(flow.id)
    waiting = 0
    for name in consumer.topics:
        waiting += topics[name].pending
    offered = min(row.span or consumer.peek, waiting)
    return tables.pending(flow.id, consumer.topics, min(offered, PAGE)), offered


def _go_on(  # noqa: PLR0911  # one for each way to stop
    tables: WorkflowTables, flow: FlowRow, head: RunRow, spec: FlowSpec, flags: Flags
) -> Next:
    """Continue the unfinished chain."""
    # W14: as in the planner.
    if flow.intent != Intent.ACTIVE or flow.block is not None:
        return IdleUntil()
    if flow.repairing:
        return Repair(flow, head)
    restart = restart_of(EffectOutcome(head.outcome))
    if restart is Restart.WAIT:
        return _ask(tables, flow, head)
    if flow.retry_at is None:
        return IdleUntil()
    if flow.retry_at > tables.now:
        return IdleUntil(flow.retry_at)
    row = tables.handler(flow.id, head.kind, head.handler)
    if row.gone:
        return IdleUntil()
    is_approved = head.error_kind == FailureKind.ASK and head.phase == RunPhase.PREPARED and head.approval is not None
    if is_approved and head.version == flow.version:
        # L10: the approved plan continues in the same attempt, with the code that made it.
        run = run_rows.move(tables, head, RunStep.APPROVED, error_kind=None, error=None, error_details=None)
        set_flow(tables, flow, retry_at=None)
        return Begun(flow, run, row.state, tuple(tables.events_of(run)))
    keeps = restart is Restart.EMIT
    if not keeps:
        # A plan of an older version is kept until here.
        run_rows.release(tables, head)
    events, offered = ([], 0) if keeps else _shown(tables, flow, row, head.kind, spec)
    run = run_rows.insert_after(tables, flow, head, flags.resumed or _why(tables, head), keeps=keeps, offered=offered)
    set_flow(tables, flow, head=run.id, retry_at=None)
    if keeps:
        return Begun(flow, run, row.state, tuple(tables.events_of(run)), tables.call_of(run))
    _begins(tables, Due(row, head.kind, RunCause.RETRY))
    return Begun(flow, run, row.state, tuple(events))


def _why(tables: WorkflowTables, head: RunRow) -> RunCause:
    call = tables.call_of(head) if head.status == RunStatus.CRASHED and head.outcome != EffectOutcome.NONE else None
    if head.status == RunStatus.RECONCILIATION or (call is not None and call.resolved_by != "call"):
        return RunCause.RECONCILED
    return {RunStatus.CRASHED: RunCause.RECOVERY, RunStatus.APPROVAL: RunCause.APPROVED}.get(
        RunStatus(head.status), RunCause.RETRY
    )


def _ask(tables: WorkflowTables, flow: FlowRow, head: RunRow) -> Next:
    call = tables.call_of(head)
    if call is None or call.next_at is None:
        return IdleUntil()
    if call.next_at > tables.now:
        return IdleUntil(call.next_at)
    return ReconcileCall(flow, head, call)


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
    flow = tables.flow(run.flow)
    row = tables.handler(run.flow, "consumer", run.handler)
    # W12: the limits hold for the time of this transaction, which may have waited for the disk.
    wake_at = None if plan.wake_at is None else Millis(clamp_wake(plan.wake_at, tables.now))
    if row.wake_at != wake_at:
        set_handler(tables, row, wake_at=wake_at)
    topics = tables.topic_ids(flow.id)
    allowed = [topics[name] for name in spec.consumer(run.handler).topics]
    taken = run_rows.reserve(tables, run, plan.events, allowed)
    asks = plan.approval is not None and plan.approval != run.approval
    columns = {"prepare_result": plan.result, "taken": taken, "title": plan.title, "ask": int(asks)}
    if asks:
        # An earlier approval was for another plan.
        columns["approval"] = None
    if plan.acts is None or asks or not taken or run.cancelled or flow.intent != Intent.ACTIVE:
        return run_rows.move(tables, run, RunStep.PREPARED, **columns)
    # W6, as in `in_flight`. Together with the plan, because nothing is decided in between.
    run_rows.write_call(tables, flow, run, plan.acts, plan.result)
    return run_rows.move(tables, run, RunStep.PREPARED, RunStep.IN_FLIGHT, **columns)


def ask(tables: WorkflowTables, run_id: int) -> RunRow:
    """Stop before the mutation and ask a person. The events stay reserved: the approval is for this very plan."""
    run = active(tables, run_id)
    what = run.title or f"the next step of {run.handler}"
    return stop(tables, run, RunStep.APPROVAL, FailureKind.ASK, f"waits for an approval of: {what}", block="ask")


def in_flight(tables: WorkflowTables, run_id: int, operation: str, params: bytes) -> RunRow:
    """W6: store on disk that a call is about to leave. From here on its outcome is unknown.

    An earlier pause of the workflow, or cancellation of the run, prevents the call.
    """
    run = active(tables, run_id)
    flow = tables.flow(run.flow)
    if flow.intent != Intent.ACTIVE:
        raise TransitionError(f"{flow.name} was paused before run {run_id} acted", stopped=True)
    if run.cancelled:
        return run_rows.move(tables, run, RunStep.SKIPPED)
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
    flow = set_flow(tables, tables.flow(run.flow), block=None, block_kind=None)
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
    set_flow(tables, tables.flow(run.flow), block=error[:ERROR_MAX], block_kind="hung")
    return run


def came_back(tables: WorkflowTables, run_id: int | None = None) -> None:
    """A late call has ended: the call of one run, or, with the process that made them, the calls of all runs."""
    for flow_id, head in tables.execute("select id, head from flow where block_kind = 'hung'"):
        if run_id in (None, head):
            set_flow(tables, tables.flow(flow_id), block=None, block_kind=None)


def still_uncertain(tables: WorkflowTables, run_id: int, error: str, tries: int, next_at: Millis | None) -> RunRow:
    """The connector was asked again, without result. Without a next time, only a person can report the outcome."""
    run = unknown(tables, run_id)
    run_rows.leave_call_open(tables, run, next_at, tries=tries, error=error[:ERROR_MAX])
    if next_at is None:
        text = f"it is not known whether {run_caption(run)} happened"
        set_flow(tables, tables.flow(run.flow), block=text, block_kind="indeterminate")
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
    row = tables.handler(run.flow, "consumer", run.handler)
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
    _widen(tables, run, tables.handler(run.flow, "consumer", run.handler), spec)
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
        tables.published |= dict.fromkeys((run.flow, topic) for topic in consumer.topics)


def produced(tables: WorkflowTables, run_id: int, state: bytes | None, spec: FlowSpec) -> RunRow:
    """The events that a producer publishes and its next time are stored in the same transaction."""
    run = active(tables, run_id)
    row = tables.handler(run.flow, "producer", run.handler)
    schedule = spec.producer(run.handler).schedule
    # W11: counted from now, so that missed times become one.
    next_at = None if schedule is None else next_after(schedule, tables.now)
    set_handler(tables, row, next_run_at=next_at, state=row.state if state is None else state)
    run = run_rows.move(tables, run, RunStep.COMMITTED)
    return _finished(tables, run, spec)


def _finished(tables: WorkflowTables, run: RunRow, spec: FlowSpec) -> RunRow:
    """The chain is finished: reset its counts."""
    flow = tables.flow(run.flow)
    if flow.head is not None or flow.failures or flow.repairs:
        none = {"head": None, "retry_at": None, "failures": 0, "repairs": 0}
        set_flow(tables, flow, **none)
    tables.touch(flow.id)
    if spec.keep_runs is not None and is_due(tables, run):
        prune(tables, flow.id, spec.keep_runs)
    return run


__all__ = [
    "Begun",
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
