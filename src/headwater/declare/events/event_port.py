"""What handlers and tickets use of an open space: sending events, and waiting for them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Protocol

from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.scheduler.events.event import EventRecord, HandlerRecord, HandlerSpec
from headwater.scheduler.scheduler import Scheduler
from headwater.values.tree import Value


class StreamTable(Protocol):
    """The streams that have a handler in an open space."""

    def is_handled(self, stream: str) -> bool:
        """Whether events of the stream are handled now."""


class StoppedPieces(Protocol):
    """Explains why the functions of a piece do not run."""

    def why_not(self, id_: str) -> str:
        """Why the piece handles no events, and what to do."""


class EventPort(SpacePort):
    """An open space, as handlers, streams and tickets see it."""

    scheduler: Scheduler
    events: StreamTable

    @property
    @abstractmethod
    def pieces(self) -> StoppedPieces:
        """The pieces of this space."""

    @property
    @abstractmethod
    def handlers(self) -> dict[object, HandlerRecord]:
        """The scheduler's record of each declared handler."""

    @abstractmethod
    def add_handler(self, function: object, spec: HandlerSpec) -> None:
        """Register a handler: it handles the events of its stream from now on."""

    @abstractmethod
    def around(self) -> tuple[SpacePort, Transaction]:
        """This space, and its transaction around the running code."""

    @abstractmethod
    def send(self, stream: str, payload: Value, outside: tuple[str, str] | None = None) -> EventRecord:
        """Send an event to the handler of a stream."""

    @abstractmethod
    def wait_for(self, event: EventRecord, timeout_ms: float | None) -> None:
        """Block until an event has ended. Raises EventTimeoutError."""

    @abstractmethod
    async def until(self, event: EventRecord) -> None:
        """Wait until an event has ended, in async code."""

    @abstractmethod
    def when_ended(self, event: EventRecord, callback: Callable[[EventRecord], object], named: object = None) -> None:
        """Call back once, when an event has ended."""
