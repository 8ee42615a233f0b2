"""`hw.Space`: an open space as plain code holds it. Names only; `plain_opening` does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Self

from headwater.errors import UsageError
from headwater.host.document_loading import Loadable
from headwater.host.plain_opening import PlainOpening
from headwater.host.space_facade import SpaceFacade
from headwater.values.duration import Duration


class Space(SpaceFacade):
    """An open space for plain code. Made by `app.open`; a `with` block closes it.

    Functions that depend on a write have run before the next line.

    Example:
        ```python
        import headwater as hw

        app = hw.App("counter")
        count = app.cell("count", 0)
        with app.open("memory:") as space:
            count.value = 1
            print(space.closed)  # False
        ```
    """

    __slots__ = ()

    _opening: PlainOpening

    def __enter__(self) -> Self:
        self._opening.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._opening.leave()
        self._opening.close_after(failed=kind is not None)

    # Not for type checkers: they refuse the wrong form themselves.
    if not TYPE_CHECKING:

        async def __aenter__(self) -> NoReturn:
            self.close()
            raise UsageError(
                "app.open(...) is for plain code; in an event loop it is `async with app.aopen(...) as space`"
            )

        async def __aexit__(self, *_error: object) -> None:
            """Never reached: it cannot be entered so."""

    def settle(self) -> None:
        """Run the functions that are observed and invalid, and those that are due. Every write does the former.

        Example:
            ```python
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 0)
            with app.open("memory:") as space:
                count.value = 1
                space.settle()
            ```
        """
        self._opening.settle()

    def wait(self, duration: Duration) -> None:
        """Let time pass, and run what becomes due: debounced and throttled functions, timers, retries.

        Args:
            duration: How long: a text such as `"500ms"`, `"2m"` or `"1d"`, or a `timedelta`.

        Raises:
            UsageError: HW100. The duration cannot be read.
        """
        self._opening.wait(duration)

    def sync(self, timeout: Duration | None = None) -> None:
        """Wait until everything written so far is on disk, or confirmed by the server.

        Args:
            timeout: The longest time to wait. After it the writes are still being tried.

        Raises:
            RejectedError: HW210. A transaction was rejected and rolled back. The subclasses say why: `ConflictError`
                (HW211) or `PreconditionError` (HW212).
            StoreFullError: HW203. The disk has no room. The writes are tried again.
            PoisonedError: HW204. The disk has failed: open the space again.
            UnconfirmedError: HW218. A transaction has no verdict, and will get none.

        Example:
            ```python
            import headwater as hw

            app = hw.App("counter")
            count = app.cell("count", 0)
            with app.open("memory:") as space:
                count.value = 1
                space.sync()
                print(space.stats.pending)  # 0
            ```
        """
        self._opening.sync(timeout)

    def delivered(self, timeout: Duration | None = None) -> None:
        """Wait until other spaces have handled what was sent to them from this one, durably.

        Args:
            timeout: The longest time to wait. By default, without a limit. After it, delivery goes on.

        Raises:
            EventTimeoutError: HW163. The time is over. The message says what is waited for.
            UsageError: HW100. A transaction of this space is around this code.

        Example:
            ```python
            import headwater as hw

            shop, bank = hw.App("shop"), hw.App("bank")
            balance = bank.cell("balance", 0)
            with bank.open("memory:"), shop.open("memory:") as space:
                with space.transaction():
                    balance.post.increment(4)
                space.delivered(timeout="1m")
                print(balance.value, space.stats.undelivered)  # 4 0
            ```
        """
        self._opening.delivered(timeout)

    def load(self, *things: Loadable) -> None:
        """Fetch documents before they are read, together with up to 50,000 documents they link to.

        A server sends them in one answer, so that later reads do not wait. In a local space this does nothing.

        Args:
            things: Cells, documents, lists, queries, or addresses as text.

        Raises:
            OfflineError: HW405. The server does not answer.
        """
        self._opening.load(*things)

    def close(self) -> None:
        """Wait until everything is on disk, then close. A second call does nothing.

        Raises:
            UserCodeError: HW150. With `on_error="raise"`: the first exception of a function that ran by itself.
            RejectedError: HW210. A transaction was rejected and rolled back.
        """
        self._opening.close()
