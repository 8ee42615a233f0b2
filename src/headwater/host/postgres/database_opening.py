"""Opening a space of a database: to own it, or to read it as of one moment."""

from __future__ import annotations

from typing import Final

from headwater.errors import NotFoundError, SpaceHeldError, UnavailableError, UsageError
from headwater.host.postgres import owners
from headwater.host.postgres.database_connection import DatabaseConnection
from headwater.host.postgres.database_url import DatabaseUrl
from headwater.machine import machine
from headwater.store.backends.postgres import listing, presence
from headwater.store.backends.postgres.database_link import UnansweredError
from headwater.store.backends.postgres.database_schema import has_tables, prepare
from headwater.store.backends.postgres.fence import Fence, FencedSpace, create_space, find_space, take
from headwater.store.backends.postgres.postgres_backend import PostgresBackend
from headwater.store.features import check_known
from headwater.values.space_ids import RANDOM_BYTES, space_id_from
from headwater.values.suggestions import did_you_mean

_LOOK_S: Final = 0.1
_ID_BYTES: Final = 8
_SNAPSHOT: Final = "begin transaction isolation level repeatable read read only"
_NO_IDLE_LIMIT: Final = "set idle_in_transaction_session_timeout = 0"


def open_owned(url: DatabaseUrl, space: str, *, is_relaxed: bool, create: bool) -> PostgresBackend:
    """Become the owner of a space. Raises SpaceHeldError if another program has it open."""
    connection = _connect(url, space, is_relaxed=is_relaxed, create=create)
    try:
        owner = owners.join(url)
        try:
            row = _row(connection, url, space, create=create)
            fence = _take_over(connection, row, space, owner.id)
            return PostgresBackend(connection, row.id, fence, on_close=lambda: owners.leave(url, owner))
        except BaseException:
            owners.leave(url, owner)
            raise
    except UnansweredError:
        connection.close()
        raise _lost(url) from None
    except BaseException:
        connection.close()
        raise


def open_reader(url: DatabaseUrl, space: str) -> PostgresBackend:
    """A space as it is now, also if another program owns it, and as long as this is open.

    Writing raises UnavailableError.
    """
    connection = _connect(url, space, is_relaxed=False, create=False)
    try:
        connection.run(_NO_IDLE_LIMIT)
        connection.run(_SNAPSHOT)
        row = _row(connection, url, space, create=False)
        return PostgresBackend(connection, row.id, None)
    except UnansweredError:
        connection.close()
        raise _lost(url) from None
    except BaseException:
        connection.close()
        raise


def _connect(url: DatabaseUrl, space: str, *, is_relaxed: bool, create: bool) -> DatabaseConnection:
    connection = DatabaseConnection(url, is_relaxed=is_relaxed)
    try:
        if create or has_tables(connection, url.schema):
            prepare(connection, url.schema)
            return connection
        message = f"there is no space {space!r} at {url.shown}: the database has no spaces"
        raise NotFoundError(message, url=url.shown, space=space)
    except UnansweredError:
        connection.close()
        raise _lost(url) from None
    except BaseException:
        connection.close()
        raise


def _lost(url: DatabaseUrl) -> UnavailableError:
    return UnavailableError(
        f"the connection to {url.shown} broke while the space was opened: try again", where=url.shown
    )


def _row(connection: DatabaseConnection, url: DatabaseUrl, space: str, *, create: bool) -> FencedSpace:
    row = find_space(connection, space)
    if row is None and create:
        number = int.from_bytes(machine().token_bytes(_ID_BYTES), "big") >> 1
        made = space_id_from(machine().token_bytes(RANDOM_BYTES))
        row = create_space(connection, space, number, made, machine().token_hex(_ID_BYTES))
    if row is None:
        names = [each.name for each in listing.spaces(connection)]
        near = did_you_mean(space, names) or (f"; the spaces there are: {', '.join(names[:20])}" if names else "")
        message = f"there is no space {space!r} at {url.shown}{near}"
        raise NotFoundError(message, url=url.shown, space=space)
    check_known(listing.features(connection, row.id), f"space {space!r} at {url.shown}")
    return row


def _take_over(connection: DatabaseConnection, row: FencedSpace, space: str, me: int) -> Fence:
    """Take a space that is free, or whose owner is gone. Raises SpaceHeldError."""
    watch = presence.OwnerWatch()
    while True:
        is_free = row.owner is None or row.owner == me
        if not is_free:
            assert row.owner is not None
            sight = presence.look(connection, row.owner)
            is_free = watch.is_gone(sight, machine().monotonic())
            if not is_free and sight is not None and sight.is_locked and sight.age_s < presence.FRESH_S:
                raise _held(connection, sight, space)
        if is_free:
            fence = take(connection, row, me)
            if fence is not None:
                if row.owner not in {None, me}:
                    # If it is there after all, it makes its row again.
                    presence.leave(connection, row.owner)
                return fence
            found = find_space(connection, space)
            if found is None:
                message = f"the space {space!r} at {connection.where} was deleted while it was opened"
                raise UsageError(message, space=space)
            row, watch = found, presence.OwnerWatch()
        else:
            machine().sleep(_LOOK_S)


def _held(connection: DatabaseConnection, sight: presence.OwnerSight, space: str) -> SpaceHeldError:
    way_out = f"open it as {sight.url}/{space}" if sight.url else "close it there first"
    message = (
        f"space {space!r} at {connection.where} is open in {sight.name}; one program at a time owns a space: {way_out}"
    )
    return SpaceHeldError(message, space=space, where=connection.where, owner=sight.name)
