"""Deleting old finished runs."""

from __future__ import annotations

from typing import Final

from headwater.workflow.rows import OPEN_HEADS, RunRow
from headwater.workflow.set_aside import HELD
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import PRUNE_EVERY

BATCH: Final = 1024
"""Chains deleted at once: twice as many as are finished in between, so that a long history shrinks."""


def is_due(tables: WorkflowTables, run: RunRow) -> bool:
    """Once for every so many run ids. Ids are shared by all workflows, so one workflow may get only odd ids."""
    # Runs of other lanes may have begun since this one.
    newest, before = tables.newest(run.flow)
    return before // PRUNE_EVERY != newest // PRUNE_EVERY


def prune(tables: WorkflowTables, flow: int, keep: int) -> int:
    """Delete the oldest finished chains beyond the newest `keep` runs, and return how many runs were deleted.

    The newest run always stays. Its id must not be used again, because the keys of calls contain it.
    """
    keep = max(keep, 1)
    newest = tables.one("select id from flow_run where flow = ? order by id desc limit 1 offset ?", flow, keep)
    if newest is None:
        return 0
    # Whole chains, by their first run. An unfinished chain stays, whatever its age.
    heads = f"(select head from {OPEN_HEADS} where flow = run.flow)"
    # A run that was set aside has the only copy of its call's result.
    kept = f"(select run.chain from flow_run as run where run.flow = ? and run.aside is not null and {HELD})"
    query = (
        "select id from flow_run as run where flow = ? and id <= ? and retry_of is null and status <> 'active' "
        f"and id not in {heads} and id not in {kept} "
        "and not exists (select 1 from flow_run as other where other.chain = run.id "
        f"and other.retry_of is not null and (other.id > ? or other.id in {heads} or other.status = 'active')) "
        "order by id limit ?"
    )
    chains = [row[0] for row in tables.execute(query, flow, newest[0], flow, newest[0], BATCH)]
    if not chains:
        return 0
    among = ", ".join("?" * len(chains))
    them = f"(id in ({among}) or (retry_of is not null and chain in ({among})))"
    for table in ("flow_take", "flow_call", "flow_decision"):
        tables.execute(f"delete from {table} where run in (select id from flow_run where {them})", *chains, *chains)
    return tables.change(f"delete from flow_run where {them}", *chains, *chains)
