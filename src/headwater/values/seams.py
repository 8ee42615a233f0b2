"""Protocols for time and randomness. The core gets both from here and nowhere else."""

from __future__ import annotations

from typing import Protocol

from headwater.values.ids import Millis


class Clock(Protocol):
    """The source of time; simulated in tests."""

    def now_ms(self) -> Millis:
        """Wall-clock time. Stored with commits, never used to order them."""
        ...


class Entropy(Protocol):
    """The source of randomness: only for names without a cause inside the system, such as a session's."""

    def token(self) -> str:
        """A new name of 128 random bits."""
        ...
