"""Runs that were active when their host ended.

Each run is recovered in its own transaction, so that a crash during recovery does no harm. A run is either still
active, and is found again, or it is crashed and the head of its chain, which continues as after any other stop.
"""

from __future__ import annotations

from collections.abc import Collection

from headwater.workflow.rows import RunRow
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.transitions import crashed


def left_active(tables: WorkflowTables, alive: Collection[int] = ()) -> list[int]:
    """Active runs without a host."""
    # Sorted here: with an ORDER BY, the database would read all runs.
    found = tables.execute("select id from flow_run where status = 'active'")
    return sorted(row[0] for row in found if row[0] not in alive)


def recover(tables: WorkflowTables, run_id: int) -> RunRow:
    """W8: the run gets one successor, or a stop that users can see."""
    run = tables.run(run_id)
    return crashed(tables, run) if run.status == "active" else run
