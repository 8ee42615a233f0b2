"""The only writer of the rows of runs, calls and reservations.

Every change of a run's position goes through the table of `phases`; constraints of the database check the rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any, Final

import msgspec

from headwater.errors import InvariantError, LogicError, TransitionError
from headwater.values.causal import derive_id
from headwater.values.ids import Millis
from headwater.workflow.phases import RunStep, apply_step, position_of
from headwater.workflow.rows import (
    RUN,
    EffectOutcome,
    EventStatus,
    FlowRow,
    HandlerKind,
    ResolvedBy,
    RunCause,
    RunPhase,
    RunRow,
    RunStatus,
)
from headwater.workflow.tables import WorkflowTables

_PARKED: Final = "select event from flow_take where run = ? and disposition = 'parked'"

_BLANK: Final = RunRow(
    id=0,
    flow=0,
    handler="",
    kind="consumer",
    retry_of=None,
    chain=0,
    attempt=1,
    crashes=0,
    why=RunCause.EVENT,
    version=0,
    phase=RunPhase.PREPARING,
    status=RunStatus.ACTIVE,
    outcome=EffectOutcome.NONE,
    offered=0,
    taken=0,
    title="",
    ask=0,
    approval=None,
    cancelled=0,
    prepare_result=None,
    mutation_result=None,
    effect_of=None,
    error_kind=None,
    error=None,
    error_details=None,
    created_at=Millis(0),
    updated_at=Millis(0),
    aside=None,
    service=None,
    lane="",
    claim=0,
)
"""What a run has that has not begun."""

_INSERT: Final = f"insert into flow_run({RUN}) values ({', '.join('?' * len(RunRow.__struct_fields__))})"

# --- runs -----------------------------------------------------------------------------------------------------


def insert(
    tables: WorkflowTables, flow: FlowRow, handler: str, kind: HandlerKind, why: RunCause, *, offered: int = 0
) -> RunRow:
    """Insert the first attempt of a chain."""
    return _insert(tables, flow, handler=handler, kind=kind, why=why, offered=offered)


def insert_after(
    tables: WorkflowTables, flow: FlowRow, before: RunRow, why: RunCause, *, keeps: bool, offered: int = 0
) -> RunRow:
    """Insert the next attempt of a chain: from the beginning, or with the plan and the result of the call."""
    crashes = before.crashes if before.status == RunStatus.CRASHED else 0
    common: dict[str, Any] = {
        "handler": before.handler,
        "kind": before.kind,
        "why": why,
        "retry_of": before.id,
        "chain": before.chain,
        "attempt": before.attempt + 1,
        "crashes": crashes,
        "approval": before.approval,
    }
    if not keeps:
        return _insert(tables, flow, **common, offered=offered)
    taken = before.taken
    if before.aside is not None:
        # A person may have skipped some of the events in between.
        query = f"select count(*) from flow_event where status = 'parked' and id in ({_PARKED})"
        taken = tables.execute(query, before.id)[0][0]
    run = _insert(
        tables,
        flow,
        **common,
        phase=RunPhase.MUTATED,
        outcome=before.outcome,
        offered=before.offered,
        taken=taken,
        title=before.title,
        prepare_result=before.prepare_result,
        mutation_result=before.mutation_result,
        effect_of=before.call,
    )
    _hand_over(tables, before, run)
    return run


def _insert(tables: WorkflowTables, flow: FlowRow, *, chain: int | None = None, **values: object) -> RunRow:
    """Insert a run. The other fields are those of a run that has not begun."""
    run_id, (before, _), now = tables.next_run(), tables.newest(flow.id), tables.now
    run = msgspec.structs.replace(
        _BLANK,
        id=run_id,
        flow=flow.id,
        version=flow.version,
        lane=flow.lane,
        # A chain is named by its first run.
        chain=run_id if chain is None else chain,
        created_at=now,
        updated_at=now,
        **values,
    )
    tables.put(_INSERT, *msgspec.structs.astuple(run))
    tables.touch(flow.id)
    return tables.remember_new_run(run, before)


def move(tables: WorkflowTables, run: RunRow, *steps: RunStep, **columns: object) -> RunRow:
    """Apply steps to a run and write fields with them. Raises TransitionError."""
    before = after = position_of(run)
    for what in steps:
        after = apply_step(after, what, f"run {run.id} of {run.handler}")
    values = {
        "phase": after.phase,
        "status": after.status,
        "outcome": after.outcome,
        "updated_at": tables.now,
        **columns,
    }
    # W2: if another transaction has moved the run, nothing is written.
    given = (*values.values(), run.id, before.phase, before.status, before.outcome)
    if tables.write(_move(tuple(values)), *given) != 1:
        raise InvariantError(f"run {run.id} is no longer {before}", run=run.id)
    return tables.remember_run(msgspec.structs.replace(run, **values))


@cache
def _update(names: tuple[str, ...]) -> str:
    return f"update flow_run set {', '.join(f'{name} = ?' for name in names)} where id = ?"


@cache
def _move(names: tuple[str, ...]) -> str:
    return f"{_update(names)} and phase = ? and status = ? and outcome = ?"


def mark(tables: WorkflowTables, run: RunRow, **columns: object) -> RunRow:
    """Write fields without a step: an approval, a request to cancel."""
    tables.put(_update(tuple(columns)), *columns.values(), run.id)
    if "aside" in columns:
        tables.forget_runs_to_resume(run.flow)
    return tables.remember_run(msgspec.structs.replace(run, **columns))


# --- calls ----------------------------------------------------------------------------------------------------


def key_of(flow: FlowRow, run_id: int) -> str:
    """The idempotency key of a run's call: the same at every retry, and unique."""
    return derive_id("effect", flow.salt, flow.name, run_id).partition(":")[2]


def write_call(tables: WorkflowTables, flow: FlowRow, run: RunRow, operation: str, params: bytes) -> str:
    """W6: store the call before it leaves."""
    key = key_of(flow, run.id)
    tables.put(
        "insert into flow_call(run, operation, params, key, status, at) values (?, ?, ?, ?, 'in_flight', ?)",
        run.id,
        operation,
        params,
        key,
        tables.now,
    )
    return key


def resolve_call(tables: WorkflowTables, run: RunRow, by: ResolvedBy, *, result: bytes | None, error: str = "") -> None:
    """Store the outcome of a call, once."""
    tables.put(
        "update flow_call set status = ?, result = ?, error = ?, next_at = null, resolved_by = ?, resolved_at = ? "
        "where run = ?",
        "failed" if result is None else "applied",
        result,
        error or None,
        by,
        tables.now,
        run.call,
    )


def leave_call_open(
    tables: WorkflowTables, run: RunRow, next_at: Millis | None, *, tries: int = 0, error: str = ""
) -> None:
    """Store that the outcome of a call is unknown, and when to ask again. Without a time, only a person can tell."""
    tables.execute(
        "update flow_call set status = ?, next_at = ?, tries = ?, error = ? where run = ?",
        "indeterminate" if next_at is None else "needs_reconcile",
        next_at,
        tries,
        error or None,
        run.call,
    )


# --- reservations ---------------------------------------------------------------------------------------------


def reserve(tables: WorkflowTables, run: RunRow, events: Iterable[int], topics: Iterable[int]) -> int:
    """W9: reserve all of these events, or refuse the plan."""
    count = 0
    allowed = list(topics)
    query = _reserve(len(allowed))
    for event in events:
        attempt = tables.one(query, run.id, event, run.id, *allowed)
        if attempt is None:
            raise _refusal(tables, run, event, allowed)
        tables.put("insert into flow_take values (?, ?, ?, 'reserved')", run.id, event, attempt[0])
        count += 1
    tables.count_moved(run.flow, count, EventStatus.PENDING, EventStatus.RESERVED)
    return count


@cache
def _reserve(topics: int) -> str:
    among = ", ".join("?" * topics)
    return (
        "update flow_event set status = 'reserved', reserved_by = ? where id = ? and status = 'pending' "
        f"and changed < ? and topic in ({among}) returning attempt"
    )


def _refusal(tables: WorkflowTables, run: RunRow, event: int, topics: list[int]) -> TransitionError | LogicError:
    """Why an event cannot be reserved. A change by others is not a failure of the run: it prepares again."""
    among = ", ".join("?" * len(topics))
    row = tables.one(f"select status, changed from flow_event where id = ? and topic in ({among})", event, *topics)
    if row is not None and (row[0] == "skipped" or row[1] >= run.id):
        # In a lane, it may have been handled in its new one meanwhile.
        what = "skipped" if row[0] == "skipped" else "published anew"
        message = f"event {event} was {what} while {run.handler} planned with it"
        return TransitionError(message, event=event, run=run.id, stopped=True)
    message = (
        f"{run.handler} cannot take event {event}: it is not pending in a topic that {run.handler} consumes; "
        "take events that prepare was given"
    )
    return LogicError(message, event=event, run=run.id)


def release(
    tables: WorkflowTables, run: RunRow, status: EventStatus = EventStatus.PENDING, disposition: str = "released"
) -> int:
    """Release the events of a run with a new status. The disposition of each in this run is stored."""
    again = 1 if status == EventStatus.PENDING else 0
    count = tables.write(
        "update flow_event set status = ?, reserved_by = null, attempt = attempt + ? where reserved_by = ?",
        status,
        again,
        run.id,
    )
    if count:
        tables.count_moved(run.flow, count, EventStatus.RESERVED, status)
        tables.put(
            "update flow_take set disposition = ? where run = ? and disposition = 'reserved'", disposition, run.id
        )
        tables.touch(run.flow)
    return count


def _hand_over(tables: WorkflowTables, before: RunRow, run: RunRow) -> None:
    """Move the reserved events of a run to its successor. For a run that was set aside, these are its parked events."""
    if before.aside is not None:
        parked = f"status = 'parked' and id in ({_PARKED})"
        query = f"insert into flow_take select ?, id, attempt, 'reserved' from flow_event where {parked}"
        tables.execute(query, run.id, before.id)
        query = f"update flow_event set status = 'reserved', reserved_by = ? where {parked}"
        tables.execute(query, run.id, before.id)
        return
    tables.execute(
        "insert into flow_take select ?, event, attempt, 'reserved' from flow_take "
        "where run = ? and disposition = 'reserved'",
        run.id,
        before.id,
    )
    tables.execute("update flow_take set disposition = 'moved' where run = ? and disposition = 'reserved'", before.id)
    tables.execute("update flow_event set reserved_by = ? where reserved_by = ?", run.id, before.id)
