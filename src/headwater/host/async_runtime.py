"""The runtime of a space in an event loop: the consequences of a write run between two awaits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Final

from headwater.cells.space_port import RuntimePort
from headwater.errors import UsageError
from headwater.host.async_loading import AsyncLoading
from headwater.host.async_tasks import AsyncRuns
from headwater.machine import machine
from headwater.runtime.far_progress import live_proxies, reached, suspended_above
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.ring import RingSpace
from headwater.runtime.space_runtime import RuntimeOpening
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.attempt import Call

EARLY_S: Final = 2e-6
"""The shortest timer. A timer that rings early by less than the resolution of its loop would be set in a busy loop."""


class AsyncRuntime(AsyncLoading):
    """What the openings of one space share in one event loop."""

    # False while a thread constructs the first opening: the store and the connection may ask for a pass before that.
    _is_made = False

    def __init__(self, lease: Lease, options: Options, parts: HostParts, *, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        # The context of the code that requests a pass is not the context of the functions that run in it.
        self.context = copy_context()
        # A pass is requested; a pass was requested while another thread held the lock.
        self._soon = self._missed = False
        self._wake_at: float | None = None
        # Futures of callers that wait for the next pass.
        self._passed: list[asyncio.Future[None]] = []
        self._timer: asyncio.TimerHandle | None = None
        replica = lease.storage.attach(branch=options.branch, wake=self._woken)
        replica.waits = False
        super().__init__(lease, replica, options, parts)
        self.flights = AsyncRuns(self, loop, self.context, self.catch_up)
        self.can_await = True

    def join(self, opening: RuntimeOpening) -> None:
        """An opening is complete. Passes begin with the first one."""
        self._is_made = True
        super().join(opening)

    def call_in_loop(self, fn: Callable[..., object], *args: object) -> None:
        """Call a function in the loop. A closed loop runs nothing; writes are stored nevertheless."""
        with suppress(RuntimeError):
            self.loop.call_soon_threadsafe(fn, *args, context=self.context)

    def _woken(self) -> None:
        """Outcomes arrived. Called by the deciding thread; must not block."""
        self.catch_up()

    def catch_up(self) -> None:
        """Request a pass. It runs between two awaits."""
        if not self._soon:
            self._soon = True
            self.call_in_loop(self.run_pass)

    def _tick(self, due: bool) -> None:  # noqa: FBT001  # asked by the scheduler
        super()._tick(due)
        if due and self.passing != self.thread_id():
            # Not for the pass itself, which checks again before it ends.
            self.catch_up()

    def make_up(self) -> None:
        """Request a pass again that was refused because of the lock."""
        if self._missed:
            self.catch_up()

    def _perform(self, attempt: Call) -> None:
        if attempt.is_async:
            self.flights.start(attempt)
        else:
            super()._perform(attempt)

    def run_pass(self) -> None:  # noqa: C901  # each step of a pass, in its order
        """Run a pass now, unless another thread holds the lock."""
        self._soon = False
        # Set before trying: the holder of the lock checks it at its end.
        self._missed = True
        if not self._is_made or self.is_over or not self.lock.acquire(blocking=False):
            return
        self.passing = self.thread_id()
        try:
            self._missed = False
            rests = self._begin_chain()
            self.attached.refresh()
            self._take_in()
            if self.has_work or self._is_due() or (self.with_parts and self.has_come):
                if self.with_parts:
                    self.begin_pass()
                if rests is not None:
                    rests()
                wake_at = self.scheduler.settle()
                if self.with_parts:
                    self.end_pass()
                if self.delivery is not None and self.delivery.is_due:
                    self.delivery.advance()
                self.arm(wake_at)
            elif self._timer is None:
                # The timer rang a little early, by the clock of the gates.
                self.arm(self._wake_at)
            self.call_due()
        except BaseException:
            # As when the disk has failed: callers that wait for a pass get the error from one of their own.
            self._tell_passed()
            raise
        finally:
            self.passing = 0
            self.chain = None
            self.lock.release()
        if self.has_work or (self.with_parts and self.has_come):
            # The pass reached its limit of events: the loop runs other tasks before the next pass.
            self.catch_up()
        if self._turns.due:
            self._turns.take(self.thread_id())
        self._tell_passed()

    def _begin_chain(self) -> Callable[[], None] | None:
        """Functions of other spaces may have requested this pass. If they never stop, what is due rests (I6)."""
        bridges = self.bridges
        if bridges is None or not bridges.readers or self.begin_chain():
            return None
        home = bridges.acting
        return home.rest if isinstance(home, RingSpace) else None

    def _take_in(self) -> None:
        """Take in the reads of async functions that wait, and the results of those that ended."""
        flights, scheduler = self.flights, self.scheduler
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

    def catch_up_soon(self) -> None:
        """A function is to be called, or a listener to be notified: request a pass."""
        super().catch_up_soon()
        self.catch_up()

    def nudge(self) -> None:
        """Run a pass at once if this code is in its loop: the caller may block the loop until a commit is decided."""
        if not is_running(self.loop):
            self.catch_up()
        elif self.is_passing:
            self.attached.refresh()
        else:
            self.run_pass()

    def _tell_passed(self) -> None:
        passed, self._passed = self._passed, []
        for waiting in passed:
            if not waiting.done():
                waiting.set_result(None)

    async def next_pass(self) -> None:
        """Wait for the end of the next pass."""
        waiting = self.loop.create_future()
        self._passed.append(waiting)
        await waiting

    def _is_due(self) -> bool:
        return self._wake_at is not None and self._wake_at <= self.now()

    def arm(self, wake_at: float | None) -> None:
        """Set the one timer, for the earliest time at which something may be due."""
        if self._timer is not None:
            self._timer.cancel()
        due_in = self.due_in()
        if due_in is not None:
            due_at = self.now() + due_in
            wake_at = due_at if wake_at is None else min(wake_at, due_at)
        self._wake_at = wake_at
        self._timer = None
        if wake_at is not None and not self.is_over:
            delay = max((wake_at - self.now()) / 1000, EARLY_S)
            self._timer = self.loop.call_later(delay, self._ring, context=self.context)

    def _ring(self) -> None:
        self._timer = None
        self.run_pass()

    async def calm(self) -> None:
        """Wait until a pass has nothing to do, and no run is in progress. Does not wait for resources.

        The same holds for the spaces of this loop that functions here read, as far as these functions depend on them.
        """
        if self.flights.is_inside():
            message = "an async function that waits until nothing is under way would wait for itself"
            raise UsageError(f"{message}; wait for what it needs with space.fresh(...)", space=self.name)
        while not self.is_over:
            if self.is_busy():
                await self.pass_now()
            elif self.flights:
                await self.flights.next_landing()
            elif self.scheduler.events.waiting:
                # Parked: until its time, or until the transaction that sent it is decided.
                self.openings[0].events.ask_others()
                await self.next_pass()
            elif not (await self.far_step() or await self.until_come()):
                return

    async def far_step(self, node: Node | None = None) -> bool:
        """Let a space of this loop go on that functions here read. Returns whether there was anything to wait for.

        Without a node, live functions count; with one, what that node depends on.
        """
        if self.bridges is None or not self.bridges.out:
            return False
        for space in reached(self.bridges.acting):
            far = space.runtime
            if isinstance(far, AsyncRuntime) and far.loop is self.loop and far.is_busy() and not far.is_over:
                await far.pass_now()
                return True
        suspended = self._suspended_far(node)
        if suspended is None:
            return False
        if suspended.flights.is_inside():
            message = f"a run of space {suspended.name!r} that waits for what depends on it in space {self.name!r}"
            raise UsageError(f"{message} would wait for itself", space=self.name)
        await suspended.flights.next_landing()
        return True

    def is_far_under_way(self, node: Node) -> bool:
        """Whether the node depends on a run in progress in another space of this loop."""
        return self._suspended_far(node) is not None

    def _suspended_far(self, node: Node | None) -> AsyncRuntime | None:
        bridges = self.bridges
        if bridges is None or not bridges.out:
            return None
        home = bridges.acting
        for space in suspended_above(home, live_proxies(home) if node is None else self.scheduler.upstream(node)):
            far = space.runtime
            if isinstance(far, AsyncRuntime) and far.loop is self.loop and far.flights and not far.is_over:
                return far
        return None

    def has_loop_of(self, other: RuntimePort) -> bool:
        """Whether both are used in one event loop."""
        return isinstance(other, AsyncRuntime) and other.loop is self.loop

    def is_busy(self) -> bool:
        """Whether a pass has something to do now."""
        is_asked = self._soon or self._missed or self.has_work
        return is_asked or bool(self.inbox) or bool(self.flights.landed) or self._is_due()

    async def pass_now(self) -> None:
        """Run a pass. If another thread holds the lock, wait until it is released."""
        self.run_pass()
        await (machine().to_thread(self._await_turn) if self._missed else asyncio.sleep(0))

    def _await_turn(self) -> None:
        with self.lock:
            pass


def is_running(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this code runs in the loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
