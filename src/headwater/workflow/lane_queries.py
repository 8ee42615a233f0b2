"""Queries about lanes: which are at work, which wait, and for what. Reads only."""

from __future__ import annotations

from typing import Final

from headwater.values.duration import written_ms
from headwater.workflow.rates import call_at
from headwater.workflow.rows import FlowRow, Intent
from headwater.workflow.run_lanes import SHARED, consumer_of, is_held_up, lane_of, within
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.status_document import ATTENTION, IDLE, RUNNING, sentence_of
from headwater.workflow.wording.views import LaneView
from headwater.workflow.workflow_limits import LANES_SHOWN
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec

_ORDER: Final = {ATTENTION: 0, RUNNING: 1}


def limits_of(consumer: ConsumerSpec) -> str:
    """What a consumer declares about lanes and rate, to follow the sentence about its topics."""
    lanes, said = consumer.laned, ""
    if lanes is not None:
        each = "each event" if lanes.key is None else f"each {lanes.key}"
        most = "" if lanes.at_once is None else f", at most {lanes.at_once} at once"
        said = f"; a lane for {each}{most}"
    if consumer.interval_us:
        said += f"; a call every {written_ms(consumer.interval_us / 1000)} at most"
    return said


def lane_views(tables: WorkflowTables, flow: int, spec: FlowSpec) -> list[LaneView]:
    """The lanes that are at work, have an unfinished chain, or have waiting events; some of them, if there are many."""
    names = {name for name in tables.actives(flow) if name != SHARED}
    names |= {name for name, row in tables.lanes(flow).items() if row.head is not None}
    reasons: dict[str, str] = {}
    for consumer in spec.laned:
        lanes = _waiting(tables, flow, consumer)
        busy = sum(1 for name in tables.actives(flow) if consumer_of(name) == consumer.name)
        reasons |= dict.fromkeys(lanes - names, _reason(tables, flow, consumer, busy))
    found = [_view(tables, flow, name, spec, reasons) for name in sorted(names | reasons.keys())[: LANES_SHOWN * 10]]
    return sorted(found, key=lambda view: (_ORDER.get(view.state, 2), view.name))[:LANES_SHOWN]


def _waiting(tables: WorkflowTables, flow: int, consumer: ConsumerSpec) -> set[str]:
    lanes = consumer.laned
    assert lanes is not None
    found: set[str] = set()
    for name in consumer.topics:
        query = (
            "select id, lane from flow_event where topic = ? and status = 'pending' order by priority desc, id limit ?"
        )
        rows = tables.execute(query, tables.topic_ids(flow)[name], LANES_SHOWN * 10)
        found |= {lane_of(consumer.name, lanes, event, text) for event, text in rows}
    return found


def _reason(tables: WorkflowTables, flow: int, consumer: ConsumerSpec, busy: int) -> str:
    """Why an event in a lane without a run waits."""
    row, lanes = tables.handler(flow, "consumer", consumer.name), consumer.laned
    assert lanes is not None
    seen: FlowRow = tables.flow(flow)
    if seen.intent != Intent.ACTIVE:
        return f"Waits: the workflow is {seen.intent}."
    if is_held_up(tables, flow, consumer):
        return f"Waits for a run of {consumer.name} that began before its lanes were declared anew."
    if lanes.at_once is not None and busy >= lanes.at_once:
        return f"Waits: {busy} of {lanes.at_once} lanes are at work."
    if call_at(tables, row, consumer) is not None:
        return "Waits for the rate of its consumer."
    return "Waits for its turn, or for more events."


def _view(tables: WorkflowTables, flow: int, name: str, spec: FlowSpec, reasons: dict[str, str]) -> LaneView:
    seen, active = tables.flow(flow, name), tables.active(flow, name)
    head = None if seen.head is None else tables.run(seen.head)
    state, sentence = sentence_of(seen, active, head)
    current = active or head
    return LaneView(
        name=name,
        handler=consumer_of(name),
        state=IDLE if name in reasons else state,
        sentence=reasons.get(name, sentence),
        run=None if current is None else current.id,
        pending=_count(tables, flow, name, spec) + (0 if current is None else current.taken),
        retry_at=seen.retry_at,
        block_kind=seen.block_kind,
    )


def _count(tables: WorkflowTables, flow: int, name: str, spec: FlowSpec) -> int:
    """The pending events of a lane, up to the number that its consumer is shown."""
    consumer = next((each for each in spec.laned if each.name == consumer_of(name)), None)
    which = within(name)
    if consumer is None:
        return 0
    if isinstance(which, str):
        return tables.count_pending(flow, consumer.topics, consumer.peek, which)
    return len(tables.pending(flow, consumer.topics, 1, which))
