"""An open space for code in an event loop: what follows from a write runs between two awaits.

Nothing waits for the disk but `synced`, and that without holding up the loop.

Must never know: apps (it is handed what to run).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import ParamSpec, TypeVar

from headwater.cells.here import Addressed, called
from headwater.errors import HeadwaterError, NotReadyError, UsageError
from headwater.host.flight import Flights
from headwater.host.opening import Lease
from headwater.host.options import Options
from headwater.host.report import log
from headwater.host.space import BaseSpace
from headwater.scheduler.attempt import Attempt
from headwater.scheduler.node import Node

P = ParamSpec("P")
R = TypeVar("R")


class AsyncSpace(BaseSpace):
    """An open space for code in one event loop. Made by `async with app.aopen(...)`."""

    def __init__(self, lease: Lease, owner: object, options: Options, *, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        # What is around the code that happens to ask for a pass is not around what runs in it.
        self._context = copy_context()
        # A pass is asked for; one was, while a thread had its turn.
        self._soon = self._missed = False
        # The thread that a pass is under way in.
        self._passing = 0
        self._wake_at: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        replica = lease.storage.attach(branch=options.branch, wake=self._wake)
        super().__init__(lease, replica, owner, options)
        self.place = (lease.storage, options.branch)
        self._flights = Flights(self, loop, self._context, self.catch_up)
        self.window.after = self._make_up
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

    def _tick(self, due: bool) -> None:  # noqa: FBT001  # asked by the scheduler
        super()._tick(due)
        if due and self._passing != threading.get_ident():
            # Not by the pass itself, which looks again before it ends.
            self.catch_up()

    def pull(self, node: Node) -> None:
        """As in a plain space. A pass that came meanwhile and was not let in is made up for."""
        super().pull(node)
        self._make_up()

    def _make_up(self) -> None:
        if self._missed:
            self.catch_up()

    def _perform(self, attempt: Attempt) -> None:
        if attempt.node.spec.is_async:
            self._flights.start(attempt)
        else:
            super()._perform(attempt)

    def _pass(self) -> None:
        self._soon = False
        # Said before trying: whoever has the turn looks when it is over.
        self._missed = True
        if self.closed or not self._turn.acquire(blocking=False):
            return
        self._passing = threading.get_ident()
        try:
            self._missed = False
            self._attached.refresh()
            self._take_in()
            if self.restless or self._is_due():
                self._arm(self.scheduler.settle())
            elif self._timer is None:
                # It rang a little early, by the clock of the gates.
                self._arm(self._wake_at)
        finally:
            self._passing = 0
            self._turn.release()

    def _take_in(self) -> None:
        """What async functions have read so far, and what came of those that ended."""
        flights, scheduler = self._flights, self.scheduler
        flights.launch()
        while flights.waits:
            scheduler.look_again(flights.waits.popleft())
        while flights.landed:
            attempt, how = flights.landed.popleft()
            attempt.suspended = False
            if how == "ended":
                scheduler.resume(attempt)
            elif how == "again":
                scheduler.again(attempt)
            else:
                scheduler.cancelled(attempt)
            self.restless = True

    # -- time ----------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        return self._wake_at is not None and self._wake_at <= self._now()

    def _arm(self, wake_at: float | None) -> None:
        """One timer, for the earliest that something may be to do."""
        if self._timer is not None:
            self._timer.cancel()
        self._wake_at = wake_at
        self._timer = None
        if wake_at is not None and not self.closed:
            delay = max(wake_at - self._now(), 0.0) / 1000
            self._timer = self._loop.call_later(delay, self._ring, context=self._context)

    def _ring(self) -> None:
        self._timer = None
        self._pass()

    # -- waiting -------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait for quiet: everything written so far is taken in, what follows has run, nothing is under way.

        What waits for its time, debounced or throttled, is not waited for.
        """
        self.check_open()
        if self._flights.is_inside():
            message = "an async function that waits until nothing is under way would wait for itself"
            raise UsageError(f"{message}; wait for what it needs with space.fresh(...)", space=self.name)
        while not self.closed:
            if self._soon or self._missed or self.restless or self.news or self._flights.landed or self._is_due():
                self._pass()
                await (asyncio.to_thread(self._await_turn) if self._missed else asyncio.sleep(0))
            elif self._flights:
                await self._flights.next_landing()
            else:
                return

    async def idle(self) -> None:
        """As `settle`: nothing can run now but what waits for its time."""
        await self.settle()

    async def settled(self) -> None:
        """Idle, and everything on disk."""
        await self.settle()
        await self.synced()

    async def fresh(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The value of a computed function, async or not, once nothing that it depends on is under way."""
        while True:
            try:
                value = function(*args, **kwargs)
            except NotReadyError:
                if not self._flights:
                    raise
            else:
                if not self._is_awaited(function, *args, **kwargs):
                    return value
            await self._flights.next_landing()
            while self._flights.landed:
                self._pass()
                await (asyncio.to_thread(self._await_turn) if self._missed else asyncio.sleep(0))

    def _is_awaited(self, function: object, *args: object, **kwargs: object) -> bool:
        """Whether it, or something above it, is under way."""
        find: Callable[..., Node | None] = getattr(function, "node_in", lambda *_, **__: None)
        node = find(self, *args, **kwargs)
        return bool(self._flights) and (node is None or self.scheduler.is_under_way(node))

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
        """Sync and let go. Once more is no harm. After a failure, what else goes wrong is logged, not raised.

        Async functions that are under way are not waited for: they are cancelled.
        """
        if self.closed:
            return
        if self._flights.is_inside():
            message = "an async function cannot close the space that it runs in: it would wait for its own end"
            raise UsageError(message, space=self.name)
        try:
            await self._flights.end()
            await self.synced()
        except HeadwaterError as error:
            if not failed:
                raise
            log.error("while closing space %r after an error: %s", self.name, error)  # told, not shown
        finally:
            self._arm(None)
            self._shut()
            await self._flights.end()
            await asyncio.to_thread(self._let_go)
