"""A call of author code that runs in a thread, with a time limit.

Python cannot stop a plain function. When it is late, its run ends without it, and its thread is left alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from headwater.machine import machine


class ElapsedError(Exception):
    """The call took too long. Not a TimeoutError, which authors raise."""


class TimedCall(ABC):
    """A call that a host watches: when it began, and what happens if it is late."""

    def __init__(self, run_id: int, workflow: str) -> None:
        self.run_id = run_id
        self.workflow = workflow
        self.deadline: float | None = None
        # Held by the thread that decides whether the call is late: its own when it returns, or the thread that gives it
        # up.
        self.turn = machine().lock()
        # The result is not awaited any more. Set only when that is on disk.
        self.is_given_up = False
        # The host is about to end: a run that has not acted yet does not act.
        self.is_stopping = False
        self.on_deadline: Callable[[float], None] | None = None

    def may_take(self, seconds: float) -> None:
        """Start the time limit."""
        self.deadline = machine().monotonic() + seconds
        if self.on_deadline is not None:
            self.on_deadline(self.deadline)

    def comes_back(self) -> None:
        """The call has returned. From here on it is known whether it was given up."""
        with self.turn:
            self.deadline = None

    def is_late(self, now: float) -> bool:
        """The call takes longer than its limit."""
        return self.deadline is not None and now >= self.deadline and not self.is_given_up

    @property
    def acts(self) -> bool:
        """The call may be changing something outside right now."""
        return False

    @abstractmethod
    def give_up(self) -> None:
        """End the run of a late call. Called by the thread that watches the time.

        Raises TransitionError if the run has moved on in the meantime: then it is not given up.
        """
