"""The documents that a transaction writes, and whether the versions that it has read are still current."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from headwater.cells.journal import EditInputs
from headwater.cells.journal_entry import Entry
from headwater.cells.pending_commit import SHALLOW_BIT, Mark, ReadKey
from headwater.cells.replica import Replica
from headwater.errors import AddressError
from headwater.store.commit import Conflict, DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.values.address import Depth, address_text, overlaps
from headwater.values.ids import DocKey
from headwater.values.overlap import touches
from headwater.values.patch import PatchOp
from headwater.values.tree import ABSENT, Path

Versions: TypeAlias = dict[ReadKey, Mark | None]
"""The reads of a commit, with the versions that it is based on."""

_DEEP: Final = Depth.DEEP


class Draft:
    """One document that a transaction writes: the version it has read, and the value with the writes since."""

    # Written as a whole: then the operations before and after it are part of the value.
    whole: bool = False
    ops: Sequence[PatchOp] = ()
    # None while no operation depends on the content that it edits.
    edit_inputs: EditInputs | None = None

    def __init__(self, mark: Mark) -> None:
        self.mark = mark
        self.value = mark.value

    def is_elidable(self, path: Path) -> bool:
        """Whether a write without effect can be dropped: not on a layer that may be rolled back, nor after an edit."""
        if self.whole:
            return True
        return not self.mark.count and (self.edit_inputs is None or not self.edit_inputs.of(path, _DEEP))


def operations_of(seen: dict[DocKey, Mark], drafts: dict[DocKey, Draft]) -> list[Operation]:
    """The writes as one operation for each document, in the order of the first use of the documents."""
    operations: list[Operation] = []
    for doc in seen if len(drafts) > 1 else drafts:
        each = drafts.get(doc)
        if each is None:
            continue
        if each.whole:
            value = each.value
            operations.append(DeleteDoc(doc) if value is ABSENT else SetDoc(doc, value))
        elif each.ops:
            operations.append(PatchDoc(doc, tuple(each.ops)))
    return operations


def versions_of(seen: dict[DocKey, Mark], checked: list[Entry], replica: Replica) -> Versions | Conflict:
    """For each read, the version of the document to name in the commit; or the conflict if a read is outdated.

    That is the version of the snapshot, unless what was read has been written since, with the same result: then the
    current version is named, because the store would reject the older one.
    """
    marks: dict[DocKey, Mark] = {}
    now: dict[DocKey, Mark] = {}
    for entry in checked:
        doc, before = entry.doc, seen[entry.doc]
        if doc not in marks:
            marks[doc] = before
            if not replica.is_unchanged(doc, before):
                now[doc] = replica.snapshot(doc)
        if doc not in now:
            continue
        mark = now[doc]
        if mark.value is not before.value and touches(entry.path, entry.depth, before.value, mark.value):
            reason = f"{address_text(doc, entry.path)} changed while the transaction was open"
            return Conflict(reason, doc, entry.path, replica.seq)
        if any(overlaps(entry.path, path) for path in mark.written_since(before, doc)):
            marks[doc] = mark
    return {(each.doc, each.path, 0 if each.depth is _DEEP else SHALLOW_BIT): marks[each.doc] for each in checked}


def overtaken(drafts: dict[DocKey, Draft], error: BaseException, replica: Replica) -> Conflict | None:
    """The conflict for a patch that fits the snapshot but not the current document, as the store would report it."""
    if isinstance(error, AddressError):
        for doc, each in drafts.items():
            if each.ops and replica.read(doc) is not each.mark.value:
                return Conflict(error.message, doc, seq=replica.seq)
    return None
