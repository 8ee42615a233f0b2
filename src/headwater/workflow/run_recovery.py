"""Runs that were active when their host ended.

One transaction for each, so that it does not matter if this ends in the middle, too: a run is either still active, and
found again, or it is crashed and the head of its chain, from which the chain goes on as from any other stop.
"""

from __future__ import annotations

from collections.abc import Collection

from headwater.workflow.rows import RunRow
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import crashed


def left_active(tables: WorkflowTables, alive: Collection[int] = ()) -> list[int]:
    """Active runs without a host."""
    # Put in order here: asked to do it, the database would rather walk through all runs there ever were.
    found = tables.execute("select id from flow_run where status = 'active'")
    return sorted(row[0] for row in found if row[0] not in alive)


def recover(tables: WorkflowTables, run_id: int) -> RunRow:
    """W8: it gets one successor, or a stop that can be seen."""
    run = tables.run(run_id)
    return crashed(tables, run) if run.status == "active" else run
