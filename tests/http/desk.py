"""A program that looks at answers of a server, in real sockets and in time that a test moves.

Must never know: what is tested.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import headwater as hw
from headwater.errors import UserCodeError
from headwater.host.async_opening import AsyncOpening
from headwater.runtime.options import Options
from headwater.testing.invariants.scheduler_invariants import check
from headwater.testing.sim_clock import START_MS
from headwater.values.ids import Millis
from tests.http.rig import SAFETY_S, Write, answer

T = TypeVar("T")


def local(**options: Any) -> hw.http.Client:
    """A client that may ask this machine."""
    return hw.http.Client(private=True, **options)


def as_json(value: object, **headers: str) -> Write:
    """An answer that is JSON."""
    return answer(json.dumps(value).encode(), content_type="application/json", **headers)


class Desk:
    """An app with a URL, and a sink that notes what there is: "-", the value, or the failure with the last value."""

    def __init__(
        self, read: Callable[[str], hw.Pending | hw.Ready[Any] | hw.Failed[Any]], store: str = "memory:"
    ) -> None:
        self.app = hw.App("desk")
        self.url = self.app.cell("url", "")
        self.store = store
        self.log: list[object] = []
        self.failures: list[hw.Failed[Any]] = []
        self.errors: list[UserCodeError] = []
        self.time = 0.0

        @self.app.sink
        def show() -> None:
            if self.url.value:
                self.note(read(self.url.value))

    def note(self, state: hw.Pending | hw.Ready[Any] | hw.Failed[Any]) -> None:
        match state:
            case hw.Pending():
                self.log.append("-")
            case hw.Ready(value):
                self.log.append(value)
            case hw.Failed(error, last):
                self.failures.append(state)
                self.log.append((error.facts["kind"], last))

    def taken(self) -> list[object]:
        """What was noted since the last look."""
        log, self.log = self.log, []
        return log

    def options(self) -> Options:
        return Options(
            now=lambda: self.time,
            wall=lambda: Millis(START_MS + int(self.time)),
            jitter=lambda: 0.0,
            on_error=self.errors.append,
        )

    def aopen(self) -> AsyncOpening:
        return self.app.aopen_with(self.store, self.options())

    def open(self) -> hw.Space:
        return self.app.open_with(self.store, self.options())

    async def later(self, space: hw.AsyncSpace, seconds: float) -> None:
        """So much time passes, and what is due then is done."""
        self.time += seconds * 1000
        await space.settle()

    def run(self, main: Callable[[hw.AsyncSpace], Coroutine[Any, Any, T]]) -> T:
        """Open, run, and look whether all that must always hold did."""

        async def whole() -> T:
            async with asyncio.timeout(SAFETY_S), self.aopen() as space:
                done = await main(space)
                await space.settle()
                check(space.scheduler)
                return done

        done = asyncio.run(whole())
        assert self.errors == []
        return done
