"""The records of handlers, events and handlings; the table of event states.

An event is sent, waits for its turn, is handled in one transaction, and is then confirmed, refused or failed: the table
says what follows from what. Its receipt is the document that its handling creates; the two share their letters.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from headwater.cells.transaction import Savepoint, Transaction
from headwater.errors import HeadwaterError, InvariantError, Reject
from headwater.scheduler.events.origin import Origin, OriginState
from headwater.scheduler.events.receipts import Rejection, rejection_of
from headwater.scheduler.graph.node import Node
from headwater.scheduler.passes.attempt import AttemptOwner
from headwater.scheduler.scheduler_limits import BACKLOG_MAX
from headwater.values.address import doc_key
from headwater.values.ids import DocKey, EventId
from headwater.values.tree import Value, freeze


class EventState(Enum):
    """The state of an event."""

    __hash__ = object.__hash__

    QUEUED = "queued"
    """Waits in its lane."""
    RUNNING = "running"
    """Its handler is running."""
    PENDING = "pending"
    """Handled, visible here; the store has not decided."""
    CONFIRMED = "confirmed"
    """Handled, once and for all."""
    REFUSED = "refused"
    """Not handled, and never will be by this delivery: it was handled before, or what sent it did not commit."""
    REJECTED = "rejected"
    """Its handler refused it with `hw.Reject`, once and for all: nothing is written but why."""
    FAILED = "failed"
    """Not handled: its handler raised, or could not get through. It is kept, to be looked at and delivered again."""


class EventSignal(Enum):
    """What changes the state of an event."""

    __hash__ = object.__hash__

    DISPATCHED = "dispatched"
    APPLIED = "handled-here"
    ACCEPTED = "accepted"
    ROLLED_BACK = "taken-back"
    REFUSED = "refused"
    REJECTED = "rejected"
    FAILED = "failed"


EVENT_TRANSITIONS: Final[dict[tuple[EventState, EventSignal], EventState]] = {
    (EventState.QUEUED, EventSignal.DISPATCHED): EventState.RUNNING,
    # What it follows from was rolled back, or it was handled already.
    (EventState.QUEUED, EventSignal.REFUSED): EventState.REFUSED,
    # It was rejected before.
    (EventState.QUEUED, EventSignal.REJECTED): EventState.REJECTED,
    # The space is closed, or what it waits for cannot be had.
    (EventState.QUEUED, EventSignal.FAILED): EventState.FAILED,
    (EventState.RUNNING, EventSignal.APPLIED): EventState.PENDING,
    # Something that it reads is not ready: it waits in its place.
    (EventState.RUNNING, EventSignal.ROLLED_BACK): EventState.QUEUED,
    (EventState.RUNNING, EventSignal.REFUSED): EventState.REFUSED,
    (EventState.RUNNING, EventSignal.FAILED): EventState.FAILED,
    (EventState.PENDING, EventSignal.ACCEPTED): EventState.CONFIRMED,
    # A conflict: again, from the head of its lane.
    (EventState.PENDING, EventSignal.ROLLED_BACK): EventState.QUEUED,
    (EventState.PENDING, EventSignal.REFUSED): EventState.REFUSED,
    (EventState.PENDING, EventSignal.REJECTED): EventState.REJECTED,
    (EventState.PENDING, EventSignal.FAILED): EventState.FAILED,
}
"""A pair that is missing cannot happen."""

SETTLED_STATES: Final = frozenset({EventState.CONFIRMED, EventState.REFUSED, EventState.REJECTED, EventState.FAILED})

_NO_DOCS: Final[dict[DocKey, None]] = {}


@dataclass(slots=True, eq=False, kw_only=True)
class HandlerSpec:
    """The declaration of a handler. Fixed after registration."""

    # The stream whose events it handles; one handler for each.
    stream: str
    name: str
    # Called with the transaction and the payload, or as the host that performs attempts says.
    fn: Callable[..., object]
    # What it is known to read: made current before it is called. What it turns out to read, while it is.
    reads: tuple[DocKey, ...] = ()
    # From what it returned to what is stored in the receipt.
    store: Callable[[object], Value] = freeze
    # From a payload to what tells it from another one under the same id.
    given: Callable[[Value], Value] = freeze
    is_async: bool = False
    timeout_ms: float | None = None
    # Events of the stream that may wait at once.
    backlog_max: int = BACKLOG_MAX
    change_group: str | None = None
    piece: str = ""
    origin: Callable[..., object] | None = None


class LastFailure(NamedTuple):
    """Of which event, why, and after how many runs of its handler."""

    event: EventId
    reason: str
    runs: int


@dataclass(slots=True, eq=False, kw_only=True)
class HandlerRecord:
    """A handler and what it is known to need. Each comment names the only writer of what follows."""

    # Fixed at registration.
    spec: HandlerSpec
    name: str
    title: str
    # events: documents that nodes write and it has read lately, so that they are made current before the next call.
    closure: dict[DocKey, None] = field(default_factory=lambda: _NO_DOCS)
    # events.send(): how many were sent; events: how many of these have ended. In two, for each has its own thread.
    sent: int = 0
    ended: int = 0
    # Event.signal(): how many were handled here, and are not decided.
    applied: int = 0
    # events: attempts, and for people how long they took.
    runs: int = 0
    failures: int = 0
    total_ms: float = 0.0
    last_ms: float = 0.0
    last_at_ms: float = 0.0
    # outcome: the last that failed, for people.
    last_failure: LastFailure | None = None
    removed: bool = False

    @property
    def backlog(self) -> int:
        """Events that were sent and have not ended."""
        return self.sent - self.ended

    @property
    def waiting(self) -> int:
        """Of these, the ones that are still to be handled, and so what is bounded."""
        return self.sent - self.ended - self.applied

    @property
    def id(self) -> str:
        """Its name in traces."""
        return f"handler:{self.spec.stream}"

    def __repr__(self) -> str:
        return f"<Handler {self.spec.stream}: {self.runs} runs, {self.waiting} waiting>"


@dataclass(slots=True, eq=False, kw_only=True)
class EventRecord:
    """One event on its way. Each comment names the only writer of what follows."""

    # Fixed when it is sent.
    id: EventId
    handler: HandlerRecord
    payload: Value
    lane: str
    # Its place in the lane, for good: a retry does not lose it.
    ordinal: int
    # When, in milliseconds since 1970; not before those that were sent before it, whatever the clock says.
    sent_ms: int = 0
    # What it was sent in; None for a gesture, or if that has come to be.
    origin: Origin | None = None
    # Its id was made here: no other runtime can have handled it.
    is_fresh: bool = False
    # streams: how often it was tried when it was delivered before, and failed.
    tried_before: int = 0
    # streams: how many openings have taken it up from the outbox, and not come to their end.
    resumed_count: int = 0
    # It stands in the outbox; it is kept among the failed. Its handling takes it out of there.
    is_stored: bool = False
    was_failed: bool = False
    # signal(): see TRANSITIONS.
    state: EventState = EventState.QUEUED
    # events: attempts so far; not before this time; when it was first rolled back.
    attempts: int = 0
    not_before: float = 0.0
    backoff_ms: float = 0.0
    rejected_at: float | None = None
    # outcome: what kept the store from taking its last attempt; None if it was a conflict.
    store_error: HeadwaterError | None = None
    # ready: nodes that it has to wait for: how often each has run since its turn has come, and ever.
    waited_for: dict[Node, tuple[int, int]] | None = None
    # ready: since when it waits for functions that wait for quiet; None if it does not.
    waits_since: float | None = None
    # events: what its handler returned, as stored; what went wrong; in words.
    result: Value = None
    error: Exception | None = None
    reason: str = ""
    # events, outcome: why its handler has rejected it, if it has.
    rejection: Rejection | None = None
    # outcome: why it is not kept although it failed, in words.
    not_stored: str = ""
    # events: it needs what only the server has, which was away.
    awaits_server: bool = False
    # Called once when it has ended, whichever way.
    callbacks: list[Callable[[EventRecord], None]] = field(default_factory=list)

    @property
    def receipt(self) -> DocKey:
        """The document that its handling creates."""
        return doc_key(f"receipt:{self.letters}")

    @property
    def letters(self) -> str:
        """Its id without the word in front."""
        return self.id.partition(":")[2]

    @property
    def is_only_here(self) -> bool:
        """No other runtime can have it yet. An event in the outbox is visible to all."""
        launch = self.origin
        return self.is_fresh and not (self.is_stored and launch is not None and launch.state is OriginState.COMMITTED)

    @property
    def is_settled(self) -> bool:
        """It has ended."""
        return self.state in SETTLED_STATES

    def signal(self, signal: EventSignal) -> None:
        """Change the state, as the table says."""
        after = EVENT_TRANSITIONS.get((self.state, signal))
        if after is None:
            raise InvariantError(f"{self.id}: {signal.value} while {self.state.value}", event=self.id)
        self.handler.applied += (after is EventState.PENDING) - (self.state is EventState.PENDING)
        self.state = after

    def __repr__(self) -> str:
        return f"<Event {self.id} for {self.handler.spec.stream}: {self.state.value}>"


class Handling:
    """One attempt to handle an event: a step of a pass, as an `Attempt` is for a node."""

    # The host: what the function returned or raised; or that it waits, and how to stop it.
    result: object = None
    error: Exception | None = None
    suspended: bool = False
    # It turned out to need something that it could not have yet.
    needs: bool = False

    def __init__(self, owner: AttemptOwner, event: EventRecord, tx: Transaction, started: float, version: int) -> None:
        self.owner = owner
        self.event = event
        self.tx = tx
        self.started = started
        # What was visible when it began.
        self.version = version
        # Nothing is written yet: what a rejection goes back to.
        self.start: Savepoint = tx.beginning()
        # Documents that nodes write and it has looked at.
        self.looked: dict[DocKey, None] = {}
        spec = event.handler.spec
        self.title = event.handler.title
        self.fn = spec.fn
        self.arguments: tuple[Value, ...] = (event.payload,)
        self.is_async = spec.is_async
        self.timeout_ms = spec.timeout_ms

    def outcome(self) -> tuple[Value | Rejection, Exception | None]:
        """What its receipt is to say: what the handler returned, or why it rejects the event; or the error there is."""
        error = self.error
        try:
            if isinstance(error, Reject):
                rejection = rejection_of(error)
                # What it wrote and sent is undone. What it read stays: of old data, the rejection is a conflict.
                self.tx.roll_back(self.start)
                # Its traceback leads back to here: a circle for each rejection, which only the collector would end.
                self.error = None
                return rejection, None
            if error is None:
                return self.event.handler.spec.store(self.result), None
        except Exception as refused:  # noqa: BLE001  # what an author's function returns is the author's
            return None, refused
        return None, error

    def cancel(self) -> None:
        """Stop it, if it is running. The host that starts it replaces this method."""
