"""The tables of collections: keys of indexes, and what commits did to them. Made at the first declaration.

They are caches of the log. A damaged row of an index counts as missing: the index is made again from the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias
from zlib import crc32

import apsw

from headwater.store.backend import EntryFold, Fold, IndexRow, ShiftRow
from headwater.store.backends.checksums import sum_of
from headwater.store.backends.sqlite_caches import set_meta
from headwater.store.store_limits import SHIFTS_KEPT, SHIFTS_SLACK
from headwater.values.ids import NEVER, BranchId, Seq

Read: TypeAlias = Callable[[str, Sequence[object]], "list[tuple[apsw.SQLiteValue, ...]]"]

TABLES: Final = {
    "entry_index": """CREATE TABLE entry_index(id integer primary key, branch text not null, name text not null,
    since integer not null, through integer not null, count integer not null, digest integer not null,
    sum integer not null, unique(branch, name)) strict""",
    "entry": """CREATE TABLE entry(idx integer not null, key blob not null, primary key(idx, key))
    strict, without rowid""",
    "shift": """CREATE TABLE shift(seq integer primary key, before integer not null, body blob not null,
    sum integer not null) strict""",
}
"""The statements that make them, as SQLite stores them. A row of `shift` has the number of the row before it."""

FLOOR: Final = "shift_floor"
"""The property that says up to which commit shifts were deleted, or never recorded."""

LAST: Final = "shift_last"
"""The property that says which commit has the newest row."""


def key_sum(keys: Iterable[bytes]) -> int:
    """The sum of the checksums of keys."""
    return sum(map(crc32, keys))


def have_tables(read: Read) -> bool:
    """Whether all of the tables are there."""
    names = ", ".join(f"'{name}'" for name in TABLES)
    return read(f"select count(*) from sqlite_schema where type = 'table' and name in ({names})", ()) == [
        (len(TABLES),)
    ]


def make_tables(db: apsw.Connection, newest: Seq) -> None:
    """Make the tables that are missing. Nothing is known of the commits up to `newest`, which are folded."""
    there = {str(name) for (name,) in db.execute("select name from sqlite_schema where type = 'table'")}
    missing = [name for name in TABLES if name not in there]
    for name in missing:
        db.execute(TABLES[name], can_cache=False)
    if missing:
        # What is left of the others is of no use alone.
        for name in TABLES:
            db.execute(f"delete from {name}", can_cache=False)
        set_meta(db, FLOOR, str(newest))
        set_meta(db, LAST, str(newest))


def _row_sum(row: IndexRow) -> int:
    return sum_of(row.branch, row.name, row.since, row.through, row.count, row.digest)


def read_rows(read: Read) -> list[IndexRow]:
    """The undamaged indexes."""
    found: list[IndexRow] = []
    for *columns, checksum in read("select branch, name, since, through, count, digest, sum from entry_index", ()):
        row = IndexRow(*columns)  # type: ignore[arg-type]  # checked by the sum
        if _row_sum(row) == checksum:
            found.append(row)
    return found


def read_entries(
    read: Read, branch: BranchId, name: str, span: tuple[bytes, bytes], limit: int, *, reverse: bool
) -> list[bytes]:
    """The first keys of a span, or the last ones backwards."""
    order = "desc" if reverse else "asc"
    query = (
        "select key from entry where idx = (select id from entry_index where branch = ? and name = ?) "
        f"and key >= ? and key < ? order by key {order} limit ?"
    )
    return [key for (key,) in read(query, (branch, name, *span, limit))]  # type: ignore[misc]  # as the column is


def read_sums(read: Read, branch: BranchId, name: str) -> tuple[int, int]:
    """The number of keys, and the sum of their checksums."""
    query = "select key from entry where idx = (select id from entry_index where branch = ? and name = ?)"
    keys = [key for (key,) in read(query, (branch, name))]
    return len(keys), key_sum(keys)  # type: ignore[arg-type]  # as the column is


def read_count(read: Read, branch: BranchId, name: str) -> int:
    """The number of keys."""
    query = "select count(*) from entry where idx = (select id from entry_index where branch = ? and name = ?)"
    return int(str(read(query, (branch, name))[0][0]))


def read_shifts(read: Read, after: Seq, through: Seq, last: Seq) -> list[ShiftRow] | None:
    """Shifts in order; None if rows are missing or damaged. Each row names the one before it; `last` is the newest."""
    rows = read("select seq, before, body, sum from shift where seq > ? and seq <= ? order by seq", (after, through))
    found: list[ShiftRow] = []
    for seq, before, body, checksum in rows:
        if crc32(body, sum_of(seq, before)) != checksum or (found and found[-1].seq != before):  # type: ignore[arg-type]
            return None
        found.append(ShiftRow(Seq(seq), body))  # type: ignore[arg-type]  # as the columns are
    if found and int(str(rows[0][1])) > after:
        return None
    # The last of them: either the newest of all, or the one that the next row names.
    newest = found[-1].seq if found else after
    if last > through:
        following = read("select before from shift where seq > ? order by seq limit 1", (through,))
        return found if following and int(str(following[0][0])) <= newest else None
    return found if last <= newest else None


def write_collections(db: apsw.Connection, fold: Fold) -> None:
    """Write the part of a fold that collections have."""
    for entries in fold.entries:
        _write_entries(db, entries)
    if fold.is_new_feed:
        db.execute("delete from shift", can_cache=False)
        set_meta(db, LAST, str(db.execute("select value from meta where key = ?", (FLOOR,)).get))
    if fold.shifts:
        _write_shifts(db, fold.shifts)
    if fold.shift_floor is not None:
        _trim(db, fold.shift_floor)


def _write_entries(db: apsw.Connection, fold: EntryFold) -> None:
    row = fold.row
    db.execute(
        "insert into entry_index(branch, name, since, through, count, digest, sum) values (?, ?, ?, ?, ?, ?, ?) "
        "on conflict(branch, name) do update set since = excluded.since, through = excluded.through, "
        "count = excluded.count, digest = excluded.digest, sum = excluded.sum",
        (row.branch, row.name, row.since, row.through, row.count, row.digest, _row_sum(row)),
    )
    number = db.execute("select id from entry_index where branch = ? and name = ?", (row.branch, row.name)).get
    if fold.is_new:
        db.execute("delete from entry where idx = ?", (number,))
    # In the order of the keys: each page is touched once.
    db.executemany("delete from entry where idx = ? and key = ?", [(number, key) for key in fold.removed])
    db.executemany("insert or ignore into entry values (?, ?)", [(number, key) for key in fold.added])


def _write_shifts(db: apsw.Connection, shifts: Sequence[ShiftRow]) -> None:
    before = int(str(db.execute("select value from meta where key = ?", (LAST,)).get or 0))
    values: list[tuple[object, ...]] = []
    for row in shifts:
        values.append((row.seq, before, row.body, crc32(row.body, sum_of(row.seq, before))))
        before = row.seq
    db.executemany("insert or replace into shift values (?, ?, ?, ?)", values)
    set_meta(db, LAST, str(before))


def _trim(db: apsw.Connection, drop: Seq) -> None:
    """Delete the oldest rows up to this commit, if there are too many."""
    query = "select seq from shift order by seq desc limit 1 offset ?"
    if db.execute(query, (SHIFTS_KEPT + SHIFTS_SLACK,)).get is None:
        return
    drop_shifts(db, min(drop, Seq(int(str(db.execute(query, (SHIFTS_KEPT,)).get)))))


def drop_shifts(db: apsw.Connection, cut: Seq) -> None:
    """Delete the rows up to this commit."""
    floor = Seq(int(str(db.execute("select value from meta where key = ?", (FLOOR,)).get or NEVER)))
    if cut > floor:
        db.execute("delete from shift where seq <= ?", (cut,))
        set_meta(db, FLOOR, str(cut))
