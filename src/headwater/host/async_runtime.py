"""The runtime of a space in an event loop: the consequences of a write run between two awaits.

Only `synced` waits for the disk, and it does not block the loop.

Length: opening, waiting and closing in a loop share the running tasks, the timer and the lock of one pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Final, ParamSpec, TypeVar

from headwater.cells.context import Addressed, name_of
from headwater.errors import ClosedError, HeadwaterError, NotReadyError, StoreFullError, UsageError, UserCodeError
from headwater.host.async_loading import AsyncLoading
from headwater.host.async_tasks import AsyncRuns
from headwater.host.loop_thread import handler_loops
from headwater.machine import machine
from headwater.runtime.error_report import log, raise_later
from headwater.runtime.event_service import CLOSE_MS
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.sync_wait import rounds
from headwater.scheduler.events.event import EventRecord
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.attempt import Call
from headwater.values.author_text import describe

P = ParamSpec("P")
R = TypeVar("R")

EARLY_S: Final = 2e-6
"""The shortest timer. A timer that rings early by less than the resolution of its loop would be set in a busy loop."""


class AsyncRuntime(AsyncLoading):
    """An open space for code in one event loop. Made by `async with app.aopen(...)`."""

    # False while a thread constructs it: the store and the connection may ask for a pass before that is complete.
    _is_made = False

    def __init__(
        self, lease: Lease, owner: object, options: Options, parts: HostParts, *, loop: asyncio.AbstractEventLoop
    ) -> None:
        self.loop = loop
        # The context of the code that requests a pass is not the context of the functions that run in it.
        self._context = copy_context()
        # A pass is requested; a pass was requested while another thread held the lock.
        self._soon = self._missed = False
        self._wake_at: float | None = None
        # Futures of callers that wait for the next pass; and tasks of coroutines that run after a commit.
        self._passed: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[object]] = set()
        self._timer: asyncio.TimerHandle | None = None
        replica = lease.storage.attach(branch=options.branch, wake=self._woken)
        replica.waits = False
        super().__init__(lease, replica, owner, options, parts)
        self.storage_key = (lease.storage, options.branch)
        self._flights = AsyncRuns(self, loop, self._context, self.catch_up)
        self.inspection.after = self._make_up
        self.can_await = True
        # Other event loops are refused.
        self.needs_check = True
        self._is_made = True

    def call_in_loop(self, fn: Callable[..., object], *args: object) -> None:
        """Call a function in the loop. A closed loop runs nothing; writes are stored nevertheless."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(fn, *args, context=self._context)

    def check(self, what: str | Addressed) -> None:
        """Raise unless open, and in this loop, in a loop of a workflow, or in a thread without a loop."""
        super().check(what)
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            return
        if running is not self.loop and running not in handler_loops():
            message = (
                f"{name_of(what)} cannot be used from this event loop: space {self.name!r} was opened in another one; "
                "open it here as well, with `async with app.aopen(...)`"
            )
            raise UsageError(message, space=self.name)

    def _woken(self) -> None:
        """Outcomes arrived. Called by the deciding thread; must not block."""
        self.catch_up()

    def catch_up(self) -> None:
        """Request a pass. It runs between two awaits."""
        if not self._soon:
            self._soon = True
            self.call_in_loop(self._pass)

    def _tick(self, due: bool) -> None:  # noqa: FBT001  # asked by the scheduler
        super()._tick(due)
        if due and self._passing != self._thread_id():
            # Not for the pass itself, which checks again before it ends.
            self.catch_up()

    def pull(self, node: Node, *, in_run: bool = False) -> None:
        """As in a plain space. A pass that was refused because of the lock is requested again."""
        super().pull(node, in_run=in_run)
        self._make_up()

    def _make_up(self) -> None:
        if self._missed:
            self.catch_up()

    def _perform(self, attempt: Call) -> None:
        if attempt.is_async:
            self._flights.start(attempt)
        else:
            super()._perform(attempt)

    def _pass(self) -> None:
        self._soon = False
        # Set before trying: the holder of the lock checks it at its end.
        self._missed = True
        if not self._is_made or self.closed or not self.lock.acquire(blocking=False):
            return
        self._passing = self._thread_id()
        try:
            self._missed = False
            self._attached.refresh()
            self._take_in()
            if self.has_work or self._is_due() or self.has_come:
                if self._has_parts:
                    self._begin_pass()
                wake_at = self.scheduler.settle()
                if self._has_parts:
                    self._end_pass()
                self._arm(wake_at)
            elif self._timer is None:
                # The timer rang a little early, by the clock of the gates.
                self._arm(self._wake_at)
            self.events.call_due()
        except BaseException:
            # As when the disk has failed: callers that wait for a pass get the error from one of their own.
            self._tell_passed()
            raise
        finally:
            self._passing = 0
            self.lock.release()
        if self.has_work or self.has_come:
            # The pass reached its limit of events: the loop runs other tasks before the next pass.
            self.catch_up()
        self._tell_passed()

    def _take_in(self) -> None:
        """Take in the reads of async functions that wait, and the results of those that ended."""
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
            self.has_work = True

    # -- what is outside -----------------------------------------------------------------------------------

    def request_loop(self) -> asyncio.AbstractEventLoop:
        """The loop of this space."""
        return self.loop

    def when_on_disk(self, then: Callable[[BaseException | None], None]) -> None:
        """A thread waits for the disk. `then` is called in the loop."""

        def tell(waited: asyncio.Future[None]) -> None:
            is_over = waited.cancelled()
            then(ClosedError(f"the event loop of space {self.name!r} ends") if is_over else waited.exception())

        machine().in_pool(self.loop, None, self._lease.storage.wait).add_done_callback(tell)

    # -- events --------------------------------------------------------------------------------------------

    def catch_up_soon(self) -> None:
        """A function is to be called, or a listener to be notified: request a pass."""
        super().catch_up_soon()
        self.catch_up()

    def nudge(self) -> None:
        """Run a pass at once if this code is in its loop: the caller may block the loop until a commit is decided."""
        if not _is_running(self.loop):
            self.catch_up()
        elif self.is_passing:
            self._attached.refresh()
        else:
            self._pass()

    def wait_for(self, event: EventRecord, timeout_ms: float | None) -> None:
        """Wait in a thread until an event has ended. In the loop, waiting would block the handling."""
        self.events.check_waiting(event)
        if _is_running(self.loop):
            message = f"ticket.result() would hold up the event loop that has to handle {event.id}; await the ticket"
            raise UsageError(message, event=event.id)
        ended = machine().event()
        self.when_ended(event, lambda _: ended.set())
        if not ended.wait(None if timeout_ms is None else timeout_ms / 1000):
            raise self.events.timed_out(event, timeout_ms)

    async def until(self, event: EventRecord) -> None:
        """Wait for an event without blocking the loop."""
        self.check_open()
        self.events.check_waiting(event)
        ended = self.loop.create_future()
        self.when_ended(event, lambda _: None if ended.done() else ended.set_result(None))
        await ended

    def detach_coroutine(self, result: object) -> None:
        """Run the coroutine of an async function that was called after a commit. Closing waits for it."""
        if asyncio.iscoroutine(result):
            task = self.loop.create_task(result, context=self._context.copy())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            message = f"a function called by hw.after_commit in space {self.name!r} raised {describe(error)}"
            told = UserCodeError(message, space=self.name, event=None, triggers=())
            told.__cause__ = error
            self.report(told)

    def _tell_passed(self) -> None:
        passed, self._passed = self._passed, []
        for waiting in passed:
            if not waiting.done():
                waiting.set_result(None)

    async def _next_pass(self) -> None:
        """Wait for the end of the next pass."""
        waiting = self.loop.create_future()
        self._passed.append(waiting)
        await waiting

    # -- time ----------------------------------------------------------------------------------------------

    def _is_due(self) -> bool:
        return self._wake_at is not None and self._wake_at <= self.now()

    def _arm(self, wake_at: float | None) -> None:
        """Set the one timer, for the earliest time at which something may be due."""
        if self._timer is not None:
            self._timer.cancel()
        due_in = self.timers.due_in()
        if due_in is not None:
            due_at = self.now() + due_in
            wake_at = due_at if wake_at is None else min(wake_at, due_at)
        self._wake_at = wake_at
        self._timer = None
        if wake_at is not None and not self.closed:
            delay = max((wake_at - self.now()) / 1000, EARLY_S)
            self._timer = self.loop.call_later(delay, self._ring, context=self._context)

    def _ring(self) -> None:
        self._timer = None
        self._pass()

    # -- waiting -------------------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Wait until all writes so far are taken in, their consequences have run, and no run is in progress.

        Does not wait for debounced or throttled functions. Waits for requests in progress.
        """
        if self._fetcher is not None and self._fetcher.is_inside():
            message = f"a resource that waits until nothing is under way in space {self.name!r} would wait for itself"
            raise UsageError(message, space=self.name)
        await self.calm()
        while self._fetcher is not None and self._fetcher.under_way and not self.closed:
            # Each request that ends requests a pass.
            await self._next_pass()
            await self.calm()

    async def calm(self) -> None:
        """As `settle`, without waiting for resources."""
        self.check_open()
        if self._flights.is_inside():
            message = "an async function that waits until nothing is under way would wait for itself"
            raise UsageError(f"{message}; wait for what it needs with space.fresh(...)", space=self.name)
        while not self.closed:
            if self._is_busy():
                await self._pass_now()
            elif self._flights:
                await self._flights.next_landing()
            elif self.scheduler.events.waiting:
                # Parked: until its time, or until the transaction that sent it is decided.
                self.events.ask_others()
                await self._next_pass()
            elif not await self._until_come():
                return

    def _is_busy(self) -> bool:
        """Whether a pass has something to do now."""
        is_asked = self._soon or self._missed or self.has_work
        return is_asked or bool(self.inbox) or bool(self._flights.landed) or self._is_due()

    async def _pass_now(self) -> None:
        """Run a pass. If another thread holds the lock, wait until it is released."""
        self._pass()
        await (machine().to_thread(self._await_turn) if self._missed else asyncio.sleep(0))

    async def fresh(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The value of a computed function, async or not, once no run that it depends on is in progress."""
        while True:
            try:
                value = function(*args, **kwargs)
            except NotReadyError:
                if not self._flights and not await self._until_come():
                    raise
            except Exception:
                # Perhaps that of the last run, while the next one is in progress.
                if not self._is_awaited(function, *args, **kwargs):
                    raise
            else:
                if not self._is_awaited(function, *args, **kwargs):
                    return value
            await self._flights.next_landing()
            while self._flights.landed:
                await self._pass_now()

    def _is_awaited(self, function: object, *args: object, **kwargs: object) -> bool:
        """Whether a run of the function, or of a function that it depends on, is in progress."""
        find: Callable[..., Node | None] = getattr(function, "node_in", lambda *_, **__: None)
        node = find(self, *args, **kwargs)
        return bool(self._flights) and (node is None or self.scheduler.is_under_way(node))

    def _await_turn(self) -> None:
        with self.lock:
            pass

    async def synced(self) -> None:
        """Wait until everything written so far is on disk. Raises if some of it was rejected."""
        self.check_open()
        try:
            for _ in rounds(self.scheduler.outcomes):
                await machine().to_thread(self._lease.storage.wait)
                await self.calm()
            # After the verdicts were received: those of runs that read an undecided commit are kept back until then.
            await machine().to_thread(self.restorer.keep)
        except StoreFullError:
            # No room for observations. What was written and is lost comes before what is only faster to know.
            await self.calm()
            self._tell_lost()
            raise
        self._tell_lost()

    async def _drain(self) -> None:
        """Handle events that wait only for a short time, and wait for coroutines that run after a commit."""
        end = self.now() + CLOSE_MS
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_MS / 1000):
                while self.scheduler.outcomes.live and not self.closed:
                    if self._is_busy():
                        await self._pass_now()
                    elif not self.scheduler.events.waiting:
                        await machine().to_thread(self._lease.storage.wait)
                        self._pass()
                        if not self._lease.storage.connection():
                            # The server is away, and the folder keeps what it has not decided.
                            break
                    elif self.events.is_in_vain(end):
                        break
                    else:
                        self.events.ask_others()
                        await self._next_pass()
                while self._tasks:
                    await asyncio.wait(list(self._tasks))

    async def close(self, *, failed: bool = False) -> None:
        """Sync, cancel runs in progress, and close. After a failure, further errors are logged, not raised."""
        if self.closed:
            return
        if self._flights.is_inside() or (self._fetcher is not None and self._fetcher.is_inside()):
            message = "an async function cannot close the space that it runs in: it would wait for its own end"
            raise UsageError(message, space=self.name)
        self._lease.storage.ending(in_haste=failed)
        try:
            if self._workflows is not None:
                await machine().to_thread(self._stop_workflows)
            await self._drain()
            await self._flights.end()
            if self._fetcher is not None:
                await self._fetcher.end()
            self.events.leave()
            await self.synced()
        except HeadwaterError as error:
            if not failed:
                raise
            log.error("while closing space %r after an error: %s", self.name, error)  # told, not shown
        finally:
            self.timers.clear()
            self._arm(None)
            try:
                self._shut()
            finally:
                await self._flights.end()
                await machine().to_thread(self._let_go)
        raise_later(self.on_error, unless=failed)


def _is_running(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
