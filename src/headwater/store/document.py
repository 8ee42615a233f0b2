"""Documents from the log: the value of a document at any sequence number.

A document on a branch is its newest snapshot, or its newest whole write, with the patches since. Before its first
revision on the branch it is the parent's version as of the fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Final

import msgspec

from headwater.errors import CorruptError, HistoryError, NotFoundError
from headwater.store.applying import apply_operation
from headwater.store.backend import PURGED, Backend, BodyRow, BranchRow, Fold, Horizon, LogRow
from headwater.store.commit import CommitEntry, Entry, ForkEntry, Operation, PatchDoc, decode_entry
from headwater.store.decided_commit import DecodedEntry, Revision
from headwater.store.store_limits import DECODED_MAX, FOLD_BYTES
from headwater.store.tail import Tail, operations_by_document
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


class Documents:
    """Every document of a space, on every branch, at every available sequence number."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.tail = Tail()
        self.folded = backend.folded()
        self.horizon = backend.horizon()
        # A document without a head may have existed before this commit, and have been dropped whole.
        self.purged = Seq(int(backend.meta(PURGED) or NEVER))
        self.branches: dict[BranchId, BranchRow] = {row.name: row for row in backend.branches()}
        self.branches.setdefault(MAIN, BranchRow(MAIN, None, NEVER, Millis(0)))
        # The last used last.
        self._decoded: dict[Seq, DecodedEntry] = {}

    def change_branches(self, entries: Sequence[tuple[Seq, Entry]]) -> None:
        """Forks and merges are durable."""
        for seq, entry in entries:
            if isinstance(entry, ForkEntry):
                self.branches[entry.name] = BranchRow(entry.name, entry.parent, entry.fork_seq, entry.at)
            elif entry.merged is not None:
                self._add_merge(entry.branch, *entry.merged, seq)

    def _add_merge(self, branch: BranchId, source: BranchId, through: Seq, seq: Seq) -> None:
        row = self.branches[branch]
        self.branches[branch] = msgspec.structs.replace(row, merges=(*row.merges, (source, through, seq)))

    def after_fold(self, fold: Fold) -> None:
        """The caches are updated; start a new tail."""
        self.folded = fold.through
        self.tail = Tail()
        self._decoded = {}

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

    def many(self, branch: BranchId, docs: Sequence[DocKey], through: Seq) -> dict[DocKey, StoredDocument]:
        """Documents as of a sequence number, as `at` has each: by two lookups for all that were not patched since."""
        found: dict[DocKey, StoredDocument] = {}
        folded: list[DocKey] = []
        patched = self.tail.by_document().get(branch)
        for doc in docs:
            if patched is not None and doc in patched:
                found[doc] = self.at(branch, doc, through)
            else:
                folded.append(doc)
        row = self.branch(branch)
        rows = {each.head.doc: each for each in self._backend.bodies(branch, folded)} if folded else {}
        inherited = [doc for doc in folded if doc not in rows] if row.parent is not None else []
        if inherited and row.parent is not None:
            # Without a head here: the parent's, unless a row is damaged, which `on_branch` finds for each.
            found.update(self.many(row.parent, inherited, min(through, row.fork_seq)))
        alone = [each.head.seq for each in rows.values() if each.snapshot is None and each.head.seq <= through]
        entries = {each.seq: each for each in self._backend.rows(sorted(set(alone)))}
        decoded: dict[Seq, dict[DocKey, tuple[Operation, ...]]] = {}
        for doc in folded:
            if doc in found:
                continue
            body = rows.get(doc)
            value = None if body is None or body.head.seq > through else self._whole(body, entries, decoded)
            found[doc] = self.at(branch, doc, through) if body is None or value is None else value
        return found

    def _whole(
        self,
        body: BodyRow,
        rows: Mapping[Seq, LogRow],
        decoded: dict[Seq, dict[DocKey, tuple[Operation, ...]]],
    ) -> StoredDocument | None:
        """A document whose newest commit has all of it, or whose snapshot is of that commit; None for any other."""
        seq, snapshot = body.head.seq, body.snapshot
        if snapshot is not None:
            return StoredDocument(decode(snapshot.body) if snapshot.body else ABSENT, seq)
        by_document = decoded.get(seq)
        if by_document is None:
            if seq not in rows:
                return None
            entry = read_entry(rows[seq])
            operations = entry.operations if isinstance(entry, CommitEntry) else ()
            by_document = decoded[seq] = operations_by_document(operations)
        mine = by_document.get(body.head.doc)
        if mine is None or type(mine[0]) is PatchDoc:
            return None
        value: Maybe = ABSENT
        for operation in mine:
            value, _ = apply_operation(value, operation)
        return StoredDocument(value, seq)

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
        decoded = self._decode(seq)
        if decoded is None:
            raise CorruptError(f"commit {seq}, which changed {doc}, is missing from the log", seq=seq, doc=doc)
        mine = decoded.by_document.get(doc)
        if mine is None:
            raise CorruptError(f"commit {seq} is said to have changed {doc}, but did not", seq=seq, doc=doc)
        return Revision(seq, mine, decoded.weight)

    def entry(self, seq: Seq) -> Entry | None:
        """An entry of the log; None if there is no row."""
        found = self.tail.entry(seq)
        if found is not None:
            return found
        decoded = self._decode(seq)
        return None if decoded is None else decoded.entry

    def _decode(self, seq: Seq) -> DecodedEntry | None:
        """An entry from the backend. The last ones are kept, because documents that were written together are read so.

        Otherwise each document of a large commit would decode all of it. One is not enough: of documents that several
        commits have written together, each is read from all of these commits.
        """
        decoded = self._decoded.pop(seq, None)
        if decoded is None:
            row = self._backend.row(seq)
            if row is None:
                return None
            entry = read_entry(row)
            operations = entry.operations if isinstance(entry, CommitEntry) else ()
            decoded = DecodedEntry(seq, entry, len(row.body), operations_by_document(operations))
            self._make_room(decoded.weight)
        self._decoded[seq] = decoded
        return decoded

    def _make_room(self, weight: int) -> None:
        """Release the decoded entries that were not used for longest, until one more of this size may be kept."""
        kept = self._decoded
        while kept and (len(kept) == DECODED_MAX or sum([each.weight for each in kept.values()]) + weight > FOLD_BYTES):
            del kept[next(iter(kept))]

    def forget_decoded(self) -> None:
        """Release the entries that were decoded last."""
        self._decoded = {}

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
