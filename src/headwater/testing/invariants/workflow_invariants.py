"""Invariants of workflows over time.

A `WorkflowWatch` is called at moments: between two transactions (`look`), after a run has begun (`begun`), and when
nothing is due (`rest`). Each moment is compared with the earlier ones. As in `scheduler_invariants`, the first
violation raises an InvariantError.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from headwater.workflow.rows import HANDLER, RUN, FlowRow, HandlerRow, Intent, RunCause, RunPhase, RunRow, RunStatus
from headwater.workflow.run_lanes import consumer_of, is_held_up, is_of, lane_of, within
from headwater.workflow.schedule import next_after
from headwater.workflow.set_aside import waits
from headwater.workflow.table_checks import StoredEvent, broken, check_all, events, spec_of
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import WAKE_MAX_MS, WAKE_MIN_MS
from headwater.workflow.workflow_spec import ConsumerSpec, FlowSpec

Seen = Mapping[tuple[int, str], Mapping[int, int]]
"""By workflow and consumer: the pending events at its last run, each with its attempt."""

_FINAL = (RunStatus.COMMITTED, RunStatus.CRASHED, RunStatus.LOGIC, RunStatus.INTERNAL)
_ORDER = list(RunPhase)
_PLAN = ("prepare_result", "taken", "title", "offered")
_FIXED = (
    "flow",
    "lane",
    "handler",
    "kind",
    "retry_of",
    "chain",
    "attempt",
    "version",
    "why",
    "created_at",
    "effect_of",
)


class WorkflowWatch:
    """Stores the moments. One for each database, over any number of openings."""

    def __init__(self) -> None:
        self._runs: dict[int, RunRow] = {}
        self._events: dict[int, StoredEvent] = {}
        self._seen: dict[tuple[int, str], dict[int, int]] = {}
        self._handlers: dict[tuple[int, str], HandlerRow] = {}
        self._now: int | None = None

    def look(self, tables: WorkflowTables, alive: Collection[int] | None = None) -> None:
        """A moment between two transactions."""
        check_all(tables, alive)
        runs = {row[0]: RunRow(*row) for row in tables.execute(f"select {RUN} from flow_run")}
        for run_id, run in runs.items():
            if run_id in self._runs:
                w2_only_forward(self._runs[run_id], run)
                w3_said_once(self._runs[run_id], run)
        self._runs = runs
        found = {event.id: event for event in events(tables)}
        for event_id, event in self._events.items():
            w9_frozen(event, found.get(event_id))
        self._events = found
        known = self._handlers
        self._handlers = {(row.flow, row.name): row for row in _handlers(tables)}
        for name, row in self._handlers.items():
            w12_in_bounds(known.get(name), row, self._now or tables.now, tables.now)
        self._now = tables.now

    def begun(self, tables: WorkflowTables, run_id: int, dirty: Collection[str] = ()) -> None:
        """A run has just begun. `dirty`: consumers that have not run since their events came."""
        run = tables.run(run_id)
        w13_order(tables, run, dirty)
        w14_paused(tables, run)
        if run.kind == "consumer" and run.phase == RunPhase.PREPARING:
            known = self._seen.get((run.flow, run.handler), {}) if run.lane else {}
            self._seen[run.flow, run.handler] = known | _waiting(tables, run)

    def rest(self, tables: WorkflowTables) -> None:
        """A host has checked everything, and nothing is due."""
        w8_taken_up(tables)
        w10_wake(tables, self._seen)
        w11_schedule(tables)


def _waiting(tables: WorkflowTables, run: RunRow) -> dict[int, int]:
    topics = tables.topics(run.flow)
    wanted = {topics[name].id for name in spec_of(tables, tables.flow(run.flow)).consumer(run.handler).topics}
    found = [event for event in events(tables) if event.topic in wanted and event.status == "pending"]
    which = within(run.lane)
    return {event.id: event.attempt for event in found if which in (None, event.id, event.lane)}


def _handlers(tables: WorkflowTables) -> list[HandlerRow]:
    return [HandlerRow(*row) for row in tables.execute(f"select {HANDLER} from flow_handler where gone = 0")]


# --- from one moment to the next ------------------------------------------------------------------------------


def w2_only_forward(before: RunRow, after: RunRow) -> None:
    """Phases go forward; the identity and the end of a run stay. The outcome of its call may be stored later."""
    if _ORDER.index(RunPhase(after.phase)) < _ORDER.index(RunPhase(before.phase)):
        raise broken("W2", f"it was {before.phase} already", after)
    if any(getattr(before, name) != getattr(after, name) for name in _FIXED):
        raise broken("W2", f"it has changed ({before})", after)
    is_learnt = before.phase == RunPhase.MUTATING and after.phase == RunPhase.MUTATED
    if before.status in _FINAL and (after.status != before.status or (after.phase != before.phase and not is_learnt)):
        raise broken("W2", f"it had ended ({before.status}, {before.phase})", after)


def w3_said_once(before: RunRow, after: RunRow) -> None:
    """The plan and the result of the call are stored once."""
    if before.prepare_result is not None and any(getattr(before, name) != getattr(after, name) for name in _PLAN):
        raise broken("W3", "its plan has changed", after)
    if before.mutation_result is not None and before.mutation_result != after.mutation_result:
        raise broken("W3", "the result of its call has changed", after)


def w9_frozen(before: StoredEvent, after: StoredEvent | None) -> None:
    """An event is never deleted. Its payload does not change after a run got it, and a final status stays."""
    if after is None:
        raise broken("W9", "it is gone", before)
    if before.status != "pending" and after.attempt == before.attempt and after.payload != before.payload:
        raise broken("W9", f"it was {before.status}, and what it says has changed", after)
    if before.status in ("consumed", "skipped") and after.status != before.status:
        raise broken("W9", f"it was {before.status}", after)


def w12_in_bounds(before: HandlerRow | None, after: HandlerRow, earlier: int, now: int) -> None:
    """A wake-up time that was set between two moments is within its bounds."""
    if after.wake_at is None or (before is not None and before.wake_at == after.wake_at):
        return
    # The clock may have been set in between, in either direction.
    soonest, latest = min(earlier, now) + WAKE_MIN_MS, max(earlier, now) + WAKE_MAX_MS
    if not soonest <= after.wake_at <= latest:
        raise broken("W12", f"between {earlier} and {now}, that is too soon, or too late", after)


# --- when a run begins ----------------------------------------------------------------------------------------


def w13_order(tables: WorkflowTables, run: RunRow, dirty: Collection[str] = ()) -> None:
    """Consumers before producers; among consumers, the one with the next event. An open chain goes first.

    A consumer with lanes is not before or after the others: it has at most the runs that it may have, one in a lane.
    """
    flow = tables.flow_of(run)
    if run.lane:
        _check_lanes(tables, run, spec_of(tables, flow))
    if run.retry_of is not None or run.lane:
        return
    topics = tables.topics(flow.id)
    rows = {row.name: row for row in tables.handlers(flow.id) if row.kind == "consumer"}
    own: tuple[int, int] | None = None
    oldest: dict[str, tuple[int, int]] = {}
    for consumer in spec_of(tables, flow).consumers:
        if consumer.laned is not None:
            continue
        found = tables.first([topics[name].id for name in consumer.topics])
        if consumer.name == run.handler:
            own = found
        elif found is not None and consumer.name in dirty and not consumer.interval_us:
            oldest[consumer.name] = found
        wake_at = rows[consumer.name].wake_at
        if run.kind == "producer" and wake_at is not None and wake_at <= tables.now:
            raise broken("W13", f"{consumer.name} is to be woken, and this producer runs first", run)
    for name, event in oldest.items():
        if run.kind == "producer" or own is None or run.why != RunCause.EVENT or event < own:
            raise broken("W13", f"event {event[1]} waits for {name}, and this runs first", run)


def _check_lanes(tables: WorkflowTables, run: RunRow, spec: FlowSpec) -> None:
    """No more lanes of a consumer are at work than it has declared, and nothing in two of its declarations' lanes."""
    consumer = next((each for each in spec.laned if each.name == run.handler), None)
    lanes = None if consumer is None else consumer.laned
    if consumer is None or lanes is None:
        return
    at_work = [lane for lane in tables.actives(run.flow) if consumer_of(lane) == consumer.name]
    if lanes.at_once is not None and len(at_work) > lanes.at_once and run.retry_of is None:
        raise broken("W13", f"{len(at_work)} lanes of {consumer.name} are at work, of {lanes.at_once}", run)
    if run.retry_of is None and (not is_of(run.lane, consumer) or is_held_up(tables, run.flow, consumer)):
        raise broken("W13", f"it begins before what {consumer.name} began in other lanes is finished", run)


def w14_paused(tables: WorkflowTables, run: RunRow) -> None:
    """Nothing begins in a workflow that is paused or blocked, or before its time."""
    flow = tables.flow_of(run)
    if run.status == RunStatus.ACTIVE and (flow.intent != Intent.ACTIVE or flow.block is not None or flow.repairing):
        raise broken("W14", f"it begins although {flow.name} is stopped ({flow})", run)
    if flow.retry_at is not None:
        raise broken("W14", f"it begins, and {flow.name} still waits for {flow.retry_at}", run)


# --- when nothing is due --------------------------------------------------------------------------------------


def _idle(tables: WorkflowTables) -> list[FlowRow]:
    """Workflows that could run and have no open chain."""
    found = [tables.flow(row[0]) for row in tables.execute("select id from flow order by id")]
    return [
        flow
        for flow in found
        if flow.intent == Intent.ACTIVE and flow.block is None and flow.head is None and tables.active(flow.id) is None
    ]


def w8_taken_up(tables: WorkflowTables) -> None:
    """No run that was set aside is still marked to continue."""
    for flow in _idle(tables):
        run = waits(tables, flow)
        if run is not None:
            raise broken("W8", f"it is to be taken up again, and {flow.name} does nothing", run)


def w10_wake(tables: WorkflowTables, seen: Seen) -> None:
    """Every pending event existed when its consumer last ran."""
    for flow in _idle(tables):
        topics = tables.topics(flow.id)
        for consumer in spec_of(tables, flow).consumers:
            wanted = {topics[name].id for name in consumer.topics}
            known = seen.get((flow.id, consumer.name), {})
            if consumer.interval_us or is_held_up(tables, flow.id, consumer):
                continue
            for event in events(tables):
                if event.topic not in wanted or event.status != "pending" or _is_behind(tables, flow, consumer, event):
                    continue
                if known.get(event.id) != event.attempt:
                    raise broken("W10", f"{consumer.name} has not looked since it came, or came back", event)


def _is_behind(tables: WorkflowTables, flow: FlowRow, consumer: ConsumerSpec, event: StoredEvent) -> bool:
    """The lane of an event has something to finish first."""
    if consumer.laned is None:
        return False
    lane = lane_of(consumer.name, consumer.laned, event.id, event.lane)
    return tables.flow(flow.id, lane).head is not None or lane in tables.actives(flow.id)


def w11_schedule(tables: WorkflowTables) -> None:
    """The next time of a producer is by its schedule, computed from now at the latest."""
    for flow in _idle(tables):
        spec = spec_of(tables, flow)
        for row in tables.handlers(flow.id):
            if row.kind == "consumer":
                # One with a rate waits for that as well.
                is_held = any(each.name == row.name and each.interval_us for each in spec.consumers)
                if row.wake_at is not None and not is_held and not tables.now < row.wake_at <= tables.now + WAKE_MAX_MS:
                    raise broken("W11", f"it is {tables.now}, and it should have been woken, or be sooner", row)
                continue
            schedule = spec.producer(row.name).schedule
            if schedule is None:
                continue
            if row.next_run_at is None or not tables.now < row.next_run_at <= next_after(schedule, tables.now):
                raise broken("W11", f"it is {tables.now}, and its next run is due, or too far away", row)
