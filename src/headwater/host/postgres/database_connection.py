"""One connection to PostgreSQL, through psycopg 3: its settings, the checks of the server, and errors in our words."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

from headwater.errors import (
    CorruptError,
    HeadwaterError,
    InvariantError,
    NotFoundError,
    PoisonedError,
    StoreFullError,
    UnavailableError,
    UnsafeDatabaseError,
    UsageError,
)
from headwater.host.postgres.database_url import DatabaseUrl, hide_password
from headwater.machine import machine
from headwater.store.backends.postgres.database_link import UnansweredError
from headwater.values.author_text import text_of

VERSION_MIN: Final = 14
"""The oldest PostgreSQL that is supported by its makers."""

RECONNECT_S: Final = 60.0
"""So long a lost connection is made again, with commits waiting. A restart of PostgreSQL takes seconds."""

_WAIT_MIN_S: Final = 0.05
_WAIT_MAX_S: Final = 2.0
_PREPARED_MAX: Final = 64

_SETTINGS: Final = (
    "select set_config('search_path', %b, false), set_config('synchronous_commit', %b, false), "
    "set_config('default_transaction_isolation', 'read committed', false), "
    "set_config('statement_timeout', '30s', false), set_config('lock_timeout', '5s', false), "
    "set_config('idle_in_transaction_session_timeout', '5s', false), set_config('client_min_messages', 'error', false)"
)
_CHECKS: Final = (
    "select current_setting('server_version_num')::int / 10000, current_setting('fsync'), "
    "current_setting('full_page_writes'), pg_is_in_recovery(), current_setting('synchronous_commit')"
)
_AGAIN: Final = frozenset({"40001", "40003", "40P01"})
"""Errors after which the same statement is sent again: serialization, deadlock."""

_TIMED_OUT: Final = frozenset({"55P03", "57014"})
"""A lock, or the whole statement: it was rolled back."""

_DEFAULTS: Final = {"connect_timeout": 10, "application_name": "headwater"}
"""Parameters of libpq, unless the URL has them."""

_DISK_FULL: Final = "53100"
_NO_RIGHT: Final = "42501"
_NO_TABLE: Final = "42P01"
_READ_ONLY: Final = "25006"
_DUPLICATE: Final = "23505"


def psycopg_module() -> Any:  # noqa: ANN401  # the module
    """The driver, which is an extra. Raises UsageError with the command that installs it."""
    try:
        # An extra: programs without PostgreSQL do not have it.
        return import_module("psycopg")
    except ImportError as error:
        message = f"spaces in PostgreSQL need psycopg ({error}): pip install 'headwater[postgres]'"
        raise UsageError(message) from None


class DatabaseConnection:
    """A `DatabaseLink` to a database. Not for several threads at once."""

    def __init__(self, url: DatabaseUrl, *, is_relaxed: bool = False, allow_unsafe: bool = False) -> None:
        self._url = url
        self._commit = "off" if is_relaxed else "on"
        self._allow_unsafe = allow_unsafe
        self._driver = psycopg_module()
        # When this connection was made, by the clock of this machine.
        self.since = 0.0
        self._db: Any = self._connect()

    @property
    def where(self) -> str:
        return self._url.shown

    @property
    def schema(self) -> str:
        return self._url.schema

    def _connect(self) -> Any:  # noqa: ANN401  # of a module that need not be there
        try:
            db: Any = self._driver.connect(self._url.libpq, autocommit=True, **self._url.missing(_DEFAULTS))
        except self._driver.Error as error:
            raise self._refused(error) from None
        db.prepare_threshold = 0
        db.prepared_max = _PREPARED_MAX
        try:
            db.execute(_SETTINGS, (self._url.schema, self._commit))
            found = db.execute(_CHECKS).fetchone()
            assert found is not None
            if not self._allow_unsafe:
                self._check(*found)
        except self._driver.Error as error:
            with suppress(self._driver.Error):
                db.close()
            raise self._refused(error) from None
        except BaseException:
            db.close()
            raise
        self.since = machine().monotonic()
        return db

    def _check(self, version: int, fsync: str, full_page_writes: str, in_recovery: bool, commit: str) -> None:  # noqa: FBT001  # columns
        if version < VERSION_MIN:
            found = f"it is version {version}; version {VERSION_MIN} or newer is needed"
        elif in_recovery:
            found = "it is a standby, which cannot be written; name the primary, or add target_session_attrs=read-write"
        elif fsync != "on":
            found = "it has fsync=off, and a crash can lose or damage everything; set fsync=on"
        elif full_page_writes != "on":
            found = "it has full_page_writes=off, and a crash can damage pages; set full_page_writes=on"
        elif self._commit == "on" and commit in {"off", "local"}:
            found = f"synchronous_commit stays {commit}; let this user set it to on"
        else:
            return
        message = f"cannot keep spaces in {self.where}: {found}"
        raise UnsafeDatabaseError(message, where=self.where)

    def _refused(self, error: Exception) -> HeadwaterError:
        """Why there is no connection. libpq has only a text for it."""
        text = " ".join(hide_password(text_of(error), self._url).split())
        where = self.where
        if "does not exist" in text and "database" in text:
            return NotFoundError(f"there is no database at {where}: {text}; make it with createdb", where=where)
        if "password" in text or "no pg_hba.conf entry" in text or "does not exist" in text:
            advice = "check the user, and the password in the URL, PGPASSWORD or ~/.pgpass"
        elif "too many" in text or "remaining connection slots" in text:
            advice = "raise max_connections, or close other programs"
        elif "starting up" in text or "shutting down" in text or "recovery" in text:
            advice = "it is starting or stopping: try again"
        else:
            advice = "is PostgreSQL running there, and does the URL name its host and port?"
        return UnavailableError(f"cannot connect to {where}: {text}; {advice}", where=where)

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        db = self._db
        if db is None or db.closed:
            raise UnansweredError
        try:
            cursor = db.execute(statement, values or None, binary=True)
            return cursor.fetchall() if cursor.description is not None else []
        except self._driver.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: Any) -> Exception:  # noqa: ANN401, PLR0911  # one line per kind of error
        state = error.sqlstate or ""
        text = " ".join(text_of(error).split())
        db = self._db
        if db is None or db.closed or state in _AGAIN or state.startswith(("08", "57P")):
            return UnansweredError()
        where = self.where
        if state == _DISK_FULL:
            message = (
                f"no room to write {where}: its disk is full; the last writes are not stored, and reads still work. "
                "Make room"
            )
            return StoreFullError(message, where=where)
        if state == _NO_RIGHT:
            advice = f"grant create on the database, or all on schema {self.schema} and its tables, to this user"
            return UnsafeDatabaseError(f"{where} does not allow it: {text}; {advice}", where=where)
        if state == _READ_ONLY:
            return UnsafeDatabaseError(f"{where} cannot be written: {text}; name the primary", where=where)
        if state in {_NO_TABLE, _DUPLICATE}:
            return CorruptError(f"the tables in {where} are damaged: {text}; restore a backup", where=where)
        if state in _TIMED_OUT:
            return UnavailableError(
                f"{where} took too long, and has stored nothing of it: {text}; try again", where=where
            )
        if state.startswith("53"):
            return UnavailableError(f"{where} has no room for this now: {text}; try again", where=where)
        return InvariantError(f"PostgreSQL refused what we asked of {where}: {text}", where=where, state=state)

    def restore(self) -> None:
        deadline = machine().monotonic() + RECONNECT_S
        wait = _WAIT_MIN_S
        while True:
            if self._db is not None and not self._db.closed and self._db.info.transaction_status == 0:
                machine().sleep(wait)
                return
            try:
                self.reconnect()
            except HeadwaterError as error:
                # Also one that says that the database is a standby: it may become the primary.
                if machine().monotonic() + wait > deadline:
                    message = (
                        f"{self.where} has not answered for {RECONNECT_S:g} s, and the last commits may be stored or "
                        f"not; this opening is over: open the space again. {error.message}"
                    )
                    raise PoisonedError(message, where=self.where) from error
                machine().sleep(wait)
                wait = min(2 * wait, _WAIT_MAX_S)
            else:
                return

    def reconnect(self) -> None:
        """Connect again. Raises why that fails."""
        if self._db is not None:
            with suppress(self._driver.Error):
                self._db.close()
            self._db = None
        self._db = self._connect()

    def disown(self) -> None:
        # Never closed in the child, not even at its end: that would end the session of the parent.
        machine().state(_Disowned).connections.append(self._db)
        self._db = None

    def close(self) -> None:
        if self._db is not None:
            with suppress(self._driver.Error):
                self._db.close()


class _Disowned:
    """State of the process: connections of its parent, referred to until the end."""

    def __init__(self) -> None:
        self.connections: list[object] = []
