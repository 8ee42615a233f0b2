"""The outcome of an event, and its listeners."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from headwater.cells.rejection import refusal
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status as TxStatus
from headwater.errors import HeadwaterError, PoisonedError, StoreError, UnconfirmedError
from headwater.scheduler.events import failed_events, outbox, receipts
from headwater.scheduler.events.event import (
    SETTLED_STATES,
    EventRecord,
    EventSignal,
    EventState,
    LastFailure,
    SendingSpace,
)
from headwater.scheduler.events.event_errors import failed_event, unstored_event
from headwater.scheduler.events.lanes import Lanes
from headwater.scheduler.events.origin import OriginState
from headwater.scheduler.events.parking import Parking
from headwater.scheduler.events.receipts import Rejection
from headwater.scheduler.events.retry_transaction import commit_with_retries
from headwater.scheduler.runs.function_errors import is_final
from headwater.scheduler.scheduler_environment import SchedulerEnvironment
from headwater.scheduler.scheduler_limits import RETRY_MAX_MS, RETRY_MS, RETRY_WINDOW_MS
from headwater.scheduler.trace import EventEnded, EventParked, Trace
from headwater.store.commit import Absent, Conflict, OriginCommitted, Refused
from headwater.values.author_text import describe, text_of
from headwater.values.ids import EventId

HANDLED: Final = "it was handled before"
"""The reason of an event that is refused because it has a receipt."""

ROLLED_BACK: Final = "its handling was rolled back, and is retried"
"""The reason of a head of a lane that waits after a conflict."""


class Outcomes:
    """Ends and retries of events."""

    def __init__(self, replica: Replica, environment: SchedulerEnvironment, trace: Trace, *, lanes: Lanes) -> None:
        self._replica = replica
        self._lanes = lanes
        self._trace = trace
        self._environment = environment
        self._now = environment.now
        self._tick = environment.tick
        self._space = environment.space
        # Sent and not ended, by id: the same event is not queued twice.
        self.live: dict[EventId, EventRecord] = {}
        # Ended events whose listeners are not notified yet.
        self.unnotified: deque[EventRecord] = deque()
        # When the last event failed, in milliseconds since 1970.
        self._failed_ms = 0
        # Set when the space is closed: receives events that would be retried.
        self.store_unhandled: Callable[[list[EventRecord]], None] | None = None
        # Set when one of several openings is closed: the same for events of its handlers.
        self.store_left: Callable[[list[EventRecord]], None] | None = None
        # Why failed events cannot be stored here, if so; and the options of commands that show them.
        server = environment.server
        self.storing_refused: Callable[[], HeadwaterError | None] = (lambda: None) if server is None else server.refusal
        self.where = "" if server is None else f" --url {server.url}"
        # The number of events by outcome.
        self.counts: dict[EventState, int] = dict.fromkeys(SETTLED_STATES, 0)

    # -- the verdict ---------------------------------------------------------------------------------------

    def decided(self, tx: Transaction) -> None:
        """The store has decided on the commit of a handling."""
        event = tx.event
        assert isinstance(event, EventRecord)
        if event.state is not EventState.PENDING or (tx.error is not None and tx.local_seq is None):
            # In the latter case the commit was never sent, as the exception says.
            return
        if tx.status is TxStatus.COMMITTED:
            if event.rejection is None:
                event.signal(EventSignal.ACCEPTED)
                self._end(event)
            else:
                self._reject(event, event.rejection)
            # The receipt is not read again here: release it, since there is one for every event.
            self._replica.release(event.receipt)
            return
        launch, verdict = event.origin, tx.verdict
        if launch is not None and launch.state is OriginState.FAILED:
            self.refuse(event, f"{launch.name}, which sent it, was rolled back")
        elif is_final(tx.error):
            # No conflict: every attempt would fail in the same way.
            self.fail(event, tx.error)
        elif not isinstance(verdict, Refused):
            self.retry(event, verdict.reason if isinstance(verdict, Conflict) else text_of(tx.error), tx.error)
        elif isinstance(verdict.unmet, Absent):
            self.handled_before(event)
        elif isinstance(verdict.unmet, OriginCommitted):
            self.refuse(event, "the transaction that sent it was rolled back")
        else:
            self.fail(event, refusal(verdict), verdict.reason)

    def retry(self, event: EventRecord, reason: str, error: Exception | None = None) -> None:
        """A conflict: retry from the head of its lane, after a short wait. It does not count as an attempt."""
        now = self._now()
        if event.rejected_at is None:
            event.rejected_at = now
        if now - event.rejected_at >= RETRY_WINDOW_MS:
            window = f"for {RETRY_WINDOW_MS / 1000:g} s"
            self.fail(event, error, f"it was tried {window}, and was rolled back each time; the last time: {reason}")
            return
        store = self.store_left if event.handler.is_left else self.store_unhandled
        if store is not None:
            event.signal(EventSignal.ROLLED_BACK)
            store([event])
            self._queue_notification(event)
            return
        event.store_error = error if isinstance(error, HeadwaterError) else None
        event.backoff_ms = min(event.backoff_ms * 2 or RETRY_MS, RETRY_MAX_MS)
        event.not_before = now + event.backoff_ms * (1 - self._environment.jitter() / 2)
        event.signal(EventSignal.ROLLED_BACK)
        lane = self._lanes.of(event)
        lane.put(event)
        if lane.head is event:
            lane.parked = Parking(ROLLED_BACK, event.not_before)
        if self._trace.on:
            self._trace.emit(EventParked(now, event.handler.id, event.id, reason, event.not_before))
        # The time of the next wake-up is computed again.
        self._tick(True)

    @property
    def is_undecided(self) -> bool:
        """Whether some event was handled, and its commit is not decided yet."""
        return any(event.state is EventState.PENDING for event in list(self.live.values()))

    def unstored(self) -> tuple[int, HeadwaterError] | None:
        """Events that are only in memory because the store has no room for the first result: their number, and why."""
        live = list(self.live.values())
        troubled = {
            event.lane: event.store_error for event in live if event.store_error is not None and not event.is_stored
        }
        if not troubled:
            return None
        count = sum(event.lane in troubled and not event.is_stored for event in live)
        return count, next(iter(troubled.values()))

    # -- ends ----------------------------------------------------------------------------------------------

    def handled_before(self, event: EventRecord) -> None:
        """I11: the event was handled before. The sender gets the outcome of that handling."""
        try:
            receipt = self._replica.read(event.receipt)
        except StoreError as error:
            # As after a failure of the disk: the outcome of that handling cannot be known in this opening.
            self.fail(event, error)
            return
        rejection = receipts.rejection_in(receipt)
        # Not the result of an attempt here, which does not count.
        event.result = None
        if not event.is_fresh and receipts.is_of_another(receipt, event.handler.spec.given(event.payload)):
            self.refuse(event, receipts.REUSED)
        elif rejection is not None:
            self._reject(event, rejection)
        else:
            event.result = receipts.result_in(receipt)
            self.refuse(event, HANDLED)
        # Perhaps another runtime handled it, without knowing this entry.
        commit_with_retries(self._replica, f"tidying up {event.id}", partial(self._tidy, event.letters))
        self._replica.release(event.receipt)

    @staticmethod
    def _tidy(letters: str, tx: Transaction) -> None:
        outbox.take(tx, letters)
        failed_events.forget(tx, letters)

    def end_alike(self, event: EventRecord, sender: SendingSpace | None, same: EventRecord) -> None:
        """An event that another space has delivered was queued already: it has the outcome of that event."""
        event.result, event.sender = same.result, sender or same.sender
        if event.is_settled or not same.is_settled:
            # Closed: both wait for the next opening.
            return
        if same.state is EventState.CONFIRMED:
            self.refuse(event, HANDLED)
        elif same.rejection is not None and same.state is EventState.REJECTED:
            self._reject(event, same.rejection)
        elif same.state is EventState.FAILED:
            self.fail(event, same.error, same.reason)
        else:
            self.refuse(event, same.reason)

    def refuse(self, event: EventRecord, reason: str) -> None:
        """Refuse an event: it is not handled, and not retried."""
        event.reason = reason
        event.signal(EventSignal.REFUSED)
        self._end(event)

    def _reject(self, event: EventRecord, rejection: Rejection) -> None:
        """The handler rejected the event: an answer, no failure. Nothing is logged or stored for redelivery."""
        event.rejection, event.reason = rejection, rejection.reason
        event.signal(EventSignal.REJECTED)
        self._end(event)

    def orphan(self, event: EventRecord) -> None:
        """I10: the transaction that sent it did not commit. If it is handled already, the store rejects that."""
        if event.state is EventState.PENDING or event.is_settled:
            return
        lane = self._lanes.of(event)
        running = lane.running
        name = "what sent it" if event.origin is None else event.origin.name
        # In this order: this may be another thread than the one that handles events and puts it into its lane.
        unknown = None if event.origin is None else event.origin.tx.error
        if isinstance(unknown, UnconfirmedError | PoisonedError):
            event.error = unknown
            self.refuse(event, f"it is not known whether {name} was stored: {unknown.message}")
        else:
            self.refuse(event, f"{name} was rolled back, and the event with it")
        lane.take_out(event)
        if lane.events:
            self._tick(True)
        if running is not None and running.event is event:
            running.cancel()

    def fail(self, event: EventRecord, error: Exception | None, reason: str = "") -> None:
        """Fail an event: report it once, and store it for redelivery."""
        event.error, event.reason = error, reason or describe(error)
        event.handler.failures += 1
        event.signal(EventSignal.FAILED)
        self._end(event)
        event.handler.last_failure = LastFailure(event.id, event.reason, event.handler.runs)
        if event.sender is not None:
            # The space that sent it reports and stores it.
            return
        # Each has a later time than the one before: the oldest are deleted first.
        self._failed_ms = max(int(self._environment.wall_ms()), self._failed_ms + 1)
        home = event.handler.spec.home
        at_ms, kept_max = self._failed_ms, self._environment.keep_failed if home is None else home.keep_failed
        storing_refused = self.storing_refused()
        if storing_refused is not None:
            self._report_not_stored(event, storing_refused)
            return
        try:
            work = partial(failed_events.store, event=event, at_ms=at_ms, kept_max=kept_max)
            commit_with_retries(self._replica, f"keeping {event.id}", work, partial(self._report_not_stored, event))
        except HeadwaterError as broken:
            self._report_not_stored(event, broken)
        else:
            self._environment.report(failed_event(event, self._space, is_kept=kept_max > 0, where=self.where), home)

    def lost(self, events: list[EventRecord], broken: HeadwaterError) -> None:
        """Events for the next opening could not be stored: report each."""
        for event in events:
            event.reason = event.reason or "the space was closed before its turn came"
            self._report_not_stored(event, broken)

    def _report_not_stored(self, event: EventRecord, broken: HeadwaterError) -> None:
        event.not_stored = broken.message
        if event.origin is None or event.origin.state is not OriginState.FAILED:
            self._environment.report(unstored_event(event, self._space, broken), event.handler.spec.home)

    def _end(self, event: EventRecord) -> None:
        event.handler.ended += 1
        self.counts[event.state] += 1
        self.live.pop(event.id, None)
        if self._trace.on:
            origin = "" if event.origin is None else event.origin.id
            state = event.state.value
            self._trace.emit(
                EventEnded(self._now(), event.handler.id, event.id, state, event.attempts, event.reason, origin)
            )
        self._queue_notification(event)

    def _queue_notification(self, event: EventRecord) -> None:
        if event.callbacks:
            self.unnotified.append(event)
            self._tick(True)

    # -- listeners -----------------------------------------------------------------------------------------

    def on_end(self, event: EventRecord, callback: Callable[[EventRecord], None]) -> None:
        """Call the listener when the event has ended; soon, if it has."""
        event.callbacks.append(callback)
        if event.is_settled:
            self.unnotified.append(event)
            self._tick(True)

    def tell(self) -> None:
        """Call the listeners of ended events, each once."""
        while self.unnotified:
            event = self.unnotified.popleft()
            # One by one: another thread may add some, and each is called once.
            try:
                while event.callbacks:
                    event.callbacks.pop(0)(event)
            finally:
                if event.callbacks:
                    # One of them raised: the others are notified the next time.
                    self.unnotified.appendleft(event)
