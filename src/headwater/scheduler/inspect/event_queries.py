"""Queries about handlers and events.

Reads everything, writes nothing: no decision depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

import msgspec

from headwater.scheduler.events.event import EventRecord, EventState, HandlerRecord
from headwater.scheduler.events.lanes import Lane, Lanes
from headwater.scheduler.events.outcomes import Outcomes
from headwater.scheduler.events.streams import Streams
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.inspect.graph_snapshot import Edge, NodeView, Snapshot
from headwater.values.address import address_text
from headwater.values.text import rough_span, span


class WaitingEvent(NamedTuple):
    """An event that has not ended, and what it waits for, in words."""

    event: EventRecord
    why: str
    parked: str = ""
    """What delays the event, if it is the head of its lane."""
    first: WaitingEvent | None = None
    """The event before it."""

    @property
    def story(self) -> str:
        """The sentence, with what the first event of all waits for."""
        return self.why if self.first is None else f"{self.why}, the first of which waits: {self.first.why}"


class EventCounts(msgspec.Struct, frozen=True):
    """The events of one opening, by outcome."""

    confirmed: int
    refused: int
    failed: int
    waiting: int
    rejected: int


class EventQueries:
    """Answers about handlers."""

    def __init__(
        self, graph: Graph, *, streams: Streams, lanes: Lanes, outcomes: Outcomes, now: Callable[[], float]
    ) -> None:
        self._graph = graph
        self._streams = streams
        self._lanes = lanes
        self._outcomes = outcomes
        self._now = now

    def handlers(self) -> list[HandlerRecord]:
        """All handlers, in the order of declaration."""
        return list(self._streams.handlers.values())

    def counts(self) -> EventCounts:
        """The number of events by outcome, and of those that have not ended."""
        ends = self._outcomes.counts
        waiting = sum(event.state is not EventState.PENDING for event in list(self._outcomes.live.values()))
        return EventCounts(
            ends[EventState.CONFIRMED],
            ends[EventState.REFUSED],
            ends[EventState.FAILED],
            waiting,
            ends[EventState.REJECTED],
        )

    # -- what waits ----------------------------------------------------------------------------------------

    def waiting(self) -> list[WaitingEvent]:
        """All events that have not ended, in the order of handling."""
        found: dict[EventRecord, WaitingEvent] = {}
        for lane in self._lanes:
            found.update((each.event, each) for each in self._in_lane(lane))
        fresh = set(self._lanes.inbox)
        for event in list(self._outcomes.live.values()):
            if event.state is EventState.PENDING:
                found[event] = WaitingEvent(event, "it is handled here, and the store has not decided")
            elif event not in found:
                just_now = event in fresh
                found[event] = WaitingEvent(
                    event, "it was sent just now" if just_now else "it is left for the next opening"
                )
        return sorted(found.values(), key=lambda each: (_PLACES.get(each.event.state, 0), each.event.ordinal))

    def _in_lane(self, lane: Lane) -> Iterator[WaitingEvent]:
        running, queued = lane.running, list(lane.events)
        first: WaitingEvent | None = None
        if running is not None:
            first = WaitingEvent(running.event, f"{running.event.handler.title} is at work on it")
            yield first
        for place, event in enumerate(queued, start=first is not None):
            if first is None:
                first = self._head(lane, event)
                yield first
            else:
                others = "1 other" if place == 1 else f"{place:,} others"
                yield WaitingEvent(event, f"it is behind {others}", "", first)

    def _head(self, lane: Lane, event: EventRecord) -> WaitingEvent:
        parked = lane.parked
        if parked is None:
            return WaitingEvent(event, "it is next")
        if parked.until is None:
            return WaitingEvent(event, parked.reason, parked.reason)
        left = max(parked.until - self._now(), 0.0)
        told = span(left) if left < _SECOND_MS else rough_span(left)
        return WaitingEvent(event, f"{parked.reason}, for {told} more", parked.reason)

    def _of(self, handler: HandlerRecord) -> list[WaitingEvent]:
        return [each for each in self.waiting() if each.event.handler is handler and each.event.state in _UNHANDLED]

    # -- in words ------------------------------------------------------------------------------------------

    def why(self, handler: HandlerRecord) -> str:
        """How often it ran, why it does not run now, what waits for it, and what failed last."""
        waiting = self._of(handler)
        return "\n".join(
            [self._state(handler, waiting), self._last(handler), self._now_words(handler, waiting), _failed(handler)]
        )

    @staticmethod
    def _state(handler: HandlerRecord, waiting: list[WaitingEvent]) -> str:
        of_stream = "" if handler.spec.stream.endswith(f".{handler.name}") else f" of stream {handler.spec.stream}"
        count = len(waiting)
        queue = "idle" if not count else "1 event waits" if count == 1 else f"{count:,} events wait"
        return f"{handler.title} is a handler{of_stream}, {queue}"

    @staticmethod
    def _last(handler: HandlerRecord) -> str:
        if not handler.runs:
            return "It has not run yet"
        times = "once," if handler.runs == 1 else f"{handler.runs} times, the last time"
        failures = handler.failures
        failed = "" if not failures else "; 1 event failed" if failures == 1 else f"; {failures:,} events failed"
        return f"It ran {times} for {handler.last_ms:.1f} ms{failed}"

    def _now_words(self, handler: HandlerRecord, waiting: list[WaitingEvent]) -> str:
        if handler.removed:
            return "It does not run: it was removed"
        if not waiting:
            since = " since" if handler.runs else ""
            return f"It does not run now: nothing was sent to it{since}{self._reads(handler)}"
        first = waiting[0]
        if first.event.state is EventState.RUNNING:
            return f"It is at work on {first.event.id}"
        parked = "is parked" if first.parked else "waits"
        return f"It does not run yet: {first.event.id} {parked}: {first.story}"

    def _reads(self, handler: HandlerRecord) -> str:
        """The reads that are made current before the call."""
        titles = [writer.title for doc in handler.closure for writer in self._graph.writers_of(doc)]
        return f"; {', '.join(dict.fromkeys(titles))} would be made current first" if titles else ""

    # -- the picture ---------------------------------------------------------------------------------------

    def drawn_into(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot with handlers, and edges from the results that they last read."""
        handlers = self.handlers()
        if not handlers:
            return snapshot
        waiting: dict[HandlerRecord, list[WaitingEvent]] = {}
        for each in self.waiting():
            if each.event.state in _UNHANDLED:
                waiting.setdefault(each.event.handler, []).append(each)
        there = {node.id: node.rank for node in snapshot.nodes}
        nodes: list[NodeView] = []
        edges: dict[Edge, None] = {}
        for handler in handlers:
            own = {edge: None for edge in self._edges(handler) if edge.source in there}
            rank = max((there[edge.source] for edge in own), default=-1) + 1
            nodes.append(_view(handler, waiting.get(handler, []), rank))
            edges |= own
        return msgspec.structs.replace(snapshot, nodes=(*snapshot.nodes, *nodes), edges=(*snapshot.edges, *edges))

    def _edges(self, handler: HandlerRecord) -> Iterator[Edge]:
        for doc in list(handler.closure):
            for writer in self._graph.writers_of(doc):
                yield Edge(writer.id, handler.id, "data")
            for _, writer in self._graph.envelopes.get(doc, ()):
                yield Edge(writer.id, handler.id, "envelope")


_SECOND_MS: Final = 1000.0
_UNHANDLED: Final = frozenset({EventState.QUEUED, EventState.RUNNING})
_PLACES: Final = {EventState.PENDING: 0, EventState.RUNNING: 1, EventState.QUEUED: 2}
"""Those further on the way come first."""


def error_of(handler: HandlerRecord) -> str:
    """The error of its last run; empty if that did not fail."""
    failure = handler.last_failure
    return failure.reason if failure is not None and failure.runs == handler.runs else ""


def _failed(handler: HandlerRecord) -> str:
    failure = handler.last_failure
    if failure is None:
        return "No event has failed in this opening"
    return f"The last that failed was {failure.event}: {failure.reason}; `headwater events show` tells more"


def _view(handler: HandlerRecord, waiting: list[WaitingEvent], rank: int) -> NodeView:
    code = getattr(handler.spec.origin or handler.spec.fn, "__code__", None)
    return NodeView(
        id=handler.id,
        name=handler.name,
        piece=handler.spec.piece,
        kind="handler",
        status="clean" if handler.runs else "never-ran",
        live=True,
        why_live="handler",
        rank=rank,
        runs=handler.runs,
        mean_ms=round(handler.total_ms / handler.runs, 3) if handler.runs else 0.0,
        error=error_of(handler),
        gate=waiting[0].parked if waiting else "",
        in_flight=any(each.event.state is EventState.RUNNING for each in waiting),
        waiting=len(waiting),
        reads=tuple(address_text(doc, ()) for doc in list(handler.closure)),
        file=getattr(code, "co_filename", ""),
        line=getattr(code, "co_firstlineno", 0),
    )
