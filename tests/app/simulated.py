"""An app in a simulated event loop: a log of what ran and when, in milliseconds since it began."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import headwater as hw
from headwater.errors import UserCodeError
from headwater.host.async_opening import AsyncOpening
from headwater.runtime.options import DemandPolicy, Options
from headwater.testing import SimLoop, simulate

T = TypeVar("T")


class Lab:
    """To be filled by a test. Opened in memory; its time is that of the loop."""

    def __init__(self) -> None:
        self.app = hw.App("lab")
        self.log: list[object] = []
        self.errors: list[UserCodeError] = []

    def open(self, *, demand: DemandPolicy = "lazy") -> AsyncOpening:
        options = Options(now=sim_loop().now_ms, on_error=self.errors.append, demand=demand)
        return self.app.aopen_with("memory:", options)

    def note(self, *what: object) -> None:
        """With the time in front."""
        self.log.append((round(sim_loop().now_ms()), *what))

    def taken(self) -> list[object]:
        """What happened since the last look."""
        log, self.log = self.log, []
        return log

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return simulate(main())


def sim_loop() -> SimLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return loop


async def pause(ms: float) -> None:
    """Let so much time pass in the simulation."""
    await asyncio.sleep(ms / 1000)
