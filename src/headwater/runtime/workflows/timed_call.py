"""Something of an author's that is under way in a thread, and may take only so long.

Python cannot stop a plain function. When one is late, what it belongs to ends without it, and its thread is left alone.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from headwater.machine import machine


class ElapsedError(Exception):
    """It took too long. Not a TimeoutError: authors raise those."""


class TimedCall(ABC):
    """What a host watches: since when is it under way, and what happens if it is late."""

    def __init__(self, run_id: int, workflow: str) -> None:
        self.run_id = run_id
        self.workflow = workflow
        self.deadline: float | None = None
        # Held by the thread that decides whether it is late: its own when it comes back, or the one that gives it up.
        self.turn = machine().lock()
        # What it comes to is not waited for any more. Set when that is on disk, and not before.
        self.is_given_up = False
        # The host is about to end: what has not acted yet does not.
        self.is_stopping = False
        self.on_deadline: Callable[[float], None] | None = None

    def may_take(self, seconds: float) -> None:
        """From now on."""
        self.deadline = machine().monotonic() + seconds
        if self.on_deadline is not None:
            self.on_deadline(self.deadline)

    def comes_back(self) -> None:
        """It has ended. If it was given up, that is known now."""
        with self.turn:
            self.deadline = None

    def is_late(self, now: float) -> bool:
        """It takes longer than it may."""
        return self.deadline is not None and now >= self.deadline and not self.is_given_up

    @property
    def acts(self) -> bool:
        """It may change something outside right now."""
        return False

    @abstractmethod
    def give_up(self) -> None:
        """It is late: end what it belongs to. Called by another thread, which looks after time.

        Raises TransitionError if it has moved on in the meantime: then it is not given up.
        """
