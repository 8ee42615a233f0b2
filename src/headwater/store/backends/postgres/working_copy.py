"""The tables of workflows of a space in PostgreSQL: a copy in memory, in SQLite, whose changed rows go with each group.

The same statements, constraints and triggers apply as in a file. The fence makes the copy exact: while it holds, no
other program writes these rows. PostgreSQL stores each row of the tables as one value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import apsw
import msgspec

from headwater.errors import CorruptError, HeadwaterError, InvariantError
from headwater.store.backends.checksums import sum_of
from headwater.store.backends.postgres.commit_group import FencedGroup
from headwater.store.backends.sqlite_tables import SqliteTables, keep_plans
from headwater.store.backends.workflow_tables import WORKFLOW_TABLES

_GONE: Final = (
    "delete from hw_row r using own, unnest(%b::text[], %b::bytea[]) t(tbl, key) "
    "where r.space = own.id and r.tbl = t.tbl and r.key = t.key"
)
_encode: Final = msgspec.msgpack.encode

StoredRow = tuple[str, bytes, bytes, int]
"""Table, key, columns and checksum."""


def row_sum(table: str, key: bytes, body: bytes) -> int:
    """The checksum of a stored row."""
    return sum_of(table, key.hex(), body.hex())


class WorkingCopy:
    """The tables, loaded when they are first used."""

    def __init__(self, load: Callable[[], Iterable[StoredRow]], corrupt: Callable[[str], CorruptError]) -> None:
        self._load = load
        self._corrupt = corrupt
        self._db: apsw.Connection | None = None
        self._tables: SqliteTables | None = None
        self._session: apsw.Session | None = None
        self._is_current = False

    @property
    def tables(self) -> SqliteTables:
        if self._db is None or self._tables is None:
            self._db = apsw.Connection(":memory:")
            keep_plans(self._db)
            self._tables = SqliteTables(self._db, _explained)
        if not self._is_current:
            self._fill(self._db)
            self._tables.known.clear()
            self._is_current = True
        return self._tables

    def _fill(self, db: apsw.Connection) -> None:
        """Replace all rows by those of PostgreSQL. Users of the tables keep the connection."""
        made = apsw.Connection(":memory:")
        made.execute(WORKFLOW_TABLES)
        # The rows are the result of the triggers, which must not run again.
        triggers = list(made.execute("select name, sql from sqlite_schema where type = 'trigger'"))
        for name, _ in triggers:
            made.execute(f"drop trigger {name}")
        columns: dict[str, list[str]] = {}
        for table, key, body, checksum in self._load():
            if row_sum(table, key, body) != checksum:
                raise self._corrupt(f"a row of {table} does not match its checksum")
            values = msgspec.msgpack.decode(body)
            if table not in columns:
                columns[table] = _columns_of(made, table)
            # A row of an earlier version has fewer columns: new ones are added at the end, with a default.
            names = columns[table][: len(values)]
            made.execute(f"insert into {table}({', '.join(names)}) values ({', '.join('?' * len(values))})", values)
        for _, sql in triggers:
            made.execute(str(sql))
        with db.backup("main", made, "main") as backup:
            backup.step()
        made.close()
        db.execute("pragma foreign_keys = on")

    @property
    def is_changing(self) -> bool:
        """Whether a transaction was begun."""
        return self._db is not None and self._db.in_transaction

    def begin(self) -> None:
        tables = self.tables
        if not self.is_changing:
            tables.begin()
            assert self._db is not None
            self._session = apsw.Session(self._db, "main")
            self._session.attach()

    def savepoint(self) -> None:
        self.tables.savepoint()

    def end_savepoint(self, *, keep: bool) -> None:
        self.tables.end_savepoint(keep=keep)

    def add_changes(self, group: FencedGroup) -> None:
        """The rows that the transaction has changed, as parts of a group."""
        if not self.is_changing:
            return
        assert self._db is not None
        assert self._session is not None
        rows: list[tuple[object, ...]] = []
        gone: list[tuple[object, ...]] = []
        for change in apsw.Changeset.iter(self._session.changeset()):
            values = change.new if change.opcode == apsw.SQLITE_INSERT else change.old
            assert values is not None
            places = sorted(change.pk_columns)
            parts = [values[place] for place in places]
            key = _encode(parts)
            if change.opcode == apsw.SQLITE_DELETE:
                gone.append((change.name, key))
                continue
            body = _encode(self._row(change.name, places, parts))
            rows.append((change.name, key, body, row_sum(change.name, key, body)))
        then = "on conflict (space, tbl, key) do update set body = excluded.body, sum = excluded.sum"
        group.insert("hw_row", ("text", "bytea", "bytea", "bigint"), rows, then)
        group.matching(_GONE, gone)

    def _row(self, table: str, places: list[int], parts: list[Any]) -> tuple[Any, ...]:
        assert self._db is not None
        names = _columns_of(self._db, table)
        where = " and ".join(f"{names[place]} = ?" for place in places)
        return tuple(self._db.execute(f"select * from {table} where {where}", parts).fetchall()[0])

    def end(self) -> None:
        """The changes are stored."""
        self._close_session()
        if self._tables is not None:
            self._tables.end()

    def roll_back(self) -> None:
        self._close_session()
        if self._tables is not None:
            self._tables.roll_back()

    def doubt(self) -> None:
        """It is unknown whether the changes were stored: the next use loads all rows again."""
        self.roll_back()
        self._is_current = False

    def _close_session(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None


def _columns_of(db: apsw.Connection, table: str) -> list[str]:
    return [str(row[1]) for row in db.execute(f"pragma table_info({table})")]


def _explained(error: apsw.Error) -> HeadwaterError:
    return InvariantError(f"SQLite refused what we asked of it in memory: {error}", found=str(error))
