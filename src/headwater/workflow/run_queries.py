"""Queries about workflows and runs. Reads only.

Lists are paged, so that no query holds the file for long: `before` is the last id of the previous page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from headwater.values.codec import decode, to_json
from headwater.values.ids import Millis
from headwater.workflow.decisions import Decision, decisions
from headwater.workflow.host_state import Hosts, as_seen
from headwater.workflow.input_queries import input_view, inputs, outputs_of
from headwater.workflow.lane_queries import lane_views, limits_of
from headwater.workflow.operator_actions import find_flow
from headwater.workflow.phases import Restart, restart_of
from headwater.workflow.rows import (
    CALL,
    OF_CHAIN,
    OPEN_HEADS,
    RUN,
    CallRow,
    EffectOutcome,
    FlowRow,
    HandlerRow,
    Intent,
    RunRow,
    RunStatus,
)
from headwater.workflow.schedule import in_words
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.captions import inputs_of, listed, run_caption
from headwater.workflow.wording.status_document import foremost
from headwater.workflow.wording.story import (
    HOST,
    because,
    call_sentence,
    decision_sentence,
    reached,
    sentence,
    standing,
)
from headwater.workflow.wording.views import (
    CallView,
    DecisionView,
    EventView,
    FlowView,
    HandlerView,
    InputView,
    RunDetails,
    RunLine,
    RunView,
)
from headwater.workflow.workflow_limits import STALE_MS
from headwater.workflow.workflow_spec import FlowSpec

EVENTS_SHOWN: Final = 1000
"""Events of one run that are listed: as many as a run can get at once."""

_UNANSWERED: Final = ("indeterminate", "hung")
"""Blocks of a workflow that waits for the outcome of a call."""

# --- workflows ------------------------------------------------------------------------------------------------


def flow_names(tables: WorkflowTables) -> list[str]:
    """All workflows of this space."""
    return [row[0] for row in tables.execute("select name from flow order by name")]


def flow(tables: WorkflowTables, name: str, *, recent: int = 5, hosts: Hosts | None = None) -> FlowView:
    """One workflow. Raises NotFoundError."""
    row = find_flow(tables, name)
    view = _flow_view(tables, row, recent)
    return view if hosts is None else as_seen(tables, row, view, hosts)


def flows(tables: WorkflowTables, *, archived: bool = False, hosts: Hosts | None = None) -> list[FlowView]:
    """The workflows; archived ones only if requested."""
    found = [flow(tables, name, recent=1, hosts=hosts) for name in flow_names(tables)]
    return [view for view in found if archived or view.intent != "archived"]


def needs_attention(tables: WorkflowTables) -> list[FlowView]:
    """Workflows that wait for a person."""
    return [view for view in flows(tables) if view.state == "Needs attention"]


def _flow_view(tables: WorkflowTables, row: FlowRow, recent: int) -> FlowView:
    topics = tables.topics(row.id)
    shown = foremost(tables, row)
    active, head = shown.active, shown.head
    state, said = shown.state, shown.sentence
    shared, row = row, shown.flow
    rows = tables.handlers(row.id)
    times = [each.next_run_at for each in rows if each.next_run_at is not None]
    config, deployed_at = tables.execute(
        "select config, at from flow_version where flow = ? and version = ?", row.id, row.version
    )[0]
    spec = msgspec.msgpack.decode(config, type=FlowSpec)
    handlers = _handlers(spec, rows)
    scheduled = [f"{each.name} {each.when}" for each in handlers if each.kind == "producer"]
    current = active or head
    return FlowView(
        name=row.name,
        state=state,
        sentence=said,
        schedule="; ".join(scheduled) or "when something is published",
        version=row.version,
        deployed_at=deployed_at,
        intent=str(row.intent),
        block_kind=row.block_kind,
        pending={name: topic.unfinished for name, topic in topics.items()},
        parked=sum(topic.parked for topic in topics.values()),
        next_at=min(times, default=None),
        retry_at=row.retry_at,
        due_at=_due_at(tables, shared, shown.lanes, rows),
        failures=row.failures,
        run=None if current is None else current.id,
        can_ask=head is not None and row.block_kind in _UNANSWERED and tables.reconciles(head),
        has_effect=head is not None and restart_of(EffectOutcome(head.outcome)) is Restart.EMIT,
        waiting=0 if row.intent == Intent.ARCHIVED else sum(1 for lane in shown.lanes if lane.block is not None),
        stale=_stale(tables, row.id),
        runs=tables.execute("select count(*) from flow_run where flow = ?", row.id)[0][0],
        recent=_recent(tables, row.id, recent),
        handlers=handlers,
        lanes=lane_views(tables, row.id, spec),
        working=len(tables.actives(row.id)),
        updated_at=row.updated_at,
    )


def _handlers(spec: FlowSpec, rows: Iterable[HandlerRow]) -> list[HandlerView]:
    """The handlers, in the order of their declaration."""
    known = {(row.kind, row.name): row for row in rows}
    found: list[HandlerView] = []
    for producer in spec.producers:
        row = known.get(("producer", producer.name))
        next_at = None if row is None else row.next_run_at
        found.append(
            HandlerView(name=producer.name, kind="producer", when=in_words(producer.schedule), next_at=next_at)
        )
    for consumer in spec.consumers:
        row = known.get(("consumer", consumer.name))
        when = f"when something is published to {listed(list(consumer.topics), len(consumer.topics))}"
        wake_at = None if row is None else row.wake_at
        when += limits_of(consumer)
        found.append(HandlerView(name=consumer.name, kind="consumer", when=when, next_at=wake_at))
    return found


def _due_at(
    tables: WorkflowTables, row: FlowRow, lanes: Iterable[FlowRow], rows: Iterable[HandlerRow]
) -> Millis | None:
    """When a handler is due in one of the lanes. None: not before an action or an event."""
    if row.intent != Intent.ACTIVE:
        return None
    times: list[Millis] = []
    for lane in lanes:
        head = None if lane.head is None else tables.run(lane.head)
        if lane.block is not None:
            continue
        if head is None or head.status == RunStatus.ACTIVE:
            if not lane.lane:
                times += [at for each in rows for at in (each.next_run_at, each.wake_at) if at is not None]
            continue
        if restart_of(EffectOutcome(head.outcome)) is not Restart.WAIT:
            times += [] if lane.retry_at is None else [lane.retry_at]
            continue
        call = tables.call_of(head)
        times += [] if call is None or call.next_at is None else [call.next_at]
    return min(times, default=None)


def _stale(tables: WorkflowTables, flow_id: int) -> int:
    """Inputs that have waited too long."""
    query = (
        "select count(distinct cause.input) from flow_topic as topic "
        "join flow_event as event on event.topic = topic.id and event.status = 'pending' "
        "join flow_cause as cause on cause.event = event.id where topic.flow = ? and event.created_at < ?"
    )
    count: int = tables.execute(query, flow_id, tables.now - STALE_MS)[0][0]
    return count


def _recent(tables: WorkflowTables, flow_id: int, limit: int) -> list[RunLine]:
    query = f"select {RUN} from flow_run where flow = ? and status = 'committed' and taken > 0 order by id desc limit ?"
    last = [RunRow(*row) for row in tables.execute(query, flow_id, limit)]
    return [RunLine(run.updated_at, run_caption(run, tables)) for run in last]


# --- runs -----------------------------------------------------------------------------------------------------


def run_view(
    tables: WorkflowTables, run: RunRow, flow_row: FlowRow | None = None, hosts: Hosts | None = None
) -> RunView:
    """One run, as users see it."""
    flow_row = flow_row or tables.flow_of(run)
    later = tables.one("select id from flow_run where retry_of = ?", run.id)
    before = None if run.retry_of is None else tables.run(run.retry_of)
    followed_by: int | None = None if later is None else later[0]
    waits = flow_row.head == run.id and run.status != RunStatus.ACTIVE
    call = tables.call_of(run)
    idle = _idle(flow_row, run, call, hosts, tables.now) if waits else ""
    return RunView(
        id=run.id,
        workflow=flow_row.name,
        handler=run.handler,
        kind=run.kind,
        status=str(run.status),
        phase=str(run.phase),
        outcome=str(run.outcome),
        why=str(run.why),
        because=because(run, before),
        reached=reached(run),
        sentence=sentence(run, call, flow_row, later=followed_by, idle=idle),
        state=standing(run, call, flow_row, followed_by),
        waits_for=flow_row.block_kind if waits and flow_row.intent != Intent.ARCHIVED else None,
        can_ask=waits and flow_row.block_kind in _UNANSWERED and tables.reconciles(run),
        attempt=run.attempt,
        retry_of=run.retry_of,
        followed_by=followed_by,
        chain=run.chain,
        version=run.version,
        lane=run.lane,
        title=run.title,
        text=run_caption(run, tables),
        offered=run.offered,
        taken=run.taken,
        cancelled=bool(run.cancelled),
        aside=run.aside,
        error_kind=None if run.error_kind is None else str(run.error_kind),
        error=run.error,
        service=run.service,
        retry_at=flow_row.retry_at if waits else None,
        created_at=run.created_at,
        updated_at=run.updated_at,
    )


def _idle(row: FlowRow, head: RunRow, call: CallRow | None, hosts: Hosts | None, now: Millis) -> str:
    """What a chain waits for besides its time. Empty if it continues by itself, or waits for a person."""
    if row.block is not None or row.intent == Intent.ARCHIVED:
        return ""
    if row.intent == Intent.PAUSED:
        return f"Goes on when the workflow is resumed: headwater workflow resume {row.name}."
    is_asked = restart_of(EffectOutcome(head.outcome)) is Restart.WAIT
    at = row.retry_at if not is_asked else None if call is None else call.next_at
    is_due = bool(row.repairing) or (at is not None and at <= now)
    return f"Waits for a host: {HOST}." if is_due and hosts is not None and row.name not in hosts.running else ""


def runs(
    tables: WorkflowTables,
    name: str | None = None,
    *,
    limit: int = 50,
    after: int = 0,
    before: int | None = None,
    also: Sequence[int] = (),
    status: str | None = None,
    acting: bool = False,
    waiting: bool = False,
    hosts: Hosts | None = None,
) -> list[RunView]:
    """Runs of one workflow or of all, newest first.

    `status` is a prefix. `after` selects the runs that came since; `also` adds earlier runs by id. `waiting`: only runs
    that wait for a person. A paused run that has a successor, or was given up, is not listed as paused.
    """
    where: list[str] = ["id > ?"]
    values: list[object] = [after]
    flow_id = None if name is None else find_flow(tables, name).id
    if flow_id is not None:
        where.append("flow = ?")
        values.append(flow_id)
    if before is not None:
        where.append("id < ?")
        values.append(before)
    if status is not None:
        where.append("substr(status, 1, length(?)) = ?")
        values += [status, status]
        if status.startswith("paused"):
            where.append(f"id in (select head from {OPEN_HEADS})")
    if waiting:
        among = f"select open.head from {OPEN_HEADS} as open join flow on flow.id = open.flow"
        where.append(f"id in ({among} where open.block_kind is not null and flow.intent <> 'archived')")
    if acting:
        where.append("(taken > 0 or status <> 'committed')")
    query = f"select {RUN} from flow_run where {' and '.join(where)} order by id desc limit ?"
    found = [RunRow(*row) for row in tables.execute(query, *values, limit)]
    if also:
        there = {run.id for run in found}
        rows = tables.execute(f"select {RUN} from flow_run where id in ({', '.join('?' * len(also))})", *also)
        more = [run for run in (RunRow(*row) for row in rows) if run.id not in there and flow_id in (None, run.flow)]
        found = sorted([*found, *more], key=lambda run: run.id, reverse=True)
    known = {each: tables.flow(*each) for each in {(run.flow, run.lane) for run in found}}
    return [run_view(tables, run, known[run.flow, run.lane], hosts) for run in found]


def run_details(tables: WorkflowTables, run_id: int, hosts: Hosts | None = None) -> RunDetails:
    """Everything about one run. Raises NotFoundError."""
    run = tables.run(run_id)
    flow_row = tables.flow_of(run)
    call = tables.call_of(run)
    query = (
        "select topic.name, event.message, event.status, take.disposition, take.attempt from flow_take as take "
        "join flow_event as event on event.id = take.event join flow_topic as topic on topic.id = event.topic "
        "where take.run = ? order by event.id limit ?"
    )
    events = [
        EventView(topic=topic, id=message, status=status, disposition=disposition, attempt=attempt)
        for topic, message, status, disposition, attempt in tables.execute(query, run.id, EVENTS_SHOWN)
    ]
    chain = [
        RunRow(*row)
        for row in tables.execute(f"select {RUN} from flow_run where {OF_CHAIN} order by id", run.chain, run.chain)
    ]
    calls = tables.execute(
        f"select {CALL} from flow_call where run in (select id from flow_run where {OF_CHAIN}) order by run",
        run.chain,
        run.chain,
    )
    is_open = any(each.id == flow_row.head for each in chain)
    return RunDetails(
        run=run_view(tables, run, flow_row, hosts),
        details=run.error_details or None,
        plan=_plain(run.prepare_result),
        result=_plain(run.mutation_result),
        call=None if call is None else _call_view(call),
        events=events,
        inputs=inputs_of(tables, run, 100),
        chain=[run_view(tables, each, flow_row, hosts) for each in chain],
        calls=[_call_view(CallRow(*row)) for row in calls],
        block_kind=flow_row.block_kind if is_open else None,
        decisions=[_decision_view(each) for each in decisions(tables, [each.id for each in chain])],
    )


def _decision_view(made: Decision) -> DecisionView:
    return DecisionView(
        run=made.run,
        at=made.at,
        actor=made.actor,
        verb=made.verb,
        reason=made.reason,
        sentence=decision_sentence(made),
    )


def _call_view(call: CallRow) -> CallView:
    return CallView(
        run=call.run,
        operation=call.operation,
        key=call.key,
        status=str(call.status),
        sentence=call_sentence(call),
        params=_plain(call.params),
        result=_plain(call.result),
        error=call.error,
        tries=call.tries,
        next_at=call.next_at,
        resolved_by=call.resolved_by,
        at=call.at,
        resolved_at=call.resolved_at,
    )


def _plain(kept: bytes | None) -> Any:  # noqa: ANN401  # as JSON has it
    return None if kept is None else to_json(decode(kept))


__all__ = [
    "CallView",
    "EventView",
    "FlowView",
    "HandlerView",
    "Hosts",
    "InputView",
    "RunDetails",
    "RunLine",
    "RunView",
    "flow",
    "flow_names",
    "flows",
    "input_view",
    "inputs",
    "listed",
    "needs_attention",
    "outputs_of",
    "run_details",
    "runs",
]
