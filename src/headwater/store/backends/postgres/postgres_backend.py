"""A space in PostgreSQL: rows in, rows out. Each write is the one statement of `group`, sent by `fenced_link`.

Length: the methods are those of one interface, `store.backend`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from headwater.errors import CorruptError, HeadwaterError, UsageError
from headwater.store.backend import (
    PURGED,
    SESSIONS_DROPPED,
    BodyRow,
    BranchRow,
    Fold,
    HeadRow,
    Horizon,
    IndexRow,
    LogRow,
    ObservationRow,
    Progress,
    ReplayRow,
    ShiftRow,
    SnapshotRow,
)
from headwater.store.backends.checksums import columns_sum, is_log_row, is_snapshot, log_values, sum_of
from headwater.store.backends.postgres import folds, statements
from headwater.store.backends.postgres.commit_group import COLUMNS, FencedGroup
from headwater.store.backends.postgres.database_link import DatabaseLink
from headwater.store.backends.postgres.fence import Fence
from headwater.store.backends.postgres.fenced_link import FencedLink
from headwater.store.backends.postgres.folds import doc_id, text
from headwater.store.backends.postgres.long_keys import pages
from headwater.store.backends.postgres.working_copy import StoredRow, WorkingCopy
from headwater.store.backends.sqlite_entries import key_sum
from headwater.store.backends.sqlite_tables import SqliteTables
from headwater.store.features import COLLECTIONS, with_feature
from headwater.store.store_limits import SHIFTS_KEPT, SHIFTS_SLACK
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq, SessionId

_FLOOR: Final = "shift_floor"
_PAGE: Final = 256
_merges: Final = msgspec.msgpack.Decoder(tuple[tuple[BranchId, Seq, Seq], ...])
_END: Final = b"\xff" * 8
"""Above every key: no text in UTF-8 has this byte."""


class PostgresBackend:
    """The backend of a space in a database. Without a fence it only reads."""

    chains_rows: bool = False

    def __init__(
        self, link: DatabaseLink, space: int, fence: Fence | None, *, on_close: Callable[[], None] = lambda: None
    ) -> None:
        self._link = FencedLink(link, space, fence)
        self._on_close = on_close
        self._is_closed = False
        self._wait: Callable[[], None] | None = None
        self._copy = WorkingCopy(self._load_rows, self._corrupt)
        # Valid while no other owner writes; None: read on demand.
        self._branches: dict[BranchId, int] | None = None
        self._indexes: dict[tuple[BranchId, str], int] | None = None
        self._horizon = self.horizon().seq

    # -- every access goes through one of these two ----------------------------------------------------------

    def _read(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        if self._wait is not None:
            self._wait()
        return self._link.read(statement, *values)

    def _write(self, fill: Callable[[FencedGroup], None], head: int | None = None) -> None:
        if self._wait is not None:
            self._wait()
        self._write_now(fill, head)

    def _write_now(self, fill: Callable[[FencedGroup], None], head: int | None = None) -> None:
        """Write a group: all of it, once. In the thread that writes, for which nothing is waited."""
        link, copy = self._link, self._copy
        link.check()
        link.check_writable()
        group = FencedGroup()
        try:
            fill(group)
            copy.add_changes(group)
            if group:
                link.write(group, head)
            copy.end()
        except HeadwaterError:
            self._branches = self._indexes = None
            copy.roll_back()
            raise
        except BaseException:
            self._branches = self._indexes = None
            # Its changes may be stored.
            copy.doubt()
            raise

    def _corrupt(self, what: str) -> CorruptError:
        message = f"a space in {self._link.where} is damaged: {what}; run `headwater verify`, then restore a backup"
        return CorruptError(message, where=self._link.where, found=what)

    # -- tables of other packages ----------------------------------------------------------------------------

    @property
    def tables(self) -> SqliteTables:
        if self._wait is not None:
            self._wait()
        self._link.check()
        return self._copy.tables

    def _load_rows(self) -> list[StoredRow]:
        return [(table, key, body, checksum) for table, key, body, checksum in self._read(statements.ROWS)]

    def begin(self) -> None:
        if self._wait is not None:
            self._wait()
        self._link.check()
        self._copy.begin()

    def savepoint(self) -> None:
        self._copy.savepoint()

    def end_savepoint(self, *, keep: bool) -> None:
        self._copy.end_savepoint(keep=keep)

    def roll_back(self) -> None:
        if self._wait is not None:
            self._wait()
        self._copy.roll_back()

    # -- the log ---------------------------------------------------------------------------------------------

    def append(
        self, rows: Sequence[LogRow], fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]] = ()
    ) -> None:
        if self._wait is not None:
            self._wait()
        self._append(rows, fold, observed)

    def appending(
        self,
        rows: Sequence[LogRow],
        fold: Fold | None,
        observed: Sequence[tuple[BranchId, ObservationRow]],
        *,
        is_behind: bool,
    ) -> Callable[[], None] | None:
        if not is_behind and self._copy.is_changing:
            return None
        return partial(self._append, rows, fold, observed)

    def _append(
        self, rows: Sequence[LogRow], fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]]
    ) -> None:
        def fill(group: FencedGroup) -> None:
            group.insert("hw_log", ("bigint", "bytea", "bytea", "bigint"), log_values(rows))
            if fold is not None:
                folds.add_fold(group, fold, self._branch_numbers())
                folds.add_collections(group, fold, self._index_numbers())
                facts = [("folded", str(fold.through))] if fold.through else []
                folds.add_facts(group, facts)
            folds.add_observations(group, fold, observed)

        self._write_now(fill, rows[-1].seq if rows else None)
        if fold is not None and fold.shift_floor is not None:
            self._trim_shifts(fold.shift_floor)

    def before_access(self, wait: Callable[[], None]) -> None:
        self._wait = wait

    def last(self) -> LogRow | None:
        found = self._read(statements.LAST)
        return self._row(*found[0]) if found else None

    def row(self, seq: Seq) -> LogRow | None:
        found = self._read(statements.LOG_ROW, seq)
        return self._row(*found[0]) if found else None

    def rows(self, seqs: Sequence[Seq]) -> list[LogRow]:
        return [self._row(*row) for row in self._read(statements.LOG_ROWS, list(seqs))] if seqs else []

    def log(self, after: Seq, through: Seq) -> Iterator[LogRow]:
        while after < through:
            rows = self._read(statements.LOG_PAGE, after, through, _PAGE)
            if not rows:
                return
            for row in rows:
                yield self._row(*row)
            after = Seq(rows[-1][0])

    def _row(self, seq: int, body: bytes, chain: bytes, checksum: int) -> LogRow:
        if not is_log_row(seq, body, checksum):
            raise self._corrupt(f"commit {seq} does not match its checksum")
        return LogRow(Seq(seq), body, chain)

    # -- the caches ------------------------------------------------------------------------------------------

    def folded(self) -> Seq:
        return Seq(int(self.meta("folded") or 0))

    def branches(self) -> list[BranchRow]:
        found: list[BranchRow] = []
        for name, parent, fork_seq, at, merges, checksum in self._read(statements.BRANCHES):
            above = None if parent is None else BranchId(parent.decode())
            row = BranchRow(BranchId(name.decode()), above, fork_seq, at, _merges.decode(merges))
            if folds.branch_sum(row) != checksum:
                raise self._corrupt(f"branch {row.name} is not as it was written")
            found.append(row)
        return found

    def _branch_numbers(self) -> dict[BranchId, int]:
        if self._branches is None:
            rows = self._link.read(statements.BRANCHES)
            self._branches = {BranchId(row[0].decode()): number for number, row in enumerate(rows, 1)}
        return self._branches

    def _index_numbers(self) -> dict[tuple[BranchId, str], int]:
        if self._indexes is None:
            rows = self._link.read(statements.INDEXES)
            self._indexes = {(BranchId(row[1].decode()), row[2].decode()): row[0] for row in rows}
        return self._indexes

    def head(self, branch: BranchId, doc: DocKey) -> HeadRow | None:
        found = self._read(statements.HEAD, text(branch), doc_id(doc))
        return self._head(branch, doc, *found[0]) if found else None

    def bodies(self, branch: BranchId, docs: Sequence[DocKey]) -> list[BodyRow]:
        names = {doc_id(doc): doc for doc in docs}
        found: list[BodyRow] = []
        for key, *head, seq, body, checksum in self._read(statements.BODIES, text(branch), list(names)):
            doc = names[key]
            snapshot = None if seq is None else self._snapshot(branch, doc, seq, body, checksum)
            found.append(BodyRow(self._head(branch, doc, *head), snapshot))
        return found

    def never_written(self, docs: Sequence[DocKey]) -> list[DocKey]:
        if not docs:
            return []
        names = {doc_id(doc): doc for doc in docs}
        known = {row[0] for row in self._read(statements.KNOWN, list(names))}
        return [doc for doc in docs if doc_id(doc) not in known]

    def _head(self, branch: BranchId, doc: str, seq: int, live: bool, size: int, since: int, checksum: int) -> HeadRow:  # noqa: FBT001, PLR0917  # columns
        if columns_sum(branch, doc, seq, int(live), size, since) != checksum:
            raise self._corrupt(f"the head of {doc} does not match its checksum")
        return HeadRow(DocKey(doc), Seq(seq), live, size, since)

    def heads(self, branch: BranchId, prefix: str, after: DocKey, limit: int) -> list[HeadRow]:
        start = prefix.encode()
        low = max(start, after.encode() + b"\0") if after >= prefix else start
        rows = pages(partial(self._head_page, branch), low, start + _END, limit)
        return [self._head(branch, key.decode(), *row) for key, *row in rows]

    def _head_page(self, branch: BranchId, low: bytes, high: bytes, limit: int) -> list[tuple[Any, ...]]:
        return self._read(statements.HEADS, text(branch), low, high, limit)

    def revisions(
        self, branch: BranchId, doc: DocKey, after: Seq, through: Seq, newest: Seq | None = None
    ) -> list[Seq]:
        rows = self._read(statements.REVISIONS, text(branch), doc_id(doc), after, through)
        linked = newest if newest is not None and newest <= through else (rows[0][0] if rows else None)
        for seq, before in rows:
            if seq != linked:
                raise self._corrupt(f"revision {linked} of {doc} is missing")
            linked = before
        last = after if newest is not None else max(after, self._horizon)
        if linked is not None and linked > last:
            raise self._corrupt(f"revision {linked} of {doc} is missing")
        return [Seq(row[0]) for row in rows]

    def snapshot(self, branch: BranchId, doc: DocKey, through: Seq) -> SnapshotRow | None:
        found = self._read(statements.SNAPSHOT, text(branch), doc_id(doc), through)
        return self._snapshot(branch, doc, *found[0]) if found else None

    def snapshots(self, branch: BranchId, doc: DocKey) -> list[SnapshotRow]:
        rows = self._read(statements.SNAPSHOTS, text(branch), doc_id(doc))
        return [self._snapshot(branch, doc, *row) for row in rows]

    def _snapshot(self, branch: BranchId, doc: DocKey, seq: int, body: bytes | None, checksum: int) -> SnapshotRow:
        if not is_snapshot(branch, doc, seq, body, checksum):
            raise self._corrupt(f"the snapshot of {doc} at {seq} does not match its checksum")
        return SnapshotRow(doc, Seq(seq), body)

    def observation(self, branch: BranchId, doc: DocKey) -> ObservationRow | None:
        found = self._read(statements.OBSERVATION, text(branch), doc_id(doc))
        rows = _undamaged(branch, [(doc.encode(), *row) for row in found])
        return rows[0] if rows else None

    def observations(self, branch: BranchId, prefix: str = "") -> list[ObservationRow]:
        start = prefix.encode()
        rows = pages(partial(self._observation_page, branch), start, start + _END, 1 << 40)
        return _undamaged(branch, rows)

    def _observation_page(self, branch: BranchId, low: bytes, high: bytes, limit: int) -> list[tuple[Any, ...]]:
        return self._read(statements.OBSERVATIONS, text(branch), low, high, limit)

    def drop_observations(self, gone: Sequence[tuple[BranchId, DocKey]]) -> None:
        rows: list[tuple[object, ...]] = [(text(branch), doc_id(doc)) for branch, doc in gone]
        self._write(lambda group: group.matching(statements.UNOBSERVE, rows))

    def damaged_observations(self, *, drop: bool = False) -> int:
        damaged: list[tuple[object, ...]] = []
        for branch, key, seq, body, full, checksum in self._read(statements.ALL_OBSERVATIONS):
            row = (key if full is None else full, seq, body, checksum)
            if not _undamaged(branch.decode(errors="replace"), [row]):
                damaged.append((branch, key))
        if drop and damaged:
            self._write(lambda group: group.matching(statements.UNOBSERVE, damaged))
        return len(damaged)

    def head_seqs(self, branch: BranchId) -> list[tuple[DocKey, Seq, bool]]:
        rows = self._read(statements.HEAD_SEQS, text(branch))
        return [(DocKey(key.decode()), Seq(seq), live) for key, seq, live in rows]

    def replayed(self, session: SessionId, local_seq: LocalSeq) -> Seq | None:
        for row in self._read(statements.REPLAYED, doc_id(session), local_seq, local_seq):
            first, _, seq = self._replay(session, row)
            return Seq(seq + local_seq - first)
        return None

    def last_local(self, session: SessionId) -> LocalSeq:
        rows = self._read(statements.LAST_LOCAL, doc_id(session))
        return LocalSeq(self._replay(session, rows[0])[1] if rows else 0)

    def _replay(self, session: SessionId, row: Sequence[Any]) -> tuple[int, int, int]:
        first, last, seq, checksum = row
        if folds.replay_sum(ReplayRow(session, first, last, seq)) != checksum:
            raise self._corrupt(f"commits {first} to {last} of session {session} do not match their checksum")
        return first, last, seq

    def drop_sessions(self, through: Seq, live: Collection[SessionId]) -> int:
        kept = {doc_id(session) for session in live}
        old = [row for row in self._read(statements.OLD_SESSIONS, through) if row[0] not in kept]
        rows: list[tuple[object, ...]] = [
            (name, last, seq, folds.replay_sum(ReplayRow(name.decode(), last, last, seq))) for name, last, seq in old
        ]

        def fill(group: FencedGroup) -> None:
            group.matching(statements.DROP_RUNS, [row[:2] for row in rows])
            group.matching(statements.SHORTEN_RUNS, rows)
            folds.add_facts(group, [(SESSIONS_DROPPED, str(through))])

        self._write(fill)
        return len(rows)

    # -- collections -----------------------------------------------------------------------------------------

    def make_collections(self, newest: Seq) -> None:
        features = self.features()
        if COLLECTIONS in features:
            return

        def fill(group: FencedGroup) -> None:
            group.set_column("features", with_feature(features, COLLECTIONS))
            folds.add_facts(group, [(_FLOOR, str(newest))])

        self._write(fill)

    def index_rows(self) -> list[IndexRow]:
        found: list[IndexRow] = []
        for _, branch, name, *numbers, checksum in self._read(statements.INDEXES):
            row = IndexRow(BranchId(branch.decode()), name.decode(), *numbers)
            if folds.index_sum(row) == checksum:
                found.append(row)
        return found

    def entries(self, branch: BranchId, name: str, lo: bytes, hi: bytes, limit: int, *, reverse: bool) -> list[bytes]:
        page = partial(self._entry_page, branch, name, reverse)
        return [row[0] for row in pages(page, lo, hi, limit, reverse=reverse)]

    def _entry_page(  # noqa: PLR0917  # the first three are bound
        self,
        branch: BranchId,
        name: str,
        reverse: bool,  # noqa: FBT001
        low: bytes,
        high: bytes,
        limit: int,  # bound
    ) -> list[tuple[Any, ...]]:
        statement = statements.ENTRIES_BACK if reverse else statements.ENTRIES
        return self._read(statement, text(branch), text(name), low, high, limit)

    def entry_sums(self, branch: BranchId, name: str) -> tuple[int, int]:
        keys = [row[0] for row in self._read(statements.ALL_ENTRIES, text(branch), text(name))]
        return len(keys), key_sum(keys)

    def entry_count(self, branch: BranchId, name: str) -> int:
        count: int = self._read(statements.ENTRY_COUNT, text(branch), text(name))[0][0]
        return count

    def shift_floor(self) -> Seq:
        return Seq(int(self.meta(_FLOOR) or 0))

    def shifts(self, after: Seq, through: Seq) -> list[ShiftRow] | None:
        if after < self.shift_floor():
            return None
        rows = self._read(statements.SHIFTS, after, through)
        if any(folds.shift_sum(seq, body) != checksum for seq, body, checksum in rows):
            return None
        return [ShiftRow(Seq(seq), body) for seq, body, _ in rows]

    def _trim_shifts(self, drop: Seq) -> None:
        """Delete the oldest shifts up to this commit, if there are too many."""
        found = self._link.read(statements.OLD_SHIFT.format(offset=SHIFTS_KEPT + SHIFTS_SLACK))
        if found:
            kept = self._link.read(statements.OLD_SHIFT.format(offset=SHIFTS_KEPT))
            self._write_now(partial(_drop_shifts, min(drop, Seq(kept[0][0]))))

    # -- maintenance -----------------------------------------------------------------------------------------

    def shrink(self) -> None:
        """Nothing to do: the caches are those of PostgreSQL."""

    def meta(self, key: str) -> str | None:
        if key in COLUMNS:
            value: str = self._read(statements.COLUMN.format(name=key))[0][0]
            return value
        found = self._read(statements.FACT, text(key))
        if not found:
            return None
        told: str = found[0][0].decode()
        if sum_of(key, told) != found[0][1]:
            raise self._corrupt(f"the space's {key} does not match its checksum")
        return told

    def set_meta(self, key: str, value: str) -> None:
        if key in COLUMNS:
            self._write(lambda group: group.set_column(key, value))
        else:
            self._write(lambda group: folds.add_facts(group, [(key, value)]))

    def features(self) -> str:
        return self.meta("features") or ""

    def require(self, feature: str) -> None:
        self.set_meta("features", with_feature(self.features(), feature))

    def horizon(self) -> Horizon:
        chain, digest = (bytes.fromhex(self.meta(key) or "") for key in ("horizon_chain", "horizon_digest"))
        return Horizon(Seq(int(self.meta("horizon") or 0)), chain, digest)

    def drop_log(self, horizon: Horizon, gone: Sequence[tuple[BranchId, DocKey]] = ()) -> None:
        facts = [("horizon", str(horizon.seq)), ("horizon_chain", horizon.chain.hex())]
        facts += [("horizon_digest", horizon.digest.hex())] + ([(PURGED, str(horizon.seq))] if gone else [])
        names: list[tuple[object, ...]] = [(text(branch), doc_id(doc)) for branch, doc in gone]
        has_shifts = self.shift_floor() < horizon.seq and COLLECTIONS in self.features()

        def fill(group: FencedGroup) -> None:
            docs = [[row[0] for row in names], [row[1] for row in names]]
            for statement in (statements.PURGE_HEADS, statements.PURGE_OBSERVATIONS):
                group.part(statement, *docs)
            group.part(statements.DROP_LOG, horizon.seq)
            group.part(statements.DROP_REVISIONS, horizon.seq, *docs)
            group.part(statements.DROP_SNAPSHOTS, *docs, horizon.seq)
            if has_shifts:
                group.part(statements.DROP_SHIFTS, horizon.seq)
                facts.append((_FLOOR, str(horizon.seq)))
            folds.add_facts(group, facts)

        self._write(fill)
        self._horizon = horizon.seq

    def integrity(self) -> list[str]:
        """PostgreSQL checks its own pages. These are the rows that no checksum of another method covers."""
        try:
            if not self._copy.is_changing:
                self._copy.doubt()
            self.tables.execute("select 1")
        except CorruptError as error:
            return [error.message]
        return []

    def compact(self) -> None:
        """Nothing to do: PostgreSQL uses free space again, and returns it by its own `vacuum`."""

    def backup(self, path: str, progress: Progress) -> None:
        for done, total in self.copying(path):
            progress(done, total)

    def copying(self, path: str) -> Generator[tuple[int, int], None, None]:
        message = (
            f"cannot back up to {path}: the space is in {self._link.where}; back the database up with pg_dump, or "
            "use `headwater export`"
        )
        raise UsageError(message, path=path)

    def bytes_used(self) -> int:
        size: int = self._read(statements.BYTES_USED)[0][0]
        return size

    def disown(self) -> None:
        self._link.disown()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            try:
                self._link.close()
            finally:
                self._on_close()


def _drop_shifts(cut: Seq, group: FencedGroup) -> None:
    group.part(statements.DROP_SHIFTS, cut)
    folds.add_facts(group, [(_FLOOR, str(cut))])


def _undamaged(branch: str, rows: Sequence[Sequence[Any]]) -> list[ObservationRow]:
    """The undamaged rows. A damaged row counts as missing."""
    found: list[ObservationRow] = []
    for key, seq, body, checksum in rows:
        doc = key.decode(errors="replace")
        if folds.observation_sum(branch, doc, seq, body) == checksum:
            found.append(ObservationRow(DocKey(doc), Seq(seq), body))
    return found
