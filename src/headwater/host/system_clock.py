"""The wall clock of the machine, as the core asks for it."""

from __future__ import annotations

from headwater.machine import machine
from headwater.values.ids import Millis


class SystemClock:
    """The wall clock of the machine on which it was made."""

    def __init__(self) -> None:
        self._now_ms = machine().now_ms

    def now_ms(self) -> Millis:
        return Millis(self._now_ms())
