"""Publishing an event because somebody asked, at a door or in a file that nobody has open.

Where the app is open, what is published has to be of the type of its topic; else nobody can tell, and it is checked
when it is consumed.

Must never know: sockets, and who asks.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from difflib import get_close_matches
from hashlib import blake2b
from typing import Literal, TypeAlias

import msgspec

from headwater.cells.reading import FIX_ADVICE
from headwater.declare.workflows.topic import TITLE_MAX, check_id
from headwater.errors import NotFoundError, SchemaError, UsageError
from headwater.inspect.records import Ask
from headwater.runtime.workflows.hub import Hosted, Hub
from headwater.values.codec import encode, from_json
from headwater.values.tree import Value, freeze
from headwater.workflow.publication import Publication, publish
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_spec import FlowSpec

News: TypeAlias = Literal["new", "changed", "known"]
"""It was not there; it waits, and was given another value; it was there, and nothing has changed."""


class HandedIn(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    topic: str
    id: str
    news: News
    status: str
    """Where it is now: pending, reserved, consumed, skipped or parked."""
    checked: bool
    """That it is of the type of its topic."""


def hand_in(hub: Hub, name: str, ask: Ask) -> HandedIn:
    """Publish what a request carries to a topic of a workflow: on disk when this returns. Raises what refuses it."""
    topics = hub.look(lambda book: _topics(book, name))
    if ask.topic not in topics:
        raise NotFoundError(f"workflow {name} has no topic {ask.topic!r}{_meant(ask.topic, topics)}", topic=ask.topic)
    address = f"{name}.{ask.topic}"
    try:
        given: object = json.loads(ask.value)
    except ValueError as error:
        raise UsageError(f"what is published to {address} is not JSON: {error}") from None
    hosted = hub.hosted.get(name)
    # Made of what was given, not of what it is kept as: the same with a host and without one.
    message = ask.name or blake2b(json.dumps(given, sort_keys=True).encode(), digest_size=8).hexdigest()
    check_id(address, message)
    payload = encode(_value(hosted, ask.topic, address, given))
    event = Publication(name, ask.topic, message, payload, ask.title[:TITLE_MAX])
    news, status = hub.do(lambda book: _put(book, event))
    return HandedIn(topic=ask.topic, id=message, news=news, status=status, checked=hosted is not None)


def _topics(book: WorkflowTables, name: str) -> tuple[str, ...]:
    """Those of its newest version: what is published to another would wait for ever."""
    flow = book.flow_named(name)
    assert flow is not None
    query = "select config from flow_version where flow = ? and version = ?"
    return msgspec.msgpack.decode(book.execute(query, flow.id, flow.version)[0][0], type=FlowSpec).topics


def _value(hosted: Hosted | None, topic: str, address: str, given: object) -> Value:
    plain = from_json(given)
    if hosted is None:
        return freeze(plain, f"what is published to {address}")
    try:
        return hosted.flow.topics[topic].from_json(hosted.space, plain)
    except SchemaError as error:
        told = error.message.removesuffix(FIX_ADVICE).replace("cannot read", "cannot publish to", 1)
        raise SchemaError(told, **error.facts) from None


_KNOWN = (
    "select event.status, event.payload from flow_event as event join flow_topic as topic on topic.id = event.topic "
    "join flow on flow.id = topic.flow where flow.name = ? and topic.name = ? and event.message = ?"
)


def _put(book: WorkflowTables, event: Publication) -> tuple[News, str]:
    known = book.one(_KNOWN, event.flow, event.topic, event.message)
    if publish(book, event) or known is None:
        return "new", "pending"
    is_changed = known[0] == "pending" and known[1] != event.payload
    return "changed" if is_changed else "known", known[0]


def _meant(word: str, names: Collection[str]) -> str:
    close = get_close_matches(word, names, n=3, cutoff=0.6)
    return f"; did you mean {' or '.join(close)}?" if close else f"; there is {', '.join(names)}"
