"""The only writer of the rows of workflows and handlers."""

from __future__ import annotations

import msgspec

from headwater.workflow.rows import FlowRow, HandlerRow
from headwater.workflow.tables import WorkflowTables


def set_flow(tables: WorkflowTables, flow: FlowRow, **columns: object) -> FlowRow:
    """Write fields of a workflow; its status document is updated."""
    stored = tables.flow(flow.id)
    if stored.updated_at > tables.now:
        columns = _nearer(tables, stored) | columns
    sets = "".join(f"{name} = ?, " for name in columns)
    values = [str(value) if isinstance(value, str) else value for value in columns.values()]
    tables.write(f"update flow set {sets}updated_at = ? where id = ?", *values, tables.now, flow.id)
    tables.touch(flow.id)
    tables.remember_flow(msgspec.structs.replace(tables.flow(flow.id), **columns, updated_at=tables.now))
    return msgspec.structs.replace(flow, **columns)


def _nearer(tables: WorkflowTables, flow: FlowRow) -> dict[str, object]:
    """W11: the clock was set back since the last write. Times that were near stay near.

    Corrected by the first write after the change: afterwards, nothing shows that the clock was set back.
    """
    sooner = "update flow_call set next_at = min(next_at, ? + max(next_at - ?, 0)) where run = ? and next_at > ?"
    tables.execute(sooner, tables.now, flow.updated_at, flow.head, tables.now)
    if flow.retry_at is None or flow.retry_at <= tables.now:
        return {}
    return {"retry_at": min(flow.retry_at, tables.now + max(flow.retry_at - flow.updated_at, 0))}


def set_handler(tables: WorkflowTables, row: HandlerRow, **columns: object) -> None:
    """Write fields of a handler."""
    sets = ", ".join(f"{name} = ?" for name in columns)
    where = "flow = ? and kind = ? and name = ?"
    tables.write(f"update flow_handler set {sets} where {where}", *columns.values(), row.flow, row.kind, row.name)
    tables.remember_handler(msgspec.structs.replace(tables.handler(row.flow, row.kind, row.name), **columns))
    tables.touch(row.flow)
