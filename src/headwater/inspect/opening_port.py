"""One opening of a space, as questions and commands use it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from headwater.host.storage import Storage
from headwater.inspect.node_changes import NodeChanges
from headwater.runtime.inspection_port import InspectedSpace
from headwater.scheduler.events.event import HandlerRecord
from headwater.scheduler.graph.node import Node
from headwater.values.ids import Millis


class OpeningPort(Protocol):
    """An opening that can be inspected."""

    space: InspectedSpace
    app: str
    branch: str
    now: Callable[[], float]
    """The monotonic clock of its scheduler, in milliseconds."""
    changes: NodeChanges | None
    """What changed since the first question of a Studio; None: there was none."""
    wall: Callable[[], Millis]
    """The time since 1970, in milliseconds."""

    @property
    def storage(self) -> Storage:
        """The store in this process."""

    @property
    def is_local(self) -> bool:
        """The space is in a file or in memory, not at a server."""

    def locked(self, wait_s: float) -> AbstractContextManager[bool]:
        """Take the lock of the scheduler, or continue without it after `wait_s`. Yields whether it is held."""

    def refresh(self) -> None:
        """Integrate commits of other sessions. The caller holds the lock."""

    def name_of(self, address: str) -> str:
        """The node that writes a document with a generated name; the address itself if there is none."""

    def end(self) -> None:
        """Close at the end of a program that did not."""


def is_of(opening: OpeningPort, function: Node | HandlerRecord) -> bool:
    """Whether a function belongs to the opening. Other apps may be open in the same runtime."""
    home: object = function.spec.home
    return home is None or home is opening.space
