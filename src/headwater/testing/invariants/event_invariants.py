"""Invariants I4, I10 and I11 of events.

`check`, `check_trace` and `Watch` in `scheduler_invariants` include all of them except `i11_log`, which needs the log.
The nodes above a document are found by walking up from it over all records, without any index.

Length: one invariant after another, as in `scheduler_invariants`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import fields
from functools import partial
from typing import Final

from headwater.errors import InvariantError
from headwater.scheduler.events.event import EVENT_TRANSITIONS, EventRecord, EventState, HandlerRecord, Handling
from headwater.scheduler.events.handler_reads import known_reads
from headwater.scheduler.events.lanes import Lane
from headwater.scheduler.events.origin import OriginState
from headwater.scheduler.graph.node import Node, NodeStatus, titled
from headwater.scheduler.scheduler import Scheduler
from headwater.scheduler.scheduler_limits import HANDLER_READS_MAX, RETRY_MAX_MS, RUNS_MAX
from headwater.scheduler.trace import (
    EventDispatched,
    EventEnded,
    EventParked,
    EventSent,
    OriginDecided,
    PassEnded,
    RunStarted,
    TraceRecord,
)
from headwater.store.commit import CommitEntry, DeleteDoc, Entry, SetDoc
from headwater.values.address import overlaps
from headwater.values.ids import BranchId, DocKey
from headwater.values.tree import Path

_WAITS: Final = frozenset(before for before, _ in EVENT_TRANSITIONS)
"""States that are not final."""


class EventWatch:
    """Checks each event when its handler is called, and each document at the handler's first read."""

    def __init__(self, scheduler: Scheduler, records: Sequence[TraceRecord]) -> None:
        self._scheduler = scheduler
        self._records = records
        # Documents that running handlers made current before reading them.
        self._asked: dict[Handling, set[DocKey]] = {}
        # Violations found during a handler, which may have caught the error.
        self.found: list[InvariantError] = []
        self._others = scheduler.events.before_commit
        scheduler.events.before_commit = self._before_commit

    def heard(self, record: TraceRecord) -> None:
        """A handler is called: it is the turn of its event, and its known reads are current."""
        if not isinstance(record, EventDispatched):
            return
        scheduler = self._scheduler
        handling = next(lane.running for lane in scheduler.lanes if lane.name == record.lane)
        if handling is None or handling.event.id != record.event:
            raise broken("I4", "its handler is called, and it is not what its lane is busy with", record)
        event = handling.event
        i4_turn(scheduler, event)
        i10_start(event)
        self._check_current({*event.handler.closure, *event.handler.spec.reads}, event, self._since_last(record))
        self._asked[handling] = set()
        handling.tx.gate = partial(self._looks, handling, handling.tx.gate)

    def end(self) -> None:
        """Stop listening."""
        self._scheduler.events.before_commit = self._others

    def _looks(self, handling: Handling, gate: Callable[[DocKey], None] | None, doc: DocKey) -> None:
        before = len(self._records)
        if gate is not None:
            gate(doc)
        self._asked[handling].add(doc)
        self._check_current((doc,), handling.event, self._records[before:])

    def _check_current(self, docs: Collection[DocKey], event: EventRecord, ran: Sequence[TraceRecord]) -> None:
        starts = [record.node for record in ran if isinstance(record, RunStarted)]
        for node in not_current(self._scheduler, docs):
            # I6: no event waits for a node that never settles, be it at once or over time.
            is_excused = starts.count(node.id) >= RUNS_MAX or is_spent(self._scheduler, node)
            if not is_excused and not has_had_turns(event, node):
                what = f"its handler reads {sorted(docs)}, and {node!r} above is not current"
                self.found.append(broken("I4", what, event))
                raise self.found[-1]

    def _since_last(self, record: TraceRecord) -> list[TraceRecord]:
        """The records since the last call of a handler, or the end of a pass."""
        found: list[TraceRecord] = []
        for each in reversed(self._records):
            if isinstance(each, EventDispatched | PassEnded) and each is not record:
                break
            found.append(each)
        return found

    def _before_commit(self, handling: Handling) -> None:
        asked = self._asked.pop(handling, None)
        if asked is not None:
            written = {doc for doc, _ in writers(self._scheduler)}
            for entry in handling.tx.journal.conflicts():
                if entry.doc in written and entry.doc not in asked:
                    raise broken("I4", f"its handler has read {entry.doc}, which was not made current", handling.event)
        if self._others is not None:
            self._others(handling)


# --- the graph, made again -------------------------------------------------------------------------------------


def writers(scheduler: Scheduler) -> Iterator[tuple[DocKey, tuple[Path, Node]]]:
    """Every address that a node writes, or may write, from the records alone."""
    for node in scheduler.registry.nodes:
        yield from ((doc, ((), node)) for doc in node.outputs)
        yield from ((doc, (path, node)) for doc, path in node.spec.side_write_envelope)


def not_current(scheduler: Scheduler, docs: Iterable[DocKey]) -> list[Node]:
    """The nodes above these documents that are not clean, or suspended."""
    by_doc: dict[DocKey, list[tuple[Path, Node]]] = {}
    for place, written in writers(scheduler):
        by_doc.setdefault(place, []).append(written)
    found: dict[Node, None] = {node: None for doc in docs for _, node in by_doc.get(doc, ())}
    todo = list(found)
    while todo:
        node = todo.pop()
        places: list[tuple[DocKey, Path]] = [(doc, path) for doc, path, _ in node.reads]
        if node.status is NodeStatus.NEVER_RAN:
            places += [(doc, ()) for doc in node.spec.declared_reads]
        for doc, path in places:
            for at, writer in by_doc.get(doc, ()):
                if writer is not node and writer not in found and overlaps(at, path):
                    found[writer] = None
                    todo.append(writer)
    return [node for node in found if not node.is_clean or node.attempt is not None]


def is_spent(scheduler: Scheduler, node: Node) -> bool:
    """The node is in backoff, or has reached its limit of runs in this pass."""
    in_pass = node.pass_number == scheduler.runner.pass_number and node.pass_runs >= RUNS_MAX
    return node.attempt is None and (in_pass or scheduler.gates.is_resting(node))


def has_had_turns(event: EventRecord, node: Node) -> bool:
    """It has reached its limit of runs since it first delayed the event."""
    return (event.waited_for or {}).get(node, (0, 0))[0] >= RUNS_MAX


# --- as a handler is called -----------------------------------------------------------------------------------


def i4_turn(scheduler: Scheduler, event: EventRecord) -> None:
    """No waiting event of its lane was sent before it."""
    for other in list(scheduler.outcomes.live.values()):
        if other.lane == event.lane and other.state is EventState.QUEUED and other.ordinal < event.ordinal:
            raise broken("I4", f"its handler is called before that of {other!r}, which was sent before it", event)


def i10_start(event: EventRecord) -> None:
    """The sender has ended and has not failed. A sender in another space is confirmed."""
    launch = event.origin
    if (
        launch is None
        or launch.state is OriginState.COMMITTED
        or (launch.state is OriginState.PENDING and launch.is_near)
    ):
        return
    raise broken("I10", f"its handler is called, and what sent it, {launch.name}, is {launch.state.value}", event)


# --- over the records, at rest --------------------------------------------------------------------------------


def i4_lanes(scheduler: Scheduler) -> None:
    """Each lane has the waiting events in the order of sending, and the reason why its head waits is true."""
    lanes = list(scheduler.lanes)
    if scheduler.lanes.inbox or scheduler.lanes.are_ready or scheduler.outcomes.unnotified:
        raise broken("I4", "this is no rest: an event could be checked, or a listener notified", None)
    found: dict[EventRecord, None] = {}
    for lane in lanes:
        for what, holds in _fitting_lane(lane):
            if not holds:
                raise broken("I4", what, lane)
        found.update(dict.fromkeys(lane.events))
        if lane.running is not None:
            found[lane.running.event] = None
        if lane.head is not None and lane.running is None and not _has_to_wait(scheduler, lane.head):
            raise broken("I4", f"it waits because {lane.parked}, and that is not so", lane.head)
    live = [event for event in scheduler.outcomes.live.values() if event.state is not EventState.PENDING]
    if set(live) != set(found):
        raise broken("I4", f"{set(live) ^ set(found)} is in one place only, the lanes or what is on its way", None)


def _fitting_lane(lane: Lane) -> Iterable[tuple[str, bool]]:
    ordinals = [event.ordinal for event in lane.events]
    yield "events wait as they were sent", ordinals == sorted(set(ordinals))
    yield (
        "waiting events are its own, and queued",
        all(event.lane == lane.name and event.state is EventState.QUEUED for event in lane.events),
    )
    running = lane.running
    yield "a running attempt is suspended", running is None or running.suspended
    yield (
        "a running attempt is of an event of its lane",
        running is None
        or (
            running.event.lane == lane.name
            and running.event.state is EventState.RUNNING
            and running.tx.event is running.event
        ),
    )
    yield "a waiting head has a reason", lane.parked is None or bool(lane.parked.reason and lane.events)


def _has_to_wait(scheduler: Scheduler, event: EventRecord) -> bool:
    now, replica = scheduler.runner._now(), scheduler._replica  # noqa: SLF001  # looked at, not touched
    launch = event.origin
    if event.not_before > now or (launch is not None and launch.state is OriginState.OPEN):
        return True
    if launch is not None and launch.state is OriginState.PENDING and not launch.is_near:
        return True
    docs = known_reads(event, replica)
    if any(doc in scheduler.ready._loading for doc in docs):  # noqa: SLF001
        return True
    above = [node for node in not_current(scheduler, docs) if not has_had_turns(event, node)]
    return any(node.attempt is not None or scheduler.gates.is_held(node) for node in above)


def i10_lineage(scheduler: Scheduler) -> None:
    """Only undecided origins are kept. Events of a failed origin have ended, or the store refuses them."""
    for launch in scheduler.origins:
        if launch.state in (OriginState.COMMITTED, OriginState.FAILED) or launch.count < 0:
            raise broken("I10", f"{launch.name} is decided, and still kept", None)
    for event in scheduler.outcomes.live.values():
        fate = None if event.origin is None else event.origin.state
        if fate is OriginState.FAILED and event.state is not EventState.PENDING:
            raise broken("I10", "what sent it has failed, and it still waits", event)


def i11_handlers(scheduler: Scheduler) -> None:
    """Each stream has one handler, whose record is consistent."""
    waiting: dict[HandlerRecord, int] = {}
    applied: dict[HandlerRecord, int] = {}
    for event in scheduler.outcomes.live.values():
        waiting[event.handler] = waiting.get(event.handler, 0) + 1
        applied[event.handler] = applied.get(event.handler, 0) + (event.state is EventState.PENDING)
    for stream, handler in scheduler.streams.handlers.items():
        if handler.spec.stream != stream or handler.removed or handler.is_left:
            raise broken("I11", f"it handles {stream}, for which it is not there", handler)
    now = scheduler.runner._now()  # noqa: SLF001
    for handler in {*waiting, *scheduler.streams.handlers.values()}:
        for what, holds in _fitting_handler(handler, waiting.get(handler, 0), now):
            if not holds:
                raise broken("record", what, handler)
        if handler.applied != applied.get(handler, 0):
            raise broken("record", f"{applied.get(handler, 0)} of its events are not decided", handler)


def _fitting_handler(handler: HandlerRecord, waiting: int, now: float) -> Iterable[tuple[str, bool]]:
    spec = handler.spec
    title = titled(f"{spec.name}()", spec.piece)
    yield "it is what it was registered as", (handler.name, handler.title) == (spec.name, title)
    yield f"{waiting} of its events wait, not {handler.backlog}", handler.backlog == waiting
    yield "what it is known to read is bounded", len(handler.closure) <= HANDLER_READS_MAX
    yield "counts do not go below nothing", min(handler.sent, handler.runs, handler.failures) >= 0
    yield "the last that failed is counted", (handler.last_failure is None) is (handler.failures == 0)
    yield "times fit", 0 <= handler.last_ms <= handler.total_ms + 1e-6 and handler.last_at_ms <= now


def i11_events(scheduler: Scheduler) -> None:
    """The record of an event is consistent; EVENT_FIELDS lists the check of each field."""
    live = scheduler.outcomes.live
    for key, event in live.items():
        for what, holds in _fitting_event(event):
            if not holds or key != event.id:
                raise broken("record", what, event)
    ordinals = [event.ordinal for event in live.values()]
    if len(set(ordinals)) != len(ordinals):
        raise broken("record", f"two events have the same place: {ordinals}", None)
    times = [event.sent_ms for event in sorted(live.values(), key=lambda event: event.ordinal)]
    if times != sorted(times):
        raise broken("record", f"what was sent later was not sent before: {times}", None)
    if set(scheduler.outcomes.counts) & _WAITS or min(scheduler.outcomes.counts.values()) < 0:
        raise broken("record", f"only ends are counted, not {scheduler.outcomes.counts}", None)


def _fitting_event(event: EventRecord) -> Iterable[tuple[str, bool]]:
    yield "its receipt has its letters", event.id == f"event:{event.letters}" and event.receipt.endswith(event.letters)
    yield "it is on its way", event.state in _WAITS
    yield "it has a place in a lane", event.ordinal > 0 and bool(event.lane)
    yield "what it carries cannot be changed", type(event.payload) not in (dict, list)
    yield "an event from elsewhere asks for its receipt", not (event.is_fresh and event.was_failed)
    # Whether it is still there is not checked: another runtime may have resumed it, failed, and dropped it.
    yield (
        "an entry of the outbox was sent in a transaction, or resumed",
        not event.is_stored or event.origin is not None or not event.is_fresh,
    )
    yield "it was tried if it is handled", event.attempts >= (event.state is not EventState.QUEUED)
    yield "what was counted before counts", event.tried_before >= 0 <= event.resumed_count
    yield "a rolled back event waits", (event.rejected_at is None) is (event.backoff_ms == 0)
    yield "an error of the store has a rollback", event.store_error is None or event.rejected_at is not None
    yield "and not for too long", event.not_before - (event.rejected_at or 0.0) >= 0 <= event.backoff_ms <= RETRY_MAX_MS
    yield "what it waits for has run so often", all(turns >= 0 for turns, _ in (event.waited_for or {}).values())
    yield "it has a result if it is handled", event.result is None or event.attempts > 0
    yield "it has not ended", event.error is None and not event.reason and not event.not_stored
    yield (
        "an event waiting for a server is not handled",
        not event.awaits_server or event.state is EventState.QUEUED,
    )
    yield "an event rejected by its handler has been handled", event.rejection is None or event.attempts > 0
    yield (
        "an event waiting for a debounce is not handled",
        event.waits_since is None or event.state is not EventState.PENDING,
    )
    yield (
        "an event of another space is not in the outbox here, and has its own position",
        event.sender is None or not (event.is_stored or event.sender.order == event.sender.acknowledged != ()),
    )
    yield "listeners can be called", all(map(callable, event.callbacks))


# --- over the trace -------------------------------------------------------------------------------------------


def i4_order(records: Sequence[TraceRecord]) -> None:
    """No handler is called while an event of the same lane waits that was sent earlier."""
    places: dict[str, tuple[str, int]] = {}
    waiting: dict[str, dict[str, int]] = {}
    numbers: dict[str, int] = {}
    for record in records:
        if isinstance(record, EventSent):
            places[record.event] = record.lane, record.ordinal
            waiting.setdefault(record.lane, {})[record.event] = record.ordinal
            numbers[record.event] = 0
        elif isinstance(record, EventDispatched):
            lane = waiting.get(record.lane, {})
            lane.pop(record.event, None)
            earlier = [event for event, ordinal in lane.items() if ordinal < record.ordinal]
            if earlier:
                raise broken("I4", f"its handler is called before that of {earlier}, sent before it", record)
            if record.number - numbers.get(record.event, record.number) not in (0, 1):
                raise broken("I4", "an attempt of it has no record", record)
            numbers[record.event] = record.number
        elif isinstance(record, EventParked) and record.event in places:
            lane_of, ordinal = places[record.event]
            waiting[lane_of][record.event] = ordinal
        elif isinstance(record, EventEnded) and record.event in places:
            waiting[places[record.event][0]].pop(record.event, None)


def i10_lineage_gated(records: Sequence[TraceRecord]) -> None:  # noqa: C901  # one claim for each kind of record
    """An event is confirmed only if its sender is. After the sender failed, it is not handled again."""
    origins: dict[str, str] = {}
    fates: dict[str, bool] = {}
    for record in records:
        if isinstance(record, EventSent):
            if record.origin in fates:
                raise broken("I10", "it is sent in what was decided before", record)
            origins[record.event] = record.origin
        elif isinstance(record, OriginDecided):
            if record.origin in fates:
                raise broken("I10", "it is decided twice", record)
            fates[record.origin] = record.came_to_be
        elif isinstance(record, EventDispatched):
            if fates.get(origins.get(record.event, "")) is False:
                raise broken("I10", "its handler is called, and its sender was rolled back", record)
        elif isinstance(record, EventEnded):
            origin = origins.pop(record.event, "")
            if record.origin and origin and record.origin != origin:
                raise broken("I10", f"it was sent in {origin}", record)
            if origin and record.state == "confirmed" and not fates.get(origin, False):
                raise broken("I10", "it is confirmed, and what sent it is not", record)


def i11_at_most_once(records: Sequence[TraceRecord]) -> None:
    """An event is confirmed at most once, by one handler. Each delivery has one end, and nothing follows it."""
    confirmed: set[str] = set()
    handlers: dict[str, str] = {}
    # Sent and not ended; and ended and not sent again.
    under_way: set[str] = set()
    over: set[str] = set()
    for record in records:
        if not isinstance(record, EventSent | EventParked | EventDispatched | EventEnded):
            continue
        event = record.event
        if handlers.setdefault(event, record.node) != record.node:
            raise broken("I11", f"it is for {handlers[event]}, too", record)
        if isinstance(record, EventSent):
            if event in under_way:
                raise broken("I11", "it is on its way already", record)
            under_way.add(event)
            over.discard(event)
            continue
        if event in over:
            raise broken("I11", "it has ended before", record)
        if isinstance(record, EventEnded):
            under_way.discard(event)
            over.add(event)
            if record.state == "confirmed":
                if event in confirmed:
                    raise broken("I11", "it is handled a second time", record)
                confirmed.add(event)


# --- over the log ---------------------------------------------------------------------------------------------


def i11_log(entries: Iterable[Entry]) -> dict[BranchId, set[str]]:
    """A receipt is created by one commit of its branch and never written again. Returns the short ids of all."""
    found: dict[BranchId, set[str]] = {}
    for entry in entries:
        if not isinstance(entry, CommitEntry):
            continue
        receipts = found.setdefault(entry.branch, set())
        for operation in entry.operations:
            kind, _, letters = operation.doc.partition("/")[2].partition(":")
            if kind != "receipt" or isinstance(operation, DeleteDoc):
                continue
            if letters in receipts or not isinstance(operation, SetDoc):
                message = f"I11: {operation.doc} is written again, by commit {entry.local_seq} of {entry.session}"
                raise InvariantError(message, invariant="I11", record=entry)
            receipts.add(letters)
    return found


# --- the lists ------------------------------------------------------------------------------------------------

AT_REST: Final[tuple[Callable[[Scheduler], None], ...]] = (i11_events, i11_handlers, i4_lanes, i10_lineage)

OVER_TRACE: Final[tuple[Callable[[Sequence[TraceRecord]], None], ...]] = (i4_order, i10_lineage_gated, i11_at_most_once)

EVENT_FIELDS: Final[dict[str, Callable[[Scheduler], None]]] = {
    **dict.fromkeys(("id", "payload", "ordinal", "sent_ms", "is_fresh", "is_stored", "was_failed"), i11_events),
    **dict.fromkeys(("tried_before", "resumed_count", "receipt_key"), i11_events),
    **dict.fromkeys(("attempts", "not_before", "backoff_ms", "rejected_at", "waited_for", "awaits_server"), i11_events),
    **dict.fromkeys(("waits_since", "store_error", "rejection", "sender"), i11_events),
    **dict.fromkeys(("result", "error", "reason", "callbacks", "not_stored"), i11_events),
    **dict.fromkeys(("state", "lane"), i4_lanes),
    "origin": i10_lineage,
    "handler": i11_handlers,
}
"""The check of each field of an event. A field that is not in here has no check."""

HANDLER_FIELDS: Final[dict[str, Callable[[Scheduler], None]]] = dict.fromkeys(
    (
        *("spec", "name", "title", "closure", "sent", "ended", "applied", "removed", "is_left"),
        *("runs", "failures", "last_failure", "total_ms", "last_ms", "last_at_ms"),
    ),
    i11_handlers,
)
"""The same for handlers."""

LANE_FIELDS: Final[dict[str, Callable[[Scheduler], None]]] = dict.fromkeys(
    ("name", "events", "running", "parked"), i4_lanes
)
"""The same for lanes."""


def broken(
    invariant: str, what: str, record: Node | EventRecord | HandlerRecord | Lane | TraceRecord | None
) -> InvariantError:
    """The error for a violated invariant, with the record that violates it."""
    shown = "" if record is None else f": {_shown(record)}"
    return InvariantError(f"{invariant}: {what}{shown}", invariant=invariant, record=record)


def _shown(record: Node | EventRecord | HandlerRecord | Lane | TraceRecord) -> str:
    """A record without its declaration."""
    if isinstance(record, TraceRecord):
        return str(record)
    if isinstance(record, Lane):
        return f"lane {record.name} { {name: getattr(record, name) for name in LANE_FIELDS} }"
    values = {field.name: getattr(record, field.name) for field in fields(record) if field.name not in ("spec", "fn")}
    return f"{record!r} {values}"
