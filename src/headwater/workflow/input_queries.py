"""Queries about inputs. Reads only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec

from headwater.workflow.host_state import Hosts
from headwater.workflow.operator_actions import find_flow, find_input
from headwater.workflow.rows import FlowRow, Intent
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.wording.story import HOST
from headwater.workflow.wording.views import InputView
from headwater.workflow.workflow_limits import STALE_MS
from headwater.workflow.workflow_spec import FlowSpec

_OF_IT: Final = "(select 1 from flow_cause as c join flow_event as e on e.id = c.event where c.input = input.id"

_STATUS: Final = (
    "case when input.skipped_at is not null then 'skipped' "
    f"when exists {_OF_IT} and e.status in ('pending', 'reserved')) then 'pending' "
    f"when exists {_OF_IT} and e.status = 'parked') then 'parked' "
    f"when exists {_OF_IT} and e.status = 'consumed') then 'done' "
    f"when exists {_OF_IT}) then 'skipped' else 'pending' end"
)
"""The status of an input, derived from the statuses of its events."""

_AMONG: Final = {
    "pending": "input.id in (select c.input from flow_event as e join flow_cause as c on c.event = e.id "
    "where e.status = 'pending' union select c.input from flow_event as e join flow_cause as c on c.event = e.id "
    "where e.reserved_by is not null)",
    "parked": "input.id in (select c.input from flow_event as e join flow_cause as c on c.event = e.id "
    "where e.status = 'parked')",
    "skipped": "(input.skipped_at is not null or input.id in (select c.input from flow_event as e "
    "join flow_cause as c on c.event = e.id where e.status = 'skipped'))",
}
"""Inputs that can have a status, selected by an index: there can be a hundred thousand finished ones."""


def inputs(
    tables: WorkflowTables,
    name: str | None = None,
    *,
    limit: int = 50,
    before: int | None = None,
    status: str | None = None,
    only: int | None = None,
) -> list[InputView]:
    """The inputs of one workflow or of all, in one state if given; newest first."""
    where: list[str] = ["1"]
    values: list[object] = []
    if name is not None:
        # The plus makes SQLite read from the newest row on, and stop at the limit.
        where.append("+input.flow = ?")
        values.append(find_flow(tables, name).id)
    if before is not None:
        where.append("input.id < ?")
        values.append(before)
    if only is not None:
        where.append("input.id = ?")
        values.append(only)
    if status in _AMONG:
        where.append(_AMONG[status])
    query = (
        f"select input.id, flow.name, input.source, input.message, input.title, {_STATUS} as state, input.created_at "
        f"from flow_input as input join flow on flow.id = input.flow where {' and '.join(where)}"
    )
    if status is not None:
        query = f"select * from ({query}) where state = ?"
        values.append(status)
    rows = tables.execute(f"{query} order by 1 desc limit ?", *values, limit)
    return [
        InputView(
            id=row[0],
            workflow=row[1],
            source=row[2],
            external=row[3],
            title=row[4],
            status=row[5],
            stale=row[5] == "pending" and row[6] < tables.now - STALE_MS,
            outputs=outputs_of(tables, row[0]),
            created_at=row[6],
        )
        for row in rows
    ]


def input_view(tables: WorkflowTables, input_id: int) -> InputView:
    """One input. Raises NotFoundError."""
    find_input(tables, input_id)
    return inputs(tables, only=input_id)[0]


# --- what is next ---------------------------------------------------------------------------------------------


def next_in_words(tables: WorkflowTables, row: FlowRow, hosts: Hosts) -> str:
    """The next run of a workflow as a sentence, for a person who has just changed what waits."""
    if row.intent == Intent.ARCHIVED:
        return f"Nothing runs before `headwater workflow restore {row.name}`: it is archived."
    if row.intent == Intent.PAUSED:
        return f"Nothing runs before `headwater workflow resume {row.name}`: it is paused."
    if row.block is not None:
        return f"Nothing runs before a person has answered: `headwater workflow show {row.name}` shows what to type."
    active = next(iter(tables.at_work(row.id)), None)
    if active is not None:
        return f"Run {active.id} of {active.handler} is at work, and comes first."
    waits = {name: topic.pending for name, topic in tables.topics(row.id).items() if topic.pending}
    if row.head is not None:
        shown = f", and is shown {_events(sum(waits.values()))}" if waits else ""
        said = f"{tables.run(row.head).handler} is tried again first{shown}"
    elif waits:
        said = f"{_takers(tables, row, waits)} is next, and is shown {_events(sum(waits.values()))}"
    else:
        return "Nothing else waits."
    return f"{said}." if row.name in hosts.running else f"{said}; as soon as there is a host: {HOST}."


def _takers(tables: WorkflowTables, row: FlowRow, topics: Collection[str]) -> str:
    query = "select config from flow_version where flow = ? and version = ?"
    spec = msgspec.msgpack.decode(tables.execute(query, row.id, row.version)[0][0], type=FlowSpec)
    return " or ".join(each.name for each in spec.consumers if set(each.topics) & set(topics))


def _events(count: int) -> str:
    return "1 event that waits" if count == 1 else f"{count:,} events that wait"


def outputs_of(tables: WorkflowTables, input_id: int, limit: int = 20) -> list[str]:
    """The effects of an input: the calls that happened because of it, by the title of their plan."""
    query = (
        "select distinct run.id, run.title, run.handler from flow_cause as cause "
        "join flow_take as take on take.event = cause.event join flow_run as run on run.id = take.run "
        "join flow_call as call on call.run = run.id "
        "where cause.input = ? and call.status = 'applied' order by run.id limit ?"
    )
    return [row[1] or row[2] for row in tables.execute(query, input_id, limit)]
