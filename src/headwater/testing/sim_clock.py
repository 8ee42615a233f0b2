"""Simulated time and seeded entropy."""

from __future__ import annotations

import random
from base64 import b32encode

from headwater.values.ids import Millis

START_MS = 1_700_000_000_000  # A moment in 2023: in the past of every real file, and far from zero.


class SimClock:
    """Stands still until it is told to move."""

    def __init__(self, start_ms: int = START_MS) -> None:
        self._now_ms = start_ms

    def now_ms(self) -> Millis:
        return Millis(self._now_ms)

    def advance(self, ms: int) -> None:
        """Let time pass. Negative: the clock is set back, as real ones are, too."""
        self._now_ms += ms


class SeededEntropy:
    """The same names in every run with the same seed."""

    def __init__(self, seed: int = 0) -> None:
        self._random = random.Random(seed)

    def token(self) -> str:
        return b32encode(self._random.randbytes(16)).decode().rstrip("=").lower()
