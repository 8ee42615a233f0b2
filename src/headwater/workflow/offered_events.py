"""The events that a run is shown when it begins: the next ones of its lane."""

from __future__ import annotations

from headwater.workflow.rows import EVENT, FROM_EVENT, EventRow, FlowRow, HandlerKind, HandlerRow, RunRow
from headwater.workflow.run_lanes import within
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import PAGE
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec


def offered_events(
    tables: WorkflowTables, flow: FlowRow, row: HandlerRow, kind: HandlerKind, spec: FlowSpec
) -> tuple[list[EventRow], int]:
    """The first events that a handler gets, and how many it may read in all."""
    if kind == "producer":
        return [], 0
    consumer = spec.consumer(row.name)
    if flow.lane:
        return _offered_in_lane(tables, flow, row, consumer)
    topics = tables.topics(flow.id)
    waiting = 0
    for name in consumer.topics:
        waiting += topics[name].pending
    offered = min(row.span or consumer.peek, waiting)
    return tables.pending(flow.id, consumer.topics, min(offered, PAGE)), offered


def _offered_in_lane(
    tables: WorkflowTables, flow: FlowRow, row: HandlerRow, consumer: ConsumerSpec
) -> tuple[list[EventRow], int]:
    """The same for a lane."""
    which, most = within(flow.lane), row.span or consumer.peek
    events = tables.pending(flow.id, consumer.topics, min(most, PAGE), which)
    if len(events) < min(most, PAGE) or not isinstance(which, str):
        return events, len(events)
    return events, tables.count_pending(flow.id, consumer.topics, most, which)


def offered_again(
    tables: WorkflowTables, flow: FlowRow, row: HandlerRow, head: RunRow, spec: FlowSpec
) -> tuple[list[EventRow], int]:
    """The same for the next attempt of a chain: what has begun stays first, whatever its priority."""
    events, offered = offered_events(tables, flow, row, head.kind, spec)
    if not head.taken:
        return events, offered
    query = f"select {EVENT} from {FROM_EVENT} where event.status = 'pending' and event.id in (select take.event "
    query += "from flow_take as take where take.run = ?) order by event.priority desc, event.id"
    which = within(flow.lane)
    begun = [EventRow(*each) for each in tables.execute(query, head.id)]
    # One that was published anew, with another key, is handled in its new lane.
    begun = [event for event in begun if not isinstance(which, str) or event.lane == which]
    if [event.id for event in events[: len(begun)]] == [event.id for event in begun[: len(events)]]:
        return events, offered
    # All at once: the pages after the first are read in the order of priorities.
    known = {event.id for event in begun}
    rest = tables.pending(flow.id, spec.consumer(row.name).topics, max(offered, len(begun)), which)
    shown = [*begun, *(event for event in rest if event.id not in known)][: max(offered, len(begun))]
    return shown, len(shown)
