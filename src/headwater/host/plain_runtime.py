"""The runtime of a space for plain code: the consequences of a write have run before the next statement.

The one for code in an event loop is in `async_runtime`, so that plain programs need not load asyncio.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED, Status
from headwater.errors import (
    DeclarationError,
    HeadwaterError,
    OfflineError,
    StoreFullError,
    UnavailableError,
    UsageError,
)
from headwater.host.document_loading import PlainLoading
from headwater.machine import WAIT_MAX, machine
from headwater.runtime.error_report import log, raise_later
from headwater.runtime.event_service import CLOSE_MS, PAUSE_MAX_S, PAUSE_MIN_S
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.resources.request_port import RequestThread
from headwater.runtime.sync_wait import rounds
from headwater.scheduler.events.event import EventRecord, EventState, HandlerSpec
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.scheduler.scheduler_limits import CHAIN_MAX, EVENTS_MAX
from headwater.values.duration import Duration, to_ms

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class PlainRuntime(PlainLoading):
    """An open space for plain code. Made by `app.open`; a `with` block closes it."""

    def __init__(
        self, lease: Lease, owner: object, options: Options, parts: HostParts, *, wake: Callable[[], None] | None = None
    ) -> None:
        replica = lease.storage.attach(branch=options.branch, wake=wake)
        self._wake = wake
        # Transactions that another space waits for.
        self._owed: list[Transaction] = []
        # Where requests run.
        self._beside: RequestThread | None = None
        self._given_loop = options.request_loop
        super().__init__(lease, replica, owner, options, parts)
        self.is_woken = wake is not None
        self._sleep = options.sleep
        self.storage_key = (lease.storage, options.branch)

    def add_node(self, function: object, spec: NodeSpec) -> Node:
        """Register a plain function. Without a wake-up, a slow one is not debounced automatically."""
        spec.no_auto_debounce = spec.no_auto_debounce or not self.is_woken
        if spec.is_async:
            message = f"{spec.name}() is async and needs an event loop: open the app with `async with app.aopen(...)`"
            raise DeclarationError(message, name=spec.name)
        return super().add_node(function, spec)

    def add_handler(self, function: object, spec: HandlerSpec) -> None:
        """Register a plain handler."""
        if spec.is_async:
            message = f"{spec.name}() is async and needs an event loop: open the app with `async with app.aopen(...)`"
            raise DeclarationError(message, name=spec.name)
        super().add_handler(function, spec)

    def catch_up(self) -> None:
        """Take in verdicts and writes of others, and run their consequences."""
        wake = self._wake
        with self.lock:
            if self.inbox:
                self._attached.refresh()
            if self.has_work or (self._has_parts and self.has_come):
                self._pass()
            if wake is not None and self.scheduler.events.wake_at is None:
                wake = None
        if wake is not None:
            # An event of another thread waits for its time, which the waiting program may not know yet.
            wake()

    def settle(self) -> None:
        """Run what is observed and out of date, and what is due. Every write does the former."""
        self.check_open()
        with self.lock:
            self._attached.refresh()
            self._pass(lambda: self.scheduler.outstanding().is_due)

    def _pass(self, is_due: Callable[[], bool] | None = None) -> None:
        """Run passes until no event is due, each with a limited number of events; then run the callbacks.

        Idle parts are not asked, because every write comes here.
        """
        scheduler, thread = self.scheduler, self._thread_id()
        if self._passing == thread:
            # Called in the middle of a pass.
            scheduler.settle()
            return
        self._passing = thread
        events = scheduler.events
        try:
            if self._has_parts:
                self._begin_pass()
            scheduler.settle()
            if is_due is not None:
                self._follow_up(is_due)
            elif self.has_work and (events.lanes_by_name or events.inbox or events.unnotified):
                # If an event is due after a pass, the pass has said so, or the thread that sent it.
                self._follow_up(lambda: events.is_due)
            if self._has_parts:
                self._end_pass()
                self._take_up_pieces()
        finally:
            self._passing = 0
            if self._has_parts and self.has_come:
                # A result arrived during this pass.
                self._tick(True)
        if self._owed:
            self._pay()
        if self.events.due:
            self.events.call_due()

    def _take_up_pieces(self) -> None:
        """Do what other threads have left during this pass, which has cleared their request for another one."""
        while self._pieces is not None and self._pieces.is_due:
            self._pieces.catch_up()
            self.scheduler.settle()
            self._end_pass()

    def _follow_up(self, is_due: Callable[[], bool]) -> None:
        for _ in range(CHAIN_MAX // EVENTS_MAX):
            if not is_due():
                return
            # Take in what was decided meanwhile.
            self._attached.refresh()
            self.scheduler.settle()

    def nudge(self) -> None:
        """As `catch_up`, if the lock is free: two spaces that wait for each other would deadlock."""
        if not self.closed and self.lock.acquire(blocking=False):
            try:
                self.catch_up()
            finally:
                self.lock.release()

    def wake(self) -> None:
        """A result arrived from outside: `app.run` stores it now, other programs with their next write."""
        super().wake()
        if self._wake is not None:
            self._wake()

    def request_loop(self) -> AbstractEventLoop:
        """The loop that was given, or one in a thread of its own, made when needed."""
        if self._given_loop is not None:
            return self._given_loop()
        if self._beside is None:
            self._beside = self.parts.resources().thread()
            self.on_close(self._beside.close)
        return self._beside.started()

    def when_on_disk(self, then: Callable[[BaseException | None], None]) -> None:
        """Queue an entry that does nothing, after everything written so far."""
        self._lease.storage.when_decided(then)

    def has_rejected_none(self, since: int) -> bool:
        """Counts the verdicts that were taken in, and those that wait in the inbox."""
        return self._attached.has_only_good_news() and self.rejected_count == since

    def await_decision(self, origin: Transaction) -> None:
        """Wait for the verdict when the transaction has ended: nothing would report it later."""
        self._owed.append(origin)
        self.catch_up_soon()
        if not origin.is_open:
            self.nudge()

    def _pay(self) -> None:
        if any(tx.status is Status.PENDING for tx in self._owed):
            self.wait_for_disk()
            self._attached.refresh()
        self._owed = [tx for tx in self._owed if tx.status not in SETTLED]
        if self._owed:
            # An open transaction is checked again when it has ended.
            self.catch_up_soon()
        if self.scheduler.events.wake_at is not None:
            # Without a wake-up, it is checked again with the next write.
            self.has_work = True

    def wait(self, duration: Duration) -> None:
        """Let time pass, and run what becomes due: debounced and throttled functions, timers, retries."""
        self.check_open()
        end = self.now() + to_ms(duration, "space.wait(...)")
        self.settle()
        while (left := (end - self.now()) / 1000) > 0:
            wake_in = self.wake_in()
            # Not zero, in case the clock is a little behind.
            pause = left if wake_in is None else min(left, max(wake_in, PAUSE_MIN_S))
            self._pause(min(pause, PAUSE_MAX_S))
            self.settle()

    def _pause(self, seconds: float) -> None:
        if self._sleep is None:
            machine().sleep(seconds)
        else:
            self._sleep(seconds)

    def sync(self, timeout: Duration | None = None) -> None:
        """Wait until everything written so far is on disk. Raises RejectedError if some of it was rolled back.

        What was refused for a reason with a code of its own raises the error of that code, such as LimitError. Raises
        StoreFullError while there is no room for the result of an event: the event is tried again, and so may sync be.
        """
        self.check_open()
        for _ in rounds(self.scheduler.outcomes):
            self._lease.storage.wait(None if timeout is None else to_ms(timeout, "space.sync(...)") / 1000)
            self.catch_up()
        try:
            self.store_observations()
        except StoreFullError:
            # What was written and is lost comes before what is only faster to know.
            self._tell_lost()
            raise
        self._tell_lost()

    def close(self) -> None:
        """Sync and close. Idempotent. With `on_error="raise"`, raises the first error that a function has raised."""
        self._close(in_haste=False)
        raise_later(self.on_error)

    def _close(self, *, in_haste: bool) -> None:
        if not self.closed:
            self._lease.storage.ending(in_haste=in_haste)
        if not self.closed and not self.is_passing:
            # Without the lock: runs that end need it.
            self._stop_workflows()
            self._stop_requests()
        with self.lock:
            if self.closed:
                return
            if self.is_passing and any(lane.running is not None for lane in self.scheduler.lanes):
                message = "a handler cannot close the space that it runs in: what it has written is not committed yet"
                raise UsageError(f"{message}; close it where it was opened", space=self.name)
            try:
                try:
                    self._drain()
                finally:
                    # Also if the server is away, and waiting is impossible.
                    self.events.leave()
                self.sync()
            finally:
                try:
                    self._shut()
                finally:
                    self._let_go()

    def _stop_requests(self) -> None:
        if self._fetcher is not None:
            self._fetcher.shut()
        if self._beside is not None:
            self._beside.close()

    def wait_for(self, event: EventRecord, timeout_ms: float | None) -> None:
        """Run passes until an event has ended. Raises EventTimeoutError."""
        self.events.check_waiting(event)
        end = None if timeout_ms is None else self.now() + timeout_ms
        while not (event.is_settled or self.closed):
            wake_in = self._settle_within(None if end is None else max(end - self.now(), 0.0) / 1000)
            left = None if end is None else (end - self.now()) / 1000
            if left is not None and left <= 0 and not event.is_settled:
                raise self.events.timed_out(event, timeout_ms)
            self.events.ask_others()
            self._wait_a_little(event, left, timeout_ms, wake_in)

    def _settle_within(self, wait_s: float | None) -> float | None:
        """Settle, unless other threads hold the lock for so long. Returns when something may be due next."""
        if not self.lock.acquire(timeout=-1 if wait_s is None else min(wait_s, WAIT_MAX)):
            return None
        try:
            self.settle()
            return self.wake_in()
        finally:
            self.lock.release()

    def _wait_a_little(
        self, event: EventRecord, left: float | None, timeout_ms: float | None, wake_in: float | None
    ) -> None:
        if event.state is EventState.PENDING:
            try:
                self.wait_for_disk(left)
            except (UnavailableError, OfflineError):
                if left is None:
                    raise
                raise self.events.timed_out(event, timeout_ms) from None
        elif not event.is_settled:
            pause = PAUSE_MAX_S if wake_in is None else min(max(wake_in, PAUSE_MIN_S), PAUSE_MAX_S)
            self._pause(pause if left is None else min(pause, left))

    def _drain(self) -> None:
        """Handle events that wait only for a short time."""
        scheduler = self.scheduler
        end = self.now() + CLOSE_MS
        while scheduler.outcomes.live:
            self.settle()
            self.wait_for_disk()
            self.catch_up()
            if not scheduler.events.waiting or self.is_passing or self.now() >= end or self.events.is_in_vain(end):
                return
            self.events.ask_others()
            self._pause(min(max(self.wake_in() or 0.0, PAUSE_MIN_S), PAUSE_MAX_S))

    def close_after(self, *, failed: bool) -> None:
        """End a `with` block. After an error in the block, errors of closing are logged: they must not hide it."""
        if not failed:
            self.close()
            return
        try:
            self._close(in_haste=True)
        except HeadwaterError as error:
            log.error("while closing space %r after an error: %s", self.name, error)  # told, not shown
