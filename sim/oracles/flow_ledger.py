"""What must hold of workflows at the end: the ledger of the outside and the tables agree, and nothing is left."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from headwater.values.codec import decode
from headwater.workflow.phases import Restart, restart_of
from headwater.workflow.rows import EffectOutcome, Intent
from headwater.workflow.set_aside import waits
from headwater.workflow.tables import WorkflowTables
from sim.flows.parts import ConsumerPart

if TYPE_CHECKING:
    from sim.flows.people import Sent
    from sim.flows.program import Program


class Stored(msgspec.Struct, frozen=True):
    """An event, as the tables have it."""

    status: str
    value: int
    run: int | None
    """The run that consumed it."""
    attempt: int


Events: TypeAlias = dict[str, dict[str, Stored]]
"""By consumer and id."""


def stored_events(tables: WorkflowTables) -> Events:
    """All events."""
    query = (
        "select topic.name, event.message, event.status, event.payload, take.run, event.attempt "
        "from flow_event as event join flow_topic as topic on topic.id = event.topic "
        "left join flow_take as take on take.event = event.id and take.disposition = 'consumed' order by event.id"
    )
    found: Events = {}
    for topic, message, status, payload, run, attempt in tables.execute(query):
        value = decode(payload)
        assert isinstance(value, int)
        found.setdefault(topic.rstrip("x"), {})[message] = Stored(status, value, run, attempt)
    return found


def without_deleted(tables: WorkflowTables, program: Program, events: Events) -> Events:
    """Events as they are after the retention of runs: a deleted run is not known any more as their consumer.

    Only in workflows with `keep_runs`: in all others, a run that is gone is a change.
    """
    app = program.outside.app
    limited = {flow.name for flow in app.flows if flow.keep_runs is not None}
    there = {row[0] for row in tables.execute("select id from flow_run")}
    return {
        name: {
            message: msgspec.structs.replace(event, run=None)
            if app.consumer(name).flow in limited and event.run not in there
            else event
            for message, event in mine.items()
        }
        for name, mine in events.items()
    }


# --- quiet ----------------------------------------------------------------------------------------------------


def unsettled(tables: WorkflowTables, program: Program, *, clock_set: bool) -> list[str]:
    """What has still to happen without a person."""
    left: list[str] = []
    for row in tables.execute("select id from flow order by id"):
        flow = tables.flow(row[0])
        active = tables.active(flow.id)
        if active is not None:
            left.append(f"run {active.id} of {active.handler} is active ({active.phase})")
        if flow.intent != Intent.ACTIVE or flow.block_kind not in (None, "hung"):
            continue
        if flow.head is not None and active is None:
            head = tables.run(flow.head)
            is_asked = restart_of(EffectOutcome(head.outcome)) is Restart.WAIT
            what = "reconciled" if is_asked else f"continued at {flow.retry_at}"
            left.append(f"run {head.id} of {head.handler} ({head.status}, {head.outcome}) is to be {what}")
        for name, topic in tables.topics(flow.id).items():
            if topic.pending and active is None and flow.head is None:
                left += _waiting(tables, flow.id, name, program, clock_set=clock_set)
        left += _unpublished(tables, flow.name, program) if flow.head is None else []
        again = waits(tables, flow) if flow.head is None else None
        left += [] if again is None else [f"run {again.id} of {again.handler} is to be taken up again"]
    return left


def _unpublished(tables: WorkflowTables, flow: str, program: Program) -> list[str]:
    """Items of a feed that its producer has still to publish, at its next time."""
    left: list[str] = []
    query = "select 1 from flow_event join flow_topic on flow_topic.id = topic where name = ? and message = ?"
    for part in program.outside.app.producers:
        if flow.endswith(f".{part.flow}"):
            ids = [f"{part.name}-{number}" for number in range(len(part.items))]
            left += [f"{one} is to be published" for one in ids if tables.one(query, part.target, one) is None]
    return left


def _waiting(tables: WorkflowTables, flow: int, topic: str, program: Program, *, clock_set: bool) -> list[str]:
    part = program.outside.app.consumer(topic.rstrip("x"))
    row = tables.handler(flow, "consumer", part.name)
    if part.take in ("batch", "aged") and clock_set and row.wake_at is not None and row.wake_at > tables.now:
        # W11: after the clock was set back, a wake-up may be a day away.
        return []
    query = (
        "select event.message, event.payload from flow_event as event "
        "join flow_topic as topic on topic.id = event.topic "
        "where topic.flow = ? and topic.name = ? and event.status = 'pending' order by event.id"
    )
    found = [(message, decode(payload)) for message, payload in tables.execute(query, flow, topic)]
    if part.take == "ready":
        found = [(message, value) for message, value in found if isinstance(value, int) and value >= 0]
    return [f"{message}={value!r} waits for {part.name}" for message, value in found]


# --- the end --------------------------------------------------------------------------------------------------


def check_end(tables: WorkflowTables, program: Program, sent: list[Sent], *, is_skipping: bool, total: int) -> None:  # noqa: C901  # one loop for each kind of part
    """Everything was done once, and the tables know it."""
    world, app = program.world, program.outside.app
    events = stored_events(tables)
    counted = 0
    for part in app.consumers:
        mine = events.get(part.name, {})
        for message, event in mine.items():
            _check_event(program, part, message, event, is_skipping=is_skipping)
        given = _given_to_next(program, part, mine)
        counted += part.counts * len(given)
        for target in part.targets:
            passed = {one for one in events.get(target, {}) if one.startswith(f"{part.name}.")}
            wanted = {f"{part.name}.{one}" for one in given}
            if passed != wanted:
                world.violate("W9", f"{part.name} passed {sorted(passed ^ wanted)} on, or did not")
    if total != counted:
        world.violate("W9", f"runs with {counted} events have ended, and `next` has counted {total}")
    for producer in app.producers:
        there = events.get(producer.target, {})
        for number in range(len(producer.items)):
            if f"{producer.name}-{number}" not in there:
                world.violate("W11", f"{producer.name} has not published item {number}, which was there in time")
    for one in sent:
        if one.acknowledged is not None and one.operation.id not in events.get(one.operation.consumer, {}):
            world.violate("S1", f"{one.operation} was acknowledged, and is not stored")
    for run in sorted(program.outside.cancelled):
        if tables.one("select 1 from flow_take where run = ? and disposition = 'consumed'", run) is not None:
            world.violate("W14", f"run {run} was cancelled in time, and has consumed its events")
    _check_values(program, events, sent)
    _check_calls(tables, program)


def _given_to_next(program: Program, part: ConsumerPart, mine: dict[str, Stored]) -> set[str]:
    """The events of the plans whose `next` was committed.

    They are consumed, except for one case: a run was set aside after its effect, a person has skipped an input of it,
    and the run was continued because of its other events. `next` gets the plan as it was carried out.
    """
    done, effects = program.outside.done, program.outside.effects
    consumed = {message for message, event in mine.items() if event.status == "consumed"}
    keys = {done[part.name, message] for message in consumed if (part.name, message) in done}
    together = {one.split("=", 1)[0] for key in keys for one in effects[key].data[1:]}
    return consumed | {message for message in together if message in mine and mine[message].status == "skipped"}


def _check_event(program: Program, part: ConsumerPart, message: str, event: Stored, *, is_skipping: bool) -> None:
    world, outside = program.world, program.outside
    key = outside.done.get((part.name, message))
    if event.status == "consumed":
        if part.effect != "none" and key is None:
            world.violate("W5", f"{part.name} has consumed {message}, and did nothing about it")
    elif event.status == "skipped":
        if not is_skipping:
            world.violate("W9", f"{message} of {part.name} is skipped, and no person has asked for it")
    elif not (part.take == "ready" and event.value < 0):
        world.counts["left over"] += 1
        if key is not None and event.status == "pending":
            world.violate("W5", f"{message} of {part.name} waits, and was acted on as {key}")
    if key is not None:
        done = dict(one.split("=", 1) for one in outside.effects[key].data[1:])
        if done[message] != str(event.value):
            world.violate("W9", f"{part.name} acted on {message}={done[message]}, and {event.value} is stored")


def _check_values(program: Program, events: Events, sent: list[Sent]) -> None:
    """W9, W10: a run gets the newest value that was acknowledged before it began."""
    by_event: dict[tuple[str, str], list[Sent]] = {}
    for one in sent:
        by_event.setdefault((one.operation.consumer, one.operation.id), []).append(one)
    for (consumer, message), given in by_event.items():
        event = events.get(consumer, {}).get(message)
        began = None if event is None or event.run is None else program.outside.prepared.get(event.run)
        if event is None or began is None or event.attempt > 1:
            # A value that is published while a run holds the event has no effect, also if the run releases it.
            continue
        fits = [one for one in given if one.operation.value == event.value]
        newer = [
            other
            for one in fits
            for other in given
            if one.acknowledged is not None
            and other.acknowledged is not None
            and one.acknowledged < other.sent
            and other.acknowledged < began
            and other.operation.value != event.value
        ]
        if not fits or len(newer) >= len(fits):
            text = f"{consumer} got {message}={event.value} at {began:.3f}, and published was {given}"
            program.world.violate("W9", text)


def _check_calls(tables: WorkflowTables, program: Program) -> None:
    world, outside = program.world, program.outside
    known: set[str] = set()
    for run, key, status, by in tables.execute("select run, key, status, resolved_by from flow_call order by run"):
        known.add(key)
        if status == "applied" and key not in outside.effects:
            world.violate("W6", f"the call of run {run} is known as done ({by}), and was not")
        if status == "failed" and by != "user_skip" and key in outside.effects:
            world.violate("W6", f"the call of run {run} is known as not done ({by}), and was: {outside.effects[key]}")
    kept = {flow.name for flow in outside.app.flows if flow.keep_runs is None}
    for key, request in outside.requests.items():
        part = outside.app.consumer(request.handler)
        if key not in known and part.flow in kept and request.node == program.part.name:
            world.violate("W6", f"{request} left, and the tables do not know it")
