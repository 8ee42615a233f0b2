"""An app whose functions print and log, and a listener to what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import headwater as hw
from headwater.errors import UserCodeError


class Desk:
    """An app with one cell, opened with a listener that keeps what it hears and answers as it is told."""

    def __init__(self) -> None:
        self.app = hw.App("desk")
        self.x = self.app.cell("x", 0)
        self.heard: list[hw.Console] = []
        self.errors: list[UserCodeError] = []
        self.answer: Callable[[hw.Console], Any] = lambda _: None

    def listen(self, console: hw.Console) -> str | None:
        self.heard.append(console)
        answer: str | None = self.answer(console)
        return answer

    def open(self) -> hw.Space:
        return self.app.open("memory:", on_console=self.listen, on_error=self.errors.append)

    def sink(self, text: str = "", *, end: str = "\n") -> None:
        """One that reads x and prints it."""
        self.app.sink(name="show")(lambda: print(f"{text}{self.x.value}", end=end))

    @property
    def texts(self) -> list[str]:
        return [console.text for console in self.heard]
