"""`hw.Space`: an open space as plain code holds it. Names only; `plain_runtime` does the work."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, Self

from headwater.errors import UsageError
from headwater.host.document_loading import Loadable
from headwater.host.plain_runtime import PlainRuntime
from headwater.host.space_facade import SpaceFacade
from headwater.values.duration import Duration


class Space(SpaceFacade):
    """An open space for plain code. Made by `app.open`; a `with` block closes it."""

    __slots__ = ()

    _runtime: PlainRuntime

    def __enter__(self) -> Self:
        self._runtime.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        self._runtime.leave()
        self._runtime.close_after(failed=kind is not None)

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
        """Run what is observed and out of date, and what is due. Every write does the former."""
        self._runtime.settle()

    def wait(self, duration: Duration) -> None:
        """Let time pass, and run what becomes due: debounced and throttled functions, timers, retries."""
        self._runtime.wait(duration)

    def sync(self, timeout: Duration | None = None) -> None:
        """Wait until everything written so far is on disk. Raises RejectedError if some of it was rolled back.

        What was refused for a reason with a code of its own raises the error of that code, such as LimitError. Raises
        StoreFullError while there is no room for the result of an event: the event is tried again, and so may sync be.
        """
        self._runtime.sync(timeout)

    def load(self, *things: Loadable) -> None:
        """Fetch documents before they are read, with those they link to: cells, documents, lists, or addresses.

        A server sends them in one answer, and reading them does not wait then. Elsewhere everything is local already.
        Raises OfflineError if the server does not answer.
        """
        self._runtime.load(*things)

    def close(self) -> None:
        """Sync and close. Idempotent. With `on_error="raise"`, raises the first error that a function has raised."""
        self._runtime.close()
