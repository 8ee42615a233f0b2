"""The runtime of a space for plain code: the consequences of a write have run before the next statement.

The one for code in an event loop is in `async_runtime`, so that plain programs need not load asyncio.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED, Status
from headwater.runtime.host_parts import HostParts
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.runtime.space_runtime import SpaceRuntime
from headwater.scheduler.scheduler_limits import CHAIN_MAX, EVENTS_MAX


class PlainRuntime(SpaceRuntime):
    """What the openings of one space share in one thread of plain code."""

    def __init__(
        self, lease: Lease, options: Options, parts: HostParts, *, wake: Callable[[], None] | None = None
    ) -> None:
        replica = lease.storage.attach(branch=options.branch, wake=wake)
        self._wake = wake
        # Transactions that another space waits for.
        self._owed: list[Transaction] = []
        super().__init__(lease, replica, options, parts)
        self.is_woken = wake is not None

    def catch_up(self) -> None:
        """Take in verdicts and writes of others, and run their consequences."""
        wake = self._wake
        with self.lock:
            if self.inbox:
                self.attached.refresh()
            if self.only_turns:
                self.has_work = self.only_turns = False
            if self.has_work or (self.with_parts and self.has_come):
                self._pass()
            if wake is not None and self.scheduler.events.wake_at is None:
                wake = None
        if self._turns.due:
            self._turns.take(self.thread_id())
        if wake is not None:
            # An event of another thread waits for its time, which the waiting program may not know yet.
            wake()

    def settle(self) -> None:
        """Run what is observed and out of date, and what is due. Spaces that functions here read come first."""
        if self.bridges is not None and self.bridges.out and not self.is_passing:
            self.bridges.arrive(self.thread_id())
        with self.lock:
            self.attached.refresh()
            self._pass(lambda: self.scheduler.outstanding().is_due)
        if self._turns.due:
            self._turns.take(self.thread_id())

    def _pass(self, is_due: Callable[[], bool] | None = None) -> None:  # noqa: C901  # every write passes here
        """Run passes until no event is due, each with a limited number of events; then run the callbacks.

        Idle parts are not asked, because every write comes here.
        """
        scheduler, thread = self.scheduler, self.thread_id()
        if self.passing == thread:
            # Called in the middle of a pass.
            scheduler.settle()
            return
        self.passing = thread
        events = scheduler.events
        try:
            if self.with_parts:
                self.begin_pass()
            scheduler.settle()
            if is_due is not None:
                self._follow_up(is_due)
            elif self.has_work and (events.lanes_by_name or events.inbox or events.unnotified):
                # If an event is due after a pass, the pass has said so, or the thread that sent it.
                self._follow_up(lambda: events.is_due)
            if self.with_parts:
                self.end_pass()
                self._take_up_pieces()
        finally:
            self.passing = 0
            if self.with_parts and self.has_come:
                # A result arrived during this pass.
                self._tick(True)
        if (scheduler.invalidation.inbox or scheduler.queue.heap) and self.bridges is not None:
            # Another space has changed what is read here while the end of this pass was told to others.
            self.bridges.add_turn(thread)
        if self._owed:
            self._pay()
        delivery = self.delivery
        if delivery is not None and delivery.is_due:
            delivery.advance()
        for opening in self.openings:
            if opening.events.due:
                opening.events.call_due()

    def _take_up_pieces(self) -> None:
        """Do what other threads have left during this pass, which has cleared their request for another one."""
        while any(opening.has_due_pieces for opening in self.with_parts):
            for opening in self.with_parts:
                if (pieces := opening.running_pieces) is not None:
                    pieces.catch_up()
            self.scheduler.settle()
            self.end_pass()

    def _follow_up(self, is_due: Callable[[], bool]) -> None:
        for _ in range(CHAIN_MAX // EVENTS_MAX):
            if not is_due():
                return
            # Take in what was decided meanwhile.
            self.attached.refresh()
            self.scheduler.settle()

    def nudge(self) -> None:
        """As `catch_up`, if the lock is free: two spaces that wait for each other would deadlock."""
        if not self.is_over and self.lock.acquire(blocking=False):
            try:
                self.catch_up()
                wake_at = self.scheduler.events.wake_at
                if wake_at is not None and wake_at <= self.now() and not self.is_passing:
                    # An event is tried again.
                    self.settle()
            finally:
                self.lock.release()

    def wake(self) -> None:
        """A result arrived from outside: `app.run` stores it now, other programs with their next write."""
        super().wake()
        if self._wake is not None:
            self._wake()

    def await_decision(self, origin: Transaction) -> None:
        """Wait for the verdict when the transaction has ended: nothing would report it later."""
        self._owed.append(origin)
        self.catch_up_soon()
        if not origin.is_open:
            self.nudge()

    def _pay(self) -> None:
        if any(tx.status is Status.PENDING for tx in self._owed):
            self.storage.wait()
            self.attached.refresh()
        self._owed = [tx for tx in self._owed if tx.status not in SETTLED]
        if self._owed:
            # An open transaction is checked again when it has ended.
            self.catch_up_soon()
        if self.scheduler.events.wake_at is not None:
            # Without a wake-up, it is checked again with the next write.
            self.has_work = True
