"""Runs put aside after their effect, and taken up again.

A run whose effect is there can only go on with `next`. If that never succeeds, the run is put aside: its chain ends,
its events are parked, and the workflow goes on with other events. Taken up again, a successor begins with `next`, with
the same plan and result. The events of such a run never wait for `prepare` again: that could repeat the effect (W5).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headwater.workflow import run_rows
from headwater.workflow.rows import RUN, FlowRow, Intent, RunRow
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_rows import set_flow

_PARKED: Final = "select take.event from flow_take as take where take.run = {} and take.disposition = 'parked'"

HELD: Final = (
    f"exists (select 1 from flow_event where status = 'parked' and id in ({_PARKED.format('run.id')})) "
    "and not exists (select 1 from flow_run as later where later.retry_of = run.id)"
)
"""Of a run, in a query: it was put aside, and events of it are still parked. No other run can finish these."""

WITH_A_RUN: Final = (
    "exists (select 1 from flow_take as take where take.event = flow_event.id and take.disposition = 'parked')"
)
"""Of an event, in a query: it was put aside together with a run."""


def put_aside(tables: WorkflowTables, flow: FlowRow, run: RunRow, **columns: object) -> RunRow:
    """The chain ends here. What the run holds is parked, and goes on only together with this run."""
    run = run_rows.mark(tables, run, aside="kept", **columns)
    run_rows.release(tables, run, "parked", "parked")
    none = {"head": None, "retry_at": None, "block": None, "block_kind": None, "failures": 0, "repairing": 0}
    set_flow(tables, flow, **none)
    return run


def held(tables: WorkflowTables, flow: FlowRow, input_id: int | None = None) -> list[RunRow]:
    """Runs of a workflow that are put aside, and still hold events: all, or those that are about one input."""
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
    """It was put aside, has not been taken up again, and events of it are parked."""
    return (
        run.aside is not None
        and tables.one(f"select 1 from flow_run as run where id = ? and {HELD}", run.id) is not None
    )


def want_again(tables: WorkflowTables, flow: FlowRow, wanted: Iterable[RunRow]) -> int:
    """Each is taken up again, one after the other, before anything new begins; how many events that are."""
    count = 0
    for run in wanted:
        run_rows.mark(tables, run, aside="again")
        count += len(_events(tables, run))
    tables.touch(flow.id)
    return count


def waits(tables: WorkflowTables, flow: FlowRow) -> RunRow | None:
    """The oldest run that is to be taken up again, if it can be: its handler is there, and events of it are left."""
    query = (
        f"select {RUN} from flow_run as run where flow = ? and aside = 'again' and {HELD} and exists (select 1 from "
        "flow_handler as handler where handler.flow = run.flow and handler.kind = run.kind "
        "and handler.name = run.handler and not handler.gone) order by id limit 1"
    )
    row = tables.one(query, flow.id) if flow.intent == Intent.ACTIVE and flow.block is None else None
    return None if row is None else RunRow(*row)


def take_up(tables: WorkflowTables, flow: FlowRow) -> FlowRow:
    """If a run waits for it, it is the head of its chain again, which goes on at once."""
    run = waits(tables, flow)
    if run is None:
        return flow
    run_rows.mark(tables, run, aside="kept")
    return set_flow(tables, flow, head=run.id, retry_at=tables.now)


def _events(tables: WorkflowTables, run: RunRow) -> list[int]:
    query = f"select id from flow_event where status = 'parked' and id in ({_PARKED.format('?')})"
    return [row[0] for row in tables.execute(query, run.id)]
