"""Lanes: which events of a consumer are handled one after the other, and which at the same time.

Without lanes, one run of a workflow is executed at a time. A consumer with `key=` has a lane for each value of a field
of its events; one with `concurrency=` alone has a lane for each event. Runs of one lane follow each other, and an
unfinished chain holds up its own lane only.

The name of a lane says all of that: `Charge customer=ann`, or `Charge #17` for the event with that number. The lane
that the producers and all other consumers of a workflow share has the empty name.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from headwater.errors import DeclarationError
from headwater.values.codec import decode
from headwater.values.tree import is_map
from headwater.workflow.rows import FlowRow, RunPhase, RunRow
from headwater.workflow.tables import Within, WorkflowTables
from headwater.workflow.workflow_limits import LANE_MAX
from headwater.workflow.workflow_spec import ConsumerSpec, LaneSpec

SHARED: Final = ""
"""The lane of the producers, and of the consumers without lanes of their own."""

_PAGE: Final = 256
"""Waiting events that are looked through for one in a free lane, before the lanes are looked through instead."""


def check_key(key: object, where: str) -> None:
    """Reject a key that names no field. Raises DeclarationError."""
    parts = key.split(".") if isinstance(key, str) else []
    if not parts or not all(part and part.isprintable() and not set(part) & set("= ") for part in parts):
        message = f'{where}: key={key!r}; the name of a field of its events is expected, such as "customer", "to.city"'
        raise DeclarationError(message)


def lane_text(payload: bytes, key: str) -> str:
    """The value of the field that names the lane of an event; of a long one, its digest. Empty: there is none."""
    value: object = decode(payload)
    for name in key.split("."):
        value = value.get(name) if is_map(value) else None
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | int | float):
        text = str(value)
    else:
        return ""
    return text if len(text) <= LANE_MAX else blake2b(text.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def lane_of(consumer: str, lanes: LaneSpec, event: int, text: str | None) -> str:
    """The name of the lane of an event."""
    return f"{consumer} #{event}" if lanes.key is None else f"{consumer} {lanes.key}={text or ''}"


def consumer_of(lane: str) -> str:
    """The consumer whose lane this is."""
    return lane.partition(" ")[0]


def within(lane: str) -> Within:
    """The events of a lane, by its name: those of one key, one event, or all."""
    if lane == SHARED:
        return None
    _, _, which = lane.partition(" ")
    return int(which[1:]) if which.startswith("#") else which.partition("=")[2]


def is_of(lane: str, consumer: ConsumerSpec) -> bool:
    """Whether a consumer has this lane by its present declaration."""
    lanes = consumer.laned
    if lanes is None:
        return lane == SHARED
    return lane.startswith(f"{consumer.name} #" if lanes.key is None else f"{consumer.name} {lanes.key}=")


def is_held_up(tables: WorkflowTables, flow: int, consumer: ConsumerSpec) -> bool:
    """Whether a run of the consumer is unfinished in a lane of an earlier declaration.

    Its events may belong to any lane of today, so nothing of the consumer begins before it is finished.
    """
    if any(
        not is_of(lane, consumer) and tables.run(run).handler == consumer.name
        for lane, run in tables.actives(flow).items()
    ):
        return True
    shared = tables.flow(flow).head
    if consumer.laned is not None and shared is not None and tables.run(shared).handler == consumer.name:
        return True
    return any(
        row.head is not None and row.handler == consumer.name and not is_of(name, consumer)
        for name, row in tables.lanes(flow).items()
    )


def next_in_free_lane(
    tables: WorkflowTables, flow: FlowRow, consumer: ConsumerSpec, taken: set[str]
) -> tuple[tuple[int, int], str] | None:
    """The rank of the next event in a lane that is free, and the lane."""
    topics = tables.topics(flow.id)
    found = [
        first
        for name in consumer.topics
        if topics[name].pending and (first := _first_free(tables, topics[name].id, consumer, taken)) is not None
    ]
    return min(found, default=None)


def _first_free(
    tables: WorkflowTables, topic: int, consumer: ConsumerSpec, taken: set[str]
) -> tuple[tuple[int, int], str] | None:
    lanes = consumer.laned
    assert lanes is not None
    query = (
        "select priority, id, lane from flow_event where topic = ? and status = 'pending' "
        "order by priority desc, id limit ? offset ?"
    )
    start = 0
    while True:
        rows = tables.execute(query, topic, _PAGE, start)
        for priority, event, text in rows:
            lane = lane_of(consumer.name, lanes, event, text)
            if lane not in taken:
                return (-priority, event), lane
        if len(rows) < _PAGE:
            return None
        if lanes.key is not None:
            return _first_by_lane(tables, topic, consumer, taken)
        start += _PAGE


def _first_by_lane(
    tables: WorkflowTables, topic: int, consumer: ConsumerSpec, taken: set[str]
) -> tuple[tuple[int, int], str] | None:
    """The same, with one step in the index for each lane: many events may wait in few lanes that are taken."""
    lanes = consumer.laned
    assert lanes is not None
    waiting = "flow_event where topic = ?1 and status = 'pending' and lane"
    names = tables.execute(
        f"select lane from (with recursive known(lane) as (select min(lane) from {waiting} is not null union all "
        f"select (select min(lane) from {waiting} > known.lane) from known where known.lane is not null) "
        "select lane from known where lane is not null)",
        topic,
    )
    first = "select priority, id from flow_event where topic = ? and status = 'pending' and lane = ? "
    found: list[tuple[tuple[int, int], str]] = []
    for (text,) in names:
        lane = lane_of(consumer.name, lanes, 0, text)
        if lane not in taken:
            priority, event = tables.execute(f"{first} order by priority desc, id limit 1", topic, text)[0]
            found.append(((-priority, event), lane))
    return min(found, default=None)


def before_its_call(tables: WorkflowTables, flow: int, consumer: str) -> int:
    """How many runs of a consumer are on their way to a call."""
    runs: list[RunRow] = [tables.run(run) for run in tables.actives(flow).values()]
    early = (RunPhase.PREPARING, RunPhase.PREPARED)
    return sum(1 for run in runs if run.handler == consumer and run.phase in early)
