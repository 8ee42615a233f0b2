"""Opening a space from an event loop: the disk is waited for in a thread, and nothing is left open by whoever gives up.

Must never know: apps (it is handed what to open, and what to do with it).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from headwater.errors import UsageError
from headwater.host.async_space import AsyncSpace


class AsyncOpening:
    """What `async with app.aopen(...)` enters."""

    def __init__(
        self, make: Callable[[asyncio.AbstractEventLoop], AsyncSpace], begin: Callable[[AsyncSpace], None]
    ) -> None:
        self._make = make
        self._begin = begin
        self._entered = False
        self._space: AsyncSpace | None = None

    async def __aenter__(self) -> AsyncSpace:
        if self._entered:
            raise UsageError("an opening is entered once; call app.aopen(...) for each")
        self._entered = True
        space = self._space = await self._made()
        space.enter()
        try:
            if space.connection.state == "local":
                self._begin(space)
            else:
                # What is kept of runs is a server's, and is asked for. Nothing runs meanwhile: the turn is taken.
                await self._begin_beside(space)
            await space.calm()
            # Not waited for: one that never comes to its end must not keep the space from being opened.
            space.resume_events()
        except BaseException:
            space.leave()
            await asyncio.to_thread(space.abandon)
            raise
        return space

    async def _begin_beside(self, space: AsyncSpace) -> None:
        """In a thread. Who stops waiting for it leaves nothing half begun."""

        def begin() -> None:
            with space.turn:
                self._begin(space)
            space.catch_up()

        begun = asyncio.ensure_future(asyncio.to_thread(begin))
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:
            await asyncio.wait((begun,))
            raise

    async def _made(self) -> AsyncSpace:
        """The space, made in a thread. Who stops waiting for it must not leave it open, whichever comes first."""
        loop = asyncio.get_running_loop()
        given_up = False
        made: list[AsyncSpace] = []

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
            await asyncio.to_thread(make)
        except BaseException:
            given_up = True
            await asyncio.to_thread(drop)
            raise
        return made.pop()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._space is not None
        self._space.leave()
        await self._space.close(failed=kind is not None)
