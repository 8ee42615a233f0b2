"""Simulated time and seeded entropy."""

from __future__ import annotations

import random
from base64 import b32encode

from headwater.values.ids import Millis

START_MS = 1_700_000_000_000  # A moment in 2023: in the past of every real file, and far from zero.


class SimClock:
    """A clock that stands still until it is moved.

    Args:
        start_ms: The time at the beginning, in milliseconds since 1970.

    Example:
        ```python
        from headwater.testing import SimClock

        clock = SimClock(start_ms=1000)
        clock.advance(500)
        print(clock.now_ms())  # 1500
        ```
    """

    def __init__(self, start_ms: int = START_MS) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> Millis:
        """The time, in milliseconds since 1970."""
        return Millis(self._now_ms)

    def advance(self, ms: int) -> None:
        """Move the clock.

        Args:
            ms: How far, in milliseconds. A negative number sets the clock back.
        """
        self._now_ms += ms


class SeededEntropy:
    """A source of ids that are the same in every run with the same seed.

    Args:
        seed: The seed.
    """

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def token(self) -> str:
        """The next id, as text."""
        return b32encode(self._random.randbytes(16)).decode().rstrip("=").lower()
