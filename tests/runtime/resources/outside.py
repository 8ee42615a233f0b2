"""A world outside that a test holds in its hands: who asks for what, when, and what is answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import headwater as hw
from headwater.errors import UserCodeError
from headwater.host.async_opening import AsyncOpening
from headwater.runtime.options import Options
from headwater.testing import SimLoop, simulate
from headwater.testing.invariants.scheduler_invariants import SchedulerWatch, check
from headwater.testing.sim_clock import START_MS
from headwater.values.ids import Millis

T = TypeVar("T")

TURNS = 30
"""Of the loop: enough for a pass, the disk, and the next pass."""


class Wire:
    """What is asked waits until it is answered. `most` is how many were ever under way for one name."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stopped: list[str] = []
        self.most = 0
        self._waiting: dict[str, list[asyncio.Future[object]]] = {}
        self._came = threading.Condition()

    async def ask(self, name: str) -> Any:
        waiting = asyncio.get_running_loop().create_future()
        with self._came:
            self.asked.append(name)
            here = self._waiting.setdefault(name, [])
            here.append(waiting)
            self.most = max(self.most, len(here))
            self._came.notify_all()
        try:
            return await waiting
        except asyncio.CancelledError:
            self.stopped.append(name)
            raise
        finally:
            with self._came:
                here.remove(waiting)
                self._came.notify_all()

    @property
    def open(self) -> list[str]:
        """What waits for an answer."""
        return [name for name, waiting in self._waiting.items() for _ in waiting]

    def answer(self, name: str, value: object) -> None:
        """From any thread."""
        (waiting,) = self._waiting[name]
        waiting.get_loop().call_soon_threadsafe(_settle, waiting, value)

    def wait(self, is_so: Callable[[Wire], bool]) -> None:
        """For plain code: until the thread beside it has come so far."""
        with self._came:
            assert self._came.wait_for(lambda: is_so(self), timeout=30)


def _settle(waiting: asyncio.Future[object], value: object) -> None:
    if waiting.done():
        return
    if isinstance(value, BaseException):
        waiting.set_exception(value)
    else:
        waiting.set_result(value)


class World:
    """An app with a log, in simulated time: in an event loop, or in plain code with a clock that is moved."""

    def __init__(self, url: str = "memory:") -> None:
        self.app = hw.App("world")
        self.wire = Wire()
        self.url = url
        self.log: list[object] = []
        self.errors: list[UserCodeError] = []
        # Of plain code. What the machine was off for goes on top, in both.
        self.time = 0.0
        self.off_ms = 0

    def note(self, *what: object) -> None:
        self.log.append(what[0] if len(what) == 1 else what)

    def taken(self) -> list[object]:
        """What happened since the last look."""
        log, self.log = self.log, []
        return log

    def asked(self) -> list[str]:
        """What was asked since the last look."""
        found, self.wire.asked[:] = list(self.wire.asked), []
        return found

    # -- in a loop -----------------------------------------------------------------------------------------

    def aopen(self) -> AsyncOpening:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, SimLoop)
        return self.app.aopen_with(
            self.url,
            Options(now=loop.now_ms, wall=lambda: Millis(self.wall(loop.now_ms())), on_error=self.errors.append),
        )

    def wall(self, now_ms: float) -> int:
        return START_MS + self.off_ms + int(now_ms + 0.5)

    def run(self, main: Callable[[hw.AsyncSpace], Coroutine[Any, Any, T]]) -> T:
        """Open, run, and look whether all that must always hold did."""

        async def whole() -> T:
            async with self.aopen() as space:
                watch = SchedulerWatch(space.scheduler)
                done = await main(space)
                await space.settle()
                check(space.scheduler)
                watch.check()
                return done

        return simulate(whole())

    async def says(self, name: str, value: object) -> None:
        """Outside, somebody answers, as soon as he is asked; and that is taken in."""
        await breathe(lambda: name in self.wire.open)
        self.wire.answer(name, value)
        await breathe()

    # -- in plain code -------------------------------------------------------------------------------------

    def open(self) -> hw.Space:
        options = Options(now=lambda: self.time, wall=lambda: Millis(self.wall(self.time)), on_error=self.errors.append)
        return self.app.open_with(self.url, options)


async def breathe(until: Callable[[], bool] = lambda: False) -> None:
    """Let others have their turns, while no time passes."""
    for _ in range(TURNS):
        if until():
            return
        await asyncio.sleep(0)


async def pause(seconds: float) -> None:
    """Let so much time pass in the simulation."""
    await asyncio.sleep(seconds)
