"""One transaction on the workflow tables, with a cache of rows.

Rows that every run needs are cached between transactions: workflows, handlers, topics and active runs. A writer of one
of these rows updates the cache. A statement with an unknown effect clears it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from headwater.errors import NotFoundError
from headwater.store.commit import Tables
from headwater.values.ids import DocKey, Millis
from headwater.values.tree import ABSENT, Maybe
from headwater.workflow.rows import (
    CALL,
    EVENT,
    FLOW,
    FROM_EVENT,
    HANDLER,
    RUN,
    TOPIC,
    CallRow,
    EventRow,
    EventStatus,
    FlowRow,
    HandlerKind,
    HandlerRow,
    RunRow,
    RunStatus,
    TopicRow,
)
from headwater.workflow.workflow_spec import FlowSpec

# The cached rows, and what each is a row of.
_FLOW: Final = "flow"
_NAMED: Final = "named"
_RUN: Final = "run"
_ACTIVE: Final = "active"
_HANDLERS: Final = "handlers"
_PRESENT: Final = "handlers of the program"
_TOPICS: Final = "topics"
_TOPIC_IDS: Final = "topic ids"
_NEXT_RUN: Final = "next run"
_NEWEST: Final = "newest"
_AGAIN: Final = "again"

_PENDING: Final = (
    "select id, ?, message, payload, status, attempt, created_at from flow_event "
    "where topic = ? and status = 'pending' order by id limit ?"
)

NUMBER_MAX: Final = 2**63 - 1
"""The largest limit that the database accepts."""


def _nothing(_doc: DocKey) -> Maybe:
    return ABSENT


class WorkflowTables:
    """The workflow tables within one transaction."""

    def __init__(self, raw: Tables, now: Millis, look: Callable[[DocKey], Maybe] = _nothing) -> None:
        self.raw = raw
        self.cache: dict[tuple[str, Any], Any] = raw.known
        self.now = now
        self.look = look
        # Workflows whose status document has to be updated.
        self.touched: dict[int, None] = {}
        # Topics with new events, as (workflow, topic).
        self.published: dict[tuple[int, str], None] = {}
        # The caption of a run that has just finished, by workflow.
        self.captions: dict[int, str] = {}

    def execute(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute one statement."""
        if not query.startswith("select"):
            self.cache.clear()
        return self.raw.execute(query, values)

    def change(self, query: str, *values: object) -> int:
        """Execute one statement that writes, and return how many rows it changed."""
        self.cache.clear()
        self.raw.execute(query, values)
        return self.raw.changed

    def write(self, query: str, *values: object) -> int:
        """The same, but the caller updates the cache."""
        self.raw.execute(query, values)
        return self.raw.changed

    def put(self, query: str, *values: object) -> None:
        """The same, where the number of rows is known."""
        self.raw.execute(query, values)

    def one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        """The only row of a query, or None."""
        found = self.raw.execute(query, values)
        return found[0] if found else None

    def touch(self, flow: int) -> None:
        """Mark a workflow: its status document has to be updated."""
        self.touched[flow] = None

    # -- rows ----------------------------------------------------------------------------------------------

    def flow(self, flow_id: int) -> FlowRow:
        """A workflow that exists, by its id."""
        found: FlowRow | None = self.cache.get((_FLOW, flow_id))
        if found is None:
            found = self.remember_flow(FlowRow(*self.execute(f"select {FLOW} from flow where id = ?", flow_id)[0]))
        return found

    def remember_flow(self, flow: FlowRow) -> FlowRow:
        """Update a workflow in the cache."""
        self.cache[_FLOW, flow.id] = flow
        return flow

    def flow_named(self, name: str) -> FlowRow | None:
        """A workflow by its full name."""
        flow_id: int | None = self.cache.get((_NAMED, name))
        if flow_id is None:
            row = self.one("select id from flow where name = ?", name)
            if row is None:
                return None
            flow_id = self.cache[_NAMED, name] = row[0]
        return self.flow(flow_id)

    def run(self, run_id: int) -> RunRow:
        """A run. Raises NotFoundError."""
        found: RunRow | None = self.cache.get((_RUN, run_id))
        if found is not None:
            return found
        row = None if abs(run_id) > NUMBER_MAX else self.one(f"select {RUN} from flow_run where id = ?", run_id)
        if row is None:
            raise NotFoundError(f"there is no run {run_id}; `headwater runs ls` lists them", run=run_id)
        return RunRow(*row)

    def active(self, flow_id: int) -> RunRow | None:
        """The run of a workflow that is being executed."""
        if (_ACTIVE, flow_id) in self.cache:
            run_id: int | None = self.cache[_ACTIVE, flow_id]
            return None if run_id is None else self.run(run_id)
        row = self.one(f"select {RUN} from flow_run where flow = ? and status = 'active'", flow_id)
        if row is None:
            self.cache[_ACTIVE, flow_id] = None
            return None
        return self.remember_run(RunRow(*row))

    def remember_run(self, run: RunRow) -> RunRow:
        """Update a run in the cache."""
        if run.status == RunStatus.ACTIVE:
            self.cache[_ACTIVE, run.flow] = run.id
            self.cache[_RUN, run.id] = run
        elif self.cache.pop((_RUN, run.id), None) is not None:
            self.cache[_ACTIVE, run.flow] = None
        return run

    def next_run(self) -> int:
        """The id of the next run of any workflow. Ids are not used again: the newest run is never deleted."""
        found: int | None = self.cache.get((_NEXT_RUN, ""))
        if found is None:
            found = self.execute("select coalesce(max(id), 0) + 1 from flow_run")[0][0]
            self.cache[_NEXT_RUN, ""] = found
        return found

    def newest(self, flow_id: int) -> tuple[int, int]:
        """The newest run of a workflow, and the run before it; 0 if there is none."""
        found: tuple[int, int] | None = self.cache.get((_NEWEST, flow_id))
        if found is None:
            rows = self.execute("select id from flow_run where flow = ? order by id desc limit 2", flow_id)
            newest, before = (*(row[0] for row in rows), 0, 0)[:2]
            found = self.cache[_NEWEST, flow_id] = (newest, before)
        return found

    def remember_new_run(self, run: RunRow, before: int) -> RunRow:
        """Add a run that was inserted to the cache, and the run of its workflow that was the newest until then."""
        self.cache[_NEWEST, run.flow] = (run.id, before)
        self.cache[_NEXT_RUN, ""] = run.id + 1
        return self.remember_run(run)

    def has_runs_to_resume(self, flow_id: int) -> bool:
        """Whether a run of a workflow that was set aside is marked to continue."""
        found: bool | None = self.cache.get((_AGAIN, flow_id))
        if found is None:
            query = "select 1 from flow_run where flow = ? and aside = 'again' limit 1"
            found = self.cache[_AGAIN, flow_id] = self.one(query, flow_id) is not None
        return found

    def forget_runs_to_resume(self, flow_id: int) -> None:
        """The mark of a run that was set aside has changed."""
        self.cache.pop((_AGAIN, flow_id), None)

    def refresh_cache(self) -> dict[object, tuple[object, object]]:
        """Reload the cache. Returns the entries that differed, with the rows."""
        before = dict(self.cache)
        self.cache.clear()
        ask: dict[str, Callable[[Any], object]] = {
            _FLOW: self.flow,
            _NAMED: lambda name: getattr(self.flow_named(name), "id", None),
            _RUN: self.run,
            _ACTIVE: lambda flow_id: getattr(self.active(flow_id), "id", None),
            _HANDLERS: self._handlers,
            _PRESENT: self.handlers,
            _TOPICS: self.topics,
            _TOPIC_IDS: self.topic_ids,
            _NEXT_RUN: lambda _: self.next_run(),
            _NEWEST: self.newest,
            _AGAIN: self.has_runs_to_resume,
        }
        found = {key: ask[key[0]](key[1]) for key in before}
        return {key: (before[key], found[key]) for key in before if before[key] != found[key]}

    def call_of(self, run: RunRow) -> CallRow | None:
        """The call of a run, or of the run it continues from."""
        row = self.one(f"select {CALL} from flow_call where run = ?", run.call)
        return None if row is None else CallRow(*row)

    def reconciles(self, run: RunRow) -> bool:
        """The program, in its newest version, has a `reconcile` for the calls of this run's handler."""
        query = "select config from flow_version where flow = ? and version = ?"
        row = self.one(query, run.flow, self.flow(run.flow).version)
        spec = None if row is None else msgspec.msgpack.decode(row[0], type=FlowSpec)
        return spec is not None and any(each.name == run.handler and each.reconciles for each in spec.consumers)

    def handler(self, flow_id: int, kind: HandlerKind, name: str) -> HandlerRow:
        """The stored state of a handler."""
        return self._handlers(flow_id)[kind, name]

    def handlers(self, flow_id: int) -> list[HandlerRow]:
        """The handlers of a workflow that its program has."""
        found: list[HandlerRow] | None = self.cache.get((_PRESENT, flow_id))
        if found is None:
            found = [row for row in self._handlers(flow_id).values() if not row.gone]
            self.cache[_PRESENT, flow_id] = found
        return found

    def _handlers(self, flow_id: int) -> dict[tuple[HandlerKind, str], HandlerRow]:
        found: dict[tuple[HandlerKind, str], HandlerRow] | None = self.cache.get((_HANDLERS, flow_id))
        if found is None:
            rows = [
                HandlerRow(*row) for row in self.execute(f"select {HANDLER} from flow_handler where flow = ?", flow_id)
            ]
            found = self.cache[_HANDLERS, flow_id] = {(row.kind, row.name): row for row in rows}
        return found

    def remember_handler(self, row: HandlerRow) -> None:
        """Update a handler in the cache."""
        self._handlers(row.flow)[row.kind, row.name] = row
        self.cache.pop((_PRESENT, row.flow), None)

    def topics(self, flow_id: int) -> dict[str, TopicRow]:
        """The topics of a workflow, by name."""
        found: dict[str, TopicRow] | None = self.cache.get((_TOPICS, flow_id))
        if found is None:
            rows = self.execute(f"select {TOPIC} from flow_topic where flow = ?", flow_id)
            found = self.cache[_TOPICS, flow_id] = {row[2]: TopicRow(*row) for row in rows}
            self.cache[_TOPIC_IDS, flow_id] = {name: topic.id for name, topic in found.items()}
        return found

    def topic_ids(self, flow_id: int) -> dict[str, int]:
        """The topic ids of a workflow. Unlike the counts of pending events, they never change."""
        if (_TOPIC_IDS, flow_id) not in self.cache:
            self.topics(flow_id)
        found: dict[str, int] = self.cache[_TOPIC_IDS, flow_id]
        return found

    def recount(self, flow_id: int) -> None:
        """Drop the cached counts of a workflow's topics: events were added or removed."""
        self.cache.pop((_TOPICS, flow_id), None)

    def count_new(self, flow_id: int, topic: str) -> None:
        """An event was added to a topic. The database counts it, too."""
        topics: dict[str, TopicRow] | None = self.cache.get((_TOPICS, flow_id))
        if topics is not None:
            row = topics[topic]
            topics[topic] = replace(row, pending=row.pending + 1)

    def count_moved(self, flow_id: int, count: int, before: EventStatus, after: EventStatus) -> None:
        """Events of a workflow have changed their status. The database counts them, too.

        With several topics, it is not known here which of them the events are in: the counts are read again.
        """
        topics: dict[str, TopicRow] | None = self.cache.get((_TOPICS, flow_id))
        if topics is not None and len(topics) == 1:
            [row] = topics.values()
            counts = {"pending": row.pending, "reserved": row.reserved, "parked": row.parked}
            for status, change in ((before, -count), (after, count)):
                if status in counts:
                    counts[status] += change
            topics[row.name] = replace(row, **counts)
        else:
            self.recount(flow_id)

    def pending(self, flow_id: int, topics: Sequence[str], limit: int) -> list[EventRow]:
        """The oldest pending events of several topics together."""
        ids = self.topic_ids(flow_id)
        found: list[EventRow] = []
        for name in topics:
            # The index returns them in order.
            found += [EventRow(*row) for row in self.execute(_PENDING, name, ids[name], limit)]
        return found if len(topics) == 1 else sorted(found, key=lambda event: event.id)[:limit]

    def oldest(self, topics: Sequence[int]) -> int | None:
        """The oldest pending event of these topics."""
        query = "select min(id) from flow_event where topic = ? and status = 'pending'"
        found = [self.execute(query, topic)[0][0] for topic in topics]
        return min((event for event in found if event is not None), default=None)

    def events_of(self, run: RunRow) -> list[EventRow]:
        """The events that a run has reserved."""
        query = f"select {EVENT} from {FROM_EVENT} where event.reserved_by = ? order by event.id"
        return [EventRow(*row) for row in self.execute(query, run.id)]
