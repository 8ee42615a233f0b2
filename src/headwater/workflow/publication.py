"""Publishing events to topics, each id once."""

from __future__ import annotations

import msgspec

from headwater.errors import EventReusedError, NotFoundError
from headwater.workflow.rows import EventStatus, FlowRow, RunRow
from headwater.workflow.run_lanes import lane_text
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import PRIORITY


class Publication(msgspec.Struct, frozen=True):
    """An event to publish to a topic."""

    flow: str
    topic: str
    message: str
    """The id that its source gives it. It is stable: an event published twice under one id is one event."""
    payload: bytes
    title: str = ""
    source: str = ""
    """The source, for people. Empty: published by a run, whose inputs the event inherits."""
    is_pinned: bool = False
    """The sender promises that an id always has the same payload: a different payload is refused."""
    priority: int = PRIORITY
    """From 0 to 9: of the events that wait in a lane, those with a higher one come first."""


def publish(tables: WorkflowTables, event: Publication, run: RunRow | None = None) -> bool:
    """Publish an event and return whether it is new. D8: the payload of a pending event is replaced, of others not."""
    flow, topic = _topic(tables, event)
    key = tables.topic_keys(flow.id)[event.topic]
    # Without a key, an event has no lane, or is one.
    lane = None if key is None else lane_text(event.payload, key)
    query = (
        "insert into flow_event(topic, message, payload, status, created_by, created_at, lane, priority) "
        "values (?, ?, ?, 'pending', ?, ?, ?, ?) on conflict do nothing returning id"
    )
    by = None if run is None else run.id
    added = tables.one(query, topic, event.message, event.payload, by, tables.now, lane, event.priority)
    if added is None:
        event_id = _again(tables, flow, topic, event, lane)
    else:
        event_id = added[0]
        tables.count_new(flow.id, event.topic)
        # Without a key, what is new is one event, and its lane as well.
        tables.published[flow.id, event.topic, lane or ""] = None
        tables.touch(flow.id)
    _cause(tables, flow, event, event_id, run)
    return added is not None


def _again(tables: WorkflowTables, flow: FlowRow, topic: int, event: Publication, lane: str | None) -> int:
    """Publish an event whose id the topic has already. Returns the number of the event."""
    query = "select id, status, payload from flow_event where topic = ? and message = ?"
    event_id: int
    event_id, status, payload = tables.execute(query, topic, event.message)[0]
    if event.is_pinned and payload != event.payload:
        message = (
            f"cannot publish {event.message!r} to {event.flow}.{event.topic}: an event with this id was published "
            "with another payload; use another id for another event"
        )
        raise EventReusedError(message, topic=event.topic, event=event.message)
    if status == EventStatus.PENDING and payload != event.payload:
        newest = "(select coalesce(max(id), 0) from flow_run)"
        query = f"update flow_event set payload = ?, lane = ?, changed = {newest} where id = ?"
        tables.put(query, event.payload, lane, event_id)
        # W10: a consumer that saw the event and left it runs again.
        tables.published[flow.id, event.topic, lane] = None
        tables.touch(flow.id)
    return event_id


def _topic(tables: WorkflowTables, event: Publication) -> tuple[FlowRow, int]:
    flow = tables.flow_named(event.flow)
    topic = None if flow is None else tables.topic_ids(flow.id).get(event.topic)
    if flow is None or topic is None:
        message = (
            f"there is no topic {event.topic} of a workflow {event.flow} in this space: open the app that declares it "
            "once, so that it is deployed"
        )
        raise NotFoundError(message, flow=event.flow, topic=event.topic)
    return flow, topic


def _cause(tables: WorkflowTables, flow: FlowRow, event: Publication, event_id: int, run: RunRow | None) -> None:
    """An event of a consumer has the inputs of its run. Every other event is an input of its own."""
    if run is not None and run.kind == "consumer":
        tables.put(
            "insert into flow_cause select distinct ?, cause.input from flow_take as take "
            "join flow_cause as cause on cause.event = take.event where take.run = ? on conflict do nothing",
            event_id,
            run.id,
        )
        return
    source = event.source or event.topic
    added = tables.one(
        "insert into flow_input(flow, source, message, title, created_by, created_at) values (?, ?, ?, ?, ?, ?) "
        "on conflict do nothing returning id",
        flow.id,
        source,
        event.message,
        event.title or f"{event.topic} {event.message}",
        None if run is None else run.id,
        tables.now,
    )
    if added is not None:
        tables.put("insert into flow_cause values (?, ?)", event_id, added[0])
        return
    tables.put(
        "insert into flow_cause select ?, id from flow_input where flow = ? and source = ? and message = ? "
        "on conflict do nothing",
        event_id,
        flow.id,
        source,
        event.message,
    )
