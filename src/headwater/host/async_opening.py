"""Opens a space from an event loop: the disk is waited for in a thread, and a cancelled opening leaves nothing open."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from headwater.errors import UsageError
from headwater.host.async_runtime import AsyncRuntime
from headwater.host.async_space import AsyncSpace
from headwater.host.space_facade import runtime_of
from headwater.machine import machine


class AsyncOpening:
    """What `async with app.aopen(...)` enters. Awaited, it is a space that stays open until `await space.close()`."""

    def __init__(
        self,
        make: Callable[[asyncio.AbstractEventLoop], AsyncRuntime],
        begin: Callable[[AsyncRuntime], None],
        keep: Callable[[AsyncRuntime], None],
        clear: Callable[[], Awaitable[None]],
    ) -> None:
        self._make = make
        self._begin = begin
        # What is written down of the app; at a server that takes a while.
        self._keep = keep
        # What is done first: an earlier input of a notebook may have left an opening behind.
        self._clear = clear
        self._entered = False
        self._runtime: AsyncRuntime | None = None

    def __await__(self) -> Generator[Any, None, AsyncSpace]:
        return self._lasting().__await__()

    async def _lasting(self) -> AsyncSpace:
        space = await self.__aenter__()
        # No block: it means the only opening of its app, wherever the code is.
        runtime_of(space).leave()
        return space

    # Not for type checkers: they refuse the wrong form themselves.
    if not TYPE_CHECKING:

        def __enter__(self) -> NoReturn:
            raise UsageError(
                "app.aopen(...) is for code in an event loop: `async with app.aopen(...) as space`, or "
                "`space = await app.aopen(...)`; in plain code it is `with app.open(...) as space`"
            )

        def __exit__(self, *_error: object) -> None:
            """Never reached: it cannot be entered so. Without it, Python would not ask `__enter__`."""

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("__"):
                raise AttributeError(name)
            raise AttributeError(
                f"what app.aopen(...) returns is not open yet, and has no {name!r}: `space = await app.aopen(...)`, or "
                "`async with app.aopen(...) as space`"
            )

    async def __aenter__(self) -> AsyncSpace:
        if self._entered:
            raise UsageError("an opening is entered once; call app.aopen(...) for each")
        self._entered = True
        await self._clear()
        space = self._runtime = await self._made()
        space.enter()
        try:
            if space.connection.state == "local":
                self._begin(space)
                self._keep(space)
            else:
                # What is kept of runs is a server's, and is asked for. Nothing runs meanwhile: the turn is taken.
                await self._begin_beside(space)
            await space.calm()
            # Not waited for: one that never comes to its end must not keep the space from being opened.
            space.resume_events()
        except BaseException:
            space.leave()
            await machine().to_thread(space.abandon)
            raise
        return AsyncSpace(space)

    async def _begin_beside(self, space: AsyncRuntime) -> None:
        """In a thread. Who stops waiting for it leaves nothing half begun."""

        def begin() -> None:
            with space.lock:
                self._begin(space)
            self._keep(space)
            space.catch_up()

        begun = asyncio.ensure_future(machine().to_thread(begin))
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:
            await asyncio.wait((begun,))
            raise

    async def _made(self) -> AsyncRuntime:
        """The space, made in a thread. Who stops waiting for it must not leave it open, whichever comes first."""
        loop = asyncio.get_running_loop()
        given_up = False
        made: list[AsyncRuntime] = []

        def make() -> None:
            made.append(self._make(loop))
            if given_up:
                drop()

        def drop() -> None:
            # Both sides may come here; only one of them finds it.
            try:
                space = made.pop()
            except IndexError:
                return
            space.abandon()

        try:
            await machine().to_thread(make)
        except BaseException:
            given_up = True
            await machine().to_thread(drop)
            raise
        return made.pop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._runtime is not None
        self._runtime.leave()
        await self._runtime.close(failed=kind is not None)
