"""Runs set aside after their effect, and continued later.

A run whose effect has happened can only continue with `next`. If `next` never succeeds, the run is set aside: its chain
ends, its events are parked, and the workflow continues with other events. If a person has it tried again, a successor
begins with `next` and the same plan and result. The events of such a run never go back to `prepare`, which could repeat
the effect (W5).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headwater.workflow import run_rows
from headwater.workflow.rows import RUN, EventStatus, FlowRow, Intent, RunRow
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_rows import set_flow

_PARKED: Final = "select take.event from flow_take as take where take.run = {} and take.disposition = 'parked'"

HELD: Final = (
    f"exists (select 1 from flow_event where status = 'parked' and id in ({_PARKED.format('run.id')})) "
    "and not exists (select 1 from flow_run as later where later.retry_of = run.id)"
)
"""SQL on a run: it was set aside, and events of it are still parked. No other run can finish these."""

WITH_A_RUN: Final = (
    "exists (select 1 from flow_take as take where take.event = flow_event.id and take.disposition = 'parked')"
)
"""SQL on an event: it was set aside together with a run."""


def put_aside(tables: WorkflowTables, flow: FlowRow, run: RunRow, **columns: object) -> RunRow:
    """End the chain here. The events of the run are parked, and continue only together with this run."""
    run = run_rows.mark(tables, run, aside="kept", **columns)
    run_rows.release(tables, run, EventStatus.PARKED, "parked")
    none = {"head": None, "retry_at": None, "block": None, "block_kind": None, "failures": 0, "repairing": 0}
    set_flow(tables, flow, **none)
    return run


def held(tables: WorkflowTables, flow: FlowRow, input_id: int | None = None) -> list[RunRow]:
    """Runs of a workflow that are set aside and still hold events: all, or those with one input."""
    query = f"select {RUN} from flow_run as run where flow = ? and aside = 'kept' and {HELD}"
    values: list[object] = [flow.id]
    if input_id is not None:
        query += (
            " and id in (select take.run from flow_cause as cause join flow_event as event on event.id = cause.event "
            "join flow_take as take on take.event = event.id "
            "where cause.input = ? and event.status = 'parked' and take.disposition = 'parked')"
        )
        values.append(input_id)
    return [RunRow(*row) for row in tables.execute(f"{query} order by id", *values)]


def is_held(tables: WorkflowTables, run: RunRow) -> bool:
    """The run was set aside, has not been continued, and has parked events."""
    return (
        run.aside is not None
        and tables.one(f"select 1 from flow_run as run where id = ? and {HELD}", run.id) is not None
    )


def want_again(tables: WorkflowTables, flow: FlowRow, wanted: Iterable[RunRow]) -> int:
    """Mark each run to continue, one after the other, before new runs. Returns the number of events."""
    count = 0
    for run in wanted:
        run_rows.mark(tables, run, aside="again")
        count += len(_events(tables, run))
    tables.touch(flow.id)
    return count


def waits(tables: WorkflowTables, flow: FlowRow) -> RunRow | None:
    """The oldest run that is marked to continue, has its handler in the program, and has events left."""
    if flow.intent != Intent.ACTIVE or flow.block is not None or flow.head is not None:
        return None
    if not tables.has_runs_to_resume(flow.id):
        return None
    query = (
        f"select {RUN} from flow_run as run where flow = ? and lane = ? and aside = 'again' and {HELD} "
        "and exists (select 1 from flow_handler as handler where handler.flow = run.flow and handler.kind = run.kind "
        "and handler.name = run.handler and not handler.gone) order by id limit 1"
    )
    row = tables.one(query, flow.id, flow.lane)
    return None if row is None else RunRow(*row)


def lanes_to_resume(tables: WorkflowTables, flow: int) -> list[str]:
    """The lanes, apart from the shared one, with runs that are marked to continue."""
    if not tables.has_runs_to_resume(flow):
        return []
    query = "select distinct lane from flow_run where flow = ? and aside = 'again' and lane <> '' order by lane"
    return [row[0] for row in tables.execute(query, flow)]


def take_up(tables: WorkflowTables, flow: FlowRow) -> FlowRow:
    """Make the next marked run the head of its chain again. It continues at once."""
    run = waits(tables, flow)
    if run is None:
        return flow
    run_rows.mark(tables, run, aside="kept")
    return set_flow(tables, flow, head=run.id, retry_at=tables.now)


def _events(tables: WorkflowTables, run: RunRow) -> list[int]:
    query = f"select id from flow_event where status = 'parked' and id in ({_PARKED.format('?')})"
    return [row[0] for row in tables.execute(query, run.id)]
