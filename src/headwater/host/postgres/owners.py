"""This process as an owner of spaces in a database: its row, its session lock, and its beats, each second.

One for all spaces that a process has open in a database. If the process ends, PostgreSQL releases the lock at once; if
it stops, the beats stop. Neither protects the data: the fence in each commit does.
"""

from __future__ import annotations

import platform
from contextlib import suppress
from typing import Final

from headwater._version import __version__
from headwater.errors import HeadwaterError
from headwater.host.postgres.database_connection import DatabaseConnection
from headwater.host.postgres.database_url import DatabaseUrl
from headwater.machine import machine
from headwater.store.backends.postgres import presence
from headwater.store.backends.postgres.database_link import UnansweredError

BEAT_S: Final = 1.0
"""Between two beats: one small statement that does not wait for the disk."""

_RETRY_S: Final = 0.1
_ID_BYTES: Final = 8


class DatabaseOwner:
    """The row of this process in one database. A thread of its own beats."""

    def __init__(self, url: DatabaseUrl) -> None:
        self.id = int.from_bytes(machine().token_bytes(_ID_BYTES), "big") >> 1
        self.count = 0
        self._name = f"process {machine().process_id()} on {platform.node() or 'this machine'}"
        self._ended = machine().event()
        self._connection = DatabaseConnection(url, is_relaxed=True)
        try:
            presence.register(self._connection, self.id, self._name, __version__)
        except BaseException:
            self._connection.close()
            raise
        self._thread = machine().thread(self._run, name="headwater-beat")
        self._thread.start()

    def _run(self) -> None:
        wait = BEAT_S
        while not self._ended.wait(wait):
            try:
                if not presence.beat(self._connection, self.id):
                    # Another program took this one for gone.
                    presence.register(self._connection, self.id, self._name, __version__)
                wait = BEAT_S
            except (UnansweredError, HeadwaterError):
                wait = _RETRY_S
                with suppress(HeadwaterError, UnansweredError):
                    self._connection.reconnect()
                    presence.register(self._connection, self.id, self._name, __version__)
                    wait = BEAT_S

    def end(self) -> None:
        """Give up the row and the lock. Spaces of it that are still in the database count as free."""
        self._ended.set()
        self._thread.join()
        with suppress(HeadwaterError, UnansweredError):
            presence.leave(self._connection, self.id)
        self._connection.close()

    def disown(self) -> None:
        """In a forked child: the row belongs to the parent."""
        self._connection.disown()


class _Owners:
    """State of the process."""

    def __init__(self) -> None:
        self.lock = machine().lock()
        self.by_database: dict[str, DatabaseOwner] = {}


def join(url: DatabaseUrl) -> DatabaseOwner:
    """The owner of this process in a database. Each call needs a `leave`."""
    state = machine().state(_Owners)
    with state.lock:
        owner = state.by_database.get(url.key)
        if owner is None:
            owner = state.by_database[url.key] = DatabaseOwner(url)
        owner.count += 1
        return owner


def leave(url: DatabaseUrl, owner: DatabaseOwner) -> None:
    """Give up a share. The last one ends the owner."""
    state = machine().state(_Owners)
    with state.lock:
        owner.count -= 1
        if owner.count:
            return
        if state.by_database.get(url.key) is owner:
            del state.by_database[url.key]
    owner.end()


def disown_all() -> None:
    """In a forked child: the owners are those of the parent."""
    state = machine().state(_Owners)
    for owner in state.by_database.values():
        owner.disown()
    state.by_database.clear()
