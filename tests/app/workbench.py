"""An app to be filled by a test, and a log of what ran."""

from __future__ import annotations

import headwater as hw
from headwater.errors import UserCodeError


class Bench:
    """Opened in memory. Errors are collected, but for those of the first run."""

    def __init__(self) -> None:
        self.app = hw.App("bench")
        self.log: list[object] = []
        self.errors: list[UserCodeError] = []

    def open(self) -> hw.Space:
        space = self.app.open("memory:")
        space.on_error = self.errors.append
        return space

    def taken(self) -> list[object]:
        """What ran since the last look."""
        log, self.log = self.log, []
        return log
