"""PostgreSQL for tests: one cluster for each process of the suite, and in it as many spaces as are asked for.

HEADWATER_PG=required makes a machine without PostgreSQL an error; else these tests are skipped there, with the reason.
"""

from __future__ import annotations

import atexit
import os
import secrets
from functools import cache

import pytest

from headwater.errors import NotFoundError
from headwater.host.postgres.database_connection import DatabaseConnection
from headwater.host.postgres.database_url import DatabaseUrl, parse_database_url
from headwater.store.backends.postgres.database_schema import OF_A_SPACE, prepare
from headwater.store.backends.postgres.fence import Fence, create_space, take
from headwater.store.backends.postgres.postgres_backend import PostgresBackend
from headwater.testing.postgres import PostgresServer, find_programs
from headwater.values.space_ids import RANDOM_BYTES, space_id_from

REQUIRED = "HEADWATER_PG"


def require_postgres() -> None:
    """Skip the test where there is no PostgreSQL."""
    try:
        find_programs()
    except NotFoundError as error:
        if os.environ.get(REQUIRED) == "required":
            raise
        pytest.skip(str(error))


_made: list[PostgresServer] = []


def cluster() -> PostgresServer:
    """The one of this process. It is stopped when the process ends.

    A test that takes too long ends all processes of the suite, this one too: then there is another.
    """
    require_postgres()
    if not _made or not _made[-1].is_running:
        server = PostgresServer()
        atexit.register(server.stop)
        _made.append(server)
    return _made[-1]


def database() -> DatabaseUrl:
    """A database of it with the tables."""
    return _with_tables(cluster().url())


@cache
def _with_tables(text: str) -> DatabaseUrl:
    url = parse_database_url(text)
    connection = DatabaseConnection(url)
    prepare(connection, url.schema)
    connection.close()
    return url


def new_name() -> str:
    """A space that no other test has."""
    return f"space-{secrets.token_hex(8)}"


def open_backend(name: str, owner: int = 1) -> PostgresBackend:
    """The backend of a space, which is made if it is missing. Its commits do not wait for the disk."""
    connection = DatabaseConnection(database(), is_relaxed=True)
    return PostgresBackend(connection, *take_space(connection, name, owner))


def take_space(connection: DatabaseConnection, name: str, owner: int) -> tuple[int, Fence]:
    """Become the owner, also if another program owns the space."""
    made = space_id_from(secrets.token_bytes(RANDOM_BYTES))
    row = create_space(connection, name, secrets.randbits(62), made, secrets.token_hex(8))
    fence = take(connection, row, owner)
    assert fence is not None
    return row.id, fence


def clone_space(name: str, copy: str) -> None:
    """What a space has now, as another space: as if its owner had ended at this moment."""
    connection = DatabaseConnection(database())
    [[space]] = connection.run("select id from hw_space where name = %b", [name])
    made = secrets.randbits(62)
    own = "lineage, features, null, epoch, groups, head, now()"
    connection.run(
        f"insert into hw_space select %b, %b, %b, {own} from hw_space where id = %b",  # noqa: S608  # a constant
        [made, copy, space_id_from(secrets.token_bytes(RANDOM_BYTES)), space],
    )
    for table in OF_A_SPACE:
        found = connection.run(
            "select string_agg(attname::text, ', ' order by attnum) from pg_attribute where attrelid = %b::regclass "
            "and attnum > 1 and not attisdropped",
            [table],
        )
        columns = str(found[0][0])
        connection.run(
            f"insert into {table}(space, {columns}) select %b, {columns} from {table} where space = %b",  # noqa: S608  # names of ours
            [made, space],
        )
    connection.close()
