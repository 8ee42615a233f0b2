"""The tail of the log: the commits after the last fold, and an index of them by document."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

from headwater.store.backend import LogRow
from headwater.store.commit import CommitEntry, Entry, Operation
from headwater.store.decided_commit import Revision, TailEntry
from headwater.values.ids import BranchId, DocKey, Seq

_NO_REVISIONS: Final[list[Revision]] = []
"""Never appended to."""


def operations_by_document(operations: Sequence[Operation]) -> dict[DocKey, tuple[Operation, ...]]:
    """The operations on each document, in their order."""
    grouped: dict[DocKey, list[Operation]] = {}
    for operation in operations:
        grouped.setdefault(operation.doc, []).append(operation)
    return {doc: tuple(mine) for doc, mine in grouped.items()}


def _seq_of(each: TailEntry) -> Seq:
    return each.seq


class Tail:
    """Rows after the last fold, which are durable already.

    Most commits are not queried before the next fold, so they are indexed at the first query.
    """

    def __init__(self) -> None:
        # Accepted commits, and the sum of the sizes of their rows.
        self.entries: list[TailEntry] = []
        self.weight = 0
        self._index: dict[BranchId, dict[DocKey, list[Revision]]] = {}
        self._indexed = 0

    def add(self, rows: Sequence[LogRow], entries: Sequence[Entry]) -> list[tuple[Seq, Entry]]:
        """Add rows of the log. Returns the entries that change branches: forks and merges."""
        known, weight = self.entries, self.weight
        others: list[tuple[Seq, Entry]] = []
        for index, row in enumerate(rows):
            entry = entries[index]
            if type(entry) is not CommitEntry:
                others.append((row.seq, entry))
                continue
            size = len(row.body)
            known.append(TailEntry(row.seq, entry.operations, size, entry))
            weight += size
            if entry.merged is not None:
                others.append((row.seq, entry))
        self.weight = weight
        return others

    def by_document(self) -> dict[BranchId, dict[DocKey, list[Revision]]]:
        """Revisions of every branch and document, oldest first."""
        for each in self.entries[self._indexed :]:
            branch = each.entry.branch
            on_branch = self._index.get(branch)
            if on_branch is None:
                on_branch = self._index[branch] = {}
            operations = each.operations
            if len(operations) == 1:
                doc = operations[0].doc
                known = on_branch.get(doc)
                if known is None:
                    on_branch[doc] = [each]
                else:
                    known.append(each)
                continue
            for doc, mine in operations_by_document(operations).items():
                on_branch.setdefault(doc, []).append(Revision(each.seq, mine, each.weight))
        self._indexed = len(self.entries)
        return self._index

    def entry(self, seq: Seq) -> CommitEntry | None:
        """The commit with this sequence number, if it is here."""
        place = bisect_left(self.entries, seq, key=_seq_of)
        if place == len(self.entries) or self.entries[place].seq != seq:
            return None
        return self.entries[place].entry

    def revisions(self, branch: BranchId, doc: DocKey) -> list[Revision]:
        """The revisions of one document, oldest first."""
        index = self._index if self._indexed == len(self.entries) else self.by_document()
        on_branch = index.get(branch)
        return _NO_REVISIONS if on_branch is None else on_branch.get(doc, _NO_REVISIONS)
