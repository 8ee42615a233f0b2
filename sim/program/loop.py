"""A space in an event loop, used by threads that have none: nothing runs there but what the loop does by itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from headwater.host.async_space import AsyncSpace
from headwater.host.loop_opening import LoopOpening
from headwater.host.space_facade import opening_of
from headwater.machine import machine

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from headwater.app import App
    from headwater.runtime.options import Options


class LoopSpace:
    """As a plain space. Its names wait for the loop; other attributes are those of the space."""

    def __init__(
        self, app: App, url: str, options: Options, start: Callable[[str, Callable[[], None]], object]
    ) -> None:
        """Open it in a new thread. Raises what the opening raises."""
        self._opened = machine().event()
        self._error: BaseException | None = None
        self._space: AsyncSpace
        self._loop: asyncio.AbstractEventLoop
        self._closing: asyncio.Event
        start("loop", lambda: machine().run(self._live(app, url, options)))
        self._opened.wait()
        if self._error is not None:
            raise self._error

    async def _live(self, app: App, url: str, options: Options) -> None:
        self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
        try:
            self._space = await app.aopen_with(url, options)
        except Exception as error:  # noqa: BLE001  # raised by the thread that opens
            self._error = error
            return
        finally:
            self._opened.set()
        await self._closing.wait()

    def __getattr__(self, name: str) -> Any:  # of the space
        return getattr(self._space, name)

    @property
    def runtime(self) -> LoopOpening:
        found = opening_of(self._space)
        assert isinstance(found, LoopOpening)
        return found

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:  # its result
        """Run a coroutine in the loop."""
        return machine().submit(self._loop, work).result()

    def settle(self) -> None:
        self.run(self._space.settle())

    def sync(self) -> None:
        self.run(self._space.synced())

    def wait(self, duration: str) -> None:
        machine().sleep(float(duration.removesuffix("ms")) / 1000)

    def force(self) -> None:
        """A pass that nothing has asked for."""

        async def ask() -> None:
            self.runtime.runtime.has_work = True
            self.runtime.catch_up()

        self.run(ask())

    def close(self) -> None:
        try:
            self.run(self._space.close())
        finally:
            self._loop.call_soon_threadsafe(self._closing.set)
