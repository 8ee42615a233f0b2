"""The snapshots of a transaction: each document as first read, its writes, and whether the reads are still current."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.cells.context import ContextFrame
from headwater.cells.journal import EditInputs, Entry, Mark
from headwater.cells.replica import Replica
from headwater.errors import AddressError
from headwater.store.commit import Conflict, DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.values.address import address_text, overlaps
from headwater.values.ids import DocKey
from headwater.values.overlap import touches
from headwater.values.patch import PatchOp
from headwater.values.tree import ABSENT, Maybe


class HeldDocument:
    """One document in a transaction: the snapshot of the first read, and the writes since."""

    # Most documents are only read: the attributes for writing are class attributes until the first write.

    # Written as a whole: then the operations before and after it are part of the value.
    whole: bool = False
    ops: Sequence[PatchOp] = ()
    # None while no operation depends on the content that it edits.
    edit_inputs: EditInputs | None = None

    def __init__(self, base: Maybe, mark: Mark) -> None:
        self.base = base
        self.mark = mark
        self.value = base


def operations_of(held: dict[DocKey, HeldDocument]) -> list[Operation]:
    """The writes as one operation for each document."""
    operations: list[Operation] = []
    for doc, each in held.items():
        if each.whole:
            value = each.value
            operations.append(DeleteDoc(doc) if value is ABSENT else SetDoc(doc, value))
        elif each.ops:
            operations.append(PatchDoc(doc, tuple(each.ops)))
    return operations


def marks_of(held: dict[DocKey, HeldDocument], checked: list[Entry], replica: Replica) -> dict[DocKey, Mark] | Conflict:
    """For each document that was read, the version to name in the commit; or the conflict if a read is outdated.

    That is the version of the snapshot, unless this process has since written what was read, with the same result: then
    the current version is named, because the store would reject the older one.
    """
    marks: dict[DocKey, Mark] = {}
    now: dict[DocKey, tuple[Maybe, Mark]] = {}
    for entry in checked:
        doc, each = entry.doc, held[entry.doc]
        if doc not in marks:
            marks[doc] = each.mark
            if not replica.is_unchanged(doc, each.base, each.mark):
                now[doc] = replica.snapshot(doc)
        if doc not in now:
            continue
        value, mark = now[doc]
        if value is not each.base and touches(entry.path, entry.depth, each.base, value):
            reason = f"{address_text(doc, entry.path)} changed while the transaction was open"
            return Conflict(reason, doc, entry.path, replica.seq)
        if any(overlaps(entry.path, path) for path in mark.written_since(each.mark, doc)):
            marks[doc] = mark
    return marks


def overtaken(held: dict[DocKey, HeldDocument], error: BaseException, replica: Replica) -> Conflict | None:
    """The conflict for a patch that fits the snapshot but not the current document, as the store would report it."""
    if isinstance(error, AddressError):
        for doc, each in held.items():
            if each.ops and replica.read(doc) is not each.base:
                return Conflict(error.message, doc, seq=replica.seq)
    return None


def is_within(frame: ContextFrame | None, part: ContextFrame) -> bool:
    """Whether a write was made in this part of the context, or inside it."""
    while frame is not None:
        if frame is part:
            return True
        frame = frame.outer
    return False
