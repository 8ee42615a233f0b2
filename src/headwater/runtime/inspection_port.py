"""What a runtime needs of the inspection of its space."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from headwater.declare.resources.resource_instance import ResourceInstance
from headwater.declare.resources.resource_port import ResourcePort
from headwater.runtime.event_service import EventService
from headwater.runtime.pass_port import PassPort
from headwater.runtime.restore import Resumption
from headwater.runtime.stats import Stats
from headwater.scheduler.events.event import EventRecord

GraphForm: TypeAlias = Literal["text", "svg", "mermaid", "json"]
"""How a graph is drawn."""


class InspectionPort(Protocol):
    """The view of one opening that other processes, commands and `space.graph` use."""

    app: str
    after: Callable[[], None]
    """Called when a reader has released the lock: a pass may have been missed."""

    def drawn(self, form: GraphForm) -> str:
        """The graph as it is now."""

    def abandon(self) -> None:
        """The opening failed: store no snapshot of it."""

    def close(self) -> None:
        """Refuse requests from now on, and take the last snapshot. Idempotent."""

    def keep(self) -> None:
        """Store the snapshot, before the file is released. Waits for the disk."""


class InspectedSpace(PassPort, ResourcePort):
    """An open space, as its inspection sees it."""

    inspection: InspectionPort
    events: EventService
    is_main: bool
    """It is open on the main branch: only there are workflows."""

    @property
    @abstractmethod
    def stats(self) -> Stats:
        """What has happened in this opening so far."""

    @abstractmethod
    def captioned(self, text: str) -> str:
        """A text with the titles of pieces in the place of their ids."""

    @abstractmethod
    def source_of(self, node: object) -> ResourceInstance | None:
        """The resource instance of a node, if it is one."""

    @abstractmethod
    def explain_resume(self) -> Resumption:
        """What this opening restored from earlier ones, and what not, and why."""

    @abstractmethod
    def wait_for(self, event: EventRecord, timeout_ms: float | None) -> None:
        """Block until an event has ended. Raises EventTimeoutError."""

    @abstractmethod
    def wait_for_disk(self, timeout: float | None = None) -> None:
        """Block until everything written so far is decided."""

    @abstractmethod
    def has_at_work(self, piece: str) -> bool:
        """Whether the piece with this id was started in this opening, and is not stopped."""
