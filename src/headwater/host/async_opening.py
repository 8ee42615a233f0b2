"""Opens a space from an event loop: the disk is waited for in a thread, and a cancelled opening leaves nothing open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from headwater.errors import UsageError
from headwater.host.async_runtime import AsyncRuntime
from headwater.host.async_space import AsyncSpace
from headwater.host.notebook_openings import closing_former, former_openings
from headwater.host.plain_runtime import PlainRuntime
from headwater.host.space_facade import runtime_of
from headwater.machine import machine
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.type_records import keep_types


class OpenedApp(Protocol):
    """The app that is opened."""

    name: str

    @property
    def declared(self) -> Mapping[str, object]:
        """Everything that it declares, by name."""


class AsyncOpening:
    """What `async with app.aopen(...)` enters. Awaited, it is a space that stays open until `await space.close()`."""

    def __init__(
        self,
        app: OpenedApp,
        options: Options,
        parts: HostParts,
        *,
        begin: Callable[[AsyncRuntime], None],
        share: Callable[[], Lease],
        place: Callable[[], str],
        kind: type[AsyncRuntime] | None = None,
    ) -> None:
        self._app = app
        self._options = options
        self._parts = parts
        # Registers what the app declares.
        self._begin = begin
        self._share = share
        # To be compared with where the app was opened before.
        self._place = place
        self._kind = kind or AsyncRuntime
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
        await aclose_former(self._app.name, self._place())
        space = self._runtime = await self._made()
        space.enter()
        try:
            if space.connection.state == "local":
                self._begin(space)
                keep_types(space, self._app.name, self._app.declared)
            else:
                # Observations of earlier runs are fetched from the server. Nothing runs meanwhile: the lock is held.
                await self._begin_beside(space)
            await space.calm()
            # Not waited for: an event that never ends must not keep the space from being opened.
            space.resume_events()
        except BaseException:
            space.leave()
            await machine().to_thread(space.abandon)
            raise
        return AsyncSpace(space)

    async def _begin_beside(self, space: AsyncRuntime) -> None:
        """In a thread. If the caller is cancelled, the thread still completes."""

        def begin() -> None:
            with space.lock:
                self._begin(space)
            keep_types(space, self._app.name, self._app.declared)
            space.catch_up()

        begun = asyncio.ensure_future(machine().to_thread(begin))
        try:
            await asyncio.shield(begun)
        except asyncio.CancelledError:
            await asyncio.wait((begun,))
            raise

    async def _made(self) -> AsyncRuntime:
        """The space, made in a thread. If the caller is cancelled, the space is closed, made or not yet made."""
        loop = asyncio.get_running_loop()
        given_up = False
        made: list[AsyncRuntime] = []

        def make() -> None:
            lease = self._share()
            opened = lease.passed_to(lambda: self._kind(lease, self._app, self._options, self._parts, loop=loop))
            opened.opened_as = (self._app.name, self._place())
            made.append(opened)
            if given_up:
                drop()

        def drop() -> None:
            # Both sides may get here; only one of them finds it.
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


async def aclose_former(app: str, place: str) -> None:
    """As `close_former`, in an event loop."""
    for space in former_openings(app, place):
        with closing_former(space, place):
            if isinstance(space, AsyncRuntime) and space.loop is asyncio.get_running_loop():
                await space.close()
            else:
                await machine().to_thread(space.close if isinstance(space, PlainRuntime) else space.abandon)
