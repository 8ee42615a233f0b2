"""The records of handlers, events and handlings; the table of event states.

An event is sent, waits for its turn, is handled in one transaction, and is then confirmed, refused or failed. The table
has the allowed changes of state. The handling creates the receipt of the event, a document with the same id.
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
from headwater.scheduler.graph.node import FunctionHome, Node
from headwater.scheduler.runs.attempt import AttemptOwner
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
    """Handled, and confirmed by the store. Final."""
    REFUSED = "refused"
    """Not handled by this delivery: it was handled before, or the transaction that sent it did not commit. Final."""
    REJECTED = "rejected"
    """Its handler rejected it with `hw.Reject`: only the reason is written. Final."""
    FAILED = "failed"
    """Not handled: its handler raised, or its commits failed. It is stored for inspection and redelivery."""


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
    # The transaction that sent it was rolled back, or the event was handled already.
    (EventState.QUEUED, EventSignal.REFUSED): EventState.REFUSED,
    # Its handling was rejected before.
    (EventState.QUEUED, EventSignal.REJECTED): EventState.REJECTED,
    # The space is closed, or what the event waits for will never be ready.
    (EventState.QUEUED, EventSignal.FAILED): EventState.FAILED,
    (EventState.RUNNING, EventSignal.APPLIED): EventState.PENDING,
    # Something that its handler reads is not ready: it keeps its place.
    (EventState.RUNNING, EventSignal.ROLLED_BACK): EventState.QUEUED,
    (EventState.RUNNING, EventSignal.REFUSED): EventState.REFUSED,
    (EventState.RUNNING, EventSignal.FAILED): EventState.FAILED,
    (EventState.PENDING, EventSignal.ACCEPTED): EventState.CONFIRMED,
    # A conflict: the event is handled again, from the head of its lane.
    (EventState.PENDING, EventSignal.ROLLED_BACK): EventState.QUEUED,
    (EventState.PENDING, EventSignal.REFUSED): EventState.REFUSED,
    (EventState.PENDING, EventSignal.REJECTED): EventState.REJECTED,
    (EventState.PENDING, EventSignal.FAILED): EventState.FAILED,
}
"""A change of state that is missing here cannot happen."""

SETTLED_STATES: Final = frozenset({EventState.CONFIRMED, EventState.REFUSED, EventState.REJECTED, EventState.FAILED})

_NO_DOCS: Final[dict[DocKey, None]] = {}


@dataclass(slots=True, eq=False, kw_only=True)
class HandlerSpec:
    """The declaration of a handler. Fixed after registration."""

    # The stream whose events it handles; each stream has one handler.
    stream: str
    name: str
    # Called with the transaction and the payload, or by the convention of the host.
    fn: Callable[..., object]
    # The known reads, which are made current before the call. Further reads are made current during the call.
    reads: tuple[DocKey, ...] = ()
    # Whether a payload may contain links, whose documents are made current, too.
    may_link: bool = True
    # Converts the return value for the receipt.
    store: Callable[[object], Value] = freeze
    # The digest of a payload: it distinguishes two events with the same id.
    given: Callable[[Value], Value] = freeze
    is_async: bool = False
    timeout_ms: float | None = None
    # Events of the stream that may wait at once.
    backlog_max: int = BACKLOG_MAX
    change_group: str | None = None
    piece: str = ""
    origin: Callable[..., object] | None = None
    # The opening that it belongs to; None: the scheduler is used without any.
    home: FunctionHome | None = None


class SendingSpace(NamedTuple):
    """The space that delivers an event here, and what it knows of it. That space lists the event if it fails."""

    space: str
    # Of the log of that space: a restored space begins another one.
    lineage: str
    # The id there without prefix, and the position among the entries of that space.
    letters: str
    order: tuple[int, ...]
    # The position up to which that space has taken out its entries.
    acknowledged: tuple[int, ...] = ()
    # No other program can deliver it.
    is_sole: bool = False


class LastFailure(NamedTuple):
    """The last failure: the event, the reason, and the number of runs of its handler."""

    event: EventId
    reason: str
    runs: int


@dataclass(slots=True, eq=False, kw_only=True)
class HandlerRecord:
    """A handler and its known reads. Each comment names the only writer of the fields below it."""

    # Fixed at registration.
    spec: HandlerSpec
    name: str
    title: str
    # events: recently read results of nodes, which are made current before the next call.
    closure: dict[DocKey, None] = field(default_factory=lambda: _NO_DOCS)
    # events.send(): the number of sent events; events: the number of ended ones. Two fields, one per thread.
    sent: int = 0
    ended: int = 0
    # Event.signal(): the number of handled events that are not decided.
    applied: int = 0
    # events: the number of attempts; their times, for people.
    runs: int = 0
    failures: int = 0
    total_ms: float = 0.0
    last_ms: float = 0.0
    last_at_ms: float = 0.0
    # outcome: the last failure, for people.
    last_failure: LastFailure | None = None
    removed: bool = False
    # events: its opening was closed, and others go on. Its waiting events are stored for the next opening.
    is_left: bool = False

    @property
    def piece(self) -> str:
        """The piece that it belongs to."""
        return self.spec.piece

    @property
    def backlog(self) -> int:
        """Events that were sent and have not ended."""
        return self.sent - self.ended

    @property
    def waiting(self) -> int:
        """The number of these that are not handled yet. This number is bounded."""
        return self.sent - self.ended - self.applied

    @property
    def id(self) -> str:
        """Its name in traces."""
        return f"handler:{self.spec.stream}"

    def __repr__(self) -> str:
        return f"<Handler {self.spec.stream}: {self.runs} runs, {self.waiting} waiting>"


@dataclass(slots=True, eq=False, kw_only=True)
class EventRecord:
    """One event that has not ended. Each comment names the only writer of the fields below it."""

    # Fixed when it is sent.
    id: EventId
    handler: HandlerRecord
    payload: Value
    lane: str
    # Its place in the lane: a retry keeps it.
    ordinal: int
    # When it was sent, in milliseconds since 1970; never earlier than events sent before it.
    sent_ms: int = 0
    # The transaction that sent it; None outside of a transaction, or if that is committed.
    origin: Origin | None = None
    # Its id was created here: no other runtime can have handled it.
    is_fresh: bool = False
    # streams: the space that has delivered it, or is about to; None for an event of this space, or from outside.
    sender: SendingSpace | None = None
    # streams: the number of attempts of an earlier delivery that failed.
    tried_before: int = 0
    # streams: the number of openings that resumed it from the outbox and did not close in order.
    resumed_count: int = 0
    # Whether it is in the outbox; whether it is stored as failed. Its handling removes it from both.
    is_stored: bool = False
    was_failed: bool = False
    # signal(): see TRANSITIONS.
    state: EventState = EventState.QUEUED
    # events: the number of attempts; the earliest time of the next; when it was first rolled back.
    attempts: int = 0
    not_before: float = 0.0
    backoff_ms: float = 0.0
    rejected_at: float | None = None
    # outcome: why the store did not accept its last attempt; None for a conflict.
    store_error: HeadwaterError | None = None
    # ready: the nodes that it waits for, with their runs since it became the head of its lane, and in total.
    waited_for: dict[Node, tuple[int, int]] | None = None
    # ready: since when it waits for debounced functions; None if it does not.
    waits_since: float | None = None
    # events: the stored result of its handler; the error; the error as text.
    result: Value = None
    error: Exception | None = None
    reason: str = ""
    # events, outcome: the reason of its handler for rejecting it, if it did.
    rejection: Rejection | None = None
    # outcome: why a failed event is not stored, as text.
    not_stored: str = ""
    # events: its handler needs a document from the server, which was not reached.
    awaits_server: bool = False
    # Called once when it has ended, with any outcome.
    callbacks: list[Callable[[EventRecord], None]] = field(default_factory=list)
    # `receipt`: its key, made at the first use, because most events of a long queue do not need it yet.
    receipt_key: DocKey | None = None

    @property
    def receipt(self) -> DocKey:
        """The document that its handling creates."""
        key = self.receipt_key
        if key is None:
            key = self.receipt_key = doc_key(f"receipt:{self.letters}")
        return key

    @property
    def letters(self) -> str:
        """Its id without the prefix."""
        return self.id.partition(":")[2]

    @property
    def is_only_here(self) -> bool:
        """Whether no other runtime can have the event yet. An event in the outbox is visible to all."""
        launch = self.origin
        return self.is_fresh and not (self.is_stored and launch is not None and launch.state is OriginState.COMMITTED)

    @property
    def is_settled(self) -> bool:
        """Whether it has ended."""
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

    # The host: the return value or the error of the function; or that it waits, and how to cancel it.
    result: object = None
    error: Exception | None = None
    suspended: bool = False
    stop: Callable[[], object] | None = None
    # It reads something that is not ready yet.
    needs: bool = False

    def __init__(self, owner: AttemptOwner, event: EventRecord, tx: Transaction, started: float, version: int) -> None:
        self.owner = owner
        self.event = event
        self.tx = tx
        self.started = started
        # The visible version at its beginning, and when what it has read was last known to be current.
        self.version = self.checked = version
        # A savepoint before the first write: a rejection rolls back to it.
        self.start: Savepoint = tx.beginning()
        # The results of nodes that it has read.
        self.looked: dict[DocKey, None] = {}
        spec = event.handler.spec
        self.title = event.handler.title
        self.fn = spec.fn
        self.arguments: tuple[Value, ...] = (event.payload,)
        self.is_async = spec.is_async
        self.timeout_ms = spec.timeout_ms

    def outcome(self) -> tuple[Value | Rejection, Exception | None]:
        """The content of its receipt: the result, or the reason of a rejection; otherwise the error."""
        error = self.error
        try:
            if isinstance(error, Reject):
                rejection = rejection_of(error)
                # Its writes and events are rolled back. Its reads stay: a rejection based on old data is a conflict.
                self.tx.roll_back(self.start)
                # Its traceback refers to this frame: a reference cycle for each rejection.
                self.error = None
                return rejection, None
            if error is None:
                return self.event.handler.spec.store(self.result), None
        except Exception as refused:  # noqa: BLE001  # what an author's function returns is the author's
            return None, refused
        return None, error

    def cancel(self) -> None:
        """Cancel it, if it is running."""
        if self.stop is not None:
            self.stop()
