"""Events of an open space: sending them, waiting for them, and callbacks at their end.

Length: one object owns the lock of senders; what other spaces send passes it, too.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Final, TypeAlias, cast

from headwater.cells.context import CONTEXT, open_spaces
from headwater.cells.context_frame import ContextFrame
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED
from headwater.errors import ClosedError, EventTimeoutError, NotFoundError, UsageError, UserCodeError
from headwater.machine import Lock
from headwater.runtime.connection import Connection
from headwater.runtime.error_report import log
from headwater.runtime.pass_port import PassPort
from headwater.runtime.server_rules import may_write
from headwater.scheduler.events import outbox
from headwater.scheduler.events.event import EventRecord, HandlerRecord, HandlerSpec, SendingSpace
from headwater.scheduler.events.lanes import Lane
from headwater.scheduler.events.origin import OriginState
from headwater.values.author_text import describe
from headwater.values.tree import Value

PAUSE_MIN_S: Final = 0.001
PAUSE_MAX_S: Final = 0.05
"""How often a plain program that waits reads the commits of others."""

CLOSE_MS: Final = 5000.0
"""How long closing waits for events that wait for their time. Then they are left for the next opening."""


Taken: TypeAlias = Callable[[EventRecord], object]


class EventHost(PassPort):
    """An open space, as its event service sees it."""

    sending: Lock
    """Held while an event is queued. Openings with one scheduler have one."""
    is_sole: bool
    """It is being closed, and no other app is open in its runtime."""
    is_in_memory: bool
    """Events that are not handled when the space is closed are lost."""

    @property
    @abstractmethod
    def connection(self) -> Connection:
        """The state of the connection to the server."""

    @abstractmethod
    def wait_for_disk(self, timeout: float | None = None) -> None:
        """Block until everything written so far is decided."""

    @abstractmethod
    def detach_coroutine(self, result: object) -> None:
        """Run the result of an author's function, if it is a coroutine."""

    @abstractmethod
    def nudge(self) -> None:
        """Run a pass if the lock is free."""

    @abstractmethod
    def await_decision(self, origin: Transaction) -> None:
        """Another space waits for the decision on a transaction of this one."""

    @abstractmethod
    def send_from(
        self, near: EventHost, tx: Transaction, stream: str, payload: Value, once: tuple[str, str] | None
    ) -> EventRecord:
        """Send an event to a handler of this space with a transaction of another space."""


class EventService:
    """The events of one open space."""

    def __init__(self, space: EventHost, left: Callable[[], str] | None = None) -> None:
        self._space = space
        # Threads that send exclude each other, and wait for nothing else.
        self._lock = space.sending
        self.handlers: dict[object, HandlerRecord] = {}
        # What happens to waiting events when the space is closed, as text.
        self._left_text = left or self._left
        # Handlers that every space has, made at the first event.
        self.built_in: dict[str, Callable[[], HandlerSpec]] = {}
        # To be called: the transactions that they waited for are on disk.
        self.due: deque[Callable[[], object]] = deque()
        # The space is being closed: it takes no event of another space any more.
        self.has_left = False

    # -- handlers ------------------------------------------------------------------------------------------

    def add(self, function: object, spec: HandlerSpec) -> None:
        """Register a handler."""
        with self._lock:
            self.handlers[function] = self._space.scheduler.add_handler(spec)

    def drop(self, function: object) -> None:
        """Remove a handler: another was declared in its place."""
        with self._lock:
            handler = self.handlers.pop(function, None)
            if handler is not None:
                self._space.scheduler.remove_handler(handler)

    def resume(self) -> None:
        """Resume events of the last opening, except those that other openings in this process handle."""
        if not may_write(self._space.connection):
            # Other openings handle them.
            return
        for stream in self.built_in:
            if any(each == stream for _, each, _ in outbox.waiting(self._space.replica)):
                self._build_in(stream)
        space = self._space
        earlier = list(takewhile(lambda home: home is not space, list(open_spaces())))
        # Of the same runtime, also those opened later: they resume their own.
        beside = [home for home in space.runtime.by_owner.values() if home is not space and home not in earlier]
        others = [home for home in earlier if home.storage_key == space.storage_key] + beside
        events = [getattr(home, "events", None) for home in others]
        self._resume({stream for each in events if isinstance(each, EventService) for stream in each.streams})

    def _resume(self, besides: set[str]) -> None:
        scheduler = self._space.scheduler
        if scheduler.resume_events(besides) and not scheduler.streams.is_shared:
            # The count is stored before any of them is handled, because a handler may end the process. For a server,
            # they are not counted.
            self._space.wait_for_disk()

    def resume_streams(self, streams: set[str]) -> None:
        """The same for handlers that were declared later."""
        space = self._space
        if not may_write(space.connection):
            return
        others = [
            getattr(home, "events", None)
            for home in list(open_spaces())
            if home is not space and home.storage_key == space.storage_key
        ]
        elsewhere = {stream for each in others if isinstance(each, EventService) for stream in each.streams}
        self._resume(elsewhere | (self.streams - streams))

    @property
    def streams(self) -> set[str]:
        """The streams whose events are handled here."""
        return {handler.spec.stream for handler in list(self.handlers.values())}

    def is_handled(self, stream: str) -> bool:
        """Whether events of a stream are handled here."""
        handlers = self._space.scheduler.streams.handlers
        if stream in handlers:
            return True
        # Another thread may be replacing the functions of a piece.
        with self._space.lock:
            return stream in handlers

    # -- sending -------------------------------------------------------------------------------------------

    def send(
        self, stream: str, payload: Value, outside: tuple[str, str] | None, taken: Taken | None = None
    ) -> EventRecord:
        """Send an event. In plain code, it is handled before this returns, if possible.

        `taken` is called with the event before that.
        """
        space = self._space
        space.check_open()
        if outside is not None:
            by, name = outside
            # An actor cannot use an id of another one.
            outside = (f"by {by}" if by else f"actor {space.actor or ''}", name)
        around, is_inside = self._around()
        origin = None if around is None else around.tx
        if around is not None and origin is not None and origin.is_open and self._is_elsewhere(around):
            event = space.send_from(cast("EventHost", around.space), origin, stream, payload, outside)
            if taken is not None:
                taken(event)
            return event
        event = self._queue(stream, payload, origin, outside)
        if taken is not None:
            taken(event)
        is_elsewhere = around is not None and around.space.runtime is not space.runtime
        if around is not None and origin is not None and is_elsewhere and origin.status not in SETTLED:
            # Another space decides the transaction that sends it: nothing can be done before.
            self._follow(cast("EventHost", around.space), origin)
        elif not is_inside:
            space.runtime.catch_up()
        return event

    def _is_elsewhere(self, around: ContextFrame) -> bool:
        """Whether the transaction around this code is one of another space, which can store what it sends."""
        near = around.space
        return near.storage_key != self._space.storage_key and isinstance(near, EventHost)

    def _queue(
        self, stream: str, payload: Value, origin: Transaction | None, outside: tuple[str, str] | None
    ) -> EventRecord:
        scheduler, is_there = self._space.scheduler, True
        if self.built_in and stream in self.built_in:
            self._build_in(stream)
        while True:
            try:
                if origin is None and outside is None:
                    with self._lock:
                        return scheduler.queue_event(stream, payload)
                # The replica is read, and comes first: a commit, which has it, asks for the turn if it stops a piece.
                with self._space.replica.lock, self._lock:
                    return scheduler.queue_event(stream, payload, origin=origin, outside=outside)
            except NotFoundError:
                # Once more, if another thread was just replacing the functions of a piece.
                is_there = is_there and self.is_handled(stream)
                if not is_there:
                    raise

    def redeliver(self, event_id: str, taken: Taken | None = None) -> EventRecord:
        """Deliver a failed event once more; `taken` as in `send`. Raises NotFoundError."""
        space = self._space
        space.check_open()
        # In the order of `_queue`.
        with space.replica.lock, self._lock:
            event = space.scheduler.redeliver(event_id)
        if taken is not None:
            taken(event)
        space.catch_up()
        return event

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction of this space is around this code."""
        return self._around()[1]

    def _around(self) -> tuple[ContextFrame | None, bool]:
        """The transaction around this code; and whether it belongs to this space, which runs a pass after it."""
        frame = CONTEXT.get()
        around: ContextFrame | None = None
        while frame is not None:
            if frame.tx is not None:
                around = around or frame
                if frame.space.runtime is self._space.runtime and frame.tx.is_open:
                    return around, True
            frame = frame.outer
        return around, False

    # -- between spaces ------------------------------------------------------------------------------------

    def is_built_in(self, stream: str) -> bool:
        """Whether every space handles the stream."""
        return stream in self.built_in

    def check_stream(self, stream: str) -> None:
        """Raise NotFoundError if the stream has no handler here, LimitError if too many of its events wait."""
        self._build_in(stream)
        with self._space.replica.lock, self._lock:
            self._space.scheduler.streams.check(stream)

    def use_of(self, stream: str, payload: Value) -> str:
        """What sending an event does, for messages."""
        if stream in self.built_in and isinstance(payload, Mapping):
            if "topic" in payload:
                return f"publish to {payload.get('flow')!s}.{payload['topic']!s}"
            return f"post to {str(payload.get('doc', '')).partition('/')[2]}"
        return f"send to {self._space.scheduler.streams.handlers[stream].title}"

    def expect(self, stream: str, payload: Value, outside: tuple[str, str], origin: Transaction) -> EventRecord:
        """The record of an event that another space sends, for its ticket. It is queued when it is delivered."""
        with self._space.replica.lock, self._lock:
            return self._space.scheduler.streams.expect(stream, payload, outside, origin)

    def accept(
        self,
        stream: str,
        payload: Value,
        outside: tuple[str, str],
        sender: SendingSpace,
        ended: Callable[[EventRecord], None],
    ) -> EventRecord:
        """Queue an event that another space delivers; `ended` is called once, also if this space is closed first.

        Raises ClosedError if this space is being closed.
        """
        self._build_in(stream)
        with self._space.replica.lock, self._lock:
            if self.has_left:
                raise ClosedError(f"space {self._space.name!r} is being closed", space=self._space.name)
            return self._space.scheduler.streams.send(stream, payload, outside=outside, sender=sender, on_commit=ended)

    def _build_in(self, stream: str) -> None:
        """Register a handler that every space has, unless it is."""
        make = self.built_in.get(stream)
        if make is not None and stream not in self._space.scheduler.streams.handlers:
            with self._lock:
                if stream not in self._space.scheduler.streams.handlers:
                    self._space.scheduler.add_handler(make())

    def _follow(self, other: EventHost, origin: Transaction) -> None:
        """Run a pass of this space when a transaction of another space is decided."""
        origin.follow(lambda _: other.call_soon(self._space.nudge), lambda: None)
        other.await_decision(origin)

    def ask_others(self) -> None:
        """Run passes of the spaces whose decisions the heads of lanes wait for, and of those that are to deliver."""
        scheduler = self._space.scheduler
        heads = [lane.head for lane in scheduler.lanes]
        waiting = [head.origin for head in heads if head is not None and head.origin is not None]
        origins = [each for each in waiting if not each.is_near and each.state is OriginState.PENDING]
        origins += [each.origin for each in list(scheduler.streams.expected.values()) if each.origin is not None]
        replicas = {id(each.tx.replica) for each in origins if isinstance(each.tx, Transaction) and not each.tx.is_open}
        for home in list(open_spaces()) if replicas else ():
            if id(home.replica) in replicas:
                cast("EventHost", home).nudge()

    # -- waiting -------------------------------------------------------------------------------------------

    def check_waiting(self, event: EventRecord) -> None:
        """Refuse a wait that would never end."""
        around, is_inside = self._around()
        if is_inside or self._space.is_passing or self._is_behind(event, around):
            message = (
                f"the result of {event.id} is not available here: events are handled one after the other, when the "
                "transaction around this code has ended; ask for it after the block, or use ticket.on_commit(...)"
            )
            raise UsageError(message, event=event.id)

    def _is_behind(self, event: EventRecord, around: ContextFrame | None) -> bool:
        """Whether the event, or one before it, was sent in a transaction around this code."""
        open_ones: list[Transaction] = []
        while around is not None:
            if around.tx is not None and around.tx.is_open:
                open_ones.append(around.tx)
            around = around.outer
        if not open_ones:
            return False
        lanes = self._space.scheduler.lanes
        if event.origin is not None and event.origin.tx in open_ones:
            return True
        return any(
            before.origin is not None and before.origin.tx in open_ones and before.ordinal <= event.ordinal
            for before in [*lanes.of(event).events, *lanes.inbox]
        )

    def is_in_vain(self, end: float) -> bool:
        """Whether all waiting events wait for a later time than this, or for the calling code."""
        lanes = [lane for lane in self._space.scheduler.lanes if lane.events or lane.running is not None]
        return bool(lanes) and all(lane.running is None and self._is_far(lane, end) for lane in lanes)

    def _is_far(self, lane: Lane, end: float) -> bool:
        until = None if lane.parked is None else lane.parked.until
        head = lane.events[0]
        if head.awaits_server and not self._space.connection:
            return True
        return (until is not None and until > end) or self._is_behind(head, self._around()[0])

    def timed_out(self, event: EventRecord, timeout_ms: float | None) -> EventTimeoutError:
        """The error for a wait that takes too long."""
        message = f"{event.handler.title} has not handled {event.id} within {timeout_ms or 0:g} ms"
        state = f"it is {event.state.value}, and goes on; ask again, or see `hw.why({event.handler.name})`"
        connection = self._space.connection
        if connection.state == "over":
            state = f"it is {event.state.value}, and stays so: {connection.trouble}"
        elif not connection:
            state = (
                f"it is {event.state.value}: {connection.url} is not reached ({connection.trouble}); ask again later"
            )
        return EventTimeoutError(f"{message}: {state}", event=event.id, state=event.state.value)

    # -- telling -------------------------------------------------------------------------------------------

    def when_ended(self, event: EventRecord, callback: Callable[[EventRecord], object], named: object = None) -> None:
        """Call when the event has ended. Errors of the callback are reported."""

        def call(event: EventRecord) -> None:
            self._call(lambda: callback(event), f"the on_commit function {_name(named or callback)} of {event.id}")

        space = self._space
        space.scheduler.outcomes.on_end(event, call)
        if space.closed:
            # The space is closed: the event keeps this state.
            space.scheduler.outcomes.tell()
        elif space.is_passing or self._around()[1]:
            space.catch_up_soon()
        else:
            space.catch_up()

    def call_soon(self, fn: Callable[[], object]) -> None:
        """Call a function after the next pass: its transaction is on disk."""
        self.due.append(fn)
        self._space.catch_up_soon()

    def call_due(self) -> None:
        """Call the functions that are due, outside of any transaction."""
        while self.due:
            fn = self.due.popleft()
            self._call(fn, f"{_name(fn)}, called by hw.after_commit,")

    def _call(self, fn: Callable[[], object], what: str) -> None:
        token = CONTEXT.set(ContextFrame(self._space, None, None))
        try:
            self._space.detach_coroutine(fn())
        except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
            message = f"{what} in space {self._space.name!r} raised {describe(error)}"
            told = UserCodeError(message, space=self._space.name, node=_name(fn), event=None, triggers=())
            told.__cause__ = error
            self._space.report(told)
        finally:
            CONTEXT.reset(token)

    # -- the end -------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Stop handling events. Waiting events are stored, and handled after the next opening."""
        with self._lock:
            self.has_left = True
        dispatcher = self._space.scheduler.events
        left = dispatcher.close() if self._space.is_sole else dispatcher.close_handlers(list(self.handlers.values()))
        if left:
            who = "1 event waits; it is" if left == 1 else f"{left:,} events wait; they are"
            log.warning("space %r was closed while %s %s", self._space.name, who, self._left_text())

    @property
    def has_live(self) -> bool:
        """Whether events of these handlers have not ended. If no other app is open: any events."""
        live = self._space.scheduler.outcomes.live
        if not live or self._space.is_sole:
            return bool(live)
        own = set(map(id, self.handlers.values()))
        return any(id(event.handler) in own for event in list(live.values()))

    @property
    def has_waiting(self) -> bool:
        """Whether some of these are not handled yet."""
        if self._space.is_sole:
            return self._space.scheduler.events.waiting > 0
        return any(handler.waiting > 0 for handler in list(self.handlers.values()))

    def remove_handlers(self) -> None:
        """The opening is closed, and others go on with the scheduler."""
        with self._lock:
            for handler in self.handlers.values():
                self._space.scheduler.remove_handler(handler)

    def _left(self) -> str:
        is_lost = self._space.is_in_memory
        return "lost, since the space was in memory" if is_lost else "handled when the space is opened again"


def _name(fn: object) -> str:
    return str(getattr(fn, "__qualname__", fn))
