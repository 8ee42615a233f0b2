"""`hw.together`: several apps are opened at once, and all are restored before any of their functions runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from headwater.errors import UsageError
from headwater.host.plain_opening import PlainOpening
from headwater.host.plain_space import Space
from headwater.runtime.opening_steps import DeclaringApp, begin, settle_order
from headwater.runtime.options import Options
from headwater.runtime.space_runtime import SpaceRuntime

if TYPE_CHECKING:  # plain programs need not load asyncio
    from headwater.host.async_opening import AsyncOpening
    from headwater.host.async_space import AsyncSpace


class OpenableApp(DeclaringApp[PlainOpening], Protocol):
    """An app, as it is opened in steps."""

    def made_opening(self, url: str | PathLike[str] | None, options: Options) -> PlainOpening:
        """Make an opening for plain code, without functions."""

    def aopen_with(self, url: str | PathLike[str] | None, options: Options) -> AsyncOpening:
        """The opening in an event loop."""


@dataclass(frozen=True, slots=True)
class AppOpening:
    """Where an app is to be opened, and how. Made by `app.opening(url, ...)`, for `hw.together`."""

    app: OpenableApp
    """The app."""
    url: str | PathLike[str] | None
    """The space."""
    options: Options
    """The options of `app.open`."""

    def __repr__(self) -> str:
        return f"<AppOpening of {self.app.name} at {self.url}>"


class Together:
    """What `hw.together` returns: a block, entered with `with` in plain code and with `async with` in an event loop."""

    def __init__(self, openings: Sequence[AppOpening]) -> None:
        self._planned = openings
        self._stack = ExitStack()
        self._openings: Sequence[PlainOpening] = ()
        self._async_stack: AsyncExitStack | None = None

    def __enter__(self) -> tuple[Space, ...]:
        self._openings = open_together(self._planned)
        spaces = tuple(Space(opening) for opening in self._openings)
        for space in spaces:
            self._stack.enter_context(space)
        return spaces

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._settle()
        finally:
            self._stack.__exit__(kind, error, trace)

    def _settle(self) -> None:
        """What is due runs while all are open: functions of one may need another that is closed before it."""
        left = [opening for opening in self._openings if not opening.closed]
        homes: dict[SpaceRuntime, PlainOpening] = {opening.runtime: opening for opening in left}
        for runtime in settle_order(homes):
            homes[runtime].settle()

    async def __aenter__(self) -> tuple[AsyncSpace, ...]:
        from headwater.host.async_opening import open_all  # noqa: PLC0415  # plain programs need not load asyncio

        openings = [each.app.aopen_with(each.url, each.options) for each in self._planned]
        spaces = await open_all(openings)
        self._async_stack = AsyncExitStack()
        for opening in openings:
            self._async_stack.push_async_exit(opening.__aexit__)
        return spaces

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._async_stack is not None
        await self._async_stack.__aexit__(kind, error, trace)


def open_together(planned: Sequence[AppOpening]) -> list[PlainOpening]:
    """Open several apps for plain code: all are registered and restored before any of their functions runs."""
    openings: list[PlainOpening] = []
    try:
        for each in planned:
            openings.append(each.app.made_opening(each.url, each.options))  # noqa: PERF401  # the made ones are closed
        begin([(each.app, opening) for each, opening in zip(planned, openings, strict=True)])
        for opening in openings:
            opening.resume_events()
        for runtime in settle_order(opening.runtime for opening in openings):
            runtime.catch_up()
    except BaseException:
        for opening in reversed(openings):
            opening.abandon()
        raise
    return openings


def together(*openings: AppOpening) -> Together:
    """Open several apps at once: `with hw.together(a.opening(url), b.opening(url)) as (a_space, b_space):`.

    All apps are opened, and the functions of all are registered and restored, before any of them runs. So a function
    may use what belongs to another of these apps from its first run on. At the end, what is due runs, and the
    spaces are closed in reverse order. If one cannot be opened, the others are closed.

    Args:
        openings: The apps and where to open them, from `app.opening(url, ...)`. In an event loop: `async with`.

    Returns:
        The block. It returns the open spaces, in this order.

    Raises:
        UsageError: HW100. An argument is no opening of an app.

    Example:
        ```python
        import headwater as hw

        stock, shop = hw.App("stock"), hw.App("shop")
        tea = stock.cell("tea", 10)

        with hw.together(stock.opening("memory:"), shop.opening("memory:")) as (first, second):
            print(tea.value, second.name)  # 10 main
        ```
    """
    for each in openings:
        given: object = each
        if not isinstance(given, AppOpening):
            message = f"hw.together takes openings of apps, such as app.opening('shop.db'), not {given!r}"
            raise UsageError(message)
    return Together(openings)
