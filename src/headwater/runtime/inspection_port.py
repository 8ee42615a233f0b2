"""What a runtime needs of the inspection of its space."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

from headwater.runtime.pass_port import PassPort

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


class InspectedSpace(PassPort):
    """An open space, as its inspection sees it."""

    inspection: InspectionPort

    @abstractmethod
    def has_at_work(self, piece: str) -> bool:
        """Whether the piece with this id was started in this opening, and is not stopped."""
