"""An opening for plain code: waiting, syncing and closing block the calling thread."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from headwater.errors import (
    DeclarationError,
    HeadwaterError,
    OfflineError,
    StoreFullError,
    UnavailableError,
    UsageError,
)
from headwater.host.document_loading import DocumentLoad, Loadable
from headwater.host.plain_runtime import PlainRuntime
from headwater.machine import WAIT_MAX, machine
from headwater.runtime.error_report import log, raise_later
from headwater.runtime.event_service import CLOSE_MS, PAUSE_MAX_S, PAUSE_MIN_S
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.opening import Opening
from headwater.runtime.options import Options
from headwater.runtime.resources.request_port import RequestThread
from headwater.runtime.shared_runtimes import open_in, runtime_key
from headwater.runtime.sync_wait import rounds
from headwater.scheduler.events.event import EventRecord, EventState, HandlerSpec
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.values.duration import Duration, to_ms

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop


class PlainOpening(Opening):
    """An app open for plain code. Made by `app.open`; a `with` block closes it."""

    runtime: PlainRuntime

    def __init__(self, lease: Lease, runtime: PlainRuntime, owner: object, options: Options, parts: HostParts) -> None:
        # Where requests run.
        self._beside: RequestThread | None = None
        self._given_loop = options.request_loop
        self._sleep = options.sleep
        super().__init__(lease, runtime, owner, options, parts)

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

    def settle(self) -> None:
        """Run what is observed and out of date, and what is due. Every write does the former."""
        self.check_open()
        self.runtime.settle()

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
        return self.runtime.attached.has_only_good_news() and self.runtime.rejected_count == since

    def load(self, *things: Loadable) -> None:
        """Fetch documents before they are read, with those that their links lead to."""
        self.check_open()
        load = DocumentLoad.of(self, self._lease.storage, things)
        while load.docs:
            load.wait()
            self.runtime.attached.refresh()
            self.runtime.catch_up()
            load.advance()

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
            self.runtime.catch_up()
        try:
            self.store_observations()
        except StoreFullError:
            # What was written and is lost comes before what is only faster to know.
            self._tell_lost()
            raise
        self._tell_lost()

    def delivered(self, timeout: Duration | None = None) -> None:
        """Wait until other spaces have handled what was sent to them. Raises EventTimeoutError."""
        self.check_open()
        self.delivery.check_waiting()
        end = None if timeout is None else self.now() + to_ms(timeout, "space.delivered(...)")
        self.settle()
        while self.delivery.count:
            left = None if end is None else (end - self.now()) / 1000
            if left is not None and left <= 0:
                raise self.delivery.timed_out()
            self._move_on(left)
            if self.delivery.count:
                self._pause(PAUSE_MIN_S if self.delivery.is_moving else PAUSE_MAX_S)

    def _move_on(self, left: float | None) -> None:
        """Let this space and those that it has delivered to decide what they have."""
        with suppress(UnavailableError, OfflineError):
            self.wait_for_disk(left)
        self.settle()
        self.delivery.ask_others(left)
        self.settle()

    def close(self) -> None:
        """Sync and close. Idempotent. With `on_error="raise"`, raises the first error that a function has raised."""
        self._close(in_haste=False)
        raise_later(self.on_error)

    def _close(self, *, in_haste: bool) -> None:
        if not self.closed and not self.runtime.has_others(self):
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
            self.is_sole = self.part.seal()
            try:
                try:
                    self._drain()
                    self._deliver_rest()
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
        end = self.now() + CLOSE_MS
        while self.events.has_live:
            self.settle()
            self.wait_for_disk()
            self.runtime.catch_up()
            if not self.events.has_waiting or self.is_passing or self.now() >= end or self.events.is_in_vain(end):
                return
            self.events.ask_others()
            self._pause(min(max(self.wake_in() or 0.0, PAUSE_MIN_S), PAUSE_MAX_S))

    def _deliver_rest(self) -> None:
        """Deliver what open spaces can handle now. The rest is delivered after the next opening."""
        end = self.now() + CLOSE_MS
        while self.delivery.is_moving and self.connection and not self.is_passing and self.now() < end:
            self._move_on((end - self.now()) / 1000)
            if self.delivery.is_moving:
                # It is being handled there, or waits for its time: asking again at once would change nothing.
                self._pause(PAUSE_MIN_S)

    def close_after(self, *, failed: bool) -> None:
        """End a `with` block. After an error in the block, errors of closing are logged: they must not hide it."""
        if not failed:
            self.close()
            return
        try:
            self._close(in_haste=True)
        except HeadwaterError as error:
            log.error("while closing space %r after an error: %s", self.name, error)  # told, not shown


class NamedApp(Protocol):
    """An app."""

    name: str


def joined_opening(
    lease: Lease, app: NamedApp, options: Options, parts: HostParts, wake: Callable[[], None] | None
) -> PlainOpening:
    """The opening of an app, in the runtime of other apps at the same space in this thread, or in a new one."""
    return open_in(
        runtime_key(lease, options, machine().thread_id(), wake),
        app.name,
        make=lambda: PlainRuntime(lease, options, parts, wake=wake),
        join=lambda runtime: PlainOpening(lease, runtime, app, options, parts),
    )
