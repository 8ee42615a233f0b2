"""An app in plain code with a clock in the test's hands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headwater as hw
from headwater.errors import UserCodeError
from headwater.machine import machine
from headwater.runtime.options import Options


class Timed:
    """To be filled by a test. Whoever sleeps lets the clock go on, and is awake at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.app = hw.App("timed")
        self.time = 1000.0
        self.log: list[object] = []
        self.errors: list[UserCodeError] = []
        self.slept: list[float] = []
        self.while_asleep: Callable[[], None] = lambda: None
        monkeypatch.setattr(machine(), "sleep", self._sleep)

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds * 1000
        self.while_asleep()

    def open(self, url: str = "memory:", *, wake: Callable[[], None] | None = None) -> hw.Space:
        return self.app.open_with(url, Options(now=lambda: self.time, on_error=self.errors.append), wake)

    def taken(self) -> list[object]:
        """What happened since the last look."""
        log, self.log = self.log, []
        return log
