"""An app with a cell, something computed from it, and a sink if one is wanted; and a way to run it in an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import headwater as hw
from tests.app.holding import SAFETY_S


class Shop:
    def __init__(self) -> None:
        self.app = hw.App("shop")
        self.count = self.app.cell("count", 0)
        self.other = self.app.cell("other", 0)
        self.shown: list[int] = []
        self.doubled = self.app.computed(name="doubled")(self._double)

    def _double(self) -> int:
        return self.count.value * 2

    def with_sink(self) -> Shop:
        self.app.sink(name="show")(lambda: self.shown.append(self.doubled()))
        return self


def run(main: Coroutine[Any, Any, object]) -> None:
    """In a loop of its own."""

    async def bounded() -> None:
        async with asyncio.timeout(SAFETY_S):
            await main

    asyncio.run(bounded())


def plain_thread(work: Callable[[], object]) -> None:
    """A thread that knows nothing of where it was started."""
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(SAFETY_S)
