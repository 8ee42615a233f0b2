"""The interface of a database: rows in, rows out. A backend contains no rule of the store.

The log is the truth. Everything in a `Fold` is a cache of it: which commits touched a document, its head, snapshots of
whole documents, the accepted commits of a session. Until a horizon is set, the caches can be dropped and rebuilt; below
a horizon the log was dropped on purpose and snapshots replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from headwater.store.commit import Tables
from headwater.values.ids import BranchId, DocKey, LocalSeq, Millis, Seq, SessionId

SESSIONS_DROPPED: Final = "sessions_dropped"
"""The property with the sequence number up to which sessions were forgotten."""

PURGED: Final = "purged"
"""The property with the horizon at which documents were last deleted with their heads."""

GENESIS: Final = b"\0" * 32
"""The hash that the first commit of a space is chained to."""


class LogRow(msgspec.Struct, frozen=True, gc=False):
    """One commit. `chain` is the hash of the previous chain and the body: a changed or missing row is detected."""

    seq: Seq
    body: bytes
    chain: bytes


class HeadRow(msgspec.Struct, frozen=True, gc=False):
    """The newest state of a document on a branch, as of the last fold."""

    doc: DocKey
    seq: Seq
    live: bool
    size: int
    """Encoded size when last measured; 0: not measured since the last whole write."""
    since: int
    """Log bytes that have to be read to rebuild the document."""


class SnapshotRow(msgspec.Struct, frozen=True, gc=False):
    """A whole document as of one commit. No body: the commit deleted it."""

    doc: DocKey
    seq: Seq
    body: bytes | None


class BodyRow(msgspec.Struct, frozen=True, gc=False):
    """The newest state of a document with its body, if a snapshot has it."""

    head: HeadRow
    snapshot: SnapshotRow | None


class BranchRow(msgspec.Struct, frozen=True, gc=False):
    """A branch: its parent's documents as of `fork_seq`, and its own since."""

    name: BranchId
    parent: BranchId | None
    fork_seq: Seq
    at: Millis
    merges: tuple[tuple[BranchId, Seq, Seq], ...] = ()
    """The merges into it: (source, the source's newest commit then, the sequence number of the merge)."""


class ObservationRow(msgspec.Struct, frozen=True, gc=False):
    """The reads of the last run of a computation, by the document of its result."""

    doc: DocKey
    seq: Seq
    """The reads were current up to and including this commit."""
    body: bytes


class ReplayRow(msgspec.Struct, frozen=True, gc=False):
    """Consecutive accepted commits of a session: local numbers `first` to `last` are `seq` and following in the log."""

    session: SessionId
    first: LocalSeq
    last: LocalSeq
    seq: Seq


class IndexRow(msgspec.Struct, frozen=True, gc=False):
    """An index of a collection on a branch, as of its last fold."""

    branch: BranchId
    name: str
    since: Seq
    """Its keys are known from this commit on."""
    through: Seq
    """The newest commit whose keys are folded."""
    count: int
    digest: int
    """The sum of the checksums of its keys: the order in which they came does not matter."""


class EntryFold(msgspec.Struct, frozen=True, gc=False):
    """What a part of the log changes in the keys of one index. The row is that of the index afterwards."""

    row: IndexRow
    removed: list[bytes]
    added: list[bytes]
    is_new: bool = False
    """Replace all keys that there may be."""


class ShiftRow(msgspec.Struct, frozen=True, gc=False):
    """What a commit did to the documents of collections, encoded."""

    seq: Seq
    body: bytes


@dataclass(slots=True)
class Fold:
    """The rows that a part of the log adds to the caches, up to and including `through`."""

    through: Seq
    branches: list[BranchRow] = field(default_factory=list)
    revisions: list[tuple[BranchId, DocKey, list[Seq]]] = field(default_factory=list)
    """For each document, once: the commits that touched it, oldest first."""
    heads: list[tuple[BranchId, HeadRow]] = field(default_factory=list)
    snapshots: list[tuple[BranchId, SnapshotRow]] = field(default_factory=list)
    replays: list[ReplayRow] = field(default_factory=list)
    observations: list[tuple[BranchId, ObservationRow]] = field(default_factory=list)
    unobserved: list[tuple[BranchId, DocKey, Seq]] = field(default_factory=list)
    """Observations to delete if they are older than this commit."""
    entries: list[EntryFold] = field(default_factory=list)
    """Of indexes of collections. Each has a `through` of its own."""
    shifts: list[ShiftRow] = field(default_factory=list)
    shift_floor: Seq | None = None
    """Shifts up to this commit may be deleted; None: nothing is."""
    is_new_feed: bool = False
    """The shifts replace all that there are."""


@dataclass(slots=True)
class Horizon:
    """The start of the log: everything up to `seq` was dropped; the next row is chained to `chain`.

    `digest` covers the snapshots that replace the dropped log.
    """

    seq: Seq
    chain: bytes
    digest: bytes = b""


Progress = Callable[[int, int], None]
"""Called with the work done and the total."""


class Backend(Protocol):
    """A database that holds one space. Every writing method is one transaction, durable when it returns.

    A reading method that does not find a row which was written raises CorruptError: only rows that were never written,
    or were dropped on purpose, are not found.

    Other packages use `tables` for tables of their own: to read, at any time; to write, after `begin`. Then the next
    `append` is part of the same transaction and ends it.
    """

    chains_rows: bool
    """Whether it computes the chain itself, when rows are read: then appended rows have none."""

    @property
    def tables(self) -> Tables:
        """The tables of other packages."""

    def begin(self) -> None:
        """Begin a transaction that ends with the next `append`, or with `roll_back`."""

    def savepoint(self) -> None:
        """Set a savepoint in the transaction."""

    def end_savepoint(self, *, keep: bool) -> None:
        """Release the savepoint, with the writes since (`keep`) or without them."""

    def roll_back(self) -> None:
        """Roll back the transaction, if one was begun."""

    def append(
        self, rows: Sequence[LogRow], fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]] = ()
    ) -> None:
        """Append to the log, and fold if asked. Atomic: if this raises, nothing was written.

        Observations replace older ones. At the same sequence number, an observed one is newer than one from the log.
        """

    def appending(
        self,
        rows: Sequence[LogRow],
        fold: Fold | None,
        observed: Sequence[tuple[BranchId, ObservationRow]],
        *,
        is_behind: bool,
    ) -> Callable[[], None] | None:
        """The same append as a function for another thread. While it runs, only this method may be called.

        None if there is nothing to wait for, or a transaction was begun: then the caller has to append them.
        `is_behind`: such a function has not ended, so no transaction was begun.
        """

    def before_access(self, wait: Callable[[], None]) -> None:
        """Call this before every other access from now on: it returns when no other thread is appending."""

    def folded(self) -> Seq:
        """The newest commit that is in the caches."""

    def horizon(self) -> Horizon:
        """The start of the log."""

    def last(self) -> LogRow | None:
        """The newest row of the log."""

    def log(self, after: Seq, through: Seq) -> Iterator[LogRow]:
        """Rows in order, with `after < seq <= through`."""

    def row(self, seq: Seq) -> LogRow | None:
        """One row."""

    def rows(self, seqs: Sequence[Seq]) -> list[LogRow]:
        """Those of these rows that are there, by one lookup for all."""

    def branches(self) -> list[BranchRow]:
        """All branches, in the order of their creation."""

    def head(self, branch: BranchId, doc: DocKey) -> HeadRow | None:
        """The newest folded state of a document on this branch, without its ancestors."""

    def bodies(self, branch: BranchId, docs: Sequence[DocKey]) -> list[BodyRow]:
        """The heads of these documents on this branch itself, with their snapshots, by one lookup for all.

        A document that is missing here may be damaged: `head` tells.
        """

    def never_written(self, docs: Sequence[DocKey]) -> list[DocKey]:
        """Those of the documents that are not in the caches, on any branch."""

    def heads(self, branch: BranchId, prefix: str, after: DocKey, limit: int) -> list[HeadRow]:
        """Folded heads in key order, keys above `after` that start with `prefix`."""

    def revisions(
        self, branch: BranchId, doc: DocKey, after: Seq, through: Seq, newest: Seq | None = None
    ) -> list[Seq]:
        """Commits that touched a document on this branch itself, newest first, with `after < seq <= through`.

        With `newest`, the commit of its head, they must be complete: `after` is the snapshot of the document, or it has
        none.
        """

    def snapshot(self, branch: BranchId, doc: DocKey, through: Seq) -> SnapshotRow | None:
        """The newest snapshot at or before a commit."""

    def snapshots(self, branch: BranchId, doc: DocKey) -> list[SnapshotRow]:
        """All snapshots of a document, oldest first."""

    def observation(self, branch: BranchId, doc: DocKey) -> ObservationRow | None:
        """One row of this branch itself; None if it is missing or damaged."""

    def observations(self, branch: BranchId, prefix: str = "") -> list[ObservationRow]:
        """All undamaged rows of this branch itself, of documents whose keys have the prefix."""

    def drop_observations(self, gone: Sequence[tuple[BranchId, DocKey]]) -> None:
        """Delete these rows."""

    def damaged_observations(self, *, drop: bool = False) -> int:
        """The number of damaged rows of all branches. Damaged rows are never returned."""

    def head_seqs(self, branch: BranchId) -> list[tuple[DocKey, Seq, bool]]:
        """For every folded document of this branch itself: its newest commit, and whether it exists."""

    def replayed(self, session: SessionId, local_seq: LocalSeq) -> Seq | None:
        """The sequence number of an accepted commit of a session."""

    def last_local(self, session: SessionId) -> LocalSeq:
        """The newest accepted commit of a session; 0 if there is none."""

    def drop_sessions(self, through: Seq, live: Collection[SessionId]) -> int:
        """Forget all commits but the newest of sessions whose newest is not later, besides `live`.

        Returns the number of sessions. The property `sessions_dropped` has the sequence number then.
        """
        ...

    def shrink(self) -> None:
        """Release memory that is not needed until the next access."""

    def meta(self, key: str) -> str | None:
        """A property of the space, such as its name. Every space has a `space_id`, made once, and a `lineage`."""

    def set_meta(self, key: str, value: str) -> None:
        """Durable when it returns."""

    def features(self) -> str:
        """The features of the space, as `store.features` parses them."""

    def require(self, feature: str) -> None:
        """Add a feature, before the first commit that uses it. Durable when it returns."""

    def make_collections(self, newest: Seq) -> None:
        """Make the tables of collections, as far as they are missing, and require the feature. Durable.

        Shifts are recorded from the commit after `newest` on.
        """

    def index_rows(self) -> list[IndexRow]:
        """All undamaged indexes of collections of all branches; none without their tables."""

    def entries(self, branch: BranchId, name: str, lo: bytes, hi: bytes, limit: int, *, reverse: bool) -> list[bytes]:
        """The first keys of an index with `lo <= key < hi`, or the last, backwards, as of its last fold."""

    def entry_sums(self, branch: BranchId, name: str) -> tuple[int, int]:
        """The number of keys of an index, and the sum of their checksums, counted."""

    def entry_count(self, branch: BranchId, name: str) -> int:
        """The number of keys of an index, counted."""

    def shift_floor(self) -> Seq:
        """Shifts up to this commit were deleted, or never recorded."""

    def shifts(self, after: Seq, through: Seq) -> list[ShiftRow] | None:
        """Folded shifts in order, with `after < seq <= through`; None if not all of them are here."""

    def drop_log(self, horizon: Horizon, gone: Sequence[tuple[BranchId, DocKey]] = ()) -> None:
        """Delete the log up to the horizon, and snapshots that a newer one at or below it replaces.

        Of the documents in `gone`, which are deleted, everything goes: their branches have never written them. If there
        are some, the property `purged` has the sequence number of the horizon then.
        """

    def integrity(self) -> list[str]:
        """The errors that the database finds in its own file; empty if there are none."""

    def compact(self) -> None:
        """Return free space to the file system."""

    def backup(self, path: str, progress: Progress) -> None:
        """A consistent copy in a new file."""

    def copying(self, path: str) -> Generator[tuple[int, int], None, None]:
        """The same in steps: yields the pages done and the total. Writes in between are included.

        Each step, and closing the generator early, needs the same exclusive use of the backend as any method.
        """
        ...

    def bytes_used(self) -> int:
        """Size on disk, or an estimate."""

    def disown(self) -> None:
        """In a forked child: never use the connection of the parent again, not even to close it."""

    def close(self) -> None:
        """Close it. Idempotent. Appended rows are already durable."""
