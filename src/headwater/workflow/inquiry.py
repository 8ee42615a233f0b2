"""What can be asked about workflows, runs and inputs: for lists, pictures and programs. Only reads.

Must never know: how it is shown.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from headwater.values.codec import decode, to_json
from headwater.values.ids import Millis
from headwater.workflow.book import Book
from headwater.workflow.limits import STALE_MS
from headwater.workflow.model import RUN, FlowRow, RunRow
from headwater.workflow.resolution import find_flow
from headwater.workflow.status import sentence_of
from headwater.workflow.words import inputs_of, listed, told


class FlowView(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow, as users see it."""

    name: str
    state: str
    sentence: str
    version: int
    intent: str
    pending: dict[str, int]
    parked: int
    next_at: Millis | None
    retry_at: Millis | None
    run: int | None
    """The run that is at work, or that has to be finished first."""
    attention: int
    """Inputs that wait for too long."""
    runs: int
    recent: list[RunLine] = []
    updated_at: Millis


class RunLine(msgspec.Struct, frozen=True):
    """One thing that was done."""

    at: Millis
    text: str


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run, as users see it."""

    id: int
    workflow: str
    handler: str
    kind: str
    status: str
    phase: str
    outcome: str
    why: str
    attempt: int
    retry_of: int | None
    chain: int
    version: int
    title: str
    text: str
    """In one line: what came in -> what was done."""
    taken: int
    error: str | None
    created_at: Millis
    updated_at: Millis


class CallView(msgspec.Struct, frozen=True, kw_only=True):
    """A call to the outside, as it was made: not what the script calls it."""

    operation: str
    key: str
    status: str
    params: Any
    result: Any
    error: str | None
    tries: int
    next_at: Millis | None
    resolved_by: str | None
    at: Millis
    resolved_at: Millis | None


class EventView(msgspec.Struct, frozen=True, kw_only=True):
    """An event that a run has taken, and what became of it there."""

    topic: str
    id: str
    status: str
    disposition: str
    attempt: int


class RunDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a run."""

    run: RunView
    details: str | None
    """The traceback, if there is one."""
    plan: Any
    result: Any
    call: CallView | None
    events: list[EventView]
    inputs: list[str]
    chain: list[RunView]
    """All attempts, oldest first."""


class InputView(msgspec.Struct, frozen=True, kw_only=True):
    """Something that came in, and what became of it."""

    id: int
    workflow: str
    source: str
    external: str
    title: str
    status: str
    """pending, done, parked or skipped: of all events that are about it."""
    stale: bool
    outputs: list[str]
    """What was done because of it."""
    created_at: Millis


# --- workflows ------------------------------------------------------------------------------------------------


def flow_names(book: Book) -> list[str]:
    """All of this space."""
    return [row[0] for row in book.execute("select name from flow order by name")]


def flow(book: Book, name: str, *, recent: int = 5) -> FlowView:
    """One of them. Raises NotFoundError."""
    return _flow_view(book, find_flow(book, name), recent)


def flows(book: Book, *, archived: bool = False) -> list[FlowView]:
    """Those there are; archived ones if they are asked for."""
    found = [flow(book, name, recent=1) for name in flow_names(book)]
    return [view for view in found if archived or view.intent != "archived"]


def _flow_view(book: Book, row: FlowRow, recent: int) -> FlowView:
    topics = book.topics(row.id)
    active = book.active(row.id)
    head = None if row.head is None else book.run(row.head)
    state, sentence = sentence_of(row, active, head)
    times = [each.next_run_at for each in book.handlers(row.id) if each.next_run_at is not None]
    stale = book.execute(
        "select count(distinct cause.input) from flow_event as event "
        "join flow_cause as cause on cause.event = event.id "
        "join flow_topic as topic on topic.id = event.topic where topic.flow = ? and event.status = 'pending' "
        "and event.created_at < ?",
        row.id,
        book.now - STALE_MS,
    )
    last = [
        RunRow(*each)
        for each in book.execute(
            f"select {RUN} from flow_run where flow = ? and status = 'committed' and taken > 0 "
            "order by id desc limit ?",
            row.id,
            recent,
        )
    ]
    current = active or head
    return FlowView(
        name=row.name,
        state=state,
        sentence=sentence,
        version=row.version,
        intent=str(row.intent),
        pending={name: topic.pending for name, topic in topics.items()},
        parked=sum(topic.parked for topic in topics.values()),
        next_at=min(times, default=None),
        retry_at=row.retry_at,
        run=None if current is None else current.id,
        attention=stale[0][0],
        runs=book.execute("select count(*) from flow_run where flow = ?", row.id)[0][0],
        recent=[RunLine(run.updated_at, told(run, book)) for run in last],
        updated_at=row.updated_at,
    )


# --- runs -----------------------------------------------------------------------------------------------------


def run_view(book: Book, run: RunRow) -> RunView:
    """One, as users see it."""
    return RunView(
        id=run.id,
        workflow=book.flow(run.flow).name,
        handler=run.handler,
        kind=run.kind,
        status=str(run.status),
        phase=str(run.phase),
        outcome=str(run.outcome),
        why=str(run.why),
        attempt=run.attempt,
        retry_of=run.retry_of,
        chain=run.chain,
        version=run.version,
        title=run.title,
        text=told(run, book),
        taken=run.taken,
        error=run.error,
        created_at=run.created_at,
        updated_at=run.updated_at,
    )


def runs(
    book: Book,
    name: str | None = None,
    *,
    limit: int = 50,
    after: int = 0,
    status: str | None = None,
    acting: bool = False,
) -> list[RunView]:
    """The newest first: of one workflow or all; with a status that begins so; only those that took something."""
    where, values = ["id > ?"], [after]
    if name is not None:
        where.append("flow = ?")
        values.append(find_flow(book, name).id)
    if status is not None:
        where.append("substr(status, 1, length(?)) = ?")
        values += [status, status]  # type: ignore[list-item]  # of whatever SQLite takes
    if acting:
        where.append("(taken > 0 or status <> 'committed')")
    query = f"select {RUN} from flow_run where {' and '.join(where)} order by id desc limit ?"
    return [run_view(book, RunRow(*row)) for row in book.execute(query, *values, limit)]


def run_details(book: Book, run_id: int) -> RunDetails:
    """Everything about one. Raises NotFoundError."""
    run = book.run(run_id)
    call = book.call_of(run)
    query = (
        "select topic.name, event.message, event.status, take.disposition, take.attempt from flow_take as take "
        "join flow_event as event on event.id = take.event join flow_topic as topic on topic.id = event.topic "
        "where take.run = ? order by event.id"
    )
    events = [
        EventView(topic=topic, id=message, status=status, disposition=disposition, attempt=attempt)
        for topic, message, status, disposition, attempt in book.execute(query, run.id)
    ]
    chain = book.execute(f"select {RUN} from flow_run where chain = ? order by id", run.chain)
    return RunDetails(
        run=run_view(book, run),
        details=run.error_details or None,
        plan=_plain(run.prepare_result),
        result=_plain(run.mutation_result),
        call=None
        if call is None
        else CallView(
            operation=call.operation,
            key=call.key,
            status=str(call.status),
            params=_plain(call.params),
            result=_plain(call.result),
            error=call.error,
            tries=call.tries,
            next_at=call.next_at,
            resolved_by=call.resolved_by,
            at=call.at,
            resolved_at=call.resolved_at,
        ),
        events=events,
        inputs=inputs_of(book, run, 100),
        chain=[run_view(book, RunRow(*row)) for row in chain],
    )


def _plain(kept: bytes | None) -> Any:  # noqa: ANN401  # as JSON has it
    return None if kept is None else to_json(decode(kept))


# --- inputs ---------------------------------------------------------------------------------------------------

_STATUS: Final = (
    "case when input.skipped_at is not null then 'skipped' "
    "when exists (select 1 from flow_cause as c join flow_event as e on e.id = c.event where c.input = input.id "
    "and e.status in ('pending', 'reserved')) then 'pending' "
    "when exists (select 1 from flow_cause as c join flow_event as e on e.id = c.event where c.input = input.id "
    "and e.status = 'parked') then 'parked' "
    "when exists (select 1 from flow_cause as c where c.input = input.id) then 'done' else 'pending' end"
)
"""Derived: an input is what its events are."""


def inputs(book: Book, name: str | None = None, *, limit: int = 50, status: str | None = None) -> list[InputView]:
    """The newest first: of one workflow or all, in one state."""
    where, values = ["1"], []
    if name is not None:
        where.append("input.flow = ?")
        values.append(find_flow(book, name).id)
    query = (
        f"select input.id, flow.name, input.source, input.message, input.title, {_STATUS} as state, input.created_at "
        f"from flow_input as input join flow on flow.id = input.flow where {' and '.join(where)}"
    )
    if status is not None:
        query = f"select * from ({query}) where state = ?"
        values.append(status)  # type: ignore[arg-type]  # of whatever SQLite takes
    rows = book.execute(f"{query} order by 1 desc limit ?", *values, limit)
    return [
        InputView(
            id=row[0],
            workflow=row[1],
            source=row[2],
            external=row[3],
            title=row[4],
            status=row[5],
            stale=row[5] == "pending" and row[6] < book.now - STALE_MS,
            outputs=outputs_of(book, row[0]),
            created_at=row[6],
        )
        for row in rows
    ]


def outputs_of(book: Book, input_id: int, limit: int = 20) -> list[str]:
    """What was done because of an input: the calls that had an effect, by the title of their plan."""
    query = (
        "select distinct run.id, run.title, run.handler from flow_cause as cause "
        "join flow_take as take on take.event = cause.event join flow_run as run on run.id = take.run "
        "join flow_call as call on call.run = run.id "
        "where cause.input = ? and call.status = 'applied' order by run.id limit ?"
    )
    return [row[1] or row[2] for row in book.execute(query, input_id, limit)]


def needs_attention(book: Book) -> list[FlowView]:
    """Workflows that wait for a person."""
    return [view for view in flows(book) if view.state == "Needs attention"]


__all__ = [
    "CallView",
    "EventView",
    "FlowView",
    "InputView",
    "RunDetails",
    "RunLine",
    "RunView",
    "flow",
    "flow_names",
    "flows",
    "inputs",
    "listed",
    "needs_attention",
    "run_details",
    "runs",
]
