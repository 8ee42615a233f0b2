"""Schedulers that handle events, on replicas of one store: nothing is decided, and no time passes, by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from headwater.core import (
    Attempt,
    Handler,
    HandlerSpec,
    Handling,
    Node,
    NodeKind,
    NodeSpec,
    Scheduler,
    SetDoc,
    Transaction,
    doc_key,
    freeze,
)
from headwater.core import Event as SentEvent
from headwater.errors import UserCodeError
from headwater.scheduler.trace import EventDispatched, EventEnded, TraceRecord
from headwater.store.commit import Entry, decode_entry
from headwater.testing.invariants.event_invariants import i11_log
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch, check
from headwater.values.ids import MAIN, Seq
from tests.support.hub import Hub
from tests.support.naive import NOTHING, plain
from tests.support.spaces import Space

Handle = Callable[[Transaction, Any], object]


class Side:
    """One replica and its scheduler. Everything is looked at, as in `rig`."""

    def __init__(self, rig: EventRig, name: str) -> None:
        self.rig = rig
        self.peer = rig.hub.attach(name)
        self.errors: list[UserCodeError] = []
        # Attempts of async functions that wait, until the test goes on with them.
        self.flights: list[Attempt | Handling] = []
        self.scheduler = Scheduler(
            self.peer.replica,
            now=lambda: rig.time,
            perform=self._perform,
            report=self.errors.append,
            wall_ms=lambda: rig.time,
        )
        self.watch = SchedulerWatch(self.scheduler)

    def _perform(self, attempt: Attempt | Handling) -> None:
        try:
            attempt.result = attempt.fn(attempt.tx, *attempt.arguments)
        except Exception as error:  # noqa: BLE001  # as a host does
            attempt.error = error
        if attempt.is_async:
            attempt.suspended = True
            self.flights.append(attempt)

    def go_on(self) -> None:
        """Whoever waited the longest has come to its end."""
        attempt = self.flights.pop(0)
        attempt.suspended = False
        self.scheduler.resume(attempt)

    # -- what there is -------------------------------------------------------------------------------------

    def handler(self, stream: str, fn: Handle, **options: Any) -> Handler:
        return self.scheduler.add_handler(HandlerSpec(stream=stream, name=stream, fn=fn, **options))

    def computation(self, name: str, fn: Callable[[Transaction], object], *sides: str, **options: Any) -> Node:
        outputs = (doc_key(name), *map(doc_key, sides))
        return self.scheduler.register(NodeSpec(name=name, fn=fn, outputs=outputs, **options))

    def effect(self, name: str, fn: Callable[[Transaction], object], **options: Any) -> Node:
        return self.scheduler.register(NodeSpec(name=name, fn=fn, kind=NodeKind.EFFECT, **options))

    # -- what happens --------------------------------------------------------------------------------------

    def write(self, **values: object) -> None:
        self.peer.commit(*(SetDoc(doc_key(name), freeze(value)) for name, value in values.items()))

    def send(self, stream: str, payload: object = None, name: str = "", origin: Transaction | None = None) -> SentEvent:
        """A gesture; or, if it has a name, an event from outside, which may come again."""
        outside = ("by a test", name) if name else None
        return self.scheduler.queue_event(stream, freeze(payload), origin=origin, outside=outside)

    def settle(self) -> list[str]:
        """Run what has to run; returns the streams whose handlers were called, in this order."""
        start = len(self.records)
        self.scheduler.idle()
        self.check()
        return [record.node.partition(":")[2] for record in self.records[start:] if isinstance(record, EventDispatched)]

    # -- what is so ----------------------------------------------------------------------------------------

    def read(self, name: str, default: Any = None) -> Any:
        value = plain(self.peer.replica.read(doc_key(name)))
        return default if value is NOTHING else value

    @property
    def records(self) -> list[TraceRecord]:
        return self.watch.records

    @property
    def ends(self) -> list[tuple[str, str]]:
        """The stream and end of every event that has come to one."""
        ended = [record for record in self.records if isinstance(record, EventEnded)]
        return [(record.node.partition(":")[2], record.state) for record in ended]

    def check(self) -> None:
        check(self.scheduler)
        self.watch.check()


class EventRig:
    """Sides on one store. `decide` is the store's turn."""

    def __init__(self, kind: str = "memory", folder: Path = Path()) -> None:
        self.time = 1000.0
        self.hub = Hub(Space(kind, folder))
        self.sides: list[Side] = []

    def side(self, name: str) -> Side:
        side = Side(self, name)
        self.sides.append(side)
        return side

    def decide(self, count: int | None = None) -> None:
        """The store decides on what waits, and everybody hears of it."""
        self.hub.decide(count)
        for side in self.sides:
            side.peer.refresh()

    def come_to_rest(self) -> None:
        """Until everything is handled and decided; whoever waits for his time gets it."""
        for _ in range(100):
            for side in self.sides:
                side.settle()
            if self.hub.queue:
                self.decide()
            elif any(side.scheduler.outstanding().events for side in self.sides):
                self.time += 1000
            else:
                return
        raise AssertionError("it never comes to rest")

    def log(self) -> list[Entry]:
        engine = self.hub.engine
        return [decode_entry(row.body) for row in engine.backend.log(Seq(0), engine.head)]

    def receipts(self) -> set[str]:
        """Of all events that were ever handled. I11 is checked on the way."""
        return i11_log(self.log()).get(MAIN, set())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            if kind is None:
                self.receipts()
                for side in self.sides:
                    side.settle()
        finally:
            self.hub.space.close()
