"""Real time and real chance: the only place that asks the operating system for either."""

from __future__ import annotations

import secrets
import time
from base64 import b32encode

from headwater.values.ids import Millis


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> Millis:
        return Millis(time.time_ns() // 1_000_000)


class SystemEntropy:
    """The machine's random numbers."""

    def token(self) -> str:
        return b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


def steady_ms() -> float:
    """Milliseconds on a clock that nobody sets: for durations and gates."""
    return time.perf_counter() * 1000


def wall_ms() -> float:
    """How late it is, in milliseconds since 1970: for people."""
    return time.time() * 1000
