"""What the parts of an open space use of its passes: the lock, the scheduler, and asking for a pass."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

from headwater.cells.space_port import SpacePort
from headwater.errors import UserCodeError
from headwater.machine import Lock
from headwater.scheduler.scheduler import Scheduler


class PassPort(SpacePort):
    """An open space, as its own parts see it."""

    scheduler: Scheduler
    lock: Lock
    """Held while the scheduler is used."""
    can_await: bool
    """Functions may be async here."""
    is_eager: bool
    """Every computation is live, read or not."""
    keep_failed: int
    """The maximum of stored failed events."""

    @property
    @abstractmethod
    def is_passing(self) -> bool:
        """Whether this code is called in the middle of a pass."""

    @abstractmethod
    def check_open(self) -> None:
        """Raise ClosedError if the space is closed."""

    @abstractmethod
    def catch_up_soon(self) -> None:
        """Ask for a pass."""

    @abstractmethod
    def make_up(self) -> None:
        """Called by another thread that has released the lock: request a pass again that was refused meanwhile."""

    @abstractmethod
    def call_soon(self, fn: Callable[[], object]) -> None:
        """Call a function after the next pass, with no transaction around it."""

    @abstractmethod
    def report(self, error: UserCodeError) -> None:
        """Report an error of an author's function."""
