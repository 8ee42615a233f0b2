"""The interface of a database: rows in, rows out. A backend contains no rule of the store.

The log is the truth. Everything in a `Fold` is a cache of it: which commits touched a document, its head, snapshots of
whole documents, the accepted commits of a session. Until a horizon is set, the caches can be dropped and rebuilt; below
a horizon the log was dropped on purpose and snapshots replace it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from headwater.store.commit import Tables
from headwater.values.ids import BranchId, DocKey, LocalSeq, Millis, Seq, SessionId


class LogRow(msgspec.Struct, frozen=True, gc=False):
    """One commit. `chain` is the hash of the chain before it and the body: nothing can be changed or lost between."""

    seq: Seq
    body: bytes
    chain: bytes


class HeadRow(msgspec.Struct, frozen=True, gc=False):
    """The newest state of a document on a branch, as of the last fold."""

    doc: DocKey
    seq: Seq
    live: bool
    size: int
    """Encoded, when it was last measured; 0 if not since it was written whole."""
    since: int
    """Log bytes that have to be read to rebuild the document."""


class SnapshotRow(msgspec.Struct, frozen=True, gc=False):
    """A whole document at one place of the log. No body: it was deleted there."""

    doc: DocKey
    seq: Seq
    body: bytes | None


class BranchRow(msgspec.Struct, frozen=True, gc=False):
    """A branch: its parent's documents as of `fork_seq`, and its own since."""

    name: BranchId
    parent: BranchId | None
    fork_seq: Seq
    at: Millis
    merges: tuple[tuple[BranchId, Seq, Seq], ...] = ()
    """What was merged into it: (source, the source's newest commit then, the merge's own place)."""


class ObservationRow(msgspec.Struct, frozen=True, gc=False):
    """What the last run of a computation has read: named by the document that takes its result."""

    doc: DocKey
    seq: Seq
    """All of it was so up to and including this place of the log."""
    body: bytes


class ReplayRow(msgspec.Struct, frozen=True, gc=False):
    """A run of a session's accepted commits: local numbers `first` to `last` stand at `seq` and the places after it."""

    session: SessionId
    first: LocalSeq
    last: LocalSeq
    seq: Seq


@dataclass(slots=True)
class Fold:
    """Everything the caches learn from a stretch of the log, up to and including `through`."""

    through: Seq
    branches: list[BranchRow] = field(default_factory=list)
    revisions: list[tuple[BranchId, DocKey, Seq]] = field(default_factory=list)
    heads: list[tuple[BranchId, HeadRow]] = field(default_factory=list)
    snapshots: list[tuple[BranchId, SnapshotRow]] = field(default_factory=list)
    replays: list[ReplayRow] = field(default_factory=list)
    observations: list[tuple[BranchId, ObservationRow]] = field(default_factory=list)
    unobserved: list[tuple[BranchId, DocKey, Seq]] = field(default_factory=list)
    """Whose observation, if it is older than this place, is none any more."""


@dataclass(slots=True)
class Horizon:
    """Where the kept log begins: everything up to `seq` was dropped, `chain` is what the next row is linked to.

    `digest` stands for the snapshots that were left in place of the log.
    """

    seq: Seq
    chain: bytes
    digest: bytes = b""


Progress = Callable[[int, int], None]
"""Called with how much is done and how much there is."""


class Backend(Protocol):
    """A database that holds one space. Every writing method is one transaction, durable when it returns.

    A reading method that does not find a row which was written raises CorruptError: only what was never written, or was
    dropped on purpose, is not found.

    Whoever keeps tables of their own in it uses `tables`: to look, at any time; to write, after `begin`. Then the next
    `append` is part of the same transaction and ends it.
    """

    @property
    def tables(self) -> Tables:
        """Those that others keep here."""

    def begin(self) -> None:
        """From here to the next `append`, or to `give_up`: one transaction."""

    def savepoint(self) -> None:
        """A place in the transaction to come back to."""

    def end_savepoint(self, *, keep: bool) -> None:
        """Go on from the mark with what was written since, or as if it had not been."""

    def roll_back(self) -> None:
        """Undo what was begun, if something was."""

    def append(
        self, rows: Sequence[LogRow], fold: Fold | None, observed: Sequence[tuple[BranchId, ObservationRow]] = ()
    ) -> None:
        """Add to the log, and fold if asked. Nothing of it is there if this raises.

        What was observed replaces what was before, unless that is newer. Of one place, a note is newer than the log.
        """

    def folded(self) -> Seq:
        """How far the caches reach."""

    def horizon(self) -> Horizon:
        """Where the log begins."""

    def last(self) -> LogRow | None:
        """The newest row of the log."""

    def log(self, after: Seq, through: Seq) -> Iterator[LogRow]:
        """Rows in order, with `after < seq <= through`."""

    def row(self, seq: Seq) -> LogRow | None:
        """One row."""

    def branches(self) -> list[BranchRow]:
        """All of them, in the order they were made."""

    def head(self, branch: BranchId, doc: DocKey) -> HeadRow | None:
        """A document's newest folded state on this very branch."""

    def heads(self, branch: BranchId, prefix: str, after: DocKey, limit: int) -> list[HeadRow]:
        """Folded heads in key order, keys above `after` that start with `prefix`."""

    def revisions(
        self, branch: BranchId, doc: DocKey, after: Seq, through: Seq, newest: Seq | None = None
    ) -> list[Seq]:
        """Commits that touched a document on this very branch, newest first, with `after < seq <= through`.

        With `newest`, the place of its head, they have to be all that make the document: `after` is its snapshot, or
        there is none.
        """

    def snapshot(self, branch: BranchId, doc: DocKey, through: Seq) -> SnapshotRow | None:
        """The newest one at or before a place."""

    def snapshots(self, branch: BranchId, doc: DocKey) -> list[SnapshotRow]:
        """All of a document, oldest first."""

    def observation(self, branch: BranchId, doc: DocKey) -> ObservationRow | None:
        """One row of this very branch; None if there is none, or it is damaged."""

    def observations(self, branch: BranchId, prefix: str = "") -> list[ObservationRow]:
        """All of this very branch that are not damaged, of documents whose keys start so."""

    def drop_observations(self, gone: Sequence[tuple[BranchId, DocKey]]) -> None:
        """Forget these."""

    def damaged_observations(self, *, drop: bool = False) -> int:
        """Rows that are not as they were written, of whatever branch: nobody is given them. How many there are."""

    def head_seqs(self, branch: BranchId) -> list[tuple[DocKey, Seq, bool]]:
        """Of every folded document of this very branch: its newest place, and whether it is there."""

    def replayed(self, session: SessionId, local_seq: LocalSeq) -> Seq | None:
        """Where an accepted commit of a session is."""

    def last_local(self, session: SessionId) -> LocalSeq:
        """The newest accepted commit of a session; 0 if there is none."""

    def meta(self, key: str) -> str | None:
        """A fact about the space, such as its name. Every space has a `space_id`, made once, and a `lineage`."""

    def set_meta(self, key: str, value: str) -> None:
        """Durable when it returns."""

    def features(self) -> str:
        """What the space uses beyond its format, as `store.features` reads it."""

    def require(self, feature: str) -> None:
        """From now on the space uses a feature: call it before the first commit that does. Durable when it returns."""

    def drop_log(self, horizon: Horizon) -> None:
        """Forget the log up to the horizon, and snapshots that a newer one at or below it replaces."""

    def integrity(self) -> list[str]:
        """What the database itself finds wrong with its file; empty when all is well."""

    def compact(self) -> None:
        """Give free room back to the file system."""

    def backup(self, path: str, progress: Progress) -> None:
        """A consistent copy in a new file."""

    def copying(self, path: str) -> Generator[tuple[int, int], None, None]:
        """The same piece by piece, with what is written in between: how much is done, of how much; equal at the end.

        Each piece is asked for by whoever may use the backend at that moment, and so is the end before its time.
        """
        ...

    def bytes_used(self) -> int:
        """Size on disk, or an estimate."""

    def disown(self) -> None:
        """In a forked child: never touch what the parent has open again, not even to close it."""

    def close(self) -> None:
        """Idempotent. Waits for nothing: what was appended is durable already."""
