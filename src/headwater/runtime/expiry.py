"""When expired documents are deleted: once a minute, by the process that has the file open.

The storage deletes them between two groups of commits, so all users of a file share one schedule. It goes by the wall
clock, which may be set: after a jump of more than a day forward nothing expires until the clock is back, or the program
is started again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from headwater.errors import HeadwaterError
from headwater.machine import Lock, machine
from headwater.runtime.connection import Connection
from headwater.runtime.error_report import log
from headwater.runtime.lease import Lease
from headwater.runtime.timers import Timers
from headwater.store.expiring import EXPIRY_STOPPED, ExpiryRound
from headwater.store.retention import Retention, RetentionRound
from headwater.values.ids import BranchId
from headwater.values.text import count_text

ROUND_MS: Final = 60_000
"""The time between two rounds: documents are visible for about so long after their time."""

AGAIN_MS: Final = 50
"""The pause before the next step of a round: other commits and passes get their turn."""

JUMP_MS: Final = 86_400_000
"""The clock is wrong if it gains so much on the steady clock: no correction of a drift is so large."""


DEFAULT: Final = Retention()
"""How long receipts are kept without another word."""


class ExpiringStorage(Protocol):
    """A storage in this process, as expiry uses it."""

    along: dict[str, object]

    @property
    def name(self) -> str:
        """The name of the space."""
        ...

    def has_expiry(self, branch: BranchId) -> bool:
        """Whether documents of some collection expire."""
        ...

    def expire(self, at: ExpiryRound, now_ms: int) -> tuple[int, bool]:
        """Take the next step of a round. Returns the number of deleted documents, and whether the round has ended."""
        ...

    def needs_retention(self, branch: BranchId, kept: Retention, now_ms: int) -> bool:
        """Whether receipts may be old enough to go, and the last round was a day ago."""
        ...

    def retain(self, at: RetentionRound, kept: Retention, now_ms: int) -> tuple[int, bool]:
        """Take the next step of a round of retention. Returns the number of receipts, and whether it has ended."""
        ...

    def drop_sessions(self, kept: Retention, now_ms: int) -> int:
        """Forget sessions that are too old, besides those that are in use. Returns their number."""
        ...

    def set_property(self, key: str, value: str) -> None:
        """Set a property of the space. Durable when it returns."""


class Expiry:
    """The schedule of one branch of a storage."""

    def __init__(
        self,
        storage: ExpiringStorage,
        branch: BranchId,
        now: Callable[[], float],
        wall: Callable[[], float],
        kept: Retention = DEFAULT,
    ) -> None:
        self._storage = storage
        self._kept = kept
        self._branch = branch
        self._now = now
        self._wall = wall
        self._lock = machine().lock()
        self._ahead = wall() - now()
        self._due_at = now()
        self._round: ExpiryRound | None = None
        self._retaining: RetentionRound | None = None
        self.deleted = 0
        self.is_stopped = False

    def step(self) -> float:
        """Delete what is due, at most one commit. Returns the milliseconds until the next step."""
        if not self._lock.acquire(blocking=False):
            # Another thread is at it.
            return AGAIN_MS
        try:
            left = self._due_at - self._now()
            if left > 0:
                return left
            self._due_at = self._now() + self._stepped()
            return max(self._due_at - self._now(), 0.0)
        finally:
            self._lock.release()

    def _stepped(self) -> float:
        try:
            self._check_clock()
            if self.is_stopped:
                return ROUND_MS
            return AGAIN_MS if self._goes_on(int(self._wall())) else ROUND_MS
        except HeadwaterError as error:
            log.warning("space %r: expired documents are not deleted now: %s", self._storage.name, error)
            self._round = self._retaining = None
            return ROUND_MS

    def _goes_on(self, now_ms: int) -> bool:
        """Take a step. Returns whether the round has more: documents first, then receipts."""
        storage = self._storage
        if self._retaining is not None:
            _, is_over = storage.retain(self._retaining, self._kept, now_ms)
            if is_over:
                self._retaining = None
                storage.drop_sessions(self._kept, now_ms)
            return not is_over
        if self._round is None:
            self._round = ExpiryRound(self._branch)
        count, is_over = storage.expire(self._round, now_ms)
        self.deleted += count
        if not is_over:
            return True
        self._round = None
        if storage.needs_retention(self._branch, self._kept, now_ms):
            self._retaining = RetentionRound(self._branch)
        return self._retaining is not None

    def _check_clock(self) -> None:
        ahead = self._wall() - self._now()
        if ahead - self._ahead > JUMP_MS:
            if not self.is_stopped:
                self.is_stopped = True
                days = count_text(int((ahead - self._ahead) // JUMP_MS), "day")
                log.error(
                    "space %r: the clock of this machine has jumped %s forward; no documents expire until it is set "
                    "back, or until this program is started again",
                    self._storage.name,
                    days,
                )
                self._storage.set_property(EXPIRY_STOPPED, days)
            self._round = self._retaining = None
            return
        self._ahead = ahead
        if self.is_stopped:
            self.is_stopped = False
            self._storage.set_property(EXPIRY_STOPPED, "")


def expiry_of(
    storage: ExpiringStorage,
    branch: BranchId,
    now: Callable[[], float],
    wall: Callable[[], float],
    kept: Retention | None = None,
) -> Expiry | None:
    """The schedule that all users of a storage share; None if nothing expires on this branch.

    Receipts count if `kept` is given, or if there are old ones. The first user decides how long they are kept.
    """
    key = f"expiry:{branch}"
    found = storage.along.get(key)
    if found is None:
        is_needed = kept is not None or storage.has_expiry(branch)
        if not is_needed and not storage.needs_retention(branch, DEFAULT, int(wall())):
            return None
        # A program that was stopped by a jump, and is started again, goes by the clock as it is.
        storage.set_property(EXPIRY_STOPPED, "")
        found = storage.along.setdefault(key, Expiry(storage, branch, now, wall, kept or DEFAULT))
    assert isinstance(found, Expiry)
    return found


class OpeningWithExpiry(Protocol):
    """An open space, as its expiry uses it."""

    branch: BranchId
    timers: Timers
    lock: Lock

    @property
    def connection(self) -> Connection:
        """The state of the connection to the server."""
        ...

    def gained_parts(self) -> None:
        """A pass checks timers from now on. The caller holds the lock."""


class OpeningExpiry:
    """The share of one opening in the schedule: its passes take the steps."""

    def __init__(self, opened: OpeningWithExpiry, lease: Lease, kept: Retention | None) -> None:
        self._opened = opened
        self._lease = lease
        self._kept = kept
        self.schedule: Expiry | None = None

    def begin(self) -> None:
        """Delete expired documents and old receipts from now on, if the file has any. Idempotent."""
        opened = self._opened
        if self.schedule is not None or opened.connection.state != "local":
            return
        timers = opened.timers
        self.schedule = expiry_of(self._lease.local, opened.branch, timers.now, timers.wall, self._kept)
        if self.schedule is not None:
            with opened.lock:
                opened.gained_parts()
                timers.wait(0, self._step)

    def _step(self) -> None:
        assert self.schedule is not None
        self._opened.timers.wait(self.schedule.step(), self._step)
