"""Delivery: what commits of this space have sent to other spaces is handled there, once and in order.

An entry of the outbox is part of the commit that sends it. When that is confirmed, the entry is sent to the other space
as an event from outside, under a name that makes it one event however often it is sent. When its handling is on disk,
a commit of this space takes the entry out. Each step can be repeated after a crash: the receipt answers.

Everything here is called with the lock of the sending space, except for `_ended` and `wake`, which any thread calls.

Length: sending, delivering and taking out share the queues and the tickets of the entries.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, cast

from headwater.cells.context import open_spaces
from headwater.cells.post import POST_STREAM, PUBLISH_STREAM
from headwater.cells.space_port import RuntimePort
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.errors import (
    ClosedError,
    DeliveryError,
    EventTimeoutError,
    HeadwaterError,
    LimitError,
    NotFoundError,
    UnavailableError,
    UsageError,
    UserCodeError,
)
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.event_service import EventHost, EventService
from headwater.runtime.posting import post_handler
from headwater.runtime.server_rules import may_write
from headwater.runtime.timers import Timers
from headwater.runtime.type_records import TypeRecordsPort
from headwater.scheduler.events import failed_events, outgoing
from headwater.scheduler.events.event import EventRecord, EventState, HandlerSpec, SendingSpace
from headwater.scheduler.events.event_errors import delivery_error
from headwater.scheduler.events.outbox import OUTBOX, is_map, undecided
from headwater.scheduler.events.outcomes import HANDLED
from headwater.scheduler.events.outgoing_entry import DeliveryTarget, Outgoing
from headwater.scheduler.events.receipts import Rejection
from headwater.scheduler.events.retry_transaction import commit_with_retries
from headwater.scheduler.events.streams import check_sending
from headwater.store.engine import Engine
from headwater.values.ids import BranchId
from headwater.values.space_ids import check_space_id
from headwater.values.tree import ABSENT, Value

T = TypeVar("T")

BATCH_MAX: Final = 256
"""Entries that are delivered to one space at a time, and taken out in one commit."""

AGAIN_MS: Final = 5000.0
"""How often entries are tried that wait for a space which is not open or not reached."""

ASK_S: Final = 1.0
"""Seconds that a wait for the disk of another space takes at most, before this space checks its own work again."""


class DeliveringRuntime(RuntimePort):
    """The runtime of a space, as its delivery uses it."""

    attached: AttachedReplica
    delivery: SpaceDelivery | None = None


class DeliveringSpace(TypeRecordsPort):
    """An open space that sends to others, and that others send to."""

    events: EventService
    delivery: SpaceDelivery
    timers: Timers
    branch: BranchId
    runtime: DeliveringRuntime

    def _face_others(self, publisher: Callable[[], HandlerSpec]) -> None:
        """Openings with one runtime have one delivery: they have one outbox. `publisher` handles events for topics."""
        runtime = self.runtime
        if runtime.delivery is None:
            runtime.delivery = SpaceDelivery(self)
        self.delivery = runtime.delivery
        self.events.built_in[POST_STREAM] = lambda: post_handler(self)
        self.events.built_in[PUBLISH_STREAM] = publisher

    @abstractmethod
    def gained_parts(self) -> None:
        """A pass checks timers from now on. The caller holds the lock."""

    @abstractmethod
    def ask_store(self, question: Callable[[Engine], T]) -> T:
        """Call a function with the engine, between two groups of commits."""

    def require_feature(self, name: str) -> None:
        """Make the feature durable: only programs that know it open the space. The server of a space does it itself."""
        if self.connection.state == "local":
            self.ask_store(lambda engine: engine.require(name))

    def send_from(
        self, near: EventHost, tx: Transaction, stream: str, payload: Value, once: tuple[str, str] | None
    ) -> EventRecord:
        """Send an event to a handler of this space with a transaction of another space."""
        assert isinstance(near, DeliveringSpace)
        return near.delivery.send(tx, self, stream, payload, once)

    def confirm(self, tx: Transaction) -> None:
        """Wait until a transaction is decided, and take in the verdict. Blocks, also in an event loop."""
        self.wait_for_disk()
        while tx.status is Status.PENDING:
            self.runtime.attached.refresh()

    def post(self, payload: Value) -> None:
        """Send a write to a cell of this space."""
        self.events.send(POST_STREAM, payload, None)


class DeliveryQueue:
    """The entries for one space, in the order of their commits."""

    __slots__ = ("flying", "waiting")

    def __init__(self) -> None:
        self.waiting: dict[str, Outgoing] = {}
        # Delivered, not taken out.
        self.flying: dict[str, tuple[Outgoing, EventRecord, DeliveringSpace]] = {}


class SpaceDelivery:
    """The delivery of one runtime. One of its openings acts for it: another one, when that is closed."""

    def __init__(self, space: DeliveringSpace) -> None:
        self._space = space
        self._routes: dict[DeliveryTarget, DeliveryQueue] = {}
        # Entries of transactions that are not decided.
        self._sent = space.scheduler.streams.sending
        # Events that have ended, or whose space was closed. From any thread.
        self._over: deque[tuple[Outgoing, EventRecord]] = deque()
        # Something can be delivered or taken out. From any thread.
        self.is_due = False
        # The space handles events: all functions are registered.
        self.is_ready = False
        self._advancing = False
        self._has_feature = False
        self._timer_set = False
        # The position up to which entries were taken out, for the other space.
        self._acknowledged: tuple[int, ...] = ()
        # Tickets of entries that wait.
        self._tickets: dict[str, tuple[EventRecord, DeliveringSpace]] = {}

    # -- sending -------------------------------------------------------------------------------------------

    def send(
        self, tx: Transaction, far: DeliveringSpace, stream: str, payload: Value, once: tuple[str, str] | None
    ) -> EventRecord:
        """Send with a transaction of this space. Nothing leaves before it is confirmed.

        Returns the event as the other space will handle it, for a ticket.
        """
        far.events.check_stream(stream)
        check_sending(tx, far.events.use_of(stream, payload), stream)
        entry = self._put(tx, far, stream, payload, once)
        event = far.events.expect(stream, payload, self.name_of(entry), tx)
        self._tickets[entry.letters] = (event, far)
        return event

    def _put(
        self, tx: Transaction, far: DeliveringSpace, stream: str, payload: Value, once: tuple[str, str] | None
    ) -> Outgoing:
        space = self._space
        for home in (space, far):
            if not home.space_id:
                message = (
                    f"nothing can be sent between {space.name!r} and {far.name!r}: the server of space {home.name!r}"
                )
                raise UnavailableError(f"{message} does not tell the id of the space; update it", space=home.name)
        if not self._has_feature:
            space.require_feature("spaces")
            self._has_feature = True
        is_first = tx not in self._sent
        target = DeliveryTarget(far.space_id, far.branch)
        entry = space.scheduler.streams.send_out(tx, target, stream, payload, once)
        if is_first:
            tx.follow(self._decided, lambda: None)
            space.await_decision(tx)
        return entry

    def _decided(self, tx: Transaction) -> None:
        entries = self._sent.pop(tx, [])
        if tx.status is not Status.COMMITTED:
            for entry in entries:
                self._tickets.pop(entry.letters, None)
            return
        # Called in the order of the log.
        for entry in entries:
            self._route(entry.target).waiting[entry.letters] = entry
        if entries:
            self.wake()

    def _route(self, target: DeliveryTarget) -> DeliveryQueue:
        found = self._routes.get(target)
        if found is None:
            found = self._routes[target] = DeliveryQueue()
        return found

    def wake(self) -> None:
        """Look at the entries again, soon. From any thread."""
        self.is_due = True
        self._space.catch_up_soon()

    # -- what there is -------------------------------------------------------------------------------------

    def open(self) -> None:
        """All functions are registered: take up entries of earlier openings, and those that wait for this space."""
        self.is_ready = True
        self.take_up()
        for home in openings_with_delivery():
            if home.delivery is not self and home.delivery.waits_for(self._space.space_id):
                home.delivery.wake()
                home.nudge()

    def take_up(self) -> None:
        """Take up entries that are not known here: of earlier openings, and of other clients of the space."""
        space = self._space
        if not may_write(space.connection):
            return
        pending = undecided(space.replica)
        known = {entry.letters for entries in self._sent.values() for entry in entries}
        for entry in outgoing.entries(space.replica):
            route = self._route(entry.target)
            if entry.letters in known or entry.letters in route.waiting or entry.letters in route.flying:
                continue
            if entry.letters in pending:
                # Of an earlier opening, and not decided by the server.
                pending[entry.letters].on_settled(lambda _: self._look_again())
            else:
                route.waiting[entry.letters] = entry
                self.is_due = True
        if self.is_due:
            self.wake()

    def _look_again(self) -> None:
        self._space.call_soon(self.take_up)

    def reconnected(self, other: DeliveringSpace) -> None:
        """The server of a space is reached. Called by the thread of the connection."""
        if other.delivery is self:
            # Other clients may have sent meanwhile, or have been decided.
            self._space.call_soon(self.take_up)
        elif self.waits_for(other.space_id):
            self.wake()

    def waits_for(self, space_id: str) -> bool:
        """Whether entries wait for a space."""
        return any(target.space == space_id and route.waiting for target, route in list(self._routes.items()))

    @property
    def count(self) -> int:
        """The number of entries that are not taken out."""
        return outgoing.count_in(self._space.replica.read(OUTBOX))

    @property
    def is_moving(self) -> bool:
        """Whether an entry can be delivered or taken out now, or is about to be decided."""
        if self._over or self._sent or self.is_due:
            return True
        routes = list(self._routes.values())
        return any(route.flying for route in routes) or any(
            self._opening_for(entry) is not None for route in routes for entry in list(route.waiting.values())[:1]
        )

    def others(self) -> list[DeliveringSpace]:
        """The open spaces that have delivered entries to handle."""
        found = [far for route in list(self._routes.values()) for _, _, far in list(route.flying.values())]
        return list(dict.fromkeys(far for far in found if not far.closed))

    def ask_others(self, timeout: float | None = None) -> None:
        """Let the other spaces decide what was delivered. Waits for their disks."""
        for far in self.others():
            far.nudge()
            self.await_disk(far, timeout)
            far.nudge()

    @staticmethod
    def await_disk(far: DeliveringSpace, timeout: float | None = None) -> None:
        """Wait for the disk of another space, for a short time."""
        with suppress(HeadwaterError):
            far.wait_for_disk(ASK_S if timeout is None else min(max(timeout, 0.0), ASK_S))

    def check_waiting(self) -> None:
        """Refuse a wait that would never end."""
        if self._space.is_passing or self._space.events.is_in_transaction:
            message = "space.delivered() in a transaction or a run would wait for itself: nothing leaves before its end"
            raise UsageError(f"{message}; call it after that", space=self._space.name)

    def timed_out(self) -> EventTimeoutError:
        """The error for a wait that takes too long."""
        count = self.count
        what = "1 event or post is" if count == 1 else f"{count:,} events and posts are"
        message = f"{what} not delivered from space {self._space.name!r}: {self.why_waiting()}"
        advice = "Delivery goes on; ask again, or see `headwater events ls --outgoing`"
        return EventTimeoutError(f"{message}. {advice}", undelivered=count)

    def why_waiting(self) -> str:
        """What the first waiting entry waits for, as text."""
        for target, route in list(self._routes.items()):
            for entry in list(route.waiting.values()):
                return f"{entry.event} waits for {why_undelivered(target.space, entry.stream)}"
            for entry, event, far in list(route.flying.values()):
                return f"{entry.event} is {event.state.value} in space {far.name!r}"
        return "its commit is not decided"

    # -- delivering ----------------------------------------------------------------------------------------

    def advance(self) -> None:
        """Deliver what can be delivered, and take out what was handled."""
        if self._advancing or self._space.closed:
            return
        self._advancing = True
        try:
            while self.is_due:
                self.is_due = False
                self._take_out()
                for route in list(self._routes.values()):
                    self._deliver(route)
        finally:
            self._advancing = False
        self._set_timer()

    def _deliver(self, route: DeliveryQueue) -> None:
        """Deliver the next batch, when the one before it has ended."""
        if route.flying or not may_write(self._space.connection):
            return
        reached: dict[DeliveringSpace, None] = {}
        for entry in list(route.waiting.values()):
            if len(route.flying) >= BATCH_MAX:
                break
            far = self._opening_for(entry)
            if not self._is_there(entry):
                # It was dropped.
                self.drop(entry.letters)
                continue
            if far is None or not far.connection:
                # It waits. Entries for other apps there do not wait for it.
                continue
            try:
                self._hand_over(route, entry, far)
            except LimitError:
                # Too many events wait there.
                break
            except ClosedError:
                # It is closed just now: the entry waits for the next opening.
                continue
            except HeadwaterError as refused:
                self._fail(route, entry, far, refused)
            reached[far] = None
        for far in reached:
            far.nudge()

    def _is_there(self, entry: Outgoing) -> bool:
        """Whether an entry is still in the outbox, or was delivered by another program: its ticket gets the result."""
        found = self._space.replica.read(OUTBOX)
        if is_map(found) and entry.letters in cast("Mapping[str, Value]", found):
            return True
        ticket = self._tickets.get(entry.letters)
        if ticket is None or ticket[1].closed or not ticket[1].connection:
            return False
        return ticket[1].replica.read(ticket[0].receipt) is not ABSENT

    def _hand_over(self, route: DeliveryQueue, entry: Outgoing, far: DeliveringSpace) -> None:
        if not may_write(far.connection):
            raise DeliveryError(f"the right to write to space {far.name!r} is missing", event=entry.event)
        del route.waiting[entry.letters]
        try:
            event = far.events.accept(
                entry.stream, entry.payload, self.name_of(entry), self._sender(entry), partial(self._ended, entry)
            )
        except BaseException:
            # Still the first one.
            route.waiting = {entry.letters: entry, **route.waiting}
            raise
        route.flying[entry.letters] = (entry, event, far)

    def _sender(self, entry: Outgoing) -> SendingSpace:
        space = self._space
        is_sole = not space.scheduler.streams.is_shared and entry.once is None
        return SendingSpace(
            space.space_id, space.lineage.hex(), entry.letters, entry.order, self._acknowledged, is_sole
        )

    def name_of(self, entry: Outgoing) -> tuple[str, str]:
        """The identity of an event for the other space: its sender, and its name there."""
        return entry.name_there(self._space.space_id)

    def _opening_for(self, entry: Outgoing) -> DeliveringSpace | None:
        """The opening that handles an entry; None if there is none. An opening without the handler refuses it."""
        homes = _at(entry.target)
        ticket = self._tickets.get(entry.letters)
        if ticket is not None:
            # First the opening that it was sent to.
            homes.sort(key=lambda home: home is not ticket[1])
        for home in homes:
            if home.events.is_handled(entry.stream) or home.events.is_built_in(entry.stream):
                return home
        return next((home for home in homes if entry.stream.startswith(f"{getattr(home.owner, 'name', None)}.")), None)

    def _ended(self, entry: Outgoing, event: EventRecord) -> None:
        """An event has ended in the other space, or that was closed. Called by its passes."""
        self._over.append((entry, event))
        self.wake()
        if not self._advancing:
            self._space.nudge()

    # -- taking out ----------------------------------------------------------------------------------------

    def _take_out(self) -> None:
        done: list[tuple[Outgoing, EventRecord]] = []
        back: dict[DeliveryTarget, dict[str, Outgoing]] = {}
        while self._over:
            entry, event = self._over.popleft()
            route = self._route(entry.target)
            route.flying.pop(entry.letters, None)
            if event.is_settled:
                self._tickets.pop(entry.letters, None)
                done.append((entry, event))
            else:
                # The other space was closed: it is delivered when that is opened again.
                back.setdefault(entry.target, {})[entry.letters] = entry
        for target, entries in back.items():
            route = self._route(target)
            route.waiting = {**entries, **route.waiting}
        for start in range(0, len(done), BATCH_MAX):
            self._acknowledge(done[start : start + BATCH_MAX])

    def _acknowledge(self, done: list[tuple[Outgoing, EventRecord]]) -> None:
        """Take entries out in one commit. What failed or was rejected is listed here."""
        now, kept_max = int(self._space.timers.wall()), self._space.keep_failed

        def work(tx: Transaction) -> None:
            for entry, event in done:
                rejection = event.rejection if event.state is EventState.REJECTED else None
                if isinstance(rejection, Rejection):
                    outgoing.store_rejection(tx, entry, rejection, at_ms=now, kept_max=kept_max)
                elif _is_failure(event):
                    outgoing.store_failure(
                        tx,
                        entry,
                        event.reason,
                        traceback=failed_events.author_traceback(event.error),
                        at_ms=now,
                        kept_max=kept_max,
                    )
                else:
                    outgoing.take(tx, entry.letters)
                    failed_events.forget(tx, entry.letters)

        commit_with_retries(self._space.replica, "taking out delivered events", work)
        self._acknowledged = max([self._acknowledged, *(entry.order for entry, _ in done)])
        for entry, event in done:
            if _is_failure(event):
                self._report(entry, event.handler.title, event.reason, event.error)

    def _fail(self, route: DeliveryQueue, entry: Outgoing, far: DeliveringSpace, refused: HeadwaterError) -> None:
        """The other space does not accept an entry: no retry would change that."""
        route.waiting.pop(entry.letters, None)
        ticket = self._tickets.pop(entry.letters, None)
        if isinstance(refused, NotFoundError):
            app = getattr(far.owner, "name", "")
            reason = f"app {app!r} has no handler for stream {entry.stream}"
        else:
            reason = refused.message
        now, kept_max = int(self._space.timers.wall()), self._space.keep_failed
        work = partial(outgoing.store_failure, entry=entry, reason=reason, traceback="", at_ms=now, kept_max=kept_max)
        commit_with_retries(self._space.replica, f"keeping {entry.event}", work)
        if ticket is not None:
            event, home = ticket
            home.scheduler.streams.undelivered(event, self._sender(entry), reason)
        self._report(entry, entry.stream, reason, refused)

    def _report(self, entry: Outgoing, what: str, reason: str, cause: Exception | None) -> None:
        space = self._space
        error = delivery_error(entry.event, what, _named(entry.target.space), reason)
        error.__cause__ = cause
        facts = {"space": space.name, "node": entry.stream, "event": entry.event, "payload": entry.payload}
        told = UserCodeError(error.message, triggers=(), **facts)
        told.__cause__ = error
        space.report(told)

    # -- for people ----------------------------------------------------------------------------------------

    def drop(self, letters: str) -> None:
        """An entry was dropped: it is not delivered. If it is being handled, that is not stopped."""
        for route in self._routes.values():
            route.waiting.pop(letters, None)
        ticket = self._tickets.pop(letters, None)
        if ticket is not None:
            event, far = ticket
            far.scheduler.streams.dropped(event)

    def redeliver(self, letters: str, to: str = "") -> Outgoing | None:
        """Deliver a failed entry again, or a waiting one, perhaps to another space. None if there is none.

        Raises NameRefusedError for what is no id of a space.
        """
        if to:
            check_space_id(to)
        space, streams = self._space, self._space.scheduler.streams
        waiting = next((entry for entry in outgoing.entries(space.replica) if entry.letters == letters), None)
        record = space.replica.read(failed_events.record_of(letters))
        position, now = streams.next_position(), int(space.timers.wall())
        found = outgoing.failed_entry(record, letters, position, now) or waiting
        if found is None:
            return None
        entry = found._replace(order=position, target=DeliveryTarget(to, found.target.branch) if to else found.target)

        def work(tx: Transaction) -> None:
            failed_events.forget(tx, letters)
            outgoing.take(tx, letters)
            outgoing.put(tx, entry)

        for route in self._routes.values():
            route.waiting.pop(letters, None)
        tx = Transaction(space.replica, f"sending {entry.event} again")
        work(tx)
        self._sent[tx] = [entry]
        tx.follow(self._decided, lambda: None)
        tx.commit()
        return entry

    # -- time ----------------------------------------------------------------------------------------------

    def move_from(self, closed: DeliveringSpace, others: Iterable[DeliveringSpace]) -> None:
        """An opening is closed: another one of the runtime acts from now on."""
        for home in others if closed is self._space else ():
            self._space, self._timer_set = home, False
            self.wake()
            return

    def _set_timer(self) -> None:
        if self._timer_set or not any(route.waiting for route in self._routes.values()):
            return
        self._timer_set = True
        self._space.gained_parts()
        self._space.timers.wait(AGAIN_MS, self._rang)

    def _rang(self) -> None:
        self._timer_set = False
        self.wake()


def why_undelivered(space: str, stream: str) -> str:
    """What an event for a space waits for, as text."""
    homes = [home for home in openings_with_delivery() if home.space_id == space]
    if not homes:
        return f"space {space}, which is not open here"
    away = next((home for home in homes if not home.connection), None)
    if away is not None:
        return f"{away.connection.url}, which is not reached ({away.connection.trouble})"
    if any(home.events.is_handled(stream) or home.events.is_built_in(stream) for home in homes):
        return f"its receipt in space {homes[0].name!r}"
    return f"an app that handles {stream} in space {homes[0].name!r}"


def _named(space: str) -> str:
    """The name of a space, as far as it is open; otherwise its id."""
    return next((home.name for home in openings_with_delivery() if home.space_id == space), space)


def _is_failure(event: EventRecord) -> bool:
    return event.state is EventState.FAILED or (event.state is EventState.REFUSED and event.reason != HANDLED)


def openings_with_delivery() -> Iterable[DeliveringSpace]:
    """All open spaces of this process."""
    return [home for home in list(open_spaces()) if isinstance(home, DeliveringSpace)]


def _at(target: DeliveryTarget) -> list[DeliveringSpace]:
    """The open and ready openings of a space."""
    return [
        home
        for home in openings_with_delivery()
        if home.space_id == target.space
        and home.branch == target.branch
        and home.delivery.is_ready
        and not (home.closed or home.events.has_left)
    ]
