"""Opens a space from an event loop: the disk is waited for in a thread, and a cancelled opening leaves nothing open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

from headwater.errors import UsageError
from headwater.host.async_space import AsyncSpace
from headwater.host.loop_opening import LoopOpening
from headwater.host.notebook_openings import closing_former, former_openings
from headwater.host.plain_opening import PlainOpening
from headwater.host.space_facade import opening_of
from headwater.machine import machine
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.opening_steps import DeclaringApp, begin
from headwater.runtime.options import Options
from headwater.runtime.shared_runtimes import open_in, runtime_key


class AsyncOpening:
    """What `async with app.aopen(...)` enters. Awaited, it is a space that stays open until `await space.close()`."""

    def __init__(
        self,
        app: DeclaringApp[LoopOpening],
        options: Options,
        parts: HostParts,
        *,
        share: Callable[[], Lease],
        place: Callable[[], str],
        kind: type[LoopOpening] | None = None,
    ) -> None:
        self.app = app
        self._options = options
        self._parts = parts
        self._share = share
        # To be compared with where the app was opened before.
        self._place = place
        self._kind = kind or LoopOpening
        self._entered = False
        self._opening: LoopOpening | None = None

    def __await__(self) -> Generator[Any, None, AsyncSpace]:
        return self._lasting().__await__()

    async def _lasting(self) -> AsyncSpace:
        space = await self.__aenter__()
        # No block: it means the only opening of its app, wherever the code is.
        opening_of(space).leave()
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
        return (await open_all([self]))[0]

    async def make(self) -> LoopOpening:
        """Make the opening, without functions, and enter it."""
        if self._entered:
            raise UsageError("an opening is entered once; call app.aopen(...) for each")
        self._entered = True
        await aclose_former(self.app.name, self._place())
        opening = self._opening = await self._made()
        opening.enter()
        return opening

    async def _made(self) -> LoopOpening:
        """The space, made in a thread. If the caller is cancelled, the space is closed, made or not yet made."""
        loop = asyncio.get_running_loop()
        given_up = False
        made: list[LoopOpening] = []

        def make() -> None:
            lease = self._share()
            opened = lease.passed_to(lambda: self._opened(lease, loop))
            opened.opened_as = (self.app.name, self._place())
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

    def _opened(self, lease: Lease, loop: asyncio.AbstractEventLoop) -> LoopOpening:
        """The opening, in the runtime of other apps that are open at the same space in this loop, or in a new one."""
        options, parts, kind = self._options, self._parts, self._kind
        return open_in(
            runtime_key(lease, options, loop, kind),
            self.app.name,
            make=lambda: kind.runtime_kind(lease, options, parts, loop=loop),
            join=lambda runtime: kind(lease, runtime, self.app, options, parts),
        )

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._opening is not None
        self._opening.leave()
        await self._opening.close(failed=kind is not None)


async def open_all(openings: Sequence[AsyncOpening]) -> tuple[AsyncSpace, ...]:
    """Open several apps: all are registered and restored before any of their functions runs.

    If one cannot be opened, all are closed.
    """
    made: list[LoopOpening] = []
    try:
        for each in openings:
            made.append(await each.make())  # noqa: PERF401  # the made ones are closed
        await _begin([(each.app, opening) for each, opening in zip(openings, made, strict=True)])
        for opening in made:
            await opening.calm()
        for opening in made:
            # Not waited for: an event that never ends must not keep the space from being opened.
            opening.resume_events()
    except BaseException:
        for opening in reversed(made):
            opening.leave()
            await machine().to_thread(opening.abandon)
        raise
    return tuple(AsyncSpace(opening) for opening in made)


async def _begin(opened: Sequence[tuple[DeclaringApp[LoopOpening], LoopOpening]]) -> None:
    """Register and restore. Not in the loop if that may wait: for a server, an index, or a thread that has the lock."""
    runtimes = {opening.runtime for _, opening in opened}
    has_collections = any(app.has_collections for app, _ in opened)
    if not has_collections and not any(runtime.at_server or len(runtime.openings) > 1 for runtime in runtimes):
        begin(opened)
        return

    def begin_beside() -> None:
        begin(opened)
        for _, opening in opened:
            opening.catch_up()

    # If the caller is cancelled, the thread still completes.
    begun = asyncio.ensure_future(machine().to_thread(begin_beside))
    try:
        await asyncio.shield(begun)
    except asyncio.CancelledError:
        await asyncio.wait((begun,))
        raise


async def aclose_former(app: str, place: str) -> None:
    """As `close_former`, in an event loop."""
    for space in former_openings(app, place):
        with closing_former(space, place):
            if isinstance(space, LoopOpening) and space.loop is asyncio.get_running_loop():
                await space.close()
            else:
                await machine().to_thread(space.close if isinstance(space, PlainOpening) else space.abandon)
