"""Documents from the log: the value of a document at any sequence number.

A document on a branch is its newest snapshot, or its newest whole write, with the patches since. Before its first
revision on the branch it is the parent's version as of the fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from headwater.errors import CorruptError, HistoryError, NotFoundError
from headwater.store.applying import apply_operation
from headwater.store.backend import Backend, BranchRow, Fold, Horizon, LogRow
from headwater.store.commit import CommitEntry, Entry, ForkEntry, Operation, PatchDoc, decode_entry
from headwater.values.codec import decode
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, Millis, Seq
from headwater.values.tree import ABSENT, Maybe


class StoredDocument(msgspec.Struct, frozen=True, gc=False):
    """A document as of a sequence number; `seq` is its newest revision up to then, NEVER if it has none."""

    value: Maybe
    seq: Seq


NOT_FOUND: Final = StoredDocument(ABSENT, NEVER)


def read_entry(row: LogRow) -> Entry:
    """Decode a row of the log. Its checksum is right, so bytes that cannot be decoded were not written by Headwater."""
    try:
        return decode_entry(row.body)
    except msgspec.MsgspecError as error:
        message = f"commit {row.seq} cannot be decoded: {error}"
        raise CorruptError(message, seq=row.seq) from error


class Revision(msgspec.Struct, frozen=True, gc=False):
    """The operations of one commit on one document; `weight` is the size of the commit's row."""

    seq: Seq
    operations: tuple[Operation, ...]
    weight: int


_NO_REVISIONS: Final[list[Revision]] = []
"""Never appended to."""


class Tail:
    """The log after the last fold: rows that are durable already, and an index of them by document.

    Most commits are not queried before the next fold, so they are indexed at the first query.
    """

    __slots__ = ("_index", "_indexed", "entries", "weight")

    def __init__(self) -> None:
        # Accepted commits, each with the size of its row; and the sum of these. Only `Documents` appends.
        self.entries: list[tuple[Seq, CommitEntry, int]] = []
        self.weight = 0
        self._index: dict[BranchId, dict[DocKey, list[Revision]]] = {}
        self._indexed = 0

    def by_document(self) -> dict[BranchId, dict[DocKey, list[Revision]]]:
        """Revisions of every branch and document, oldest first."""
        for seq, entry, weight in self.entries[self._indexed :]:
            on_branch = self._index.setdefault(entry.branch, {})
            if len(entry.operations) == 1:
                on_branch.setdefault(entry.operations[0].doc, []).append(Revision(seq, entry.operations, weight))
                continue
            grouped: dict[DocKey, list[Operation]] = {}
            for operation in entry.operations:
                grouped.setdefault(operation.doc, []).append(operation)
            for doc, operations in grouped.items():
                on_branch.setdefault(doc, []).append(Revision(seq, tuple(operations), weight))
        self._indexed = len(self.entries)
        return self._index

    def revisions(self, branch: BranchId, doc: DocKey) -> list[Revision]:
        """The revisions of one document, oldest first."""
        index = self._index if self._indexed == len(self.entries) else self.by_document()
        on_branch = index.get(branch)
        return _NO_REVISIONS if on_branch is None else on_branch.get(doc, _NO_REVISIONS)


class Documents:
    """Every document of a space, on every branch, at every available sequence number."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.tail = Tail()
        self.folded = backend.folded()
        self.horizon = backend.horizon()
        self.branches: dict[BranchId, BranchRow] = {row.name: row for row in backend.branches()}
        self.branches.setdefault(MAIN, BranchRow(MAIN, None, NEVER, Millis(0)))

    def add_rows(self, rows: Sequence[LogRow], entries: Sequence[Entry]) -> None:
        """Add durable rows of the log."""
        tail = self.tail
        for row, entry in zip(rows, entries, strict=True):
            if type(entry) is CommitEntry:
                weight = len(row.body)
                tail.entries.append((row.seq, entry, weight))
                tail.weight += weight
                if entry.merged is not None:
                    self._add_merge(entry.branch, *entry.merged, row.seq)
            elif type(entry) is ForkEntry:
                self.branches[entry.name] = BranchRow(entry.name, entry.parent, entry.fork_seq, entry.at)

    def _add_merge(self, branch: BranchId, source: BranchId, through: Seq, seq: Seq) -> None:
        row = self.branches[branch]
        self.branches[branch] = msgspec.structs.replace(row, merges=(*row.merges, (source, through, seq)))

    def after_fold(self, fold: Fold) -> None:
        """The caches are updated; start a new tail."""
        self.folded = fold.through
        self.tail = Tail()

    def branch(self, name: BranchId) -> BranchRow:
        """A branch that exists."""
        row = self.branches.get(name)
        if row is None:
            known = ", ".join(self.branches)
            message = f"there is no branch {name!r}; the branches are: {known}"
            raise NotFoundError(message, branch=name)
        return row

    def at(self, branch: BranchId, doc: DocKey, through: Seq) -> StoredDocument:
        """The document as of a sequence number."""
        row: BranchRow | None = self.branch(branch)
        while row is not None:
            found = self.on_branch(row.name, doc, through)
            if found.seq:
                return found
            through = min(through, row.fork_seq)
            row = self.branches[row.parent] if row.parent is not None else None
        return NOT_FOUND

    def on_branch(self, branch: BranchId, doc: DocKey, through: Seq) -> StoredDocument:
        """The document by revisions of this branch itself; NOT_FOUND if it has none by then."""
        pending: list[Revision] = []
        newest = NEVER
        for revision, snapshot in self._backwards(branch, doc, through):
            newest = newest or revision.seq
            if snapshot is not None:
                value = decode(snapshot) if snapshot else ABSENT
                break
            pending.append(revision)
            if type(revision.operations[0]) is not PatchDoc:
                value = ABSENT
                break
        else:
            if not newest:
                return NOT_FOUND
            # Only patches: they started from the parent's document.
            row = self.branches[branch]
            value = ABSENT if row.parent is None else self.at(row.parent, doc, row.fork_seq).value
        for revision in reversed(pending):
            for operation in revision.operations:
                value, _ = apply_operation(value, operation)
        return StoredDocument(value, newest)

    def _backwards(self, branch: BranchId, doc: DocKey, through: Seq) -> Iterator[tuple[Revision, bytes | None]]:
        """Revisions from newest to oldest; a snapshot as its encoded body, which is empty for a deletion."""
        for revision in reversed(self.tail.revisions(branch, doc)):
            if revision.seq <= through:
                yield revision, None
        head = self._backend.head(branch, doc)
        if head is None:
            return
        snapshot = self._backend.snapshot(branch, doc, through)
        after = snapshot.seq if snapshot is not None else NEVER
        for seq in self._backend.revisions(branch, doc, after, through, head.seq):
            yield self.revision(seq, doc), None
        if snapshot is not None:
            yield Revision(snapshot.seq, (), 0), snapshot.body or b""

    def revision(self, seq: Seq, doc: DocKey) -> Revision:
        """The operations of a commit on a document."""
        row = self._backend.row(seq)
        if row is None:
            raise CorruptError(f"commit {seq}, which changed {doc}, is missing from the log", seq=seq, doc=doc)
        entry = read_entry(row)
        operations = entry.operations if isinstance(entry, CommitEntry) else ()
        mine = tuple(operation for operation in operations if operation.doc == doc)
        if not mine:
            raise CorruptError(f"commit {seq} is said to have changed {doc}, but did not", seq=seq, doc=doc)
        return Revision(seq, mine, len(row.body))

    def revisions(self, branch: BranchId, doc: DocKey, after: Seq, through: Seq) -> Iterator[Revision]:
        """The revisions of a document on a branch and its ancestors, newest first."""
        row: BranchRow | None = self.branch(branch)
        while row is not None:
            for revision in reversed(self.tail.revisions(row.name, doc)):
                if after < revision.seq <= through:
                    yield revision
            for seq in self._backend.revisions(row.name, doc, after, through):
                yield self.revision(seq, doc)
            through = min(through, row.fork_seq)
            row = self.branches[row.parent] if row.parent is not None else None

    def check_available(self, seq: Seq, head: Seq) -> None:
        """Raise HistoryError unless this sequence number can be read."""
        if self.horizon.seq <= seq <= head:
            return
        message = f"sequence {seq} is not available: the log reaches from {self.horizon.seq} to {head}"
        raise HistoryError(message, seq=seq, first=self.horizon.seq, last=head)


def unfolded(backend: Backend, folded: Seq, head: Seq, start: Horizon) -> Iterator[tuple[LogRow, Entry]]:
    """Rows after the last fold, checked and decoded. The first row of the whole log is chained to `start`."""
    if folded > head:
        message = f"the log ends with commit {head}, but commit {folded} was there: the newest commits are missing"
        raise CorruptError(message, seq=head, folded=folded)
    before = start
    if folded > start.seq:
        row = backend.row(folded)
        if row is None:
            raise CorruptError(f"commit {folded} is missing from the log", seq=folded)
        before = Horizon(row.seq, row.chain)
    seq, chain = before.seq, before.chain
    for row in backend.log(folded, head):
        if row.seq != seq + 1 or row.chain != sha256(chain + row.body).digest():
            message = f"commit {row.seq} does not follow commit {seq}: the log was changed, or lost commits between"
            raise CorruptError(message, seq=row.seq)
        seq, chain = row.seq, row.chain
        yield row, read_entry(row)
