"""Which owners are there: rows of `hw_server`, a session lock for each, and when one counts as gone.

Safety does not depend on this, nor on any clock: a wrong answer costs a handover, and the fence refuses the other one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headwater.store.backends.postgres.database_link import DatabaseLink

LOCK_CLASS: Final = 0x4857
"""The first half of the keys of session locks; the second is the owner's id."""

FREE_S: Final = 0.3
"""So long a session lock must be free: an owner whose connection broke takes it again at once."""

RESTART_S: Final = 2.0
"""So long after a start of the database, free locks mean nothing: its end has released all of them."""

LEASE_S: Final = 5.0
"""So long a beat must be unchanged: the owner is stopped, or cut off from the database."""

POLLS_MIN: Final = 4
"""So many looks must have succeeded in that time: else it is the observer that was stopped, or cut off."""

FRESH_S: Final = 2.5
"""An owner whose beat is younger, by the clock of the database, is there."""

_REGISTER: Final = (
    "insert into hw_server values (%b, %b, null, %b, 0, clock_timestamp()) "
    "on conflict (id) do update set beat = hw_server.beat + 1, at = excluded.at"
)
_LOCK: Final = "select pg_try_advisory_lock(%b::int, %b::int)"
_BEAT: Final = "update hw_server set beat = beat + 1, at = clock_timestamp() where id = %b returning 1"
_LEAVE: Final = "delete from hw_server where id = %b"
_LOOK: Final = (
    "select s.name, s.url, s.beat, extract(epoch from clock_timestamp() - s.at)::float8, exists(select 1 from pg_locks "
    "l join pg_database d on d.oid = l.database where l.locktype = 'advisory' and l.classid = %b::int "
    "and l.objid = %b::int and l.objsubid = 2 and l.granted and d.datname = current_database()), "
    "extract(epoch from clock_timestamp() - pg_postmaster_start_time())::float8 from hw_server s where s.id = %b"
)


def _half(owner: int) -> int:
    return owner & 0x7FFFFFFF


def register(link: DatabaseLink, owner: int, name: str, version: str) -> None:
    """Make or renew the row of an owner, and take its session lock on this connection."""
    link.run(_REGISTER, [owner, name, version])
    link.run(_LOCK, [LOCK_CLASS, _half(owner)])


def beat(link: DatabaseLink, owner: int) -> bool:
    """Count once more. False: the row is gone."""
    return bool(link.run(_BEAT, [owner]))


def leave(link: DatabaseLink, owner: int) -> None:
    """Delete the row: spaces that still name it are free."""
    link.run(_LEAVE, [owner])


@dataclass(frozen=True, slots=True)
class OwnerSight:
    """An owner, as it is seen at one moment."""

    name: str
    url: str | None
    beat: int
    age_s: float
    is_locked: bool
    database_age_s: float


def look(link: DatabaseLink, owner: int) -> OwnerSight | None:
    """The owner now; None if it has no row."""
    found = link.run(_LOOK, [LOCK_CLASS, _half(owner), owner])
    return OwnerSight(*found[0]) if found else None


@dataclass(slots=True)
class OwnerWatch:
    """What one observer has seen of one owner. Times are of the observer's own monotonic clock, in seconds."""

    # Since when the lock is free, and how many looks in a row have found it so.
    free_since: float | None = None
    # The beat, since when it is unchanged, and how many looks have succeeded since.
    beat: int | None = None
    beat_since: float = 0.0
    polls: int = field(default=0)

    def is_gone(self, sight: OwnerSight | None, now: float) -> bool:
        """Whether the owner counts as gone, by everything seen so far."""
        if sight is None:
            return True
        if sight.beat != self.beat:
            self.beat, self.beat_since, self.polls, self.free_since = sight.beat, now, 0, None
        self.polls += 1
        if sight.is_locked or sight.database_age_s < RESTART_S:
            self.free_since = None
        elif self.free_since is None:
            self.free_since = now
        if self.free_since is not None and now - self.free_since >= FREE_S:
            return True
        return now - self.beat_since >= LEASE_S and self.polls > POLLS_MIN
