"""Publications from other spaces: the handler that every space has for events that others send to its topics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from headwater.cells.context import CONTEXT
from headwater.cells.post import PUBLISH_STREAM
from headwater.declare.workflows.topic import check_priority
from headwater.errors import NotFoundError
from headwater.runtime.workflows.hub import Hub
from headwater.runtime.workflows.run_host import RunHost
from headwater.scheduler.events.event import EventRecord, HandlerSpec
from headwater.values.codec import encode
from headwater.values.tree import Value
from headwater.workflow.publication import Publication, publish
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import PRIORITY


def publish_handler(space: RunHost) -> HandlerSpec:
    """The handler of publications to topics of a space."""
    return HandlerSpec(
        stream=PUBLISH_STREAM, name="publish", fn=lambda payload: _publish(space, payload), may_link=False
    )


def _publish(space: RunHost, payload: Value) -> None:
    """Publish with the transaction around this code: the receipt and the event are one commit."""
    fields = cast("Mapping[str, Value]", payload)
    flow, topic, message, title, source = (str(fields[name]) for name in ("flow", "topic", "id", "title", "source"))
    hub, value = space.flows, fields["value"]
    _check(space, hub, flow, topic, value)
    priority = check_priority(f"{flow}.{topic}", fields.get("priority", PRIORITY))
    publication = Publication(flow, topic, message, encode(value), title, source, priority=priority)
    frame = CONTEXT.get()
    assert frame is not None
    assert frame.tx is not None
    event, tx = frame.tx.event, frame.tx

    def step(tables: WorkflowTables) -> None:
        is_new = publish(tables, publication)
        if isinstance(event, EventRecord):
            # For `Published.sync()`: the receipt was made before it was known.
            event.result = is_new

    hub.along(tx).add(step)
    tx.wrote = True


def _check(space: RunHost, hub: Hub, flow: str, topic: str, value: Value) -> None:
    """Raise NotFoundError if there is no such topic, SchemaError if the value does not fit its type."""
    hosted = hub.hosted.get(flow)
    declared = None if hosted is None else hosted.flow.topics.get(topic)
    if declared is not None:
        declared.payload.from_tree(space, space.untracked, value)
        return
    if hub.look(lambda tables: _has(tables, flow, topic)):
        # Of an app that is not open now.
        return
    message = f"there is no topic {topic} of a workflow {flow} in this space: open the app that declares it once"
    raise NotFoundError(f"{message}, so that it is deployed", flow=flow, topic=topic)


def _has(tables: WorkflowTables, flow: str, topic: str) -> bool:
    found = tables.flow_named(flow)
    return found is not None and topic in tables.topic_ids(found.id)
