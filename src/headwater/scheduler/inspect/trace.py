"""Trace records, their storage and their listeners.

Nothing here decides anything: without a listener not even a record is made, and with one nothing else differs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from headwater.errors import UsageError
from headwater.scheduler.scheduler_limits import TRACE_MAX


class TraceRecord(msgspec.Struct, frozen=True, tag=True):
    """One thing that happened to a node, named as snapshots name it; `at_ms` on the scheduler's clock."""

    at_ms: float
    node: str


class NodeRegistered(TraceRecord, frozen=True, tag="registered"):
    """A node was registered."""

    kind: str
    parent: str | None = None


class NodeRemoved(TraceRecord, frozen=True, tag="removed"):
    """A node was removed."""


class NodeInvalidated(TraceRecord, frozen=True, tag="invalidated"):
    """A value that it had read changed. `by`: the node whose run changed it; empty if no run did."""

    cause: str
    change: str
    by: str = ""


class RunStarted(TraceRecord, frozen=True, tag="started"):
    """An attempt began. `demand`: live, or pulled by a caller."""

    number: int
    pass_number: int
    rank: int
    demand: str
    causes: tuple[str, ...]
    first: bool


class RunFinished(TraceRecord, frozen=True, tag="finished"):
    """An attempt came to its end. `changed`: something was written that is different."""

    number: int
    ms: float
    changed: bool
    reads: int


class RunFailed(TraceRecord, frozen=True, tag="failed"):
    """An attempt raised."""

    number: int
    error: str


class RunDiscarded(TraceRecord, frozen=True, tag="taken-back"):
    """An attempt was discarded, and is repeated for the same causes."""

    number: int
    reason: str


class RunSuspended(TraceRecord, frozen=True, tag="suspended"):
    """An attempt is suspended; others continue."""

    number: int


class DemandChanged(TraceRecord, frozen=True, tag="demand"):
    """A node became live, or dormant."""

    live: bool


class NodeGated(TraceRecord, frozen=True, tag="gated"):
    """A node that is wanted has to wait."""

    until_ms: float
    reason: str


class NodeRestless(TraceRecord, frozen=True, tag="restless"):
    """A node does not settle."""

    runs: int


class PassEnded(TraceRecord, frozen=True, tag="pass"):
    """A pass ended. `node` is empty."""

    number: int
    runs: int


class EventSent(TraceRecord, frozen=True, tag="sent"):
    """An event was sent to a handler, which is the node. `origin`: the attempt that it was sent in."""

    event: str
    ordinal: int
    lane: str
    origin: str = ""


class EventParked(TraceRecord, frozen=True, tag="parked"):
    """An event is first in its lane, and has to wait."""

    event: str
    reason: str
    until_ms: float | None = None


class EventDispatched(TraceRecord, frozen=True, tag="dispatched"):
    """A handler was called with an event."""

    event: str
    ordinal: int
    lane: str
    number: int


class OriginDecided(TraceRecord, frozen=True, tag="decided"):
    """A transaction that has sent events, or started something, came to be, or not. `node` is empty."""

    origin: str
    name: str
    came_to_be: bool


class EventEnded(TraceRecord, frozen=True, tag="ended"):
    """An event came to its end: confirmed, refused or failed."""

    event: str
    state: str
    number: int
    reason: str = ""
    origin: str = ""


class NodeRestored(TraceRecord, frozen=True, tag="restored"):
    """An opening has looked for what is stored of a node: restored, dirty or fresh. Or it was adopted, from a peer."""

    outcome: str
    reason: str = ""


TRACE_KINDS: Final[dict[str, type[TraceRecord]]] = {
    "registered": NodeRegistered,
    "removed": NodeRemoved,
    "invalidated": NodeInvalidated,
    "started": RunStarted,
    "finished": RunFinished,
    "failed": RunFailed,
    "taken-back": RunDiscarded,
    "suspended": RunSuspended,
    "demand": DemandChanged,
    "gated": NodeGated,
    "restless": NodeRestless,
    "pass": PassEnded,
    "restored": NodeRestored,
    "sent": EventSent,
    "parked": EventParked,
    "dispatched": EventDispatched,
    "decided": OriginDecided,
    "ended": EventEnded,
}

TraceListener: TypeAlias = Callable[[TraceRecord], None]


class Trace:
    """Stores trace records and calls listeners. `on` is checked before a record is made."""

    __slots__ = ("_count", "_kinds", "_listeners", "_records", "on")

    def __init__(self) -> None:
        self.on = False
        self._kinds: set[type[TraceRecord]] = set()
        # Numbered, each kind for itself: what happened in between is found again although no time has passed.
        self._records: dict[type[TraceRecord], deque[tuple[int, TraceRecord]]] = {}
        self._count = 0
        self._listeners: tuple[TraceListener, ...] = ()

    def emit(self, record: TraceRecord) -> None:
        """Store a record if its kind is enabled, and call the listeners."""
        kind = type(record)
        if kind in self._kinds:
            self._count += 1
            self._records[kind].append((self._count, record))
        for listener in self._listeners:
            listener(record)

    def listen(self, listener: TraceListener) -> Callable[[], None]:
        """Call the listener with every record. Returns the function that unsubscribes."""
        # Wrapped, so that the same listener given twice is two.
        entry: TraceListener = lambda record: listener(record)  # noqa: E731, PLW0108
        self._listeners = (*self._listeners, entry)
        self._update()

        def end() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not entry)
            self._update()

        return end

    def enable(self, kind: str, *, on: bool) -> None:
        """Store records of a kind from now on, or no longer."""
        chosen = self._kind(kind)
        if on:
            self._kinds.add(chosen)
            self._records.setdefault(chosen, deque(maxlen=TRACE_MAX))
        else:
            self._kinds.discard(chosen)
        self._update()

    def records(self, kind: str | None = None) -> list[TraceRecord]:
        """The stored records of a kind, or all, oldest first."""
        if kind is not None:
            return [record for _, record in self._records.get(self._kind(kind), ())]
        numbered = [entry for records in self._records.values() for entry in records]
        return [record for _, record in sorted(numbered, key=lambda entry: entry[0])]

    def clear(self) -> None:
        """Delete the stored records."""
        for records in self._records.values():
            records.clear()

    def _update(self) -> None:
        self.on = bool(self._kinds or self._listeners)

    @staticmethod
    def _kind(kind: str) -> type[TraceRecord]:
        if kind not in TRACE_KINDS:
            raise UsageError(f"{kind!r} is no kind of trace; there are {', '.join(TRACE_KINDS)}", kind=kind)
        return TRACE_KINDS[kind]
