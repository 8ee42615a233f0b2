"""Trace records, their storage and their listeners.

No decision depends on it. Without a listener, no record is made.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from headwater.errors import UsageError
from headwater.scheduler.scheduler_limits import TRACE_MAX


class TraceRecord(msgspec.Struct, frozen=True, tag=True):
    """One step of a node, which has the id of snapshots; `at_ms` is on the scheduler's clock."""

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
    """An attempt has ended. `changed`: it wrote a different value."""

    number: int
    ms: float
    changed: bool
    reads: int


class RunFailed(TraceRecord, frozen=True, tag="failed"):
    """An attempt raised, or the store did not take its result and there is no earlier one: callers get the error."""

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
    """A live node is delayed by a gate."""

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
    """The head of a lane has to wait."""

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
    """A transaction that sent events, or started something, was committed or rolled back. `node` is empty."""

    origin: str
    name: str
    came_to_be: bool


class EventEnded(TraceRecord, frozen=True, tag="ended"):
    """An event has ended: confirmed, refused or failed."""

    event: str
    state: str
    number: int
    reason: str = ""
    origin: str = ""


class NodeRestored(TraceRecord, frozen=True, tag="restored"):
    """The result of restoring a node: restored, dirty or fresh. Or it was adopted from another runtime."""

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

    __slots__ = ("_count", "_kinds", "_listeners", "_records", "_watchers", "on", "passed")

    def __init__(self) -> None:
        self.on = False
        self._kinds: set[type[TraceRecord]] = set()
        # Numbered across all kinds: the order is known even if the times are equal.
        self._records: dict[type[TraceRecord], deque[tuple[int, TraceRecord]]] = {}
        self._count = 0
        self._listeners: tuple[TraceListener, ...] = ()
        self._watchers: tuple[Callable[[], None], ...] = ()
        # Called at the end of each pass; None: there is nothing to call. It makes no record.
        self.passed: Callable[[], None] | None = None

    def on_pass(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` at the end of each pass. Much cheaper than a listener. Returns the function that ends it."""
        # Wrapped, as a listener is.
        entry: Callable[[], None] = lambda: watcher()  # noqa: E731, PLW0108
        self._watchers = (*self._watchers, entry)
        self.passed = self._pass_ended

        def end() -> None:
            self._watchers = tuple(other for other in self._watchers if other is not entry)
            self.passed = self._pass_ended if self._watchers else None

        return end

    def _pass_ended(self) -> None:
        for watcher in self._watchers:
            watcher()

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
        # Wrapped, so that a listener that is added twice is called twice.
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
