"""An opening in an event loop: waiting, syncing and closing do not block the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import ParamSpec, TypeVar

from headwater.cells.context import Addressed, name_of
from headwater.errors import ClosedError, HeadwaterError, NotReadyError, StoreFullError, UsageError, UserCodeError
from headwater.host.async_runtime import AsyncRuntime, is_running
from headwater.host.document_loading import DocumentLoad, Loadable
from headwater.host.loop_thread import handler_loops
from headwater.machine import machine
from headwater.runtime.error_report import log, raise_later
from headwater.runtime.event_service import CLOSE_MS, PAUSE_MAX_S, PAUSE_MIN_S
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.opening import Opening
from headwater.runtime.options import Options
from headwater.runtime.sync_wait import rounds
from headwater.scheduler.events.event import EventRecord
from headwater.scheduler.graph.node import Node
from headwater.values.author_text import describe
from headwater.values.duration import Duration, to_ms

P = ParamSpec("P")
R = TypeVar("R")


class LoopOpening(Opening):
    """An app open in one event loop. Made by `async with app.aopen(...)`."""

    runtime: AsyncRuntime
    runtime_kind: type[AsyncRuntime] = AsyncRuntime

    def __init__(self, lease: Lease, runtime: AsyncRuntime, owner: object, options: Options, parts: HostParts) -> None:
        self.loop = runtime.loop
        # Tasks of coroutines that run after a commit.
        self._tasks: set[asyncio.Task[object]] = set()
        super().__init__(lease, runtime, owner, options, parts)
        self.inspection.after = runtime.make_up
        # Other event loops are refused.
        self.needs_check = True

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

    def pull(self, node: Node, *, in_run: bool = False) -> None:
        """As in a plain space. A pass that was refused because of the lock is requested again."""
        super().pull(node, in_run=in_run)
        self.runtime.make_up()

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

    def wait_for(self, event: EventRecord, timeout_ms: float | None) -> None:
        """Wait in a thread until an event has ended. In the loop, waiting would block the handling."""
        self.events.check_waiting(event)
        if is_running(self.loop):
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
            task = self.loop.create_task(result, context=self.runtime.context.copy())
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
            await self.runtime.next_pass()
            await self.calm()

    async def calm(self) -> None:
        """As `settle`, without waiting for resources."""
        self.check_open()
        await self.runtime.calm()

    async def load(self, *things: Loadable) -> None:
        """Fetch documents before they are read, with those that their links lead to."""
        self.check_open()
        await self.runtime.fetched(DocumentLoad.of(self, self._lease.storage, things))

    async def fresh(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """The value of a computed function, async or not, once no run that it depends on is in progress."""
        while True:
            try:
                value = function(*args, **kwargs)
            except NotReadyError:
                if not await self._can_come(function, *args, **kwargs):
                    raise
            except Exception:
                # Perhaps that of the last run, while the next one is in progress.
                if not self._is_awaited(function, *args, **kwargs):
                    raise
            else:
                if not self._is_awaited(function, *args, **kwargs):
                    return value
            if not await self._far_step(function, *args, **kwargs):
                await self.runtime.flights.next_landing()
                while self.runtime.flights.landed:
                    await self.runtime.pass_now()

    def _is_awaited(self, function: object, *args: object, **kwargs: object) -> bool:
        """Whether a run of the function, or of a function that it depends on, is in progress."""
        node = self._node_of(function, *args, **kwargs)
        if self.runtime.flights and (node is None or self.scheduler.is_under_way(node)):
            return True
        return node is not None and self.runtime.is_far_under_way(node)

    async def _can_come(self, function: object, *args: object, **kwargs: object) -> bool:
        """Whether something is in progress that may give the function its first result."""
        node = self._node_of(function, *args, **kwargs)
        if self.runtime.flights or (node is not None and self.runtime.is_far_under_way(node)):
            return True
        return await self.runtime.until_come()

    async def _far_step(self, function: object, *args: object, **kwargs: object) -> bool:
        """Wait for a run in another space that the function depends on; False if there is none."""
        node = self._node_of(function, *args, **kwargs)
        return node is not None and self.runtime.is_far_under_way(node) and await self.runtime.far_step(node)

    def _node_of(self, function: object, *args: object, **kwargs: object) -> Node | None:
        find: Callable[..., Node | None] = getattr(function, "node_in", lambda *_, **__: None)
        return find(self, *args, **kwargs)

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

    async def delivered(self, timeout: Duration | None) -> None:  # noqa: ASYNC109  # as for plain code
        """Wait until other spaces have handled what was sent to them. Raises EventTimeoutError."""
        self.check_open()
        self.delivery.check_waiting()
        limit = None if timeout is None else to_ms(timeout, "space.delivered(...)") / 1000
        try:
            async with asyncio.timeout(limit):
                await self.calm()
                while self.delivery.count and not self.closed:
                    await self._move_on()
                    if self.delivery.count:
                        await asyncio.sleep(PAUSE_MIN_S if self.delivery.is_moving else PAUSE_MAX_S)
        except TimeoutError:
            raise self.delivery.timed_out() from None

    async def _move_on(self) -> None:
        """Let this space and those that it has delivered to decide what they have, without blocking the loop."""
        await machine().to_thread(self._lease.storage.wait)
        await self.runtime.pass_now()
        for far in self.delivery.others():
            far.nudge()
            await machine().to_thread(self.delivery.await_disk, far)
            far.nudge()
        await self.runtime.pass_now()

    async def _deliver_rest(self) -> None:
        """Deliver what open spaces can handle now. The rest is delivered after the next opening."""
        end = self.now() + CLOSE_MS
        while self.delivery.is_moving and self.connection and not self.closed and self.now() < end:
            await self._move_on()
            if self.delivery.is_moving:
                # As in plain code: it is being handled there, or waits for its time.
                await asyncio.sleep(PAUSE_MIN_S)

    async def _drain(self) -> None:
        """Handle events that wait only for a short time, and wait for coroutines that run after a commit."""
        end = self.now() + CLOSE_MS
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_MS / 1000):
                while self.events.has_live and not self.closed:
                    if self.runtime.is_busy():
                        await self.runtime.pass_now()
                    elif not self.events.has_waiting:
                        await machine().to_thread(self._lease.storage.wait)
                        self.runtime.run_pass()
                        if not self._lease.storage.connection():
                            # The server is away, and the folder keeps what it has not decided.
                            break
                    elif self.events.is_in_vain(end):
                        break
                    else:
                        self.events.ask_others()
                        await self.runtime.next_pass()
                while self._tasks:
                    await asyncio.wait(list(self._tasks))

    async def close(self, *, failed: bool = False) -> None:
        """Sync, cancel runs in progress, and close. After a failure, further errors are logged, not raised."""
        if self.closed:
            return
        if self.runtime.flights.is_inside() or (self._fetcher is not None and self._fetcher.is_inside()):
            message = "an async function cannot close the space that it runs in: it would wait for its own end"
            raise UsageError(message, space=self.name)
        self.is_sole = self.part.seal()
        if self.is_sole:
            self._lease.storage.ending(in_haste=failed)
        try:
            if self._workflows is not None:
                await machine().to_thread(self._stop_workflows)
            await self._drain()
            await self._deliver_rest()
            await self._end_flights()
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
            try:
                self._shut()
            finally:
                await self._end_flights()
                if self.runtime.is_over:
                    self.runtime.arm(None)
                else:
                    # Computes the time of the next wake-up, without this app.
                    self.runtime.catch_up_soon()
                await machine().to_thread(self._let_go)
        raise_later(self.on_error, unless=failed)

    async def _end_flights(self) -> None:
        """Cancel the async functions of this app."""
        await self.runtime.flights.end(None if self.is_sole else self)
