"""An open space for code in an event loop: what follows from a write runs between two awaits.

Nothing waits for the disk but `synced`, and that without holding up the loop.

Must never know: apps (it is handed what to run).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from contextvars import copy_context

from headwater.cells.here import Addressed, called
from headwater.errors import HeadwaterError, UsageError
from headwater.host.opening import Lease
from headwater.host.options import Options
from headwater.host.space import BaseSpace, log
from headwater.scheduler.node import Node


class AsyncSpace(BaseSpace):
    """An open space for code in one event loop. Made by `async with app.aopen(...)`."""

    def __init__(self, lease: Lease, owner: object, options: Options, *, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # What is around the code that happens to ask for a pass is not around what runs in it.
        self._context = copy_context()
        # A pass is asked for; one was, while a thread had its turn.
        self._soon = self._missed = False
        replica = lease.storage.attach(branch=options.branch, wake=self._wake)
        super().__init__(lease, replica, owner, options)
        self.place = (lease.storage, options.branch)
        # Other event loops are refused.
        self.wary = True

    def _wake(self) -> None:
        # A loop that is closed runs nothing any more; what was written is stored all the same.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._pass, context=self._context)

    def check(self, what: str | Addressed) -> None:
        """Besides being open: this loop, or a thread without one."""
        super().check(what)
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is not self._loop:
            message = (
                f"{called(what)} cannot be used from this event loop: space {self.name!r} was opened in another one; "
                "open it here as well, with `async with app.aopen(...)`"
            )
            raise UsageError(message, space=self.name)

    def catch_up(self) -> None:
        """Have a pass run between two awaits."""
        if not self._soon:
            self._soon = True
            self._wake()

    def pull(self, node: Node) -> None:
        """As in a plain space. A pass that came meanwhile and was not let in is made up for."""
        super().pull(node)
        if self._missed:
            self.catch_up()

    def _pass(self) -> None:
        self._soon = False
        # Said before trying: whoever has the turn looks when it is over.
        self._missed = True
        if self.closed or not self._turn.acquire(blocking=False):
            return
        try:
            self._missed = False
            self._attached.refresh()
            if self.restless:
                self.scheduler.settle()
        finally:
            self._turn.release()

    async def settle(self) -> None:
        """Wait for quiet: everything written so far is taken in, and what follows has run."""
        self.check_open()
        while not self.closed and (self._soon or self._missed or self.restless or self.news):
            self._pass()
            await (asyncio.to_thread(self._await_turn) if self._missed else asyncio.sleep(0))

    def _await_turn(self) -> None:
        with self._turn:
            pass

    async def synced(self) -> None:
        """Wait until everything written so far is on disk. Raises RejectedError if some of it was taken back."""
        self.check_open()
        await asyncio.to_thread(self._lease.storage.wait)
        await self.settle()
        self._tell_lost()

    async def close(self, *, failed: bool = False) -> None:
        """Sync and let go. Once more is no harm. After a failure, what else goes wrong is logged, not raised."""
        if self.closed:
            return
        try:
            await self.synced()
        except HeadwaterError as error:
            if not failed:
                raise
            log.error("while closing space %r after an error: %s", self.name, error)  # told, not shown
        finally:
            self._shut()
            await asyncio.to_thread(self._let_go)
