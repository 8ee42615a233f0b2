"""The part of a scheduler that events come to: builds what handles them, and forwards to it.

Must never know: apps, event loops, threads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.events.event import EventRecord, HandlerRecord, HandlerSpec
from headwater.scheduler.events.handling import EventDispatcher
from headwater.scheduler.events.lanes import Lanes
from headwater.scheduler.events.origin import Origins
from headwater.scheduler.events.outcomes import Outcomes
from headwater.scheduler.events.readiness import Readiness
from headwater.scheduler.events.streams import Streams
from headwater.scheduler.inspect.trace import Trace
from headwater.scheduler.scheduler_environment import SchedulerEnvironment
from headwater.values.ids import DocKey
from headwater.values.tree import Value


class Receiver:
    """What can be asked of a scheduler about events."""

    def _receive_events(self, replica: Replica, ready: Readiness, trace: Trace, outside: SchedulerEnvironment) -> None:
        self.ready = ready
        self._wake = outside.tick
        self.lanes = Lanes()
        self.lineage = Origins(replica, trace, outside.now)
        self.outcomes = Outcomes(replica, outside, trace, lanes=self.lanes)
        self.streams = Streams(replica, outside, trace, lanes=self.lanes, lineage=self.lineage, outcomes=self.outcomes)
        self.events = EventDispatcher(
            replica, outside, trace, streams=self.streams, outcomes=self.outcomes, ready=ready
        )

    def add_handler(self, spec: HandlerSpec) -> HandlerRecord:
        """Handle the events of a stream. Raises HandlerTakenError: there is one for each."""
        return self.streams.add(spec)

    def remove_handler(self, handler: HandlerRecord) -> None:
        """Handle them no more."""
        self.streams.remove(handler)

    def queue_event(
        self,
        stream: str,
        payload: Value,
        *,
        origin: Transaction | None = None,
        outside: tuple[str, str] | None = None,
        on_commit: Callable[[EventRecord], None] | None = None,
    ) -> EventRecord:
        """Send an event; `on_commit` is called once with it, whatever became of it. See `Streams.send`."""
        return self.streams.send(stream, payload, origin=origin, outside=outside, on_commit=on_commit)

    def resume_events(self, besides: Collection[str] = ()) -> int:
        """Take up what was sent in transactions and not handled when the space was last open, but for these streams."""
        return self.streams.resume(besides)

    def redeliver(self, event: str, on_commit: Callable[[EventRecord], None] | None = None) -> EventRecord:
        """Deliver a failed event once more, as the same event. Raises NotFoundError."""
        return self.streams.redeliver(event.removeprefix("event:"), on_commit)

    def drop_event(self, event: str) -> None:
        """Forget a failed event, or one that waits. Raises NotFoundError."""
        self.streams.drop(event.removeprefix("event:"))

    def launched(self, origin: Transaction, stop: Callable[[], None]) -> None:
        """Something was started in a transaction: it is stopped if that does not come to be."""
        self.lineage.launch(origin, stop)

    def look_at_events(self) -> None:
        """What they wait for is there: whoever waits is looked at anew."""
        self.events.look_again()
        self._wake(True)

    def loading(self, docs: Collection[DocKey]) -> Callable[[], None]:
        """Documents are being fetched: events that need them wait. Returns what says that they are there."""
        done = self.ready.loading(docs)

        def arrived() -> None:
            done()
            self.look_at_events()

        return arrived
