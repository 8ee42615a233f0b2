"""What happened, one record for each kind of thing that can; and who is told.

Nothing here decides anything: without a listener not even a record is made, and with one nothing else differs.

Must never know: how records are shown, logged or kept for longer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from headwater.errors import UsageError
from headwater.scheduler.scheduler_limits import TRACE_MAX


class Record(msgspec.Struct, frozen=True, tag=True):
    """One thing that happened to a node, named as snapshots name it; `at_ms` on the scheduler's clock."""

    at_ms: float
    node: str


class Registered(Record, frozen=True, tag="registered"):
    """A node is there."""

    kind: str
    parent: str | None = None


class Removed(Record, frozen=True, tag="removed"):
    """A node is gone."""


class Invalidated(Record, frozen=True, tag="invalidated"):
    """A value that it had read changed. `by`: the node whose run changed it; empty if it was nobody's."""

    cause: str
    change: str
    by: str = ""


class Started(Record, frozen=True, tag="started"):
    """An attempt began. `demand`: live, or pulled by a caller."""

    number: int
    pass_number: int
    rank: int
    demand: str
    causes: tuple[str, ...]
    first: bool


class Finished(Record, frozen=True, tag="finished"):
    """An attempt came to its end. `changed`: something was written that is different."""

    number: int
    ms: float
    changed: bool
    reads: int


class Failed(Record, frozen=True, tag="failed"):
    """An attempt raised."""

    number: int
    error: str


class TakenBack(Record, frozen=True, tag="taken-back"):
    """An attempt does not count: it has to be made again, for the same causes."""

    number: int
    reason: str


class Suspended(Record, frozen=True, tag="suspended"):
    """An attempt waits for something; others go on."""

    number: int


class Demand(Record, frozen=True, tag="demand"):
    """A node became live, or dormant."""

    live: bool


class Gated(Record, frozen=True, tag="gated"):
    """A node that is wanted has to wait."""

    until_ms: float
    reason: str


class Restless(Record, frozen=True, tag="restless"):
    """A node does not settle."""

    runs: int


class Pass(Record, frozen=True, tag="pass"):
    """A pass ended. `node` is empty."""

    number: int
    runs: int


class Sent(Record, frozen=True, tag="sent"):
    """An event was sent to a handler, which is the node. `origin`: the attempt that it was sent in."""

    event: str
    ordinal: int
    lane: str
    origin: str = ""


class Parked(Record, frozen=True, tag="parked"):
    """An event is first in its lane, and has to wait."""

    event: str
    reason: str
    until_ms: float | None = None


class Dispatched(Record, frozen=True, tag="dispatched"):
    """A handler was called with an event."""

    event: str
    ordinal: int
    lane: str
    number: int


class Decided(Record, frozen=True, tag="decided"):
    """A transaction that has sent events, or started something, came to be, or not. `node` is empty."""

    origin: str
    name: str
    came_to_be: bool


class Ended(Record, frozen=True, tag="ended"):
    """An event came to its end: confirmed, refused or failed."""

    event: str
    state: str
    number: int
    reason: str = ""
    origin: str = ""


class Restored(Record, frozen=True, tag="restored"):
    """An opening has looked for what is kept of a node: restored, dirty or fresh. Or it was adopted, from a peer."""

    outcome: str
    reason: str = ""


KINDS: Final[dict[str, type[Record]]] = {
    "registered": Registered,
    "removed": Removed,
    "invalidated": Invalidated,
    "started": Started,
    "finished": Finished,
    "failed": Failed,
    "taken-back": TakenBack,
    "suspended": Suspended,
    "demand": Demand,
    "gated": Gated,
    "restless": Restless,
    "pass": Pass,
    "restored": Restored,
    "sent": Sent,
    "parked": Parked,
    "dispatched": Dispatched,
    "decided": Decided,
    "ended": Ended,
}

Listener: TypeAlias = Callable[[Record], None]


class Trace:
    """Where records go. `on` is asked before one is made."""

    __slots__ = ("_count", "_kept", "_kinds", "_listeners", "on")

    def __init__(self) -> None:
        self.on = False
        self._kinds: set[type[Record]] = set()
        # Numbered, each kind for itself: what happened in between is found again although no time has passed.
        self._kept: dict[type[Record], deque[tuple[int, Record]]] = {}
        self._count = 0
        self._listeners: tuple[Listener, ...] = ()

    def emit(self, record: Record) -> None:
        """Keep it if its kind is asked for, and tell the listeners."""
        kind = type(record)
        if kind in self._kinds:
            self._count += 1
            self._kept[kind].append((self._count, record))
        for listener in self._listeners:
            listener(record)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Be told of every record. Returns what ends it."""
        # Wrapped, so that the same listener given twice is two.
        entry: Listener = lambda record: listener(record)  # noqa: E731, PLW0108
        self._listeners = (*self._listeners, entry)
        self._turn()

        def end() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not entry)
            self._turn()

        return end

    def keep(self, kind: str, *, on: bool) -> None:
        """Keep records of a kind from now on, or no longer."""
        chosen = self._kind(kind)
        if on:
            self._kinds.add(chosen)
            self._kept.setdefault(chosen, deque(maxlen=TRACE_MAX))
        else:
            self._kinds.discard(chosen)
        self._turn()

    def kept(self, kind: str | None = None) -> list[Record]:
        """What was kept of a kind, or of all, oldest first."""
        if kind is not None:
            return [record for _, record in self._kept.get(self._kind(kind), ())]
        numbered = [entry for kept in self._kept.values() for entry in kept]
        return [record for _, record in sorted(numbered, key=lambda entry: entry[0])]

    def clear(self) -> None:
        """Forget what was kept."""
        for kept in self._kept.values():
            kept.clear()

    def _turn(self) -> None:
        self.on = bool(self._kinds or self._listeners)

    @staticmethod
    def _kind(kind: str) -> type[Record]:
        if kind not in KINDS:
            raise UsageError(f"{kind!r} is no kind of trace; there are {', '.join(KINDS)}", kind=kind)
        return KINDS[kind]
