"""Writing the caches of a space: the statements of a fold, and of what computations have read.

Must never know: when a fold is due.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

import apsw
import msgspec

from headwater.store.backend import Fold, ObservationRow
from headwater.values.ids import MAIN, BranchId, DocKey

BRANCH: Final = "(select id from branch where name = ?)"
DOC: Final = "(select id from doc where key = ?)"


def set_meta(db: apsw.Connection, key: str, value: str) -> None:
    """A fact about the space."""
    db.execute("insert into meta values (?, ?) on conflict(key) do update set value = excluded.value", (key, value))


def write_fold(db: apsw.Connection, fold: Fold) -> None:
    """Everything the caches learn from a stretch of the log."""
    db.executemany(
        "insert into branch(name, parent, fork_seq, at, merges) values (?, ?, ?, ?, ?) "
        "on conflict(name) do update set merges = excluded.merges",
        [(b.name, b.parent, b.fork_seq, b.at, msgspec.msgpack.encode(b.merges)) for b in fold.branches],
    )
    keys = sorted({head.doc for _, head in fold.heads} | {snapshot.doc for _, snapshot in fold.snapshots})
    db.executemany("insert into doc(key) values (?) on conflict do nothing", [(key,) for key in keys])
    sessions = sorted({row.session for row in fold.replays})
    db.executemany("insert into session(name) values (?) on conflict do nothing", [(name,) for name in sessions])
    # Numbers are looked up once per fold, not once per row.
    branch = dict(db.execute("select name, id from branch"))
    doc = {key: db.execute("select id from doc where key = ?", (key,)).get for key in keys}
    session = {name: db.execute("select id from session where name = ?", (name,)).get for name in sessions}
    db.executemany("insert into revision values (?, ?, ?)", [(branch[b], doc[d], s) for b, d, s in fold.revisions])
    db.executemany(
        "insert into head values (?, ?, ?, ?, ?, ?) on conflict do update set "
        "seq = excluded.seq, live = excluded.live, size = excluded.size, since = excluded.since",
        [(branch[b], doc[h.doc], h.seq, h.live, h.size, h.since) for b, h in fold.heads],
    )
    db.executemany(
        "insert into snapshot values (?, ?, ?, ?, ?)",
        [(branch[b], doc[s.doc], s.seq, s.body, crc32(s.body or b"")) for b, s in fold.snapshots],
    )
    db.executemany(
        "insert into replay values (?, ?, ?, ?)", [(session[r.session], r.first, r.last, r.seq) for r in fold.replays]
    )
    db.executemany(
        f"delete from observation where branch = {BRANCH} and doc = {DOC} and seq < ?", list(fold.unobserved)
    )
    observe(db, fold.observations, folded=True)
    set_meta(db, "folded", str(fold.through))


def observed_rows(branch: str, rows: Iterable[tuple[object, ...]]) -> list[ObservationRow]:
    """Those that are whole and stand where they were put: what is damaged is as good as not there."""
    found: list[ObservationRow] = []
    start = crc32(f"{branch}\0".encode())
    for doc, seq, body, checksum in rows:
        # As `_sum_of`, in one piece: there may be a hundred thousand.
        is_made_so = type(doc) is str and type(seq) is int and type(body) is bytes
        if is_made_so and crc32(body, crc32(f"{doc}\0{seq}".encode(), start)) == checksum:  # type: ignore[arg-type]
            found.append(ObservationRow(doc, seq, body))  # type: ignore[arg-type]  # as it is made
    return found


def _sum_of(branch: str, doc: str, seq: int, body: bytes) -> int:
    return crc32(body, crc32(f"{branch}\0{doc}\0{seq}".encode()))


def observe(db: apsw.Connection, observed: Sequence[tuple[BranchId, ObservationRow]], *, folded: bool = False) -> None:
    """What was observed replaces what was before, unless that is newer.

    A row of the same place was noted after that commit: what a fold finds in the log is older.
    """
    keys = {row.doc for _, row in observed}
    db.executemany("insert into doc(key) values (?) on conflict do nothing", [(key,) for key in keys])
    # A branch that nothing was folded of yet has no number.
    names = {branch for branch, _ in observed}
    db.executemany(
        "insert into branch(name, parent, fork_seq, at, merges) values (?, null, 0, 0, ?) on conflict do nothing",
        [(name, msgspec.msgpack.encode(())) for name in names if name == MAIN],
    )
    branch = dict(db.execute("select name, id from branch"))
    doc = {key: db.execute("select id from doc where key = ?", (key,)).get for key in keys}
    db.executemany(
        "insert into observation values (?, ?, ?, ?, ?) on conflict do update set "
        "seq = excluded.seq, body = excluded.body, sum = excluded.sum "
        f"where excluded.seq {'>' if folded else '>='} observation.seq",
        [
            (branch[b], doc[row.doc], row.seq, row.body, _sum_of(b, row.doc, row.seq, row.body))
            for b, row in observed
            if b in branch
        ],
    )


def unobserve(db: apsw.Connection, gone: Sequence[tuple[BranchId, DocKey]]) -> None:
    """Forget these."""
    db.executemany(f"delete from observation where branch = {BRANCH} and doc = {DOC}", list(gone))


def unobserve_at(db: apsw.Connection, gone: Sequence[tuple[apsw.SQLiteValue, ...]]) -> None:
    """Forget these, by the numbers of branch and document, which may be nobody's."""
    db.executemany("delete from observation where branch = ? and doc = ?", gone)
