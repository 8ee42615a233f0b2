"""Handlers by stream; sending, resuming and redelivering events.

Length: sending here and sending to other spaces share the ids, the counters and the origins of events.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import cast

from headwater.cells.pending_commit import PendingCommit
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status as TxStatus
from headwater.errors import EventReusedError, HandlerTakenError, LimitError, NotFoundError, WriteError
from headwater.scheduler.events import failed_events, outbox, outgoing, receipts
from headwater.scheduler.events.event import EventRecord, EventState, HandlerRecord, HandlerSpec, SendingSpace
from headwater.scheduler.events.lanes import ONLY_LANE, Lanes
from headwater.scheduler.events.origin import Origin, Origins
from headwater.scheduler.events.outcomes import Outcomes
from headwater.scheduler.events.outgoing_entry import DeliveryTarget, Outgoing
from headwater.scheduler.events.retry_transaction import commit_with_retries
from headwater.scheduler.graph.node import titled
from headwater.scheduler.scheduler_environment import SchedulerEnvironment
from headwater.scheduler.scheduler_limits import RESUMED_MAX
from headwater.scheduler.trace import EventSent, Trace
from headwater.values.causal import derive_id
from headwater.values.ids import EventId
from headwater.values.tree import Value, same

OnCommit = Callable[[EventRecord], None]


class Streams:
    """The handlers of one scheduler, and the events sent to them."""

    def __init__(
        self,
        replica: Replica,
        environment: SchedulerEnvironment,
        trace: Trace,
        *,
        lanes: Lanes,
        origins: Origins,
        outcomes: Outcomes,
    ) -> None:
        self._replica = replica
        self.lanes = lanes
        self._origins = origins
        self._outcomes = outcomes
        self._trace = trace
        self._environment = environment
        self._now = environment.now
        self._tick = environment.tick
        self.handlers: dict[str, HandlerRecord] = {}
        self._count = 0
        # Other runtimes have the space open: an event that one of them resumed need not have ended.
        self.is_shared = environment.server is not None
        # The time of the latest event, in milliseconds since 1970.
        self._latest_ms = 0
        # Events that other spaces have sent and not delivered yet: their tickets wait for them.
        self.expected: dict[EventId, EventRecord] = {}
        # What undecided transactions send to other spaces.
        self.sending: dict[Transaction, list[Outgoing]] = {}
        # The number of the latest entry for another space; None before the first one of this opening.
        self._number: int | None = None

    # -- handlers ------------------------------------------------------------------------------------------

    def add(self, spec: HandlerSpec) -> HandlerRecord:
        """Register a handler. Raises HandlerTakenError: a stream has one handler."""
        taken = self.handlers.get(spec.stream)
        if taken is not None:
            message = (
                f"{spec.name}() cannot handle stream {spec.stream}: {taken.title} does already, and each event is "
                "handled by one handler; call the one from the other, or send to a second stream"
            )
            raise HandlerTakenError(message, stream=spec.stream, handler=spec.name, taken_by=taken.name)
        handler = self.handlers[spec.stream] = HandlerRecord(
            spec=spec, name=spec.name, title=titled(f"{spec.name}()", spec.piece)
        )
        return handler

    def remove(self, handler: HandlerRecord) -> None:
        """Remove a handler. Its waiting events fail when they are due, and are stored as failed."""
        handler.removed = True
        if self.handlers.get(handler.spec.stream) is handler:
            del self.handlers[handler.spec.stream]

    def check(self, stream: str) -> None:
        """Raise NotFoundError if the stream has no handler here, LimitError if too many of its events wait."""
        _check_backlog(self._handler(stream))

    def _handler(self, stream: str) -> HandlerRecord:
        handler = self.handlers.get(stream)
        if handler is None:
            raise NotFoundError(f"no handler for stream {stream} here; declare one", stream=stream)
        return handler

    # -- sending -------------------------------------------------------------------------------------------

    def send(
        self,
        stream: str,
        payload: Value,
        *,
        origin: Transaction | None = None,
        outside: tuple[str, str] | None = None,
        on_commit: OnCommit | None = None,
        sender: SendingSpace | None = None,
    ) -> EventRecord:
        """Queue an event. From any thread, one at a time; nothing runs here.

        `origin` is the transaction that it is sent in. `outside` identifies an event that comes from elsewhere and may
        be sent again: the sender, and the sender's name for it. `sender` is the space that delivers it.
        """
        handler = self._handler(stream)
        launch = None if origin is None or origin.status is TxStatus.COMMITTED else self._origins.of(origin)
        event_id = self._name(stream, launch, outside)
        known = self._outcomes.live.get(event_id)
        if known is not None:
            if sender is not None and (expected := self.expected.pop(event_id, None)) is not None:
                known.callbacks.append(partial(self._outcomes.end_alike, expected, sender))
            return self._sent_twice(known, payload, on_commit)
        _check_backlog(handler)
        arrived = None if sender is None else self._arrived(event_id, on_commit)
        event = arrived or self._make(event_id, handler, payload, on_commit)
        event.origin, event.sender = launch, sender
        # If only this program can deliver it, and does so for the first time, there is no receipt.
        event.is_fresh = outside is None or (arrived is not None and sender is not None and sender.is_sole)
        if not event.is_fresh:
            self._recall(event)
        if origin is not None and launch is not None:
            self._tie(origin, launch, event)
        self._enter(event, "" if launch is None else launch.id)
        return event

    def _name(self, stream: str, launch: Origin | None, outside: tuple[str, str] | None) -> EventId:
        """The id of an event: derived from its transaction and its number there, or from the sender's own name."""
        if outside is not None:
            return EventId(derive_id("event", "outside", *outside, stream))
        if launch is not None:
            launch.count += 1
            return EventId(derive_id("event", launch.id, stream, launch.count))
        return EventId(derive_id("event", self._replica.opening, stream, self._count + 1))

    def _make(
        self, event_id: EventId, handler: HandlerRecord, payload: Value, on_commit: OnCommit | None
    ) -> EventRecord:
        self._count += 1
        self._latest_ms = max(self._latest_ms, int(self._environment.wall_ms()))
        event = EventRecord(
            id=event_id,
            handler=handler,
            payload=payload,
            lane=ONLY_LANE,
            ordinal=self._count,
            sent_ms=self._latest_ms,
        )
        if on_commit is not None:
            event.callbacks.append(on_commit)
        return event

    # -- other spaces --------------------------------------------------------------------------------------

    def send_out(
        self, tx: Transaction, target: DeliveryTarget, stream: str, payload: Value, once: tuple[str, str] | None = None
    ) -> Outgoing:
        """Send an event of another space with a transaction of this one."""
        # An event with an id of its own has the same one in both spaces.
        event_id = self._name(stream, self._origins.of(tx), once)
        letters = event_id.partition(":")[2]
        entry = Outgoing(letters, target, stream, payload, self.next_position(), int(self._environment.wall_ms()), once)
        outgoing.put(tx, entry)
        entries = self.sending.setdefault(tx, [])
        entries.append(entry)
        tx.launch(lambda: entries.remove(next(each for each in entries if each.letters == letters)))
        return entry

    def restamp(self, tx: Transaction) -> None:
        """The transaction is about to commit: what it sends comes after the entries that were committed meanwhile."""
        entries = self.sending.get(tx)
        if entries and self._number is not None and entries[0].order[1] != self._number - len(entries) + 1:
            for index, entry in enumerate(entries):
                entries[index] = entry._replace(order=self.next_position())
                outgoing.restamp(tx, entry.letters, entries[index].order)

    def next_position(self) -> tuple[int, ...]:
        """A position after all entries that this replica has seen, whatever clocks say."""
        if self._number is None:
            found = outgoing.entries(self._replica)
            self._number = max((entry.order[1] for entry in found if len(entry.order) > 1), default=0)
        self._number += 1
        return (self._replica.seq, self._number)

    def expect(self, stream: str, payload: Value, outside: tuple[str, str], origin: Transaction) -> EventRecord:
        """An event that a transaction of another space sends: its record, for the ticket. It is not queued yet."""
        handler = self._handler(stream)
        launch = self._origins.of(origin)
        event = self._make(self._name(stream, None, outside), handler, payload, None)
        event.origin = launch
        handler.sent += 1
        known = self.expected.get(event.id)
        if known is not None:
            known.callbacks.append(partial(self._outcomes.end_alike, event, None))
            return event
        self.expected[event.id] = event
        self._origins.attach(origin, partial(self._unexpected, event))
        return event

    def _unexpected(self, event: EventRecord) -> None:
        self.expected.pop(event.id, None)
        self._outcomes.orphan(event)

    def undelivered(self, event: EventRecord, sender: SendingSpace, reason: str) -> None:
        """An event that another space had sent cannot be delivered. That space reports it."""
        if self.expected.pop(event.id, None) is not None and not event.is_settled:
            event.sender = sender
            self._outcomes.fail(event, None, reason)

    def dropped(self, event: EventRecord) -> None:
        """An event that another space had sent will not be delivered."""
        if self.expected.pop(event.id, None) is not None and not event.is_settled:
            self._outcomes.refuse(event, "it was dropped")

    def _arrived(self, event_id: EventId, on_commit: OnCommit | None) -> EventRecord | None:
        """The expected event with this id, which is delivered now: it takes its place in the lane."""
        event = self.expected.pop(event_id, None)
        if event is None or event.handler.removed:
            return None
        self._count += 1
        event.ordinal = self._count
        # It was counted when it was expected.
        event.handler.sent -= 1
        if on_commit is not None:
            event.callbacks.append(on_commit)
        return event

    def _enter(self, event: EventRecord, origin: str = "") -> None:
        event.handler.sent += 1
        if event.is_settled:
            # The transaction that sent it has failed already.
            return
        self._outcomes.live[event.id] = event
        if self._trace.on:
            self._trace.emit(EventSent(self._now(), event.handler.id, event.id, event.ordinal, event.lane, origin))
        self.lanes.inbox.append(event)
        self._tick(True)

    @staticmethod
    def _sent_twice(event: EventRecord, payload: Value, on_commit: OnCommit | None) -> EventRecord:
        """The event is queued already: return it."""
        if not same(event.payload, payload):
            raise _reused(event, "is on its way")
        if on_commit is not None:
            event.callbacks.append(on_commit)
        return event

    def _recall(self, event: EventRecord) -> None:
        """An event that waits, failed or was handled before is sent again: with the same payload, it is the same event.

        Documents that are not loaded are not fetched: whether it was handled is checked again when it is due.
        """
        waiting = self._replica.read(outbox.OUTBOX)
        entry = waiting.get(event.letters) if isinstance(waiting, Mapping) else None
        if isinstance(entry, Mapping) and not same(entry.get("payload"), event.payload):
            raise _reused(event, "waits already")
        record = self._replica.read(failed_events.record_of(event.letters))
        if outbox.is_map(record):
            told = cast("Mapping[str, Value]", record)
            if not same(told.get("payload"), event.payload):
                raise _reused(event, "failed before", "; or drop the failed event")
            self._count_on(event, told)
        elif not self.is_shared and receipts.is_of_another(
            self._replica.read(event.receipt), event.handler.spec.given(event.payload)
        ):
            raise _reused(event, "was handled before")

    @staticmethod
    def _count_on(event: EventRecord, record: Mapping[str, Value]) -> None:
        attempts = record.get("attempts")
        event.was_failed, event.tried_before = True, attempts if isinstance(attempts, int) else 0

    def _tie(self, tx: Transaction, launch: Origin, event: EventRecord) -> None:
        """I10: the event is part of the transaction that sends it, and commits with it, or not at all."""
        if tx.is_open:
            check_sending(tx, f"send to {event.handler.title}", event.handler.spec.stream)
        if launch.is_near and tx.is_open:
            outbox.put(tx, event)
            event.is_stored = True
            if self._origin_sent not in tx.on_sent:
                tx.on_sent = (*tx.on_sent, self._origin_sent)
        self._origins.attach(tx, partial(self._outcomes.orphan, event), partial(self._origin_decided, event))

    def _origin_sent(self) -> None:
        """A pass of another thread may have found the transaction open, and have parked its event."""
        self._tick(True)

    def _origin_decided(self, event: EventRecord) -> None:
        """Its origin is decided: check its lane again."""
        self.lanes.of(event).parked = None
        self._tick(True)

    # -- resuming ------------------------------------------------------------------------------------------

    def resume(self, besides: Collection[str] = ()) -> int:
        """Resume unhandled events of the last opening, except for these streams. Returns their number."""
        self._latest_ms = max(self._latest_ms, outbox.after(self._replica))
        found: list[EventRecord] = []
        undecided = outbox.undecided(self._replica)
        for letters, entry in outbox.entries(self._replica.read(outbox.OUTBOX)):
            stream = str(entry["stream"])
            handler = self.handlers.get(stream)
            event_id = EventId(f"event:{letters}")
            if handler is not None and stream not in besides and event_id not in self._outcomes.live:
                event = self._make(event_id, handler, entry["payload"], None)
                event.is_stored, event.resumed_count = True, outbox.resumed_count(entry)
                if letters in undecided:
                    self._tie_earlier(undecided[letters], event)
                found.append(event)
        if found and not self.is_shared:
            # Before it is handled: the count shows an event that ends the process each time.
            found[0].resumed_count += 1
            commit_with_retries(self._replica, "taking up events", partial(outbox.count, events=found[:1]))
        for event in found:
            self._enter(event)
            if event.resumed_count > RESUMED_MAX:
                self._outcomes.fail(
                    event, None, f"{event.resumed_count - 1} processes ended while it was to be handled"
                )
        return len(found)

    def _tie_earlier(self, sent: PendingCommit, event: EventRecord) -> None:
        """I10: the commit of an earlier opening that sent the event may still be rejected."""
        event.origin = Origin(sent, f"earlier.{sent.commit.local_seq}", is_near=True)

        def decided(sent: PendingCommit) -> None:
            if not sent.accepted:
                self._outcomes.orphan(event)
            self._origin_decided(event)

        sent.on_settled(decided)

    def redeliver(self, letters: str, on_commit: OnCommit | None = None) -> EventRecord:
        """Deliver a failed event again, under the same id. Raises NotFoundError."""
        record = self._replica.read(failed_events.record_of(letters))
        if not outbox.is_map(record):
            message = f"there is no failed event event:{letters} here; `headwater events ls` lists them"
            raise NotFoundError(message, event=f"event:{letters}")
        told = cast("Mapping[str, Value]", record)
        if "to" in told:
            message = f"event:{letters} is for another space; it is sent again with its delivery"
            raise NotFoundError(message, event=f"event:{letters}")
        handler = self._handler(str(told.get("stream")))
        event_id, payload = EventId(f"event:{letters}"), told.get("payload")
        known = self._outcomes.live.get(event_id)
        if known is not None:
            return self._sent_twice(known, payload, on_commit)
        event = self._make(event_id, handler, payload, on_commit)
        self._count_on(event, told)
        self._enter(event)
        return event

    def drop(self, letters: str) -> None:
        """Delete a failed or waiting event. Raises NotFoundError."""
        failed = letters in failed_events.ids_by_age(self._replica.read(failed_events.FAILED))
        waiting = self._replica.read(outbox.OUTBOX)
        stored = isinstance(waiting, Mapping) and letters in waiting
        event = self._outcomes.live.get(EventId(f"event:{letters}"))
        waits = event is not None and event.state is EventState.QUEUED
        if not failed and not stored and not waits:
            message = f"there is no event event:{letters} here that failed or waits; `headwater events ls` lists them"
            raise NotFoundError(message, event=f"event:{letters}")
        if event is not None and waits:
            self.lanes.of(event).take_out(event)
            self._outcomes.refuse(event, "it was dropped")

        def forget(tx: Transaction) -> None:
            failed_events.forget(tx, letters)
            outgoing.take(tx, letters)

        commit_with_retries(self._replica, f"dropping event:{letters}", forget)


def check_sending(tx: Transaction, what: str, stream: str) -> None:
    """Raise WriteError if the transaction only reads."""
    if tx.refusal(outbox.OUTBOX):
        message = f"{tx.name or 'this code'} only reads, and may not {what}"
        raise WriteError(f"{message}; send from a handler, or from a sink", stream=stream)


def _reused(event: EventRecord, how: str, other: str = "") -> EventReusedError:
    message = f"{event.handler.title} was not sent {event.id}: an event with this id {how} with another payload"
    return EventReusedError(f"{message}; use another id for another event{other}", event=event.id)


def _check_backlog(handler: HandlerRecord) -> None:
    limit = handler.spec.backlog_max
    if handler.waiting >= limit:
        message = (
            f"{handler.title} was not sent an event: {handler.waiting:,} of stream {handler.spec.stream} wait "
            f"already, and at most {limit:,} may; send it again when some are handled, or raise backlog="
        )
        raise LimitError(message, stream=handler.spec.stream, waiting=handler.waiting, limit=limit)
