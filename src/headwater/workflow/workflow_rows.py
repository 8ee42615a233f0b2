"""The only writer of the rows of workflows and handlers."""

from __future__ import annotations

import msgspec

from headwater.workflow.rows import FlowRow, HandlerRow
from headwater.workflow.tables import WorkflowTables


def set_flow(tables: WorkflowTables, flow: FlowRow, **columns: object) -> FlowRow:
    """Write fields of a workflow; its status document is updated."""
    sets = ", ".join(f"{name} = ?" for name in columns)
    values = [str(value) if isinstance(value, str) else value for value in columns.values()]
    tables.write(f"update flow set {sets}, updated_at = ? where id = ?", *values, tables.now, flow.id)
    tables.touch(flow.id)
    tables.remember_flow(msgspec.structs.replace(tables.flow(flow.id), **columns, updated_at=tables.now))
    return msgspec.structs.replace(flow, **columns)


def set_handler(tables: WorkflowTables, row: HandlerRow, **columns: object) -> None:
    """Write fields of a handler."""
    sets = ", ".join(f"{name} = ?" for name in columns)
    where = "flow = ? and kind = ? and name = ?"
    tables.write(f"update flow_handler set {sets} where {where}", *columns.values(), row.flow, row.kind, row.name)
    tables.remember_handler(msgspec.structs.replace(tables.handler(row.flow, row.kind, row.name), **columns))
    tables.touch(row.flow)
