"""What resources and clocks use of an open space: the fetcher that requests them, and its timers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.declare.functions.instances import Key
from headwater.declare.resources.resource_instance import Cancelable, ResourceInstance
from headwater.scheduler.graph.node import Node
from headwater.values.ids import DocKey


class FetcherPort(Protocol):
    """Requests the resources of an open space."""

    def find(self, resource: object, key: Key) -> ResourceInstance | None:
        """The resource with these arguments, if it was called with them."""

    def add(
        self,
        resource: object,
        key: Key,
        source: ResourceInstance,
        *,
        origin: Callable[..., Coroutine[Any, Any, Any]],
        piece: str = "",
        parent: Node | None = None,
    ) -> ResourceInstance:
        """Register a resource with arguments, unless another thread has done so."""

    def know(self, resource: object) -> None:
        """Register a declared resource."""

    def knows(self, resource: object) -> bool:
        """Whether the resource is declared in this space."""

    def successor(self, doc: str) -> object:
        """The resource that writes a document now: a later declaration may have replaced it."""

    def called(self, source: ResourceInstance, tx: Transaction | None) -> None:
        """Record a read."""

    def refresh(self, source: ResourceInstance) -> None:
        """Request it now."""

    def found_unreadable(self, source: ResourceInstance) -> None:
        """Record that the stored result does not fit its type."""

    def labels(self, resource: object) -> list[str]:
        """The calls of a resource as text, the latest first."""


class TimersPort(Protocol):
    """The clocks of an open space, in milliseconds, and its timers."""

    now: Callable[[], float]
    wall: Callable[[], float]

    def wait(self, ms: float, fn: Callable[[], None]) -> Cancelable:
        """Call after a delay."""

    def at(self, wall_ms: float, fn: Callable[[], None]) -> Cancelable:
        """Call at a wall time."""


class TickingClock(Protocol):
    """A clock of an open space that ticks at one interval."""

    doc: DocKey
    is_read: bool

    def tick_ms(self) -> float:
        """The wall time of the last tick."""


class ResourcePort(SpacePort):
    """An open space, as resources and clocks see it."""

    timers: TimersPort

    @property
    @abstractmethod
    def fetcher(self) -> FetcherPort:
        """Requests the resources of this space."""

    @abstractmethod
    def clock_of(self, every_ms: float) -> TickingClock:
        """The clock with this interval, made at its first use."""
