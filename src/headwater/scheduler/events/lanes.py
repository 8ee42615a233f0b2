"""Queues of events, and why a head waits.

There is one lane. No module depends on that: each asks for the lane of an event.
"""

from __future__ import annotations

from bisect import bisect
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from headwater.scheduler.events.event import SETTLED_STATES, EventRecord, Handling
from headwater.scheduler.events.parking import Parking

ONLY_LANE: Final = "all"
"""The one lane there is."""

_place: Final = attrgetter("ordinal")


@dataclass(slots=True, eq=False)
class Lane:
    """A queue of events, in the order in which they were sent."""

    name: str
    events: deque[EventRecord] = field(default_factory=deque)
    # events: the running attempt; why the head waited at the last check.
    running: Handling | None = None
    parked: Parking | None = None

    @property
    def head(self) -> EventRecord | None:
        """The next event. Another thread may remove the last one at any time."""
        try:
            return self.events[0]
        except IndexError:
            return None

    def next_event(self) -> EventRecord | None:
        """The next event that has not ended. Another thread may just have rolled back some."""
        event = self.head
        while event is not None and event.state in SETTLED_STATES:
            self.take_out(event)
            event = self.head
        return event

    def put(self, event: EventRecord) -> None:
        """Append an event. A retried event gets its former position."""
        events = self.events
        if not events or events[-1].ordinal < event.ordinal:
            events.append(event)
            if len(events) == 1:
                self.parked = None
            return
        at = bisect(events, event.ordinal, key=_place)
        events.insert(at, event)
        if at == 0:
            self.parked = None

    def take_out(self, event: EventRecord) -> None:
        """Remove an event. From any thread: in one step, since others may add and remove meanwhile."""
        was_head = self.head is event
        try:
            self.events.remove(event)
        except ValueError:
            return
        if was_head:
            self.parked = None


class Lanes:
    """All lanes of a scheduler, made as they are needed."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        # Empty until the first event.
        self.by_name: Mapping[str, Lane] = self._lanes
        # Appended to by every thread that sends; consumed by the holder of the lock.
        self.inbox: deque[EventRecord] = deque()

    def __iter__(self) -> Iterator[Lane]:
        return iter(list(self._lanes.values()))

    def of(self, event: EventRecord) -> Lane:
        """The lane of an event."""
        found = self._lanes.get(event.lane)
        if found is None:
            found = self._lanes[event.lane] = Lane(event.lane)
        return found

    def take_in(self) -> None:
        """Put sent events into their lanes, in the order of sending."""
        while self.inbox:
            event = self.inbox.popleft()
            if event.state not in SETTLED_STATES:
                self.of(event).put(event)

    def server_is_back(self) -> None:
        """Check events that wait for the server again. From any thread."""
        for lane in self:
            head = lane.head
            if head is not None and head.awaits_server:
                lane.parked = None

    @property
    def are_ready(self) -> bool:
        """Whether some head can be checked."""
        for lane in self._lanes.values():
            if lane.events and lane.running is None and lane.parked is None:
                return True
        return False

    @property
    def waiting(self) -> int:
        """Events that have not been handled, or are being handled."""
        lanes = self._lanes.values()
        return len(self.inbox) + sum(len(lane.events) + (lane.running is not None) for lane in lanes)

    @property
    def wake_at(self) -> float | None:
        """The earliest time at which a head may be handled that only waits for time."""
        earliest: float | None = None
        for lane in self._lanes.values():
            if lane.events and lane.parked is not None:
                until = lane.parked.until
                if until is not None and (earliest is None or until < earliest):
                    earliest = until
        return earliest
