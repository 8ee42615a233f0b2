"""Times after the clock was set back: what was near stays near."""

from __future__ import annotations

from msgspec import UNSET

from headwater.workflow.rates import correct_call_at
from headwater.workflow.rows import FlowRow
from headwater.workflow.schedule import next_after
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import WAKE_MAX_MS
from headwater.workflow.workflow_rows import set_flow, set_handler
from headwater.workflow.workflow_spec import FlowSpec


def correct_clock(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec) -> FlowRow:
    """W11: after the clock was set back, times that were near stay near."""
    if flow.updated_at <= tables.now:
        return flow
    correct_times(tables, flow, spec)
    # From here on, times are measured by the corrected clock.
    return set_flow(tables, flow)


def correct_times(tables: WorkflowTables, flow: FlowRow, spec: FlowSpec) -> bool:
    """The same for the times of handlers. Returns whether one was corrected.

    A time is wrong if it is later than its schedule allows. The workflow's own timestamp is no evidence: the last write
    may be older than the change of the clock.
    """
    is_mended = False
    for row in tables.handlers(flow.id):
        if row.kind == "producer" and row.next_run_at is not None:
            schedule = spec.producer(row.name).schedule
            latest = tables.now if schedule is None else next_after(schedule, tables.now)
            if row.next_run_at > latest:
                set_handler(tables, row, next_run_at=latest)
                is_mended = True
        elif row.wake_at is not None and row.wake_at > tables.now + WAKE_MAX_MS:
            set_handler(tables, row, wake_at=tables.now + WAKE_MAX_MS)
            is_mended = True
    for consumer in spec.consumers:
        if consumer.call_every_us is not UNSET:
            row = tables.handler(flow.id, "consumer", consumer.name)
            is_mended = correct_call_at(tables, row, consumer) or is_mended
    for name, lane in list(tables.lanes(flow.id).items()):
        if lane.wake_at is not None and lane.wake_at > tables.now + WAKE_MAX_MS:
            row = tables.handler_in(flow.id, "consumer", lane.handler, name)
            set_handler(tables, row, wake_at=tables.now + WAKE_MAX_MS)
            is_mended = True
    return is_mended
