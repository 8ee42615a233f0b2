"""The outcome of an automatic repair."""

from __future__ import annotations

import msgspec

from headwater.errors import TransitionError
from headwater.workflow.deployment import add_version
from headwater.workflow.rows import FlowRow
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import ERROR_MAX
from headwater.workflow.workflow_rows import set_flow


def _under_repair(tables: WorkflowTables, run_id: int) -> FlowRow:
    flow = tables.flow_of(tables.run(run_id))
    if not flow.repairing or flow.head != run_id:
        raise TransitionError(f"{flow.name} is not under repair any more", workflow=flow.name)
    return flow


def repaired(tables: WorkflowTables, run_id: int, handler: str, source: str) -> FlowRow:
    """Store the repaired code as a new version, with which the chain continues. The declared handlers stay the same."""
    flow = _under_repair(tables, run_id)
    row = tables.one(
        "select print, config, code from flow_version where flow = ? and version = ?", flow.id, flow.version
    )
    assert row is not None
    print_, config, code = row
    known = {} if code is None else msgspec.msgpack.decode(code, type=dict[str, str])
    code = msgspec.msgpack.encode({**known, handler: source})
    version = flow.version + 1
    add_version(tables, flow.id, version, print_, config, code, f"repaired {handler} after run {run_id}")
    changes = {"version": version, "repairing": 0, "repairs": flow.repairs + 1, "retry_at": tables.now}
    return set_flow(tables, flow, **changes)


def gave_up(tables: WorkflowTables, run_id: int, text: str) -> FlowRow:
    """No repair was found: a person has to decide."""
    flow = _under_repair(tables, run_id)
    return set_flow(tables, flow, repairing=0, repairs=flow.repairs + 1, block=text[:ERROR_MAX], block_kind="logic")
