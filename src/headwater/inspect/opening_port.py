"""One opening of a space, as questions and commands use it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from headwater.host.storage import Storage
from headwater.runtime.inspection_port import InspectedSpace
from headwater.values.ids import Millis


class OpeningPort(Protocol):
    """An opening that can be inspected."""

    space: InspectedSpace
    app: str
    branch: str
    now: Callable[[], float]
    """The monotonic clock of its scheduler, in milliseconds."""
    wall: Callable[[], Millis]
    """The time since 1970, in milliseconds."""

    @property
    def storage(self) -> Storage:
        """The store in this process."""

    @property
    def is_local(self) -> bool:
        """The space is in a file or in memory, not at a server."""

    def in_turn(self, wait_s: float) -> AbstractContextManager[bool]:
        """Take the lock of the scheduler, or go on without it after that long. Says which."""

    def refresh(self) -> None:
        """Apply what others have written to the file. The caller has the turn."""

    def name_of(self, address: str) -> str:
        """The node that writes a document with a generated name; the address itself if there is none."""

    def end(self) -> None:
        """The program ends and has not closed it."""
