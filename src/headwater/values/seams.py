"""Protocols for time and randomness. The core gets both from here and nowhere else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from headwater.values.ids import Millis


class Clock(Protocol):
    """Where time comes from; simulated in tests."""

    def now_ms(self) -> Millis:
        """Wall-clock time. Used to label commits, never to order them."""
        ...


class Entropy(Protocol):
    """Where chance comes from: only for what has no cause inside the system, such as a session's name."""

    def token(self) -> str:
        """A fresh name of 128 random bits."""
        ...
