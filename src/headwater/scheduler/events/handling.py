"""Which event is handled next, and one handling from its transaction to its commit.

The head of a lane is handled when everything above the reads of its handler is current (I4). Its transaction also
creates the receipt. The store rejects the transaction if the receipt exists, or if the sender did not commit (I10,
I11). The next event does not wait for the verdict.

Length: the order of events and the steps of one handling depend on each other at every line.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import partial

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status as TxStatus
from headwater.errors import HeadwaterError, OfflineError, StoreError
from headwater.scheduler.events import cursors, failed_events, outbox, receipts
from headwater.scheduler.events.event import EventRecord, EventSignal, EventState, HandlerRecord, Handling
from headwater.scheduler.events.handler_reads import known_reads, remember_reads
from headwater.scheduler.events.lanes import Lane
from headwater.scheduler.events.origin import OriginState
from headwater.scheduler.events.outcomes import ROLLED_BACK, Outcomes
from headwater.scheduler.events.parking import Parking
from headwater.scheduler.events.readiness import Readiness
from headwater.scheduler.events.receipts import Rejection
from headwater.scheduler.events.streams import Streams
from headwater.scheduler.events.unhandled import store_unhandled
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.function_errors import is_final
from headwater.scheduler.runs.immediate_retry import RetryImmediately
from headwater.scheduler.runs.steps import PassStep, drive
from headwater.scheduler.scheduler_environment import SchedulerEnvironment
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.scheduler.trace import EventDispatched, EventParked, Trace
from headwater.store.commit import Absent, Conflict, OriginCommitted
from headwater.values.author_text import text_of
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT, Value


class NotYet(RetryImmediately):
    """Raised in a handler at its first read of something that cannot be made current now. It is called again later."""


class EventDispatcher:
    """Decides which event is handled next, and handles it."""

    def __init__(
        self,
        replica: Replica,
        environment: SchedulerEnvironment,
        trace: Trace,
        *,
        streams: Streams,
        outcomes: Outcomes,
        ready: Readiness,
    ) -> None:
        self._replica = replica
        self._handlers = streams.handlers
        self._streams = streams
        self._lanes = streams.lanes
        # A pass checks these three itself, and calls this part only if one of them is not empty.
        self.lanes_by_name = streams.lanes.by_name
        self.inbox = streams.lanes.inbox
        self.unnotified = outcomes.unnotified
        self._outcomes = outcomes
        self.ready = ready
        self._trace = trace
        self._environment = environment
        self._now = environment.now
        # The server of the space, if it has one; and why it is not reached, empty if it is.
        self.server = "" if environment.server is None else environment.server.url
        self.away: Callable[[], str] = (lambda: "") if environment.server is None else environment.server.away
        # Called with every handling before it is committed: for diagnosis.
        self.before_commit: Callable[[Handling], None] | None = None
        # Scheduler: the number of failures so far; and the conflict of a transaction that has called a function which
        # fails since, or no longer.
        self.failures: Callable[[], int] = lambda: 0
        self.other_outcome: Callable[[Transaction], Conflict | None] = lambda _: None
        # Arrivals: called with a document before a handler reads it, if the replica is partial.
        self.expect: Callable[[DocKey], None] | None = None

    # -- the next event ------------------------------------------------------------------------------------

    @property
    def is_ready(self) -> bool:
        """Whether some event can be checked."""
        return bool(self._lanes.inbox) or self._lanes.are_ready

    @property
    def is_due(self) -> bool:
        """Whether some event can be checked, or some listener has to be notified."""
        return bool(self._outcomes.unnotified) or self.is_ready

    @property
    def waiting(self) -> int:
        """Events that are not handled yet."""
        return self._lanes.waiting

    @property
    def wake_at(self) -> float | None:
        """The earliest time at which an event may be handled that only waits for time."""
        return self._lanes.wake_at

    def take_spent(self) -> dict[Node, None]:
        """Take the nodes that reached the limit of runs for events."""
        spent, self.ready.spent = self.ready.spent, {}
        return spent

    def recheck(self) -> None:
        """A pass begins: check the parked events again."""
        for lane in self._lanes:
            lane.parked = None

    def tell(self) -> None:
        """Notify the listeners of ended events."""
        self._outcomes.tell()

    def steps(self) -> Iterator[PassStep]:
        """Handle the head of each lane, if possible."""
        if self._outcomes.store_unhandled is not None:
            # The space is being closed: an event of now may not overtake those that wait for the next opening.
            self._leave_behind(self._outcomes.store_unhandled)
            return
        self._lanes.take_in()
        for lane in self._lanes:
            event = lane.next_event()
            if event is None or lane.running is not None or lane.parked is not None:
                continue
            if event.handler.removed:
                # Another handler was declared in its place, as in a notebook.
                self._hand_over(event)
            parking = self._held_up(event)
            if parking is None:
                try:
                    needs = known_reads(event, self._replica)
                except (OfflineError, StoreError) as error:
                    self._unreadable(event, error)
                    continue
                if needs:
                    yield from self.ready.make(needs, event)
                    parking = self.ready.parking
            if lane.head is not event:
                # A run has rolled it back meanwhile.
                continue
            if parking is None:
                # I4: it is the head of its lane, and everything that its known reads depend on has run.
                yield from self._dispatch(lane, event)
            else:
                self._park(lane, event, parking)

    def _held_up(self, event: EventRecord) -> Parking | None:
        if event.not_before and event.not_before > self._now():
            return Parking(ROLLED_BACK, event.not_before)
        if event.awaits_server and (away := self.away()):
            return Parking(away)
        launch = event.origin
        if launch is not None:
            fate = launch.state
            if fate is OriginState.OPEN:
                return Parking(f"{launch.name} sent it, and has not ended")
            if fate is OriginState.FAILED:
                # Another thread is just deciding that.
                return Parking(f"{launch.name} sent it, and is being rolled back")
            if fate is OriginState.PENDING and not launch.is_near:
                return Parking(f"{launch.name} sent it in another space, and is not confirmed")
        return None

    def _park(self, lane: Lane, event: EventRecord, parking: Parking) -> None:
        lane.parked = parking
        if lane.head is not event or (event.awaits_server and not self.away()):
            # Another thread has just rolled it back: the next event is not parked. Or the server is reached again.
            lane.parked = None
        if self._trace.on:
            self._trace.emit(EventParked(self._now(), event.handler.id, event.id, parking.reason, parking.until))

    # -- handling ------------------------------------------------------------------------------------------

    def _dispatch(self, lane: Lane, event: EventRecord) -> Iterator[PassStep]:
        lane.take_out(event)
        if event.handler.removed:
            # Another handler was declared while the reads of the event were made current.
            self._hand_over(event)
        handler = event.handler
        if handler.removed:
            self._outcomes.fail(event, None, f"{handler.title} was removed before its turn came")
            return
        launch, is_new = event.origin, False
        if event.is_only_here:
            self._replica.expect_new(event.receipt)
            is_new = not event.attempts
        elif self._is_off(event):
            return
        # Ids made by a handler are derived from the event: they are the same in every runtime and at every attempt.
        tx = Transaction(self._replica, handler.title, cause=("event", event.id))
        tx.is_first, tx.failures = is_new, self.failures()
        tx.node, tx.event, tx.change_group = handler, event, handler.spec.change_group
        if launch is not None and launch.state is OriginState.PENDING and launch.local_seq is not None:
            # I10: the store checks the sender when it decides this commit. Added before `Handling` takes the savepoint
            # of a rejection, which must not undo it.
            tx.require(OriginCommitted(launch.local_seq))
        handling = Handling(self, event, tx, self._now(), self._replica.version)
        tx.gate = partial(self._gate, handling)
        event.awaits_server, event.waits_since = False, None
        event.signal(EventSignal.DISPATCHED)
        event.attempts += 1
        handler.runs += 1
        lane.running = handling
        if self._trace.on:
            self._trace.emit(
                EventDispatched(handling.started, handler.id, event.id, event.ordinal, event.lane, event.attempts)
            )
        try:
            yield handling
        except RetryImmediately:
            self.again(handling)
        except BaseException as stop:
            self.interrupted(handling, f"it was interrupted by {type(stop).__name__}")
            raise
        else:
            self.finish(handling)

    def _is_off(self, event: EventRecord) -> bool:
        """Whether it was handled already, or whether that is unknown now: then the handler is not called."""
        try:
            if self._replica.read(event.receipt) is ABSENT:
                return False
        except (OfflineError, StoreError) as error:
            self._unreadable(event, error)
        else:
            self._outcomes.handled_before(event)
        return True

    def _hand_over(self, event: EventRecord) -> None:
        old = event.handler
        event.handler = self._handlers.get(old.spec.stream, old)
        # Only senders count sent events.
        old.ended += 1
        event.handler.ended -= 1

    def _gate(self, handling: Handling, doc: DocKey) -> None:
        """At the first read of a document, make its writers current (I4)."""
        if self.expect is not None:
            with self._environment.lock:
                self.expect(doc)
        if not self.ready.is_written(doc):
            return
        handling.looked[doc] = None
        with self._environment.lock:
            drive(self.ready.make((doc,), handling.event), self._environment.perform)
            parking = self.ready.parking
        if parking is not None:
            handling.needs = True
            raise NotYet(f"{handling.title} has to wait: {parking.reason}")

    def _is_still_current(self, handling: Handling) -> bool:
        """Make everything that the handler has read current again: if a value changes by that, the commit is rejected.

        Otherwise the handler could have read a result from before a change together with a value from after it (I4).
        """
        replica, tries = self._replica, RUNS_MAX
        while handling.looked and handling.checked != replica.version and tries:
            # Runs change something, too: then once more, without a run.
            handling.checked, tries = replica.version, tries - 1
            with self._environment.lock:
                drive(self.ready.make(handling.looked, handling.event), self._environment.perform)
                handling.needs = self.ready.parking is not None
            if handling.needs:
                return False
        return True

    def finish(self, handling: Handling) -> None:
        """The handler has returned or raised; or it waits, and its lane waits too."""
        event, tx = handling.event, handling.tx
        if handling.suspended:
            return
        if handling.needs or not self._is_still_current(handling):
            # In the first case, the handler caught the error that told it to wait.
            self.again(handling)
            return
        self._leave(handling)
        remember_reads(handling)
        if event.is_settled:
            # The transaction that sent it was rolled back meanwhile.
            if tx.is_open:
                tx.abort()
            return
        if tx.status is not TxStatus.OPEN:
            self._outcomes.fail(
                event, None, "its transaction was ended before it returned, by tx.abort() or tx.commit()"
            )
            return
        outcome, error = handling.outcome()
        if error is not None:
            tx.abort()
            self._fail(event, error)
            return
        if self.before_commit is not None:
            self.before_commit(handling)
        self._commit(handling, outcome)

    def _fail(self, event: EventRecord, error: Exception) -> None:
        if isinstance(error, OfflineError) and error.facts.get("url") == self.server:
            self._wait_for_server(event, error)
        else:
            self._outcomes.fail(event, error)

    def _commit(self, handling: Handling, outcome: Value | Rejection) -> None:
        event, tx = handling.event, handling.tx
        tx.gate = None
        if self._streams.sending:
            self._streams.restamp(tx)
        # I11: the first handling creates this document, and no other can create it again.
        receipt = event.receipt
        tx.require(Absent(receipt))
        repeatable = ABSENT if event.is_fresh else event.handler.spec.given(event.payload)
        sender = ABSENT if event.sender is None else cursors.position_of(event.sender)
        tx.set(receipt, (), receipts.made(event.handler.spec.stream, outcome, repeatable, sender))
        if event.sender is not None:
            cursors.advance(tx, event.sender)
        if event.is_stored or not event.is_fresh:
            # Another runtime may have stored it in the outbox, or as failed.
            outbox.take(tx, event.letters)
            failed_events.forget(tx, event.letters)
        event.result = event.rejection = event.waited_for = None
        if isinstance(outcome, Rejection):
            event.rejection = outcome
        else:
            event.result = outcome
        event.signal(EventSignal.APPLIED)
        tx.callbacks = (*tx.callbacks, self._outcomes.decided)
        try:
            self._send(handling)
        except HeadwaterError as broken:
            if tx.local_seq is not None:
                # It was submitted nevertheless: the store decides.
                raise
            # A limit, or a closed space: nothing was written.
            self._outcomes.fail(event, broken)

    def _send(self, handling: Handling) -> None:
        tx = handling.tx
        if not handling.looked:
            # It has read no result of a function.
            tx.commit()
            return
        conflict = self.other_outcome(tx)
        with self._replica.lock:
            if conflict is None and handling.checked != self._replica.version:
                # Another thread has just changed something: the results may be outdated, and no document shows it.
                conflict = Conflict("something changed while its reads were checked", seq=self._replica.seq)
            if conflict is None:
                tx.commit()
        if conflict is not None:
            tx.reject(conflict)

    def _leave(self, handling: Handling) -> None:
        lane = self._lanes.of(handling.event)
        if lane.running is handling:
            lane.running = None
        now = self._now()
        handler = handling.event.handler
        handler.last_ms = now - handling.started
        handler.total_ms += handler.last_ms
        handler.last_at_ms = now

    def again(self, handling: Handling) -> None:
        """The event cannot be handled now: it keeps its place."""
        event = handling.event
        self._leave(handling)
        if handling.tx.is_open:
            handling.tx.abort()
        if event.is_settled:
            return
        if not handling.needs:
            self._outcomes.retry(event, "its handler asked to be called again")
            return
        # As if it had not been called: its reads are known now, and checked first.
        remember_reads(handling)
        event.signal(EventSignal.ROLLED_BACK)
        event.attempts -= 1
        event.handler.runs -= 1
        self._lanes.of(event).put(event)
        self._environment.tick(True)

    def _unreadable(self, event: EventRecord, error: OfflineError | StoreError) -> None:
        """What has to be read before the handler is called cannot be read: the event ends as if it had been called."""
        if isinstance(error, OfflineError):
            self._wait_for_server(event, error)
            return
        self._lanes.of(event).take_out(event)
        if is_final(error):
            self._outcomes.fail(event, error)
        else:
            event.signal(EventSignal.DISPATCHED)
            self._outcomes.retry(event, text_of(error), error)

    def _wait_for_server(self, event: EventRecord, error: OfflineError) -> None:
        """Its handler needs a document from the server: no failure. The event keeps its place until that arrives."""
        lane = self._lanes.of(event)
        lane.take_out(event)
        is_called = event.state is EventState.RUNNING
        if not self.away() or self._outcomes.store_unhandled is not None:
            # The server is reached again, or slow: limit the wait.
            if not is_called:
                event.signal(EventSignal.DISPATCHED)
            self._outcomes.retry(event, text_of(error), error)
            return
        if is_called:
            # It does not count as an attempt.
            event.signal(EventSignal.ROLLED_BACK)
            event.attempts -= 1
            event.handler.runs -= 1
        event.awaits_server = True
        lane.put(event)
        self._environment.tick(True)

    def interrupted(self, handling: Handling, reason: str) -> None:
        """Its handler was cancelled. External effects remain; its writes are rolled back; the event is kept."""
        self._leave(handling)
        if handling.tx.is_open:
            handling.tx.abort()
        if not handling.event.is_settled:
            self._outcomes.fail(handling.event, None, reason)

    def waits(self, handling: Handling) -> None:
        """The handler is suspended again. Its reads are checked when it commits."""

    # -- the end -------------------------------------------------------------------------------------------

    def close(self) -> int:
        """Stop handling. Waiting events are stored in the outbox for the next opening. Returns their number."""
        leave = partial(store_unhandled, outcomes=self._outcomes, replica=self._replica)
        self._outcomes.store_unhandled = leave
        return self._leave_behind(leave)

    def close_handlers(self, handlers: Collection[HandlerRecord]) -> int:
        """Stop handling events of these handlers: one of several openings is closed. Returns how many wait."""
        leave = partial(store_unhandled, outcomes=self._outcomes, replica=self._replica)
        self._outcomes.store_left = leave
        for handler in handlers:
            handler.is_left = True
        return self._leave_behind(leave, handlers)

    def _leave_behind(
        self, leave: Callable[[list[EventRecord]], None], handlers: Collection[HandlerRecord] | None = None
    ) -> int:
        """Store waiting events, of these handlers only if some are given. Returns their number."""
        self._lanes.take_in()
        left: list[EventRecord] = []
        for lane in self._lanes:
            running = lane.running
            if running is not None and (handlers is None or running.event.handler in handlers):
                lane.running = None
                running.cancel()
                if running.tx.is_open:
                    running.tx.abort()
                if not running.event.is_settled:
                    running.event.signal(EventSignal.ROLLED_BACK)
                    lane.put(running.event)
            gone = [event for event in list(lane.events) if handlers is None or event.handler in handlers]
            for event in gone:
                lane.take_out(event)
            left += gone
        leave(left)
        left = [event for event in left if not event.is_settled]
        if handlers is not None:
            for event in left:
                # The next opening of the app resumes it.
                self._outcomes.live.pop(event.id, None)
        self._outcomes.unnotified.extend(event for event in left if event.callbacks)
        self._outcomes.tell()
        return len(left)
