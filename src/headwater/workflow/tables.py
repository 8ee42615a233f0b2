"""One transaction on the workflow tables, with a cache of rows.

Rows that every run needs are cached between transactions: workflows, handlers, topics and active runs. A writer of one
of these rows updates the cache. A statement with an unknown effect clears it.

Length: every cached row has its reader and its writer here, side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

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
    LANE,
    RUN,
    TOPIC,
    CallRow,
    EventRow,
    EventStatus,
    FlowRow,
    HandlerKind,
    HandlerRow,
    LaneRow,
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
_TOPIC_KEYS: Final = "topic keys"
_NEXT_RUN: Final = "next run"
_NEWEST: Final = "newest"
_AGAIN: Final = "again"
_LANES: Final = "lanes"

_PENDING: Final = (
    "select id, ?, message, payload, status, attempt, created_at, priority, lane from flow_event "
    "where topic = ? and status = 'pending'{} order by priority desc, id limit ?"
)
_PENDING_ANY: Final = _PENDING.format("")
_PENDING_KEYED: Final = _PENDING.format(" and lane = ?")
_PENDING_ONE: Final = _PENDING.format(" and id = ?")

Within: TypeAlias = "str | int | None"
"""The events of a lane: those of one key, one event, or all."""

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
        # Topics with new events, as (workflow, topic, lane). Without a lane: in any.
        self.published: dict[tuple[int, str, str | None], None] = {}
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

    def flow(self, flow_id: int, lane: str = "") -> FlowRow:
        """A workflow that exists, by its id, as one of its lanes sees it."""
        found: FlowRow | None = self.cache.get((_FLOW, flow_id))
        if found is None:
            found = self.remember_flow(FlowRow(*self.execute(f"select {FLOW} from flow where id = ?", flow_id)[0]))
        if not lane:
            return found
        row = self.lanes(flow_id).get(lane) or LaneRow(flow_id, lane, "")
        return replace(
            found,
            block=row.block,
            block_kind=row.block_kind,
            repairs=row.repairs,
            repairing=row.repairing,
            head=row.head,
            retry_at=row.retry_at,
            failures=row.failures,
            lane=lane,
        )

    def flow_of(self, run: RunRow) -> FlowRow:
        """The workflow of a run, as the lane of the run sees it."""
        found: FlowRow | None = self.cache.get((_FLOW, run.flow))
        return self.flow(run.flow, run.lane) if found is None or run.lane else found

    def has_shared_only(self, flow_id: int) -> bool:
        """No lane of a workflow has anything to remember or a run at work, apart from the shared one."""
        lanes = self.cache.get((_LANES, flow_id))
        if lanes or (lanes is None and self.lanes(flow_id)):
            return False
        actives = self.cache.get((_ACTIVE, flow_id))
        if actives is None:
            actives = self.actives(flow_id)
        return not actives or (len(actives) == 1 and "" in actives)

    def every_lane(self, flow_id: int) -> list[FlowRow]:
        """A workflow as its shared lane sees it, and as each lane with an unfinished chain does."""
        return [self.flow(flow_id)] + [
            self.flow(flow_id, name) for name, row in self.lanes(flow_id).items() if row.head is not None
        ]

    def lanes(self, flow_id: int) -> dict[str, LaneRow]:
        """The stored lanes of a workflow, by name: those with something to remember."""
        found: dict[str, LaneRow] | None = self.cache.get((_LANES, flow_id))
        if found is None:
            rows = self.execute(f"select {LANE} from flow_lane where flow = ?", flow_id)
            found = self.cache[_LANES, flow_id] = {row[1]: LaneRow(*row) for row in rows}
        return found

    def remember_lane(self, row: LaneRow, *, is_blank: bool) -> None:
        """Update a lane in the cache."""
        lanes = self.lanes(row.flow)
        lanes[row.name] = row
        if is_blank:
            del lanes[row.name]

    def forget_lanes(self, flow_id: int) -> None:
        """The rows of lanes have changed."""
        self.cache.pop((_LANES, flow_id), None)

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

    def active(self, flow_id: int, lane: str = "") -> RunRow | None:
        """The run of one lane of a workflow that is being executed."""
        actives: dict[str, int] | None = self.cache.get((_ACTIVE, flow_id))
        run_id = (self.actives(flow_id) if actives is None else actives).get(lane)
        if run_id is None:
            return None
        found: RunRow | None = self.cache.get((_RUN, run_id))
        return self.run(run_id) if found is None else found

    def actives(self, flow_id: int) -> dict[str, int]:
        """The runs of a workflow that are being executed, by lane."""
        found: dict[str, int] | None = self.cache.get((_ACTIVE, flow_id))
        if found is None:
            rows = self.execute(f"select {RUN} from flow_run where flow = ? and status = 'active'", flow_id)
            found = self.cache[_ACTIVE, flow_id] = {}
            for row in rows:
                self.remember_run(RunRow(*row))
        return found

    def at_work(self, flow_id: int) -> list[RunRow]:
        """The runs of a workflow that are being executed, oldest first."""
        return [self.run(run_id) for run_id in sorted(self.actives(flow_id).values())]

    def remember_run(self, run: RunRow) -> RunRow:
        """Update a run in the cache."""
        actives: dict[str, int] | None = self.cache.get((_ACTIVE, run.flow))
        if run.status == RunStatus.ACTIVE:
            self.cache[_RUN, run.id] = run
            if actives is not None:
                actives[run.lane] = run.id
        elif self.cache.pop((_RUN, run.id), None) is not None and actives is not None:
            actives.pop(run.lane, None)
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
            _ACTIVE: self.actives,
            _LANES: self.lanes,
            _HANDLERS: self._handlers,
            _PRESENT: self.handlers,
            _TOPICS: self.topics,
            _TOPIC_IDS: self.topic_ids,
            _TOPIC_KEYS: self.topic_keys,
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

    def handler_of(self, run: RunRow) -> HandlerRow:
        """The stored state of a run's handler, as the lane of the run sees it."""
        if not run.lane:
            return self._handlers(run.flow)[run.kind, run.handler]
        return self.handler_in(run.flow, run.kind, run.handler, run.lane)

    def handler_in(self, flow_id: int, kind: HandlerKind, name: str, lane: str) -> HandlerRow:
        """The stored state of a handler, as one of its lanes sees it."""
        found = self.handler(flow_id, kind, name)
        if not lane:
            return found
        row = self.lanes(flow_id).get(lane)
        wake_at, span = (None, None) if row is None else (row.wake_at, row.span)
        return replace(found, wake_at=wake_at, span=span, lane=lane)

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
            self.cache[_TOPIC_KEYS, flow_id] = {name: topic.key for name, topic in found.items()}
        return found

    def topic_ids(self, flow_id: int) -> dict[str, int]:
        """The topic ids of a workflow. Unlike the counts of pending events, they never change."""
        if (_TOPIC_IDS, flow_id) not in self.cache:
            self.topics(flow_id)
        found: dict[str, int] = self.cache[_TOPIC_IDS, flow_id]
        return found

    def topic_keys(self, flow_id: int) -> dict[str, str | None]:
        """The fields that name the lanes of events, by topic. Like the ids, they change with a deployment only."""
        if (_TOPIC_KEYS, flow_id) not in self.cache:
            self.recount(flow_id)
            self.topics(flow_id)
        found: dict[str, str | None] = self.cache[_TOPIC_KEYS, flow_id]
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

    def pending(self, flow_id: int, topics: Sequence[str], limit: int, within: Within = None) -> list[EventRow]:
        """The next pending events of several topics together: all, or those of one lane."""
        ids = self.topic_ids(flow_id)
        found: list[EventRow] = []
        query = _PENDING_ANY if within is None else _PENDING_ONE if isinstance(within, int) else _PENDING_KEYED
        lane = () if within is None else (within,)
        for name in topics:
            # The index returns them in order.
            found += [EventRow(*row) for row in self.execute(query, name, ids[name], *lane, limit)]
        return found if len(topics) == 1 else sorted(found, key=lambda event: event.rank)[:limit]

    def count_pending(self, flow_id: int, topics: Sequence[str], limit: int, lane: str) -> int:
        """How many events of several topics are pending in the lane of one key, up to a limit."""
        ids = self.topic_ids(flow_id)
        inner = "select 1 from flow_event where topic = ? and status = 'pending' and lane = ? limit ?"
        query = f"select count(*) from ({inner})"
        counts: list[int] = [self.execute(query, ids[name], lane, limit)[0][0] for name in topics]
        return min(limit, sum(counts))

    def first(self, topics: Sequence[int]) -> tuple[int, int] | None:
        """The rank of the next pending event of these topics."""
        query = (
            "select priority, id from flow_event where topic = ? and status = 'pending' "
            "order by priority desc, id limit 1"
        )
        found = [row for topic in topics for row in self.execute(query, topic)]
        return min(((-priority, event) for priority, event in found), default=None)

    def events_of(self, run: RunRow) -> list[EventRow]:
        """The events that a run has reserved."""
        query = f"select {EVENT} from {FROM_EVENT} where event.reserved_by = ? order by event.priority desc, event.id"
        return [EventRow(*row) for row in self.execute(query, run.id)]
