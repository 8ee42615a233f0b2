"""A space in one SQLite file: one connection, write-ahead log, every transaction on disk before it returns.

Keys are stored once and referred to by number, because the index of revisions repeats them for every commit.

Length: the methods are those of one interface, `store.backend`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Final

import apsw
import msgspec

from headwater.errors import CorruptError, HeadwaterError, PoisonedError, StoreFullError, UnavailableError
from headwater.store.backend import (
    PURGED,
    BodyRow,
    BranchRow,
    Fold,
    HeadRow,
    Horizon,
    IndexRow,
    LogRow,
    ObservationRow,
    Progress,
    ShiftRow,
    SnapshotRow,
)
from headwater.store.backends import sqlite_caches, sqlite_entries, sqlite_file
from headwater.store.backends.checksums import columns_sum, is_log_row, is_snapshot, log_sum, log_values
from headwater.store.backends.sqlite_caches import (
    BRANCH,
    DOC,
    json_list,
    observe,
    observed_rows,
    purge,
    set_meta,
    unobserve,
    unobserve_at,
    write_fold,
)
from headwater.store.backends.sqlite_damage import DamageCheck, lower_bound
from headwater.store.backends.sqlite_tables import SqliteTables
from headwater.store.backends.sqlite_wal import cut_off
from headwater.store.backends.sqlite_wal_room import WalRoom
from headwater.store.features import COLLECTIONS, parse, with_feature
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq, SessionId

INSERT: Final = "insert into log values (?, ?, ?, ?)"
_ONE_STATEMENT_MAX: Final = 64
"""Rows of the log that one statement inserts. Its text is kept for each number of rows."""

_SESSION: Final = "(select id from session where name = ?)"
_CHARACTER_MAX: Final = "\U0010ffff"
_merges: Final = msgspec.msgpack.Decoder(tuple[tuple[BranchId, Seq, Seq], ...])


class SqliteBackend:
    """The backend of a space file."""

    chains_rows: bool = False

    def __init__(
        self, path: str, *, durability: sqlite_file.Durability = "full", vfs: str | None = None, create: bool = True
    ) -> None:
        self._path = path
        self._vfs = vfs
        self._poison: PoisonedError | None = None
        # Returns when no other thread is appending; None if none ever does.
        self._wait: Callable[[], None] | None = None
        self._wal_pages = 0
        # The number of pages in the log at which `_tend_log` has something to do.
        self._wal_due = 0
        self._db = sqlite_file.connect(path, durability=durability, vfs=vfs, create=create)
        # Without a sync for each commit, none of them waits for the size of the log.
        page_size = int(self._db.pragma("page_size"))
        self._wal_room = WalRoom(path, vfs, page_size) if durability == "full" else None
        self._db.set_wal_hook(self._record_wal_pages)
        self._tables = SqliteTables(self._db, self._explained)
        self._damage = DamageCheck(self._read, self._corrupt)
        try:
            self._damage.opened(self._read_once)
            # For the links of revisions.
            self._horizon = int(self.meta("horizon") or 0)
            self._store_durability(durability)
            self._has_collections = COLLECTIONS in parse(self.features())
            if self._has_collections and not sqlite_entries.have_tables(self._read_once):
                self.make_collections(self.folded())
        except BaseException:
            sqlite_file.abandon(self._db, path)
            raise

    # -- every access goes through one of these two --------------------------------------------------------

    def _read(self, query: str, values: Sequence[object] = ()) -> list[tuple[apsw.SQLiteValue, ...]]:
        if self._wait is not None:
            self._wait()
        if self._poison is not None:
            raise self._poison
        try:
            return self._db.execute(query, tuple(values)).fetchall()
        except apsw.Error as error:
            raise self._explained(error) from error
        except UnicodeDecodeError as error:
            raise self._corrupt(f"a text in it is not UTF-8 ({error})") from error

    def _read_once(self, query: str, values: Sequence[object] = ()) -> list[tuple[apsw.SQLiteValue, ...]]:
        """As `_read`, for a query that is not repeated soon: it is not kept prepared."""
        if self._poison is not None:
            raise self._poison
        try:
            return self._db.execute(query, tuple(values), can_cache=False).fetchall()
        except apsw.Error as error:
            raise self._explained(error) from error
        except UnicodeDecodeError as error:
            raise self._corrupt(f"a text in it is not UTF-8 ({error})") from error

    def _write(self, work: Callable[[apsw.Connection], None]) -> None:
        if self._wait is not None:
            self._wait()
        if self._poison is not None:
            raise self._poison
        db = self._db
        try:
            try:
                if not db.in_transaction:
                    db.execute("begin immediate")
                work(db)
                db.execute("commit")
            except BaseException:
                # SQLite has already rolled back for some errors (disk full, I/O): only then is this not needed.
                if db.in_transaction:
                    db.execute("rollback")
                raise
        except apsw.Error as error:
            raise self._explained(error) from error
        if self._wal_pages >= self._wal_due:
            self._tend_log()

    def _explained(self, error: apsw.Error) -> HeadwaterError:
        """SQLite's error in our words. After a failed write the state of the disk is unknown: no further use."""
        explained = sqlite_file.explain(error, self._path)
        if isinstance(explained, StoreFullError) and not self._db.in_transaction:
            try:
                cut_off(self._db, self._path, self._vfs)
            except apsw.Error as failed:
                explained = sqlite_file.explain(failed, self._path)
        if isinstance(explained, PoisonedError):
            self._poison = explained
        return explained

    def _store_durability(self, durability: sqlite_file.Durability) -> None:
        """Write the durability to the main file before the first commit: what a power cut may leave depends on it."""
        if self.meta("durability") != durability:
            self.set_meta("durability", durability)
            self._read("pragma wal_checkpoint(truncate)")

    def _record_wal_pages(self, _db: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._wal_pages and self._wal_room is not None:
            # A checkpoint of another kind, as by a compaction: the file may be empty.
            self._wal_room.restart()
            self._wal_due = 0
        self._wal_pages = pages
        return apsw.SQLITE_OK

    def _tend_log(self) -> None:
        """A commit was written: copy the log to the main file if it is long, and give it room."""
        pages, room = self._wal_pages, self._wal_room
        if pages >= sqlite_file.CHECKPOINT_PAGES:
            self._checkpoint()
            if room is not None:
                room.restart()
        elif room is not None and pages >= room.due_at:
            room.add(pages)
        most = sqlite_file.CHECKPOINT_PAGES
        self._wal_due = most if room is None else min(most, room.due_at)

    def _checkpoint(self) -> None:
        """Move pages from the log to the main file. Commits are durable even if this fails."""
        self._wal_pages = 0
        # Disk full: the log keeps growing, and later commits fail if it cannot. A failing disk is recorded by
        # `_explained`, and the next access raises. This commit has succeeded.
        with suppress(UnavailableError, PoisonedError):
            self._read("pragma wal_checkpoint(passive)")

    # -- tables of other packages --------------------------------------------------------------------------

    @property
    def tables(self) -> SqliteTables:
        if self._wait is not None:
            self._wait()
        if self._poison is not None:
            raise self._poison
        return self._tables

    def begin(self) -> None:
        self.tables.begin()

    def savepoint(self) -> None:
        self._tables.savepoint()

    def end_savepoint(self, *, keep: bool) -> None:
        self._tables.end_savepoint(keep=keep)

    def roll_back(self) -> None:
        if self._wait is not None:
            self._wait()
        self._tables.roll_back()

    # -- the log -------------------------------------------------------------------------------------------

    def append(
        self, rows: Sequence[LogRow], fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]] = ()
    ) -> None:
        if self._wait is not None:
            self._wait()
        if len(rows) == 1 and fold is None and not observed and not self._db.in_transaction:
            # A commit alone, as of a program that waits for each: without statements around it.
            [row] = rows
            self._append_alone(INSERT, (row.seq, row.body, row.chain, log_sum(row.seq, row.body)))
            return

        self._write(partial(_append_all, rows, fold, observed))

    def appending(
        self,
        rows: Sequence[LogRow],
        fold: Fold | None,
        observed: Sequence[tuple[BranchId, ObservationRow]],
        *,
        is_behind: bool,
    ) -> Callable[[], None] | None:
        if not is_behind and self._db.in_transaction:
            return None
        if fold is not None or observed or not rows:
            return partial(self._write, partial(_append_all, rows, fold, observed))
        # One statement, which is a transaction of its own.
        return partial(self._append_alone, *_insert_rows(rows))

    def _append_alone(self, query: str, values: Sequence[object]) -> None:
        if self._poison is not None:
            raise self._poison
        try:
            self._db.execute(query, values)
        except apsw.Error as error:
            raise self._explained(error) from error
        if self._wal_pages >= self._wal_due:
            self._tend_log()

    def before_access(self, wait: Callable[[], None]) -> None:
        self._wait = wait

    def last(self) -> LogRow | None:
        found = self._read_once("select seq, body, chain, sum from log order by seq desc limit 1")
        return self._row(*found[0]) if found else None

    def row(self, seq: Seq) -> LogRow | None:
        found = self._read("select seq, body, chain, sum from log where seq = ?", (seq,))
        return self._row(*found[0]) if found else None

    def rows(self, seqs: Sequence[Seq]) -> list[LogRow]:
        query = "select seq, body, chain, sum from log where seq in (select value from json_each(?))"
        return [self._row(*row) for row in self._read(query, (json_list(seqs),))] if seqs else []

    def log(self, after: Seq, through: Seq) -> Iterator[LogRow]:
        while after < through:
            # In pages, so that a long scan neither keeps a statement open nor the whole log in memory.
            query = "select seq, body, chain, sum from log where seq > ? and seq <= ? order by seq limit 256"
            rows = self._read(query, (after, through))
            if not rows:
                return
            for row in rows:
                yield self._row(*row)
            after = Seq(rows[-1][0])  # type: ignore[arg-type]

    def _row(self, *row: apsw.SQLiteValue) -> LogRow:
        seq, body, chain, checksum = row
        if not (isinstance(seq, int) and isinstance(body, bytes) and isinstance(chain, bytes)):
            raise self._corrupt(f"commit {seq!r} has columns of the wrong type")
        if not is_log_row(seq, body, checksum):
            raise self._corrupt(f"commit {seq} does not match its checksum")
        return LogRow(Seq(seq), body, chain)

    def _corrupt(self, what: str) -> CorruptError:
        message = f"{self._path} is damaged: {what}; run `headwater verify`, then restore a backup"
        return CorruptError(message, path=self._path, found=what)

    # -- the caches ----------------------------------------------------------------------------------------

    def folded(self) -> Seq:
        return Seq(int(self.meta("folded") or 0))

    def branches(self) -> list[BranchRow]:
        rows = self._read_once("select name, parent, fork_seq, at, merges from branch order by id")
        try:
            return [_branch(*row) for row in rows]
        except (msgspec.MsgspecError, TypeError) as error:
            raise self._corrupt(f"the branches cannot be read ({error})") from error

    def head(self, branch: BranchId, doc: DocKey) -> HeadRow | None:
        query = f"select seq, live, size, since, sum from head where branch = {BRANCH} and doc = {DOC}"
        found = self._read(query, (branch, doc))
        if found:
            return self._head(branch, doc, *found[0])
        self._damage.absent(branch, doc)
        return None

    def bodies(self, branch: BranchId, docs: Sequence[DocKey]) -> list[BodyRow]:
        query = (
            "select doc.key, head.seq, live, size, since, head.sum, snapshot.seq, body, snapshot.sum "
            "from json_each(?) wanted "
            "cross join doc on doc.key = wanted.value "
            f"cross join head on head.branch = {BRANCH} and head.doc = doc.id left join snapshot "
            "on snapshot.branch = head.branch and snapshot.doc = head.doc and snapshot.seq = head.seq"
        )
        found: list[BodyRow] = []
        for key, *head, seq, body, checksum in self._read(query, (json_list(docs), branch)):
            doc = str(key)
            snapshot = None if seq is None else self._snapshot(branch, DocKey(doc), seq, body, checksum)
            found.append(BodyRow(self._head(branch, doc, *head), snapshot))
        if len(found) < len(docs):
            there = {row.head.doc for row in found}
            missing = [doc for doc in docs if doc not in there]
            self.never_written(missing)
            self._damage.without_head(branch, missing)
        return found

    def never_written(self, docs: Sequence[DocKey]) -> list[DocKey]:
        found = self._read("select key from doc where key in (select value from json_each(?))", (json_list(docs),))
        known = {str(key) for (key,) in found}
        self._damage.known(docs, known)
        return [doc for doc in docs if doc not in known]

    def _head(self, branch: BranchId, doc: str, *row: apsw.SQLiteValue) -> HeadRow:
        seq, live, size, since, checksum = row
        if columns_sum(branch, doc, seq, live, size, since) != checksum:
            raise self._corrupt(f"the head of {doc} does not match its checksum")
        return HeadRow(doc, seq, bool(live), size, since)  # type: ignore[arg-type]  # as the columns are

    def heads(self, branch: BranchId, prefix: str, after: DocKey, limit: int) -> list[HeadRow]:
        end = _end_of(prefix)
        # One lower bound, and the keys first: otherwise SQLite would read all heads of the branch, and sort them.
        low, bound = lower_bound(after, prefix)
        query = (
            "select key, seq, live, size, since, head.sum from doc cross join head on head.doc = doc.id "
            f"where branch = {BRANCH} and {low} {'and key < ?' if end else ''} order by key limit ?"
        )
        bounds = (bound, end) if end else (bound,)
        self._damage.counted()
        rows = self._read(query, (branch, *bounds, limit))
        found = [self._head(branch, str(key), *row) for key, *row in rows]
        stop = ("<=", found[-1].doc) if len(found) == limit else ("<", end) if end else None
        self._damage.listed(branch, [row.doc for row in found], (after, prefix), stop)
        return found

    def revisions(
        self, branch: BranchId, doc: DocKey, after: Seq, through: Seq, newest: Seq | None = None
    ) -> list[Seq]:
        query = (
            f"select seq, before from revision where branch = {BRANCH} and doc = {DOC} "
            "and seq > ? and seq <= ? order by seq desc"
        )
        rows = self._read(query, (branch, doc, after, through))
        ends = range(max(after, self._horizon) + 1) if newest is None else range(after, after + 1)
        if newest is None or newest > through:
            newest = self._damage.newest(branch, doc, through)
        self._damage.revisions(doc, rows, newest, ends)
        return [row[0] for row in rows]  # type: ignore[misc]  # as the column is

    def snapshot(self, branch: BranchId, doc: DocKey, through: Seq) -> SnapshotRow | None:
        query = (
            f"select seq, body, sum from snapshot where branch = {BRANCH} and doc = {DOC} "
            "and seq <= ? order by seq desc limit 1"
        )
        found = self._read(query, (branch, doc, through))
        return self._snapshot(branch, doc, *found[0]) if found else None

    def snapshots(self, branch: BranchId, doc: DocKey) -> list[SnapshotRow]:
        query = f"select seq, body, sum from snapshot where branch = {BRANCH} and doc = {DOC} order by seq"
        return [self._snapshot(branch, doc, *row) for row in self._read(query, (branch, doc))]

    def _snapshot(self, branch: BranchId, doc: DocKey, *row: apsw.SQLiteValue) -> SnapshotRow:
        seq, body, checksum = row
        if not (isinstance(seq, int) and isinstance(body, bytes | None)):
            raise self._corrupt(f"a snapshot of {doc} has columns of the wrong type")
        if not is_snapshot(branch, doc, seq, body, checksum):
            raise self._corrupt(f"the snapshot of {doc} at {seq} does not match its checksum")
        return SnapshotRow(doc, Seq(seq), body)

    def observation(self, branch: BranchId, doc: DocKey) -> ObservationRow | None:
        query = f"select seq, body, sum from observation where branch = {BRANCH} and doc = {DOC}"
        found = self._read(query, (branch, doc))
        return next(iter(observed_rows(branch, [(doc, *row) for row in found])), None)

    def observations(self, branch: BranchId, prefix: str = "") -> list[ObservationRow]:
        end = _end_of(prefix)
        query = (
            "select key, seq, body, observation.sum from observation join doc on observation.doc = doc.id "
            f"where branch = {BRANCH} and key >= ? {'and key < ?' if end else ''}"
        )
        bounds = (prefix, end) if end else (prefix,)
        return observed_rows(branch, self._read(query, (branch, *bounds)))

    def drop_observations(self, gone: Sequence[tuple[BranchId, DocKey]]) -> None:
        self._write(lambda db: unobserve(db, gone))

    def damaged_observations(self, *, drop: bool = False) -> int:
        found = self._read(
            "select branch.name, doc.key, seq, body, observation.sum, observation.branch, observation.doc "
            "from observation left join branch on observation.branch = branch.id "
            "left join doc on observation.doc = doc.id"
        )
        damaged = [row[5:] for row in found if not observed_rows(str(row[0]), [row[1:5]])]
        if drop and damaged:
            self._write(lambda db: unobserve_at(db, damaged))
        return len(damaged)

    def head_seqs(self, branch: BranchId) -> list[tuple[DocKey, Seq, bool]]:
        query = f"select key, seq, live from head join doc on head.doc = doc.id where branch = {BRANCH}"
        rows = self._read(query, (branch,))
        if self._read(f"select count(*) from head where branch = {BRANCH}", (branch,)) != [(len(rows),)]:
            raise self._corrupt(f"heads of branch {branch} are of documents without a key")
        # SQLite has no truth values, and the compiled form of the core refuses a number in their place.
        return [(key, seq, live == 1) for key, seq, live in rows]  # type: ignore[misc]  # as the columns are

    def replayed(self, session: SessionId, local_seq: LocalSeq) -> Seq | None:
        query = f"select first, last, seq, sum from replay where session = {_SESSION} and first <= ? and last >= ?"
        for row in self._read(query, (session, local_seq, local_seq)):
            self._damage.run(session, row)
            return Seq(row[2] + local_seq - row[0])  # type: ignore[operator, arg-type]  # as the columns are
        return None

    def last_local(self, session: SessionId) -> LocalSeq:
        return LocalSeq(self._damage.session(session))

    def drop_sessions(self, through: Seq, live: Collection[SessionId]) -> int:
        def work(db: apsw.Connection) -> None:
            dropped.append(sqlite_caches.drop_sessions(db, through, live))

        dropped: list[int] = []
        self._write(work)
        return dropped[0]

    # -- collections ---------------------------------------------------------------------------------------

    def make_collections(self, newest: Seq) -> None:
        def work(db: apsw.Connection) -> None:
            sqlite_entries.make_tables(db, newest)
            set_meta(db, "features", with_feature(self.features(), COLLECTIONS))

        self._write(work)
        self._has_collections = True

    def index_rows(self) -> list[IndexRow]:
        return sqlite_entries.read_rows(self._read) if self._has_collections else []

    def entries(self, branch: BranchId, name: str, lo: bytes, hi: bytes, limit: int, *, reverse: bool) -> list[bytes]:
        return sqlite_entries.read_entries(self._read, branch, name, (lo, hi), limit, reverse=reverse)

    def entry_sums(self, branch: BranchId, name: str) -> tuple[int, int]:
        return sqlite_entries.read_sums(self._read, branch, name)

    def entry_count(self, branch: BranchId, name: str) -> int:
        return sqlite_entries.read_count(self._read, branch, name)

    def shift_floor(self) -> Seq:
        return Seq(int(self.meta(sqlite_entries.FLOOR) or 0))

    def shifts(self, after: Seq, through: Seq) -> list[ShiftRow] | None:
        if after < self.shift_floor():
            return None
        return sqlite_entries.read_shifts(self._read, after, through, Seq(int(self.meta(sqlite_entries.LAST) or 0)))

    # -- maintenance ---------------------------------------------------------------------------------------

    def shrink(self) -> None:
        """Release the pages and the parsed schema, which takes 60 KiB. SQLite reads both again on demand."""
        if self._db.in_transaction:
            return
        self._read_once("pragma writable_schema = reset")
        self._db.release_memory()

    def meta(self, key: str) -> str | None:
        found = self._read("select value, sum from meta where key = ?", (key,))
        return self._damage.fact(key, *found[0]) if found else None

    def set_meta(self, key: str, value: str) -> None:
        self._write(lambda db: set_meta(db, key, value))

    def features(self) -> str:
        return self.meta("features") or ""

    def require(self, feature: str) -> None:
        self.set_meta("features", with_feature(self.features(), feature))

    def horizon(self) -> Horizon:
        chain, digest = (bytes.fromhex(self.meta(key) or "") for key in ("horizon_chain", "horizon_digest"))
        return Horizon(Seq(int(self.meta("horizon") or 0)), chain, digest)

    def drop_log(self, horizon: Horizon, gone: Sequence[tuple[BranchId, DocKey]] = ()) -> None:
        def work(db: apsw.Connection) -> None:
            if gone:
                purge(db, gone)
                set_meta(db, PURGED, str(horizon.seq))
            db.execute("delete from log where seq <= ?", (horizon.seq,))
            db.execute("delete from revision where seq <= ?", (horizon.seq,))
            db.execute(
                "delete from snapshot as old where seq < (select max(seq) from snapshot as new "
                "where new.branch = old.branch and new.doc = old.doc and new.seq <= ?)",
                (horizon.seq,),
            )
            if self._has_collections:
                sqlite_entries.drop_shifts(db, horizon.seq)
            set_meta(db, "horizon", str(horizon.seq))
            set_meta(db, "horizon_chain", horizon.chain.hex())
            set_meta(db, "horizon_digest", horizon.digest.hex())

        self._write(work)
        self._horizon = horizon.seq

    def integrity(self) -> list[str]:
        found = [str(row[0]) for row in self._read("pragma integrity_check") if row[0] != "ok"]
        rows = self._read('select "table", parent, count(*) from pragma_foreign_key_check group by 1, 2')
        return found + [
            f"{count} rows of {table} name rows of {parent} that are missing" for table, parent, count in rows
        ]

    def compact(self) -> None:
        self._read("vacuum")
        self._read("pragma wal_checkpoint(truncate)")

    def backup(self, path: str, progress: Progress) -> None:
        for done, total in self.copying(path):
            progress(done, total)

    def copying(self, path: str) -> Generator[tuple[int, int], None, None]:
        if self._poison is not None:
            raise self._poison
        try:
            yield from sqlite_file.copying(self._db, path)
        except apsw.Error as error:
            raise sqlite_file.explain(error, path) from error

    def bytes_used(self) -> int:
        [[pages]], [[size]] = self._read("pragma page_count"), self._read("pragma page_size")
        return int(pages) * int(size)  # type: ignore[arg-type]

    def disown(self) -> None:
        # A leaked reference: otherwise the end of this process would close the connection and the parent's log.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._db))

    def close(self) -> None:
        # Closing moves the log into the main file. If the disk fails, the log stays and has everything.
        with suppress(apsw.FullError, apsw.IOError):
            self._db.close()


def _append_all(
    rows: Sequence[LogRow],
    fold: Fold | None,
    observed: Sequence[tuple[BranchId, ObservationRow]],
    db: apsw.Connection,
) -> None:
    if len(rows) > _ONE_STATEMENT_MAX:
        db.executemany(INSERT, log_values(rows))
    elif rows:
        db.execute(*_insert_rows(rows))
    if fold is not None:
        write_fold(db, fold)
        if fold.entries or fold.shifts or fold.shift_floor is not None or fold.is_new_feed:
            sqlite_entries.write_collections(db, fold)
    if observed:
        observe(db, observed)


def _insert_rows(rows: Sequence[LogRow]) -> tuple[str, list[object]]:
    """One statement: a thread gives up the interpreter once, for all of them."""
    return INSERT + ", (?, ?, ?, ?)" * (len(rows) - 1), list(chain.from_iterable(log_values(rows)))


def _end_of(prefix: str) -> str:
    """The first text after all texts with the prefix; empty if there is none."""
    start = prefix.rstrip(_CHARACTER_MAX)
    if not start:
        return ""
    # Surrogates are no characters: after the last below them comes the first above.
    following = chr(ord(start[-1]) + 1)
    return start[:-1] + ("\ue000" if following == "\ud800" else following)


def _branch(name: Any, parent: Any, fork_seq: Any, at: Any, merges: Any) -> BranchRow:  # noqa: ANN401  # from SQLite
    return BranchRow(name, parent, fork_seq, at, _merges.decode(merges))
