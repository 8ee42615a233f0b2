"""`hw.AsyncSpace`: an open space as code in an event loop holds it. Names only; `async_runtime` does the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Self, TypeVar

from headwater.host.async_runtime import AsyncRuntime
from headwater.host.document_loading import Loadable
from headwater.host.space_facade import SpaceFacade

P = ParamSpec("P")
R = TypeVar("R")


class AsyncSpace(SpaceFacade):
    """An open space for code in one event loop. Made by `async with app.aopen(...)`."""

    __slots__ = ()

    _runtime: AsyncRuntime

    async def __aenter__(self) -> Self:
        self._runtime.enter()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._runtime.leave()
        await self._runtime.close(failed=kind is not None)

    async def settle(self) -> None:
        """Wait until everything written so far is taken in, what follows from it has run, and no run is under way.

        Does not wait for debounced or throttled functions. Waits for requests that are under way.
        """
        await self._runtime.settle()

    async def idle(self) -> None:
        """As `settle`: nothing can run now but what waits for its time."""
        await self._runtime.settle()

    async def settled(self) -> None:
        """Idle, and everything on disk."""
        await self._runtime.settle()
        await self._runtime.synced()

    async def fresh(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The value of a computed function, async or not, once nothing that it depends on is under way."""
        return await self._runtime.fresh(function, *args, **kwargs)

    async def load(self, *things: Loadable) -> None:
        """Fetch documents before they are read, with those they link to: cells, documents, lists, or addresses.

        A server sends them in one answer; the loop goes on meanwhile. Elsewhere everything is local already. Raises
        OfflineError if the server does not answer.
        """
        await self._runtime.load(*things)

    async def close(self, *, failed: bool = False) -> None:
        """Sync, cancel what is under way, and close. After a failure, further errors are logged, not raised."""
        await self._runtime.close(failed=failed)
