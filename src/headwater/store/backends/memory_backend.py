"""A backend in memory, for one process; also the simplest description of what a backend does."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from hashlib import sha256

import apsw

from headwater.errors import HeadwaterError, InvariantError, UsageError
from headwater.store.backend import (
    GENESIS,
    PURGED,
    SESSIONS_DROPPED,
    BodyRow,
    BranchRow,
    EntryFold,
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
from headwater.store.backends.sqlite_entries import key_sum
from headwater.store.backends.sqlite_tables import SqliteTables, keep_plans
from headwater.store.backends.workflow_tables import WORKFLOW_TABLES
from headwater.store.features import COLLECTIONS, with_feature
from headwater.store.store_limits import SHIFTS_KEPT, SHIFTS_SLACK
from headwater.values.ids import NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.space_ids import RANDOM_BYTES, space_id_from


class MemoryBackend:
    """Rows in dicts and lists.

    Only a check, an export and a restart of the engine need the chain of the log: it is computed for them.
    """

    chains_rows: bool = True

    def __init__(self) -> None:
        self._log: dict[Seq, LogRow] = {}
        self._horizon = Horizon(NEVER, b"")
        # The newest row that has a chain, and its chain.
        self._chained, self._chain = NEVER, GENESIS
        self._folded = NEVER
        self._branches: dict[BranchId, BranchRow] = {}
        self._heads: dict[BranchId, dict[DocKey, HeadRow]] = {}
        self._keys: dict[BranchId, list[DocKey]] = {}
        self._revisions: dict[BranchId, dict[DocKey, list[Seq]]] = {}
        self._snapshots: dict[tuple[BranchId, DocKey], list[SnapshotRow]] = {}
        self._replays: dict[SessionId, list[ReplayRow]] = {}
        self._observations: dict[BranchId, dict[DocKey, ObservationRow]] = {}
        self._indexes: dict[tuple[BranchId, str], IndexRow] = {}
        # Keys of indexes, sorted.
        self._entries: dict[tuple[BranchId, str], list[bytes]] = {}
        self._shifts: list[ShiftRow] = []
        self._shift_floor = NEVER
        made = space_id_from(apsw.randomness(RANDOM_BYTES))
        self._meta = {"space_id": made, "lineage": apsw.randomness(8).hex(), "features": ""}
        # Made on demand: most spaces in memory have no workflows.
        self._tables: SqliteTables | None = None

    @property
    def tables(self) -> SqliteTables:
        if self._tables is None:
            db = apsw.Connection(":memory:")
            keep_plans(db)
            db.execute(f"pragma foreign_keys = on; {WORKFLOW_TABLES}")
            self._tables = SqliteTables(db, _explained)
        return self._tables

    def begin(self) -> None:
        self.tables.begin()

    def savepoint(self) -> None:
        self.tables.savepoint()

    def end_savepoint(self, *, keep: bool) -> None:
        self.tables.end_savepoint(keep=keep)

    def roll_back(self) -> None:
        if self._tables is not None:
            self._tables.roll_back()

    def append(
        self, rows: Sequence[LogRow], fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]] = ()
    ) -> None:
        for row in rows:
            self._log[row.seq] = row
        if fold is not None:
            self._fold(fold)
        self._observe(observed)
        if self._tables is not None:
            self._tables.end()

    def appending(
        self,
        rows: Sequence[LogRow],
        fold: Fold | None,
        observed: Sequence[tuple[BranchId, ObservationRow]],
        *,
        is_behind: bool,
    ) -> None:
        """Nothing to wait for."""

    def before_access(self, wait: Callable[[], None]) -> None:
        """Nothing to do: no other thread appends."""

    def _observe(self, observed: Sequence[tuple[BranchId, ObservationRow]], *, folded: bool = False) -> None:
        for branch, row in observed:
            known = self._observations.setdefault(branch, {})
            # A row of the same sequence number was written after that commit.
            if row.doc not in known or known[row.doc].seq + folded <= row.seq:
                known[row.doc] = row

    def _fold(self, fold: Fold) -> None:
        self._folded = fold.through
        for branch_row in fold.branches:
            self._branches[branch_row.name] = branch_row
        self._fold_documents(fold)
        for branch, snapshot in fold.snapshots:
            self._snapshots.setdefault((branch, snapshot.doc), []).append(snapshot)
        for row in fold.replays:
            self._replays.setdefault(row.session, []).append(row)
        for branch, doc, seq in fold.unobserved:
            known = self.observation(branch, doc)
            if known is not None and known.seq < seq:
                self.drop_observations([(branch, doc)])
        self._observe(fold.observations, folded=True)
        self._fold_collections(fold)

    def _fold_documents(self, fold: Fold) -> None:
        for branch, doc, seqs in fold.revisions:
            by_doc = self._revisions.get(branch)
            if by_doc is None:
                by_doc = self._revisions[branch] = {}
            earlier = by_doc.get(doc)
            if earlier is None:
                by_doc[doc] = seqs
            else:
                earlier += seqs
        for branch, head in fold.heads:
            heads = self._heads.get(branch)
            if heads is None:
                heads = self._heads[branch] = {}
            doc = head.doc
            if doc not in heads:
                insort(self._keys.setdefault(branch, []), doc)
            heads[doc] = head

    def _fold_collections(self, fold: Fold) -> None:
        for entries in fold.entries:
            self._fold_entries(entries)
        if fold.is_new_feed:
            self._shifts = []
        self._shifts += fold.shifts
        if fold.shift_floor is not None and len(self._shifts) > SHIFTS_KEPT + SHIFTS_SLACK:
            self._drop_shifts(min(fold.shift_floor, self._shifts[-SHIFTS_KEPT - 1].seq))

    def _drop_shifts(self, cut: Seq) -> None:
        self._shifts = [row for row in self._shifts if row.seq > cut]
        self._shift_floor = max(self._shift_floor, cut)

    def _fold_entries(self, fold: EntryFold) -> None:
        key = (fold.row.branch, fold.row.name)
        self._indexes[key] = fold.row
        known = set() if fold.is_new else set(self._entries.get(key, ()))
        self._entries[key] = sorted((known - set(fold.removed)) | set(fold.added))

    def folded(self) -> Seq:
        return self._folded

    def horizon(self) -> Horizon:
        return self._horizon

    def _chain_rows(self) -> None:
        """Compute the chain of the rows that were appended since."""
        while (row := self._log.get(Seq(self._chained + 1))) is not None:
            chain = row.chain or sha256(self._chain + row.body).digest()
            self._log[row.seq] = LogRow(row.seq, row.body, chain)
            self._chained, self._chain = row.seq, chain

    def last(self) -> LogRow | None:
        self._chain_rows()
        return self._log[max(self._log)] if self._log else None

    def log(self, after: Seq, through: Seq) -> Iterator[LogRow]:
        self._chain_rows()
        return iter([row for seq, row in self._log.items() if after < seq <= through])

    def row(self, seq: Seq) -> LogRow | None:
        self._chain_rows()
        return self._log.get(seq)

    def rows(self, seqs: Sequence[Seq]) -> list[LogRow]:
        self._chain_rows()
        return [self._log[seq] for seq in seqs if seq in self._log]

    def branches(self) -> list[BranchRow]:
        return list(self._branches.values())

    def head(self, branch: BranchId, doc: DocKey) -> HeadRow | None:
        return self._heads.get(branch, {}).get(doc)

    def bodies(self, branch: BranchId, docs: Sequence[DocKey]) -> list[BodyRow]:
        heads = self._heads.get(branch, {})
        found: list[BodyRow] = []
        for head in [heads[doc] for doc in docs if doc in heads]:
            snapshot = self.snapshot(branch, head.doc, head.seq)
            found.append(BodyRow(head, snapshot if snapshot is not None and snapshot.seq == head.seq else None))
        return found

    def never_written(self, docs: Sequence[DocKey]) -> list[DocKey]:
        return [doc for doc in docs if not any(doc in heads for heads in self._heads.values())]

    def heads(self, branch: BranchId, prefix: str, after: DocKey, limit: int) -> list[HeadRow]:
        keys = self._keys.get(branch, [])
        start = bisect_right(keys, after) if after >= prefix else bisect_right(keys, prefix) - (prefix in keys)
        found: list[HeadRow] = []
        for key in keys[start:]:
            if len(found) == limit or not key.startswith(prefix):
                break
            found.append(self._heads[branch][key])
        return found

    def revisions(
        self, branch: BranchId, doc: DocKey, after: Seq, through: Seq, newest: Seq | None = None
    ) -> list[Seq]:
        del newest
        seqs = self._revisions.get(branch, {}).get(doc, [])
        return [seq for seq in reversed(seqs) if after < seq <= through]

    def snapshot(self, branch: BranchId, doc: DocKey, through: Seq) -> SnapshotRow | None:
        rows = self._snapshots.get((branch, doc), [])
        return next((row for row in reversed(rows) if row.seq <= through), None)

    def snapshots(self, branch: BranchId, doc: DocKey) -> list[SnapshotRow]:
        return list(self._snapshots.get((branch, doc), []))

    def observation(self, branch: BranchId, doc: DocKey) -> ObservationRow | None:
        return self._observations.get(branch, {}).get(doc)

    def observations(self, branch: BranchId, prefix: str = "") -> list[ObservationRow]:
        return [row for doc, row in self._observations.get(branch, {}).items() if doc.startswith(prefix)]

    def drop_observations(self, gone: Sequence[tuple[BranchId, DocKey]]) -> None:
        for branch, doc in gone:
            self._observations.get(branch, {}).pop(doc, None)

    def damaged_observations(self, *, drop: bool = False) -> int:
        return 0

    def head_seqs(self, branch: BranchId) -> list[tuple[DocKey, Seq, bool]]:
        return [(head.doc, head.seq, head.live) for head in self._heads.get(branch, {}).values()]

    def replayed(self, session: SessionId, local_seq: LocalSeq) -> Seq | None:
        rows = self._replays.get(session, [])
        return next((Seq(r.seq + local_seq - r.first) for r in rows if r.first <= local_seq <= r.last), None)

    def last_local(self, session: SessionId) -> LocalSeq:
        return max((row.last for row in self._replays.get(session, [])), default=LocalSeq(0))

    def drop_sessions(self, through: Seq, live: Collection[SessionId]) -> int:
        count = 0
        for session, rows in self._replays.items():
            newest = max(rows, key=lambda row: row.last)
            seq = Seq(newest.seq + newest.last - newest.first)
            if seq <= through and session not in live and (len(rows) > 1 or newest.first < newest.last):
                self._replays[session] = [ReplayRow(session, newest.last, newest.last, seq)]
                count += 1
        self._meta[SESSIONS_DROPPED] = str(through)
        return count

    def shrink(self) -> None:
        """Nothing to do: everything is in memory."""

    def meta(self, key: str) -> str | None:
        return self._meta.get(key)

    def set_meta(self, key: str, value: str) -> None:
        self._meta[key] = value

    def features(self) -> str:
        return self._meta["features"]

    def require(self, feature: str) -> None:
        self._meta["features"] = with_feature(self.features(), feature)

    def make_collections(self, newest: Seq) -> None:
        if COLLECTIONS not in self.features():
            self._shift_floor = newest
            self.require(COLLECTIONS)

    def index_rows(self) -> list[IndexRow]:
        return list(self._indexes.values())

    def entries(self, branch: BranchId, name: str, lo: bytes, hi: bytes, limit: int, *, reverse: bool) -> list[bytes]:
        keys = self._entries.get((branch, name), [])
        start, end = bisect_left(keys, lo), bisect_left(keys, hi)
        if reverse:
            return keys[max(start, end - limit) : end][::-1]
        return keys[start : min(end, start + limit)]

    def entry_sums(self, branch: BranchId, name: str) -> tuple[int, int]:
        keys = self._entries.get((branch, name), [])
        return len(keys), key_sum(keys)

    def entry_count(self, branch: BranchId, name: str) -> int:
        return len(self._entries.get((branch, name), []))

    def shift_floor(self) -> Seq:
        return self._shift_floor

    def shifts(self, after: Seq, through: Seq) -> list[ShiftRow] | None:
        if after < self._shift_floor:
            return None
        start = bisect_right(self._shifts, after, key=_seq_of)
        return self._shifts[start : bisect_right(self._shifts, through, key=_seq_of)]

    def drop_log(self, horizon: Horizon, gone: Sequence[tuple[BranchId, DocKey]] = ()) -> None:
        for branch, doc in gone:
            if self._heads.get(branch, {}).pop(doc, None) is not None:
                self._keys[branch].remove(doc)
            self._revisions.get(branch, {}).pop(doc, None)
            self._snapshots.pop((branch, doc), None)
            self._observations.get(branch, {}).pop(doc, None)
        if gone:
            self._meta[PURGED] = str(horizon.seq)
        self._drop_shifts(horizon.seq)
        self._horizon = horizon
        self._log = {seq: row for seq, row in self._log.items() if seq > horizon.seq}
        for key, rows in self._snapshots.items():
            below = [row for row in rows if row.seq <= horizon.seq]
            self._snapshots[key] = below[-1:] + [row for row in rows if row.seq > horizon.seq]
        for by_doc in self._revisions.values():
            for doc, seqs in by_doc.items():
                by_doc[doc] = [seq for seq in seqs if seq > horizon.seq]

    def integrity(self) -> list[str]:
        return []

    def compact(self) -> None:
        """Nothing to do."""

    def backup(self, path: str, progress: Progress) -> None:
        for done, total in self.copying(path):
            progress(done, total)

    def copying(self, path: str) -> Generator[tuple[int, int], None, None]:
        message = f"cannot back up to {path}: a space in memory has no file; export it instead"
        raise UsageError(message, path=path)

    def bytes_used(self) -> int:
        return sum(len(row.body) for row in self._log.values())

    def disown(self) -> None:
        """Nothing to do: no resource is shared with the parent."""

    def close(self) -> None:
        """Nothing to release."""


def _seq_of(row: ShiftRow) -> Seq:
    return row.seq


def _explained(error: apsw.Error) -> HeadwaterError:
    return InvariantError(f"SQLite refused what we asked of it in memory: {error}", found=str(error))
