"""Checks of a database with spaces: what it promises about acknowledged commits, and what keeps it from working."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headwater.errors import HeadwaterError, NotFoundError
from headwater.host.postgres.database_connection import VERSION_MIN, DatabaseConnection
from headwater.host.postgres.database_url import DatabaseUrl
from headwater.machine import machine
from headwater.store.backends.postgres import listing
from headwater.store.backends.postgres.database_link import UnansweredError
from headwater.store.backends.postgres.database_schema import FORMAT, has_tables
from headwater.values.text import count_text

Found = tuple[str, str, str]
"""The name of a check, its state (ok, warning or failed), and what was found."""

_SETTINGS: Final = (
    "select current_setting('server_version'), current_setting('server_version_num')::int / 10000, "
    "current_setting('fsync'), current_setting('full_page_writes'), current_setting('synchronous_commit'), "
    "current_setting('synchronous_standby_names'), current_setting('data_checksums'), pg_is_in_recovery(), "
    "current_user::text, has_database_privilege(current_database(), 'create')"
)
_FORMAT: Final = "select value from hw_meta where key = 'format'"
_RIGHTS: Final = (
    "select coalesce(bool_and(has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert') and "
    "has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete')), false) "
    "from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname = %b and c.relkind = 'r' "
    "and c.relname like 'hw\\_%%'"
)
_CLOCK: Final = "select extract(epoch from clock_timestamp())::float8"
_LOCK: Final = "select pg_backend_pid(), pg_try_advisory_lock(18519, 0), pg_advisory_unlock(18519, 0)"
_ANSWERS: Final = 5
_SLOW_MS: Final = 20.0
_CLOCK_S: Final = 2.0


def check_database(url: DatabaseUrl) -> Iterator[Found]:
    """All checks, one after the other; ends at the first that prevents the rest."""
    try:
        connection = DatabaseConnection(url, allow_unsafe=True)
    except HeadwaterError as error:
        yield "database", "failed", error.message
        return
    try:
        yield "database", "ok", f"connected to {url.shown}"
        yield from _settings(connection)
        yield _speed(connection)
        yield _clock(connection)
        yield _sessions(connection)
        yield from _tables(connection, url)
    except UnansweredError:
        yield "connection", "failed", f"the connection to {url.shown} broke"
    except HeadwaterError as error:
        yield "database", "failed", error.message
    finally:
        connection.close()


def _settings(connection: DatabaseConnection) -> Iterator[Found]:
    [row] = connection.run(_SETTINGS)
    shown, version, fsync, pages, commit, standbys, checksums, in_recovery, user, may_create = row
    need = "" if version >= VERSION_MIN else f"; {VERSION_MIN} or newer is needed"
    yield "postgresql", "failed" if need else "ok", f"{shown}{need}"
    if in_recovery:
        yield "primary", "failed", "this is a standby, which cannot be written; name the primary"
    is_durable = fsync == "on" and pages == "on" and commit not in {"off", "local"}
    told = f"fsync={fsync}, full_page_writes={pages}, synchronous_commit={commit}"
    promise = "a commit that is acknowledged survives a crash and a power loss of the database's machine"
    yield "power loss", "ok" if is_durable else "failed", f"{promise}: {'yes' if is_durable else 'no'} ({told})"
    lost = "a commit that is acknowledged survives the loss of the database's machine"
    if standbys:
        yield "machine loss", "ok", f"{lost}: yes (synchronous_standby_names={standbys})"
    else:
        yield "machine loss", "warning", f"{lost}: no (synchronous_standby_names is empty)"
    if checksums == "on":
        yield "page checksums", "ok", "data_checksums=on"
    else:
        yield "page checksums", "warning", "data_checksums=off: damage of the disk is found by `headwater verify` alone"
    yield "user", "ok", f"{user}, who may {'' if may_create else 'not '}create schemas"


def _speed(connection: DatabaseConnection) -> Found:
    begin = machine().steady_ms()
    for _ in range(_ANSWERS):
        connection.run("select 1")
    took = (machine().steady_ms() - begin) / _ANSWERS
    return (
        "round trip",
        "ok" if took < _SLOW_MS else "warning",
        f"{took:.1f} ms: each group of commits takes at least one",
    )


def _clock(connection: DatabaseConnection) -> Found:
    [[theirs]] = connection.run(_CLOCK)
    apart = float(theirs) - machine().time()
    state = "ok" if abs(apart) < _CLOCK_S else "warning"
    return "clock", state, f"{abs(apart):.1f} s apart; ownership does not depend on clocks"


def _sessions(connection: DatabaseConnection) -> Found:
    """Whether a session is one: behind a pooler in transaction mode, statements go to several."""
    seen = {row[0] for _ in range(_ANSWERS) for row in connection.run(_LOCK)}
    if len(seen) == 1:
        return "sessions", "ok", "a connection is one session: no pooler is in between"
    found = "statements of one connection go to several sessions: a pooler is in between; connect directly"
    return "sessions", "failed", found


def _tables(connection: DatabaseConnection, url: DatabaseUrl) -> Iterator[Found]:
    if not has_tables(connection, url.schema):
        yield "spaces", "ok", f"schema {url.schema} is not there yet: the first opening makes it"
        return
    [[found]] = connection.run(_FORMAT)
    yield "format", "ok" if found == str(FORMAT) else "failed", f"{found}; this Headwater reads {FORMAT}"
    [[may_write]] = connection.run(_RIGHTS, [url.schema])
    if not may_write:
        yield "rights", "failed", f"this user may not write all tables of schema {url.schema}: grant it"
    spaces = listing.spaces(connection)
    is_open = [each for each in spaces if each.owner]
    yield "spaces", "ok", f"{count_text(len(spaces), 'space')}, {len(is_open)} open"


def list_spaces(url: DatabaseUrl) -> list[listing.SpaceFacts]:
    """The spaces of a database. Raises NotFoundError if it has no tables for them."""
    connection = DatabaseConnection(url, allow_unsafe=True)
    try:
        if not has_tables(connection, url.schema):
            raise NotFoundError(f"there are no spaces at {url.shown}: nothing was opened there yet", url=url.shown)
        return listing.spaces(connection)
    finally:
        connection.close()
