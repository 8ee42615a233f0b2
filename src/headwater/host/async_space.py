"""`hw.AsyncSpace`: an open space as code in an event loop holds it. Names only; `loop_opening` does the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, Self, TypeVar

from headwater.host.document_loading import Loadable
from headwater.host.loop_opening import LoopOpening
from headwater.host.space_facade import SpaceFacade
from headwater.values.duration import Duration

P = ParamSpec("P")
R = TypeVar("R")


class AsyncSpace(SpaceFacade):
    """An open space for code in one event loop. Made by `async with app.aopen(...)`.

    Functions that depend on a write run between two awaits. All members of `Space` that do not wait are here too.

    Example:
        ```python
        import asyncio
        import headwater as hw

        app = hw.App("counter")
        count = app.cell("count", 0)


        async def main() -> None:
            async with app.aopen("memory:") as space:
                count.value = 1
                await space.settle()


        asyncio.run(main())
        ```
    """

    __slots__ = ()

    _opening: LoopOpening

    async def __aenter__(self) -> Self:
        self._opening.enter()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._opening.leave()
        await self._opening.close(failed=kind is not None)

    async def settle(self) -> None:
        """Wait until all functions that depend on writes so far have run, and no run or request is in progress.

        It does not wait for debounced and throttled functions.

        Example:
            ```python
            import asyncio
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 0)


            async def main() -> None:
                async with app.aopen("memory:") as space:
                    count.value = 2
                    await space.settle()
                    print(count.value)  # 2


            asyncio.run(main())
            ```
        """
        await self._opening.settle()

    async def idle(self) -> None:
        """As `settle`: wait until only functions are left that wait for their time."""
        await self._opening.settle()

    async def settled(self) -> None:
        """Wait as `settle` does, then until everything is on disk.

        Raises:
            RejectedError: HW210. A transaction was rejected and rolled back.
        """
        await self._opening.settle()
        await self._opening.synced()

    async def fresh(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of a computed function, async or not, once nothing that it depends on is in progress.

        Args:
            function: The computed function.
            args: Its arguments.
            kwargs: Its arguments by name.

        Returns:
            The current result.

        Raises:
            NotReadyError: HW151. The function has no result, because a value that it reads is not available.

        Example:
            ```python
            import asyncio
            import headwater as hw

            app = hw.App("shop")
            price = app.cell("price", 250)


            @app.computed
            async def gross() -> int:
                return price.value * 12 // 10


            async def main() -> None:
                async with app.aopen("memory:") as space:
                    print(await space.fresh(gross))  # 300


            asyncio.run(main())
            ```
        """
        return await self._opening.fresh(function, *args, **kwargs)

    async def delivered(self, timeout: Duration | None = None) -> None:  # noqa: ASYNC109  # as in `Space.delivered`
        """Wait until other spaces have handled what was sent to them from this one, durably.

        Args:
            timeout: The longest time to wait. By default, without a limit. After it, delivery goes on.

        Raises:
            EventTimeoutError: HW163. The time is over. The message says what is waited for.
            UsageError: HW100. A transaction of this space is around this code.
        """
        await self._opening.delivered(timeout)

    async def load(self, *things: Loadable) -> None:
        """Fetch documents before they are read, together with up to 50,000 documents they link to.

        A server sends them in one answer, and the event loop goes on meanwhile. In a local space this does nothing.

        Args:
            things: Cells, documents, lists, queries, or addresses as text.

        Raises:
            OfflineError: HW405. The server does not answer.
        """
        await self._opening.load(*things)

    async def close(self, *, failed: bool = False) -> None:
        """Wait until everything is on disk, cancel runs in progress, and close.

        Args:
            failed: Whether the code around has failed already. Further exceptions are then logged and not raised.

        Raises:
            UserCodeError: HW150. With `on_error="raise"`: the first exception of a function that ran by itself.
            RejectedError: HW210. A transaction was rejected and rolled back.
        """
        await self._opening.close(failed=failed)
