"""What runs of workflows use of an open space."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.declare.workflows.workflow_port import WorkflowPort
from headwater.errors import UserCodeError
from headwater.runtime.console_port import ConsolePort

if TYPE_CHECKING:
    # Most programs have no workflows.
    from headwater.runtime.workflows.hub import Hub


class RunHost(WorkflowPort):
    """An open space, as the runs of its workflows see it."""

    console: ConsolePort
    is_woken: bool
    """Another thread executes the work that a run leaves."""

    @property
    @abstractmethod
    def flows(self) -> Hub:
        """The workflows of the file of this space."""

    @abstractmethod
    def report(self, error: UserCodeError) -> None:
        """Report an error of an author's function."""

    @abstractmethod
    def check_open(self) -> None:
        """Raise ClosedError if the space is closed."""

    @abstractmethod
    def on_close(self, callback: Callable[[], None]) -> None:
        """Call when the space is closed."""

    @abstractmethod
    def nudge(self) -> None:
        """Run a pass if the lock is free."""
