"""The only writer of the rows of workflows, lanes and handlers."""

from __future__ import annotations

from typing import Final

import msgspec

from headwater.workflow.rows import LANE, OPEN_HEADS, FlowRow, HandlerRow, LaneRow
from headwater.workflow.tables import WorkflowTables

_OF_A_LANE: Final = ("block", "block_kind", "repairs", "repairing", "head", "retry_at", "failures")
"""Fields of a workflow that each lane has for itself."""

_OF_A_HANDLER: Final = ("wake_at", "span")
"""Fields of a handler that each lane has for itself."""


def set_flow(tables: WorkflowTables, flow: FlowRow, **columns: object) -> FlowRow:
    """Write fields of a workflow, or of the lane that sees it; its status document is updated."""
    stored = tables.flow(flow.id)
    if stored.updated_at > tables.now:
        columns = _nearer(tables, tables.flow(flow.id, flow.lane)) | columns
    changed = columns
    if flow.lane:
        own = {name: value for name, value in columns.items() if name in _OF_A_LANE}
        columns = {name: value for name, value in columns.items() if name not in own}
        _set_lane(tables, flow.id, flow.lane, own)
    sets = "".join(f"{name} = ?, " for name in columns)
    values = [str(value) if isinstance(value, str) else value for value in columns.values()]
    tables.write(f"update flow set {sets}updated_at = ? where id = ?", *values, tables.now, flow.id)
    tables.touch(flow.id)
    tables.remember_flow(msgspec.structs.replace(tables.flow(flow.id), **columns, updated_at=tables.now))
    return msgspec.structs.replace(flow, **changed)


def _set_lane(tables: WorkflowTables, flow: int, lane: str, columns: dict[str, object]) -> None:
    """Write fields of a lane. One with nothing to remember has no row."""
    blank = LaneRow(flow, lane, lane.partition(" ")[0])
    before = tables.lanes(flow).get(lane)
    after = msgspec.structs.replace(before or blank, **columns)
    if after == blank:
        if before is not None:
            tables.put("delete from flow_lane where flow = ? and name = ?", flow, lane)
            tables.remember_lane(after, is_blank=True)
        return
    values = [str(value) if isinstance(value, str) else value for value in msgspec.structs.astuple(after)]
    tables.put(_PUT_LANE, *values)
    tables.remember_lane(after, is_blank=False)


_MARKS: Final = ", ".join("?" * len(LaneRow.__struct_fields__))
_PUT_LANE: Final = f"insert or replace into flow_lane({LANE}) values ({_MARKS})"


def _nearer(tables: WorkflowTables, flow: FlowRow) -> dict[str, object]:
    """W11: the clock was set back since the last write. Times that were near stay near.

    Corrected by the first write after the change: afterwards, nothing shows that the clock was set back.
    """
    sooner = (
        "update flow_call set next_at = min(next_at, ? + max(next_at - ?, 0)) where next_at > ? and run in "
        f"(select head from {OPEN_HEADS} where flow = ?)"
    )
    tables.execute(sooner, tables.now, flow.updated_at, tables.now, flow.id)
    again = "update flow_lane set retry_at = min(retry_at, ? + max(retry_at - ?, 0)) where retry_at > ? and flow = ?"
    tables.execute(again, tables.now, flow.updated_at, tables.now, flow.id)
    if flow.lane:
        # The row of its own lane was just corrected, with all others; the shared lane is not written by this one.
        shared = tables.flow(flow.id)
        corrected = _sooner(tables, shared)
        if corrected is not None:
            tables.execute("update flow set retry_at = ? where id = ?", corrected, flow.id)
        return {}
    corrected = _sooner(tables, flow)
    return {} if corrected is None else {"retry_at": corrected}


def _sooner(tables: WorkflowTables, flow: FlowRow) -> int | None:
    if flow.retry_at is None or flow.retry_at <= tables.now:
        return None
    return min(flow.retry_at, tables.now + max(flow.retry_at - flow.updated_at, 0))


def set_handler(tables: WorkflowTables, row: HandlerRow, **columns: object) -> None:
    """Write fields of a handler; its wake-up time and number of events are those of the lane that sees it."""
    if row.lane:
        own = {name: value for name, value in columns.items() if name in _OF_A_HANDLER}
        columns = {name: value for name, value in columns.items() if name not in own}
        if own:
            _set_lane(tables, row.flow, row.lane, own)
            tables.touch(row.flow)
        if not columns:
            return
    sets = ", ".join(f"{name} = ?" for name in columns)
    where = "flow = ? and kind = ? and name = ?"
    tables.write(f"update flow_handler set {sets} where {where}", *columns.values(), row.flow, row.kind, row.name)
    tables.remember_handler(msgspec.structs.replace(tables.handler(row.flow, row.kind, row.name), **columns))
    tables.touch(row.flow)
