"""A declared workflow against its stored version: new, unchanged or upgraded.

All checks run before the first write. Topics, events, states and inputs are kept, and unfinished work continues under
the new version. A deployment that would drop events or a run is refused, unless it is forced.
"""

from __future__ import annotations

import msgspec

from headwater.errors import DeclarationError, TransitionError
from headwater.workflow import run_rows
from headwater.workflow.phases import Restart, restart_of
from headwater.workflow.planner import Flags, flags_after_restart
from headwater.workflow.rows import EffectOutcome, EventStatus, FlowRow, RunRow, RunStatus
from headwater.workflow.run_lanes import is_of, lane_text
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_rows import set_flow, set_handler
from headwater.workflow.workflow_spec import FlowSpec


class Deployed(msgspec.Struct, frozen=True):
    """The result of a deployment."""

    flow: FlowRow
    is_new: bool
    """The version is new, or it is the first."""
    flags: Flags
    code: bytes | None
    """Handlers that a repair has put in place of the program's own, if the repaired version is still the newest."""


def check(spec: FlowSpec) -> None:
    """Check the declaration on its own: topics, producers and consumers fit. Raises DeclarationError."""
    name = spec.name
    if not spec.producers and not spec.consumers:
        raise DeclarationError(f"workflow {name} has neither a producer nor a consumer", flow=name)
    consumed: dict[str, str] = {}
    for consumer in spec.consumers:
        for topic in consumer.topics:
            if topic not in spec.topics:
                message = f"workflow {name}: {consumer.name} consumes {topic}, which is no topic of it; declare it with"
                raise DeclarationError(f"{message} flow.topic({topic!r}, ...)", flow=name, topic=topic)
            if topic in consumed:
                message = (
                    f"workflow {name}: topic {topic} is consumed by {consumed[topic]} and by {consumer.name}; an event "
                    "is consumed once: publish it to a topic for each"
                )
                raise DeclarationError(message, flow=name, topic=topic)
            consumed[topic] = consumer.name
    for topic in spec.topics:
        if topic not in consumed:
            message = f"workflow {name}: no consumer takes topic {topic}; what is published there would wait for ever"
            raise DeclarationError(f"{message}: declare a consumer for it, or drop the topic", flow=name, topic=topic)


def deploy(tables: WorkflowTables, spec: FlowSpec, print_: str, salt: str, *, force: bool = False) -> Deployed:
    """Store the declared workflow. Raises TransitionError if events or a run would be lost without `force`."""
    config = msgspec.msgpack.encode(spec)
    flow = tables.flow_named(spec.name)
    if flow is None:
        tables.execute(
            "insert into flow(name, salt, version, intent, created_at, updated_at) values (?, ?, 1, 'active', ?, ?)",
            spec.name,
            salt,
            tables.now,
            tables.now,
        )
        flow = tables.flow_named(spec.name)
        assert flow is not None
        known, code, is_new = None, None, True
    else:
        known, code = _newest(tables, flow)
        is_new = known != print_
        _check_loss(tables, flow, spec, force=force)
    if is_new:
        code = None
        flow = _upgrade(tables, flow, spec, print_, config, first=known is None)
    flags = flags_after_restart(tables, flow, spec)
    if is_new:
        flags.fresh = {consumer.name for consumer in spec.consumers}
        flags.dirty = set(flags.fresh)
    tables.touch(flow.id)
    return Deployed(flow, is_new, flags, code)


def _newest(tables: WorkflowTables, flow: FlowRow) -> tuple[str, bytes | None]:
    row = tables.one("select print, code from flow_version where flow = ? and version = ?", flow.id, flow.version)
    assert row is not None
    return row[0], row[1]


def _upgrade(
    tables: WorkflowTables, flow: FlowRow, spec: FlowSpec, print_: str, config: bytes, *, first: bool
) -> FlowRow:
    version = flow.version if first else flow.version + 1
    add_version(tables, flow.id, version, print_, config, None, "deployed")
    for topic in spec.topics:
        tables.execute("insert into flow_topic(flow, name) values (?, ?) on conflict do nothing", flow.id, topic)
    wanted = [("producer", p.name) for p in spec.producers] + [("consumer", c.name) for c in spec.consumers]
    for kind, name in wanted:
        # Everything is due now: producers run, consumers check their topics.
        tables.execute(
            "insert into flow_handler(flow, kind, name, next_run_at) values (?, ?, ?, ?) "
            "on conflict do update set gone = 0, next_run_at = excluded.next_run_at",
            flow.id,
            kind,
            name,
            tables.now if kind == "producer" else None,
        )
    for row in tables.handlers(flow.id):
        if (row.kind, row.name) not in wanted:
            gone = {"gone": 1, "next_run_at": None, "wake_at": None, "asked": 0}
            set_handler(tables, row, **gone)
    _use_keys(tables, flow, spec)
    flow = set_flow(tables, flow, version=version)
    for view in tables.every_lane(flow.id):
        _use_version(tables, view)
    return tables.flow(flow.id)


def _use_version(tables: WorkflowTables, flow: FlowRow) -> None:
    """The unfinished chain of a lane goes on with the new version, unless its outcome is unknown."""
    flow = set_flow(tables, flow, repairs=0, repairing=0)
    if flow.block_kind in ("logic", "crashes", "exhausted") and flow.head is not None:
        # The new version is what it was waiting for.
        set_flow(tables, flow, block=None, block_kind=None, retry_at=tables.now, failures=0)
    elif flow.head is not None and flow.block is None and flow.retry_at is None and _can_go_on(tables, flow):
        set_flow(tables, flow, retry_at=tables.now)


def _use_keys(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec) -> None:
    """The lanes of events that are not finished follow the keys of this version."""
    keys: dict[str, str | None] = dict.fromkeys(spec.topics)
    for consumer in spec.laned:
        lanes = consumer.laned
        keys |= dict.fromkeys(consumer.topics, None if lanes is None else lanes.key)
    declared = {consumer.name: consumer for consumer in spec.consumers}
    for stored, row in list(tables.lanes(flow.id).items()):
        own = declared.get(row.handler)
        if row.head is None and (own is None or not is_of(stored, own)):
            # It only had a wake-up time.
            tables.execute("delete from flow_lane where flow = ? and name = ?", flow.id, stored)
    for name, key in keys.items():
        topic = tables.topics(flow.id)[name]
        if topic.key == key:
            continue
        tables.execute("update flow_topic set key = ? where id = ?", key, topic.id)
        query = "select id, payload from flow_event where topic = ? and status in ('pending', 'parked', 'reserved')"
        for event, payload in tables.execute(query, topic.id):
            lane = None if key is None else lane_text(payload, key)
            tables.put("update flow_event set lane = ? where id = ?", lane, event)


def _can_go_on(tables: WorkflowTables, flow: FlowRow) -> bool:
    assert flow.head is not None
    return restart_of(EffectOutcome(tables.run(flow.head).outcome)) is not Restart.WAIT


def add_version(  # noqa: PLR0917  # one for each column
    tables: WorkflowTables, flow: int, version: int, print_: str, config: bytes, code: bytes | None, why: str
) -> None:
    """Store one more version. Runs that begin from now on are pinned to it."""
    tables.execute(
        "insert into flow_version(flow, version, print, config, code, why, at) values (?, ?, ?, ?, ?, ?, ?)",
        flow,
        version,
        print_,
        config,
        code,
        why,
        tables.now,
    )


def _check_loss(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec, *, force: bool) -> None:
    """L14: refuse events without a consumer, and a chain whose handler is gone."""
    consumed = {topic for consumer in spec.consumers for topic in consumer.topics}
    for name, topic in tables.topics(flow.id).items():
        left = topic.unfinished + topic.parked
        if name in consumed or not left:
            continue
        if not force:
            message = (
                f"workflow {flow.name}: {left} event{'s' if left > 1 else ''} of topic {name}, which no consumer takes "
                f"any more, {'are' if left > 1 else 'is'} not finished; bring its consumer back until every event is, "
                "or skip the rest: deploy with force=True (headwater run --force)"
            )
            raise TransitionError(message, flow=flow.name, topic=name)
        for view in tables.every_lane(flow.id):
            if view.head is not None and _holds(tables, view.head, topic.id):
                _give_up(tables, view, tables.run(view.head))
        tables.execute(
            "update flow_event set status = 'skipped' where topic = ? and status in ('pending', 'parked')", topic.id
        )
    there = {("producer", p.name) for p in spec.producers} | {("consumer", c.name) for c in spec.consumers}
    for view in tables.every_lane(flow.id):
        head = None if view.head is None else tables.run(view.head)
        if head is not None and (head.kind, head.handler) not in there and head.status != RunStatus.ACTIVE:
            _give_up_or_refuse(tables, view, head, force=force)


def _give_up_or_refuse(tables: WorkflowTables, flow: FlowRow, head: RunRow, *, force: bool) -> None:
    if not force:
        message = (
            f"workflow {flow.name}: run {head.id} of {head.handler} is not finished ({head.status}), and its handler "
            "is gone; bring it back until it is, or give it up: deploy with force=True (headwater run --force)"
        )
        raise TransitionError(message, flow=flow.name, run=head.id)
    _give_up(tables, flow, head)


def _holds(tables: WorkflowTables, run_id: int, topic: int) -> bool:
    return tables.one("select 1 from flow_event where reserved_by = ? and topic = ?", run_id, topic) is not None


def _give_up(tables: WorkflowTables, flow: FlowRow, head: RunRow) -> FlowRow:
    """End the chain, because a person forced the deployment. The events it holds are skipped."""
    run_rows.release(tables, head, EventStatus.SKIPPED, "skipped")
    run_rows.mark(tables, head, cancelled=1)
    return set_flow(tables, flow, head=None, retry_at=None, block=None, block_kind=None, failures=0)
