"""The beginning of runs: the next run of a workflow, or of one of its lanes, in one transaction.

The transitions of a run that has begun are in `transitions`.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from headwater.values.ids import Millis
from headwater.workflow import run_rows
from headwater.workflow.due_times import correct_clock, correct_times
from headwater.workflow.offered_events import offered_again, offered_events
from headwater.workflow.phases import Restart, RunStep, restart_of
from headwater.workflow.planner import Due, Flags, IdleUntil, choose
from headwater.workflow.rates import begin_at, call_at, take_call
from headwater.workflow.rows import (
    CallRow,
    EffectOutcome,
    EventRow,
    FailureKind,
    FlowRow,
    HandlerRow,
    Intent,
    RunCause,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.run_lanes import SHARED, consumer_of, is_held_up, is_of, next_in_free_lane
from headwater.workflow.set_aside import lanes_to_resume, take_up, waits
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import AT_ONCE_MAX
from headwater.workflow.workflow_rows import set_flow, set_handler
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec


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

    W1: never a second active run in a lane, and no new chain in it while one is unfinished.
    """
    flow = tables.flow_named(name)
    assert flow is not None
    if tables.has_shared_only(flow.id):
        for consumer in spec.consumers:
            if consumer.lanes is not msgspec.UNSET:
                break
        else:
            return _begin_shared(tables, flow, spec, flags)
    times: list[Millis] = []
    for handler in _turns(tables, flow, spec, flags):
        if handler == SHARED:
            found = _begin_shared(tables, tables.flow(flow.id), spec, flags)
        else:
            found = _begin_in_lanes(tables, tables.flow(flow.id), handler, spec, flags)
        if not isinstance(found, IdleUntil):
            return found
        times += [] if found.until is None else [found.until]
    return IdleUntil(min(times, default=None))


def begin_after(
    tables: WorkflowTables, handler: str, name: str, spec: FlowSpec, flags: Flags, *, lane: str = SHARED
) -> Next:
    """The same, in the transaction that ends a run of `handler`, whose leftover events are not in the flags yet.

    Empty: the run took nothing, so its leftover events are no reason to run it again.
    """
    now = Flags(flags.fresh, set(flags.dirty), flags.resumed, set(flags.quiet), flags.pursued, flags.last)
    if handler:
        now.dirty.add(handler)
        now.quiet.discard(lane)
    if tables.published:
        # The events it has published are not in the flags, either.
        flow = tables.flow_named(name)
        now.note_published(spec, [each for each in tables.published if flow is not None and each[0] == flow.id])
    return begin(tables, name, spec, now)


def peek(tables: WorkflowTables, name: str, spec: FlowSpec, flags: Flags) -> IdleUntil:
    """When something is due, without beginning it."""
    flow = tables.flow_named(name)
    assert flow is not None
    times: list[Millis] = []
    for found in [_peek_shared(tables, flow, spec, flags), *_peek_lanes(tables, flow, spec, flags)]:
        times += [] if found.until is None else [found.until]
    return IdleUntil(min(times, default=None))


def _peek_shared(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec, flags: Flags) -> IdleUntil:
    if tables.active(flow.id) is not None or flow.intent != Intent.ACTIVE or flow.block is not None:
        return IdleUntil()
    if flow.head is None:
        due = choose(tables, flow, spec, flags)
        return due if isinstance(due, IdleUntil) and waits(tables, flow) is None else IdleUntil(tables.now)
    return _peek_chain(tables, flow, flow.head, spec)


def _peek_chain(tables: WorkflowTables, flow: FlowRow, head_id: int, spec: FlowSpec) -> IdleUntil:
    """When an unfinished chain goes on."""
    if flow.intent != Intent.ACTIVE or flow.block is not None:
        return IdleUntil()
    head = tables.run(head_id)
    if flow.repairing:
        return IdleUntil(tables.now)
    restart = restart_of(EffectOutcome(head.outcome))
    if restart is Restart.EMIT:
        return IdleUntil(flow.retry_at)
    row = tables.handler_of(head)
    if restart is Restart.FRESH:
        may_begin, at = _may_call(tables, row, spec)
        due = flow.retry_at if may_begin or at is not None else None
        return IdleUntil(due if due is None or at is None else max(due, at))
    call = tables.call_of(head)
    due = None if call is None else call.next_at
    at = None if due is None else _sent_again_at(tables, row, spec)
    return IdleUntil(due if due is None or at is None else max(due, at))


def _peek_lanes(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec, flags: Flags) -> list[IdleUntil]:
    """The same for the lanes of a workflow."""
    found: list[IdleUntil] = []
    for name, row in tables.lanes(flow.id).items():
        if name in tables.actives(flow.id):
            continue
        if row.head is not None and row.head not in flags.pursued:
            found.append(_peek_chain(tables, tables.flow(flow.id, name), row.head, spec))
    marked = [tables.flow(flow.id, name) for name in lanes_to_resume(tables, flow.id)]
    found += [IdleUntil(tables.now) for view in marked if waits(tables, view) is not None]
    for consumer in spec.laned:
        due = _next_event(tables, flow, consumer, flags)
        if due is not None:
            found.append(IdleUntil(tables.now) if isinstance(due, Due) else due)
    return found


def _turns(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec, flags: Flags) -> list[str]:
    """The consumers with lanes, and the shared lane, in turn: the one whose run began last comes last."""
    stored = {row.handler: None for row in tables.lanes(flow.id).values()}
    marked = {consumer_of(name): None for name in lanes_to_resume(tables, flow.id)}
    turns = list({SHARED: None} | {consumer.name: None for consumer in spec.laned} | stored | marked)
    at = turns.index(flags.last) + 1 if flags.last in turns else 0
    return turns[at:] + turns[:at]


def _begin_shared(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec, flags: Flags) -> Next:
    """Begin a run of a producer, or of a consumer without lanes."""
    if tables.active(flow.id) is not None:
        return IdleUntil()
    flow = correct_clock(tables, flow, spec)
    if flow.head is None and tables.has_runs_to_resume(flow.id):
        flow = take_up(tables, flow)
    if flow.head is not None:
        if flow.head in flags.pursued:
            return IdleUntil()
        return _go_on(tables, flow, tables.run(flow.head), spec, flags)
    due = choose(tables, flow, spec, flags)
    if isinstance(due, IdleUntil) and correct_times(tables, flow, spec):
        due = choose(tables, flow, spec, flags)
    if isinstance(due, IdleUntil):
        return due
    return _start(tables, flow, due, spec)


def _start(tables: WorkflowTables, flow: FlowRow, due: Due, spec: FlowSpec) -> Begun:
    """Begin the first run of a chain."""
    events, offered = offered_events(tables, flow, due.handler, due.kind, spec)
    run = run_rows.insert(tables, flow, due.handler.name, due.kind, due.why, offered=offered)
    _begins(tables, due)
    return Begun(flow, run, due.handler.state, tuple(events))


# --- lanes ----------------------------------------------------------------------------------------------------


def _begin_in_lanes(tables: WorkflowTables, flow: FlowRow, handler: str, spec: FlowSpec, flags: Flags) -> Next:
    """Begin a run in a lane of a consumer: unfinished chains first, then the next event of a lane that is free."""
    if flow.intent != Intent.ACTIVE:
        return IdleUntil()
    flow = correct_clock(tables, flow, spec)
    consumer = next((each for each in spec.laned if each.name == handler), None)
    if consumer is not None and _at_work(tables, flow, consumer, flags) >= _most(consumer):
        return IdleUntil()
    for name in lanes_to_resume(tables, flow.id):
        if consumer_of(name) == handler and name not in tables.actives(flow.id):
            take_up(tables, tables.flow(flow.id, name))
    found = _go_on_in_a_lane(tables, flow, handler, spec, flags)
    if consumer is None or not isinstance(found, IdleUntil):
        return found
    due = _next_event(tables, flow, consumer, flags)
    if not isinstance(due, Due) and correct_times(tables, flow, spec):
        due = _next_event(tables, flow, consumer, flags)
    if isinstance(due, Due):
        return _start(tables, tables.flow(flow.id, due.handler.lane), due, spec)
    times = [each.until for each in (found, due) if each is not None and each.until is not None]
    return IdleUntil(min(times, default=None))


def _go_on_in_a_lane(tables: WorkflowTables, flow: FlowRow, handler: str, spec: FlowSpec, flags: Flags) -> Next:
    """Continue the unfinished chain of a lane whose time has come."""
    times: list[Millis] = []
    for name in _open_lanes(tables, flow, handler):
        view = tables.flow(flow.id, name)
        if view.head is None or view.head in flags.pursued:
            continue
        found = _go_on(tables, view, tables.run(view.head), spec, flags)
        if not isinstance(found, IdleUntil):
            return found
        times += [] if found.until is None else [found.until]
    return IdleUntil(min(times, default=None))


def _open_lanes(tables: WorkflowTables, flow: FlowRow, handler: str) -> list[str]:
    """The lanes of a consumer with an unfinished chain and no run at work: the one whose time came first, first."""
    actives = tables.actives(flow.id)
    found = [
        (row.retry_at or 0, row.head, name)
        for name, row in tables.lanes(flow.id).items()
        if row.handler == handler and row.head is not None and name not in actives
    ]
    return [name for _, _, name in sorted(found)]


def _most(consumer: ConsumerSpec) -> int:
    lanes = consumer.laned
    return AT_ONCE_MAX if lanes is None or lanes.at_once is None else lanes.at_once


def _at_work(tables: WorkflowTables, flow: FlowRow, consumer: ConsumerSpec, flags: Flags) -> int:
    """How many lanes of a consumer are at work: with a run, or with a call or a repair that is looked after."""
    actives = tables.actives(flow.id)
    asked = [name for name, row in tables.lanes(flow.id).items() if row.head in flags.pursued and name not in actives]
    return sum(1 for name in [*actives, *asked] if name != SHARED and consumer_of(name) == consumer.name)


def _next_event(tables: WorkflowTables, flow: FlowRow, consumer: ConsumerSpec, flags: Flags) -> Due | IdleUntil | None:
    """The next event of a consumer in a lane that is free. None: there is none, or nothing may begin."""
    row = tables.handler(flow.id, "consumer", consumer.name)
    if row.gone or flow.intent != Intent.ACTIVE or _at_work(tables, flow, consumer, flags) >= _most(consumer):
        return None
    if is_held_up(tables, flow.id, consumer):
        return None
    lanes, actives = tables.lanes(flow.id), tables.actives(flow.id)
    may_begin, at = begin_at(tables, row, consumer)
    woken = [
        (lane.wake_at, name)
        for name, lane in lanes.items()
        if is_of(name, consumer) and lane.head is None and lane.wake_at is not None and name not in actives
    ]
    times = [when for when, _ in woken if when > tables.now]
    taken = {name for name, lane in lanes.items() if lane.head is not None} | actives.keys() | flags.quiet
    found = next_in_free_lane(tables, flow, consumer, taken)
    due = sorted(each for each in woken if each[0] <= tables.now)
    if not may_begin:
        times += [] if at is None or not (found or due) else [at]
        return IdleUntil(min(times)) if times else None
    if found is not None:
        lane = tables.handler_in(flow.id, "consumer", consumer.name, found[1])
        return Due(lane, "consumer", RunCause.EVENT)
    if due:
        return Due(tables.handler_in(flow.id, "consumer", consumer.name, due[0][1]), "consumer", RunCause.WAKE)
    return IdleUntil(min(times)) if times else None


def _begins(tables: WorkflowTables, due: Due) -> None:
    """D17: a wake-up time that a consumer asked for is cleared when its run begins."""
    if due.kind == "consumer" and due.handler.wake_at is not None and due.handler.wake_at <= tables.now:
        set_handler(tables, due.handler, wake_at=None)
    if due.handler.asked:
        set_handler(tables, due.handler, asked=0)


# --- chains ---------------------------------------------------------------------------------------------------


def _go_on(  # noqa: C901, PLR0911  # one for each way to stop
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
        return _ask(tables, flow, head, spec)
    if flow.retry_at is None:
        return IdleUntil()
    if flow.retry_at > tables.now:
        return IdleUntil(flow.retry_at)
    row = tables.handler_of(head)
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
        may_begin, at = _may_call(tables, row, spec)
        if not may_begin:
            return IdleUntil(at)
        # A plan of an older version is kept until here.
        run_rows.release(tables, head)
    events, offered = ([], 0) if keeps else offered_again(tables, flow, row, head, spec)
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


def _may_call(tables: WorkflowTables, row: HandlerRow, spec: FlowSpec) -> tuple[bool, Millis | None]:
    """Whether a run of a handler may begin, by the rate of its calls."""
    consumer = _consumer_named(spec, row)
    return (True, None) if consumer is None else begin_at(tables, row, consumer)


def _sent_again_at(tables: WorkflowTables, row: HandlerRow, spec: FlowSpec) -> Millis | None:
    """When a lost call may be sent again by the rate of its consumer, if that is later than now."""
    consumer = _consumer_named(spec, row)
    is_sent = consumer is not None and consumer.lost == "same_call"
    return call_at(tables, row, consumer) if consumer is not None and is_sent else None


def _consumer_named(spec: FlowSpec, row: HandlerRow) -> ConsumerSpec | None:
    return next((each for each in spec.consumers if each.name == row.name and row.kind == "consumer"), None)


def _ask(tables: WorkflowTables, flow: FlowRow, head: RunRow, spec: FlowSpec) -> Next:
    call = tables.call_of(head)
    if call is None or call.next_at is None:
        return IdleUntil()
    if call.next_at > tables.now:
        return IdleUntil(call.next_at)
    row = tables.handler_of(head)
    at = _sent_again_at(tables, row, spec)
    if at is not None:
        return IdleUntil(at)
    consumer = _consumer_named(spec, row)
    if consumer is not None and consumer.lost == "same_call":
        # It is a call like the first one.
        take_call(tables, row, consumer)
    return ReconcileCall(flow, head, call)
