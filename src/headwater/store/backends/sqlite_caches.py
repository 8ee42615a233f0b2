"""SQL statements that write the caches of a space: folds and observations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final
from zlib import crc32

import apsw
import msgspec

from headwater.store.backend import SESSIONS_DROPPED, BranchRow, Fold, ObservationRow, ReplayRow
from headwater.store.backends.checksums import head_sum, key_sum, snapshot_sum, sum_of
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, Millis, Seq, SessionId

BRANCH: Final = "(select id from branch where name = ?)"
DOC: Final = "(select id from doc where key = ?)"

_INSERT_MAX: Final = 256
"""Rows that one statement inserts. With more, preparing it takes no less time per row, and more memory."""

_INSERT_KEPT: Final = 64
"""The same for a statement that is kept prepared, in 27 KiB. Preparing takes a third of the time of a row."""

_NOT_KEPT_MAX: Final = 1024
"""Rows of a fold for which no statement is kept: large folds are rare, but for programs with many documents."""

_PREPARED_MAX: Final = 16
"""Rows of a fold for which a statement is prepared each time. For more, it is kept in the cache of the connection."""

_PURGED_AT_ONCE: Final = 1000
"""Documents whose rows one statement deletes: so many ids fit in its list."""
_UNLESS_NEWER: Final = (
    "on conflict do update set seq = excluded.seq, body = excluded.body, sum = excluded.sum where excluded.seq"
)

_encoder: Final = msgspec.json.Encoder()


def json_list(values: Collection[object]) -> str:
    """A parameter for `json_each`. Text, because SQLite reads bytes as a binary form."""
    return _encoder.encode(values).decode()


def set_meta(db: apsw.Connection, key: str, value: str) -> None:
    """Set a property of the space."""
    db.execute(
        "insert into meta values (?, ?, ?) on conflict(key) do update set value = excluded.value, sum = excluded.sum",
        (key, value, sum_of(key, value)),
        can_cache=False,
    )


def branch_sum(row: BranchRow) -> int:
    """The checksum of a row of `branch`."""
    return sum_of(row.name, row.parent, row.fork_seq, row.at, msgspec.msgpack.encode(row.merges).hex().upper())


def _insert(db: apsw.Connection, into: str, rows: Sequence[tuple[object, ...]], then: str = "") -> None:
    """Insert rows, many by one statement.

    `executemany` would give up the interpreter for each row.
    """
    is_kept = len(rows) > _NOT_KEPT_MAX
    most = _INSERT_KEPT if is_kept else _INSERT_MAX
    query, places = "", 0
    for start in range(0, len(rows), most):
        part = rows[start : start + most]
        if len(part) != places:
            places = len(part)
            row = f"({', '.join('?' * len(part[0]))})"
            query = f"insert into {into} values {', '.join([row] * places)} {then}"
        db.execute(query, tuple(chain.from_iterable(part)), can_cache=is_kept and places == most)


def _fold_many(db: apsw.Connection, query: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Execute another statement of a fold for each row. Kept prepared only if it would be prepared many times."""
    db.executemany(query, rows, can_cache=len(rows) > _PREPARED_MAX)


def _make_branches(db: apsw.Connection, rows: Iterable[BranchRow], then: str) -> None:
    _insert(
        db,
        "branch(name, parent, fork_seq, at, merges, sum)",
        [(b.name, b.parent, b.fork_seq, b.at, msgspec.msgpack.encode(b.merges), branch_sum(b)) for b in rows],
        f"on conflict(name) {then}",
    )


def _make_docs(db: apsw.Connection, keys: Collection[DocKey]) -> dict[DocKey, object]:
    """The numbers of keys; new keys get a number, and are counted. Looked up by one statement for all."""
    query = "select key, id from doc where key in (select value from json_each(?))"
    numbers: dict[DocKey, object] = dict(db.execute(query, (json_list(keys),)))
    new = [key for key in keys if key not in numbers]
    if new:
        # The next numbers, as SQLite would give them.
        last = int(str(db.execute("select coalesce(max(id), 0) from doc").get))
        numbers.update({key: last + place for place, key in enumerate(new, 1)})
        _insert(db, "doc(id, key, sum)", [(numbers[key], key, key_sum(key)) for key in new])
        _count(db, "docs", len(new))
    return numbers


def _count(db: apsw.Connection, key: str, more: int) -> None:
    if more:
        found = db.execute("select value from meta where key = ?", (key,), can_cache=False).get
        set_meta(db, key, str(int(str(found)) + more))


def write_fold(db: apsw.Connection, fold: Fold) -> None:
    """Write a fold."""
    _make_branches(db, fold.branches, "do update set merges = excluded.merges, sum = excluded.sum")
    keys = sorted({head.doc for _, head in fold.heads} | {snapshot.doc for _, snapshot in fold.snapshots})
    doc = _make_docs(db, keys)
    branch = dict(db.execute("select name, id from branch", can_cache=False))
    newest = _newest(db, [(branch[b], doc[h.doc]) for b, h in fold.heads])
    _insert(db, "revision", list(_linked(fold, branch, doc, newest)))
    _insert(
        db,
        "head",
        [(branch[b], doc[h.doc], h.seq, h.live, h.size, h.since, head_sum(b, h)) for b, h in fold.heads],
        "on conflict do update set seq = excluded.seq, live = excluded.live, size = excluded.size, "
        "since = excluded.since, sum = excluded.sum",
    )
    _count(db, "heads", len(fold.heads) - len(newest))
    _insert(
        db,
        "snapshot",
        [(branch[b], doc[s.doc], s.seq, s.body, snapshot_sum(b, s.doc, s.seq, s.body)) for b, s in fold.snapshots],
    )
    _write_replays(db, fold.replays)
    _fold_many(
        db, f"delete from observation where branch = {BRANCH} and doc = {DOC} and seq < ?", list(fold.unobserved)
    )
    _observe_folded(db, fold.observations, branch, doc)
    set_meta(db, "folded", str(fold.through))


def _newest(db: apsw.Connection, pairs: Iterable[tuple[object, object]]) -> dict[tuple[object, object], object]:
    """The newest commits of those documents that have a head."""
    by_branch: dict[object, list[object]] = {}
    for branch, doc in pairs:
        by_branch.setdefault(branch, []).append(doc)
    query = "select doc, seq from head where branch = ? and doc in (select value from json_each(?))"
    return {
        (branch, doc): seq
        for branch, docs in by_branch.items()
        for doc, seq in db.execute(query, (branch, json_list(docs)))
    }


def _linked(
    fold: Fold,
    branch: Mapping[object, object],
    doc: Mapping[DocKey, object],
    newest: Mapping[tuple[object, object], object],
) -> Iterator[tuple[object, ...]]:
    """Each revision with the one before it, so that a missing one is detected."""
    for name, key, seqs in fold.revisions:
        on, of = branch[name], doc[key]
        before = newest.get((on, of), 0)
        for seq in seqs:
            yield on, of, seq, before
            before = seq


def _write_replays(db: apsw.Connection, rows: Sequence[ReplayRow]) -> None:
    names = sorted({row.session for row in rows})
    _insert(db, "session(name, sum)", [(name, sum_of(name)) for name in names], "on conflict do nothing")
    session = {name: db.execute("select id from session where name = ?", (name,)).get for name in names}
    _insert(
        db,
        "replay",
        [
            (session[r.session], r.first, r.last, r.seq, sum_of(r.session, int(r.first), int(r.last), int(r.seq)))
            for r in rows
        ],
    )
    _fold_many(
        db,
        "update session set runs = runs + 1, last = max(last, ?) where id = ?",
        [(r.last, session[r.session]) for r in rows],
    )


def drop_sessions(db: apsw.Connection, through: Seq, live: Collection[SessionId]) -> int:
    """Forget all commits but the newest of old sessions. Returns the number of sessions."""
    query = (
        "select id, name, r.last, r.seq + r.last - r.first from session join replay as r "
        "on r.session = id and r.last = session.last "
        "where r.seq + r.last - r.first <= ? and (runs > 1 or r.first < r.last)"
    )
    rows = [row for row in db.execute(query, (through,), can_cache=False) if row[1] not in live]
    db.executemany("delete from replay where session = ?", [(number,) for number, *_ in rows])
    db.executemany(
        "insert into replay(session, first, last, seq, sum) values (?, ?, ?, ?, ?)",
        [(number, last, last, seq, sum_of(name, last, last, seq)) for number, name, last, seq in rows],
    )
    db.executemany("update session set runs = 1 where id = ?", [(number,) for number, *_ in rows])
    set_meta(db, SESSIONS_DROPPED, str(through))
    return len(rows)


def observed_rows(branch: str, rows: Iterable[tuple[object, ...]]) -> list[ObservationRow]:
    """The undamaged rows. A damaged row counts as missing."""
    found: list[ObservationRow] = []
    start = crc32(f"{branch}\0".encode())
    for doc, seq, body, checksum in rows:
        # The same as `_sum_of`, inlined: there may be a hundred thousand rows.
        is_made_so = type(doc) is str and type(seq) is int and type(body) is bytes
        if is_made_so and crc32(body, crc32(f"{doc}\0{seq}".encode(), start)) == checksum:  # type: ignore[arg-type]
            found.append(ObservationRow(doc, seq, body))  # type: ignore[arg-type]  # as it is made
    return found


def _sum_of(branch: str, doc: str, seq: int, body: bytes) -> int:
    return crc32(body, crc32(f"{branch}\0{doc}\0{seq}".encode()))


def observe(db: apsw.Connection, observed: Sequence[tuple[BranchId, ObservationRow]]) -> None:
    """Write observations, unless the stored ones are newer."""
    doc = _make_docs(db, sorted({row.doc for _, row in observed}))
    # A branch without a fold has no number yet.
    if any(name == MAIN for name, _ in observed):
        _make_branches(db, [BranchRow(MAIN, None, NEVER, Millis(0))], "do nothing")
    branch = dict(db.execute("select name, id from branch"))
    rows = _observation_rows(observed, branch, doc)
    db.executemany(f"insert into observation values (?, ?, ?, ?, ?) {_UNLESS_NEWER} >= observation.seq", rows)


def _observe_folded(
    db: apsw.Connection,
    observed: Sequence[tuple[BranchId, ObservationRow]],
    branch: Mapping[object, object],
    doc: Mapping[DocKey, object],
) -> None:
    """The same for a fold, whose branches and documents have their numbers: each row is of a document that it writes.

    A stored row of the same sequence number was written after that commit: one from a fold is older.
    """
    _insert(db, "observation", _observation_rows(observed, branch, doc), f"{_UNLESS_NEWER} > observation.seq")


def _observation_rows(
    observed: Sequence[tuple[BranchId, ObservationRow]],
    branch: Mapping[object, object],
    doc: Mapping[DocKey, object],
) -> list[tuple[object, ...]]:
    return [
        (branch[b], doc[row.doc], row.seq, row.body, _sum_of(b, row.doc, row.seq, row.body))
        for b, row in observed
        if b in branch
    ]


def purge(db: apsw.Connection, gone: Sequence[tuple[BranchId, DocKey]]) -> None:
    """Delete everything of these documents on these branches."""
    branch = dict(db.execute("select name, id from branch", can_cache=False))
    by_branch: dict[BranchId, list[DocKey]] = {}
    for name, key in gone:
        by_branch.setdefault(name, []).append(key)
    for name, keys in by_branch.items():
        for start in range(0, len(keys), _PURGED_AT_ONCE):
            part = json_list(keys[start : start + _PURGED_AT_ONCE])
            docs = "doc in (select id from doc where key in (select value from json_each(?)))"
            found = db.execute(f"select count(*) from head where branch = ? and {docs}", (branch[name], part)).get
            _count(db, "heads", -int(str(found)))
            for table in ("head", "revision", "snapshot", "observation"):
                db.execute(f"delete from {table} where branch = ? and {docs}", (branch[name], part), can_cache=False)
            unused = "key in (select value from json_each(?)) and " + " and ".join(
                f"not exists (select 1 from {table} where {table}.doc = doc.id and branch in (select id from branch))"
                for table in ("head", "revision", "snapshot", "observation")
            )
            found = db.execute(f"select count(*) from doc where {unused}", (part,), can_cache=False).get
            _count(db, "docs", -int(str(found)))
            db.execute(f"delete from doc where {unused}", (part,), can_cache=False)


def unobserve(db: apsw.Connection, gone: Sequence[tuple[BranchId, DocKey]]) -> None:
    """Delete these observations."""
    db.executemany(f"delete from observation where branch = {BRANCH} and doc = {DOC}", list(gone))


def unobserve_at(db: apsw.Connection, gone: Sequence[tuple[apsw.SQLiteValue, ...]]) -> None:
    """Delete these observations, by the numbers of branch and document, which may be unknown."""
    db.executemany("delete from observation where branch = ? and doc = ?", gone)
