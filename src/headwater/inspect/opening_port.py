"""One opening of a space, as questions and commands use it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from headwater.host.storage import Storage
from headwater.runtime.space_runtime import SpaceRuntime


class OpeningPort(Protocol):
    """An opening that can be inspected."""

    space: SpaceRuntime
    app: str
    branch: str
    now: Callable[[], float]
    """The monotonic clock of its scheduler, in milliseconds."""

    @property
    def storage(self) -> Storage:
        """The store in this process."""
        ...

    def in_turn(self, wait_s: float) -> AbstractContextManager[bool]:
        """Take the lock of the scheduler, or go on without it after that long. Says which."""
        ...

    def refresh(self) -> None:
        """Apply what others have written to the file. The caller has the turn."""
        ...

    def name_of(self, address: str) -> str:
        """The node that writes a document with a generated name; the address itself if there is none."""
        ...

    def end(self) -> None:
        """The program ends and has not closed it."""
        ...
