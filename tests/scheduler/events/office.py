"""One store and the schedulers around it: nothing is decided before `decide`, and no time passes before `advance`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.core import (
    ABSENT,
    Event,
    EventState,
    Handler,
    HandlerSpec,
    Node,
    NodeKind,
    NodeSpec,
    RetryImmediately,
    Scheduler,
    SetDoc,
    Transaction,
    doc_key,
    freeze,
)
from headwater.errors import UserCodeError
from headwater.scheduler.events.parking import Parking
from headwater.scheduler.runs.attempt import Call
from headwater.scheduler.scheduler import perform_directly
from headwater.scheduler.scheduler_limits import FAILED_MAX
from headwater.scheduler.trace import EventParked
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch, check, check_trace
from headwater.values.ids import MAIN
from tests.support.hub import Hub
from tests.support.naive import NOTHING, plain
from tests.support.spaces import Space

START_MS = 1000.0
WALL_MS = 1_700_000_000_000.0


class Office:
    """The store, the clock, and everybody who works there."""

    def __init__(self, folder: Path, kind: str = "memory") -> None:
        self.space = Space(kind, folder)
        self.hub = Hub(self.space)
        self.time = START_MS
        self.wall = WALL_MS
        self.clerks: list[Clerk] = []

    def clerk(self, name: str = "ann", branch: str = MAIN, **options: Any) -> Clerk:
        """Another process, as far as the store can tell."""
        clerk = Clerk(self, name, branch, **options)
        self.clerks.append(clerk)
        return clerk

    def decide(self) -> None:
        """The store decides on all that waits, and everybody hears of it."""
        self.hub.settle()

    def advance(self, ms: float) -> None:
        self.time += ms
        self.wall += ms

    def reopen(self) -> None:
        """The process has ended: whatever was not decided is lost, and nobody is there any more."""
        self.hub.queue.clear()
        self.hub.peers.clear()
        self.clerks.clear()
        self.space.reopen()

    def rest(self) -> None:
        """Until nobody has anything to do."""
        for _ in range(100):
            for clerk in self.clerks:
                clerk.run()
            if not self.hub.queue and not any(peer.inbox for peer in self.hub.peers):
                return
            self.decide()
        raise AssertionError("they never come to rest")

    def close(self) -> None:
        for clerk in self.clerks:
            clerk.close()
        self.space.close()


class Clerk:
    """A replica with a scheduler. Nodes are named like the documents they write, handlers like their streams."""

    def __init__(self, office: Office, name: str, branch: str = MAIN, *, keep_failed: int = FAILED_MAX) -> None:
        self.office = office
        self.peer = office.hub.attach(name, branch)
        self.replica = self.peer.replica
        # The peer writes down all it is told: with nobody listening, what nobody needs is let go.
        self.replica._set_listeners(())
        self.log: list[str] = []
        self.errors: list[UserCodeError] = []
        self.ticks: list[bool] = []
        # Chance, between 0 and 1.
        self.chance = 0.0
        # What was sent here, and how often its sender was told of the end.
        self.sent: dict[Event, int] = {}
        self.under_way: list[Call] = []
        self.has_left = False
        self.scheduler = Scheduler(
            self.replica,
            now=lambda: office.time,
            wall_ms=lambda: office.wall,
            jitter=lambda: self.chance,
            perform=self._perform,
            report=self.errors.append,
            tick=self.ticks.append,
            space="office",
            keep_failed=keep_failed,
        )
        self.watch = SchedulerWatch(self.scheduler)

    # -- documents -----------------------------------------------------------------------------------------

    def put(self, **documents: object) -> None:
        """One commit."""
        self.replica.commit([SetDoc(doc_key(name), freeze(value)) for name, value in documents.items()])

    def overtake(self, **documents: object) -> None:
        """One commit that gets to the store before all that wait there, and everybody hears of it."""
        self.put(**documents)
        self.office.hub.queue.rotate(1)
        self.office.decide()

    def see(self, name: str) -> Any:
        """A document as built-in containers; None if it is not there."""
        value = plain(self.replica.read(doc_key(name)))
        return None if value is NOTHING else value

    # -- nodes and handlers --------------------------------------------------------------------------------

    def computation(self, name: str, fn: Callable[[Transaction], object], *sides: str, **spec: Any) -> Node:
        outputs = (doc_key(name), *map(doc_key, sides))
        return self.scheduler.register(NodeSpec(name=name, fn=self._logged(name, fn), outputs=outputs, **spec))

    def sum(self, name: str, *sources: str, **spec: Any) -> Node:
        return self.computation(name, lambda tx: sum(look(tx, source) for source in sources), **spec)

    def effect(self, name: str, fn: Callable[[Transaction], object], **spec: Any) -> Node:
        return self.scheduler.register(NodeSpec(name=name, fn=self._logged(name, fn), kind=NodeKind.EFFECT, **spec))

    def handler(self, stream: str, fn: Callable[[Transaction, Any], object], **spec: Any) -> Handler:
        """Its calls stand in the log with what they were called with."""

        def run(tx: Transaction, payload: Any) -> object:
            sent = plain(payload)
            self.log.append(stream if sent is None else f"{stream} {sent}")
            return fn(tx, sent)

        return self.scheduler.add_handler(HandlerSpec(stream=stream, name=stream, fn=run, **spec))

    def adder(self, stream: str = "add", doc: str = "count") -> Handler:
        """Adds what it is sent to a document that it reads, and returns the sum."""

        def add(tx: Transaction, more: int) -> int:
            put(tx, doc, look(tx, doc) + more)
            return int(look(tx, doc))

        return self.handler(stream, add)

    def _logged(self, name: str, fn: Callable[[Transaction], object]) -> Callable[[Transaction], object]:
        def run(tx: Transaction) -> object:
            self.log.append(name)
            return fn(tx)

        return run

    def _perform(self, call: Call) -> None:
        if call.is_async and call not in self.under_way:
            call.suspended = True
            self.under_way.append(call)
        else:
            perform_directly(call)

    def finish(self, call: Call) -> None:
        """What was under way has come to its end."""
        call.suspended = False
        try:
            perform_directly(call)
        except RetryImmediately:
            self.under_way.remove(call)
            self.scheduler.again(call)
        else:
            self.under_way.remove(call)
            self.scheduler.resume(call)

    # -- events --------------------------------------------------------------------------------------------

    def send(self, stream: str, payload: object = None, **how: Any) -> Event:
        event = self.scheduler.queue_event(stream, freeze(payload), on_commit=self.told, **how)
        self.sent.setdefault(event, 0)
        return event

    def told(self, event: Event) -> None:
        assert event.is_settled or self.has_left
        self.sent[event] = self.sent.get(event, 0) + 1

    @property
    def parked(self) -> Parking | None:
        """Why the one lane waits."""
        [lane] = self.scheduler.lanes
        return lane.parked

    @property
    def reasons(self) -> list[str]:
        """Why events were parked, ever."""
        return [record.reason for record in self.watch.records if isinstance(record, EventParked)]

    # -- time ----------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        """Run until nothing is left but what waits; returns who ran, in this order."""
        start = len(self.log)
        self.scheduler.idle()
        check(self.scheduler)
        return self.log[start:]

    def leave(self) -> int:
        """Handle no more. Returns how many events are left for the next who comes."""
        self.has_left = True
        return self.scheduler.events.close()

    def close(self) -> None:
        """What must hold of everything that happened here."""
        self.scheduler.events.tell()
        check_trace(self.watch.records)
        for event, times in self.sent.items():
            assert times == (event.is_settled or self.has_left), f"{event!r} was told {times} times"
        self.scheduler.dispose()


def look(tx: Transaction, name: str, default: Any = 0) -> Any:
    """What stands in a document."""
    value = tx.read(doc_key(name))
    return default if value is ABSENT else plain(value)


def put(tx: Transaction, name: str, value: object) -> None:
    """Write a document as a whole."""
    tx.set(doc_key(name), (), freeze(value))


def failing(clerk: Clerk, stream: str = "bad") -> None:
    """Handles a stream: raises, unless the document `ok` says that all is well again."""

    def bad(tx: Transaction, payload: object) -> object:
        put(tx, "half", True)
        if not look(tx, "ok"):
            raise ValueError(f"cannot do {payload}")
        return payload

    clerk.handler(stream, bad)


def void(_: object) -> None:
    """For what returns something that is not meant."""


def states(*events: Event) -> list[str]:
    return [event.state.value for event in events]


CONFIRMED, REFUSED, FAILED = EventState.CONFIRMED, EventState.REFUSED, EventState.FAILED
QUEUED, PENDING = EventState.QUEUED, EventState.PENDING
