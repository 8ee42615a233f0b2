"""Publication of an event without its app.

If the app is open, the value must be of the type of its topic; otherwise it is checked when it is consumed.
"""

from __future__ import annotations

import json
from hashlib import blake2b

import msgspec

from headwater.cells.reading import FIX_ADVICE
from headwater.declare.workflows.topic import TITLE_MAX, check_id, check_priority
from headwater.errors import NotFoundError, SchemaError, UsageError
from headwater.inspect.workflow_records import News, PublishedEvent, PublishEvent
from headwater.runtime.workflows.hub import Hosted, Hub
from headwater.values.codec import encode, from_json
from headwater.values.suggestions import did_you_mean
from headwater.values.tree import Value, freeze
from headwater.workflow.publication import Publication, publish
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_spec import FlowSpec


def publish_event(hub: Hub, name: str, command: PublishEvent) -> PublishedEvent:
    """Publish to a topic of a workflow. On disk at return. Raises what rejects it."""
    topics = hub.look(lambda tables: _topics(tables, name))
    if command.topic not in topics:
        hint = did_you_mean(command.topic, topics) or f"; there is {', '.join(topics)}"
        raise NotFoundError(f"workflow {name} has no topic {command.topic!r}{hint}", topic=command.topic)
    address = f"{name}.{command.topic}"
    try:
        given: object = json.loads(command.value)
    except ValueError as error:
        raise UsageError(f"what is published to {address} is not JSON: {error}") from None
    hosted = hub.hosted.get(name)
    # The id follows from the given value, not from the stored one: the same with and without a host.
    message = command.id or blake2b(json.dumps(given, sort_keys=True).encode(), digest_size=8).hexdigest()
    check_id(address, message)
    payload = encode(_value(hosted, command.topic, address, given))
    priority = check_priority(address, command.priority)
    event = Publication(name, command.topic, message, payload, command.title[:TITLE_MAX], priority=priority)
    news, status = hub.do(lambda tables: _put(tables, event))
    return PublishedEvent(topic=command.topic, id=message, news=news, status=status, checked=hosted is not None)


def _topics(tables: WorkflowTables, name: str) -> tuple[str, ...]:
    """Topics of the newest version. An event of another topic would wait forever."""
    flow = tables.flow_named(name)
    assert flow is not None
    query = "select config from flow_version where flow = ? and version = ?"
    return msgspec.msgpack.decode(tables.execute(query, flow.id, flow.version)[0][0], type=FlowSpec).topics


def _value(hosted: Hosted | None, topic: str, address: str, given: object) -> Value:
    plain = from_json(given)
    if hosted is None:
        return freeze(plain, f"what is published to {address}")
    try:
        return hosted.flow.topics[topic].from_json(hosted.space, plain)
    except SchemaError as error:
        message = error.message.removesuffix(FIX_ADVICE).replace("cannot read", "cannot publish to", 1)
        raise SchemaError(message, **error.facts) from None


_KNOWN = (
    "select event.status, event.payload from flow_event as event join flow_topic as topic on topic.id = event.topic "
    "join flow on flow.id = topic.flow where flow.name = ? and topic.name = ? and event.message = ?"
)


def _put(tables: WorkflowTables, event: Publication) -> tuple[News, str]:
    known = tables.one(_KNOWN, event.flow, event.topic, event.message)
    if publish(tables, event) or known is None:
        return "new", "pending"
    is_changed = known[0] == "pending" and known[1] != event.payload
    return "changed" if is_changed else "known", known[0]
