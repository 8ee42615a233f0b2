"""One read of a span: what was seen of it, and what has changed in it since."""

from __future__ import annotations

from typing import Final

from headwater.cells.member_shifts import VisibleShift
from headwater.cells.span_records import SpanKey, SpanQuestion
from headwater.store.collection_record import NamedIndex, kind_of_index
from headwater.values.ids import DocKey

_END: Final = b"\0"


class SpanBasis:
    """A span as of its first read: what has changed in it since."""

    __slots__ = ("changed", "hi", "is_lost", "last", "lo", "named", "undo")

    def __init__(self, named: NamedIndex, lo: bytes, hi: bytes, last: VisibleShift) -> None:
        self.named = named
        self.lo = lo
        self.hi = hi
        # The newest shift that was looked at. None: the transaction has ended.
        self.last: VisibleShift | None = last
        # Of each document that has moved in it: its key at the first read, and the newest one.
        self.undo: dict[DocKey, tuple[bytes | None, bytes | None]] = {}
        # The keys of each change, and the fields that have changed; None: all.
        self.changed: list[tuple[bytes | None, bytes | None, tuple[str, ...] | None]] = []
        # What has changed is not known.
        self.is_lost = False

    def advance(self) -> None:
        """Look at the shifts since."""
        last = self.last
        if last is None:
            return
        lo, hi = self.lo, self.hi
        while last.next is not None:
            last = last.next
            if last.lost is not None and last.lost.index == self.named.name and last.lost.overlaps(lo, hi):
                self.is_lost = True
            move = last.move(self.named) if last.record is not None and _is_of(self.named, last) else None
            if move is None:
                continue
            before, after = move.before, move.after
            if (before is None or not lo <= before < hi) and (after is None or not lo <= after < hi):
                continue
            self.changed.append((before, after, last.changed))
            if before != after:
                first = self.undo.get(last.doc)
                self.undo[last.doc] = (before if first is None else first[0], after)
        self.last = last

    def is_hit(self, lo: bytes, hi: bytes, fields: tuple[str, ...]) -> bool:
        """Whether this part of it has changed, or one of the fields of a document in it."""
        self.advance()
        if self.is_lost:
            return True
        for before, after, names in self.changed:
            if (before is not None and lo <= before < hi) or (after is not None and lo <= after < hi):
                if before != after:
                    return True
                if fields and (names is None or any(name in names for name in fields)):
                    return True
        return False


def _is_of(named: NamedIndex, shift: VisibleShift) -> bool:
    return shift.record is not None and shift.record.kind == kind_of_index(named.name)


class SpanEntry:
    """One read of a span: which part of it was seen."""

    __slots__ = ("answer", "basis", "end", "fields", "is_reverse", "is_tracked", "question")

    def __init__(  # the parts of a read
        self,
        basis: SpanBasis,
        fields: tuple[str, ...],
        question: SpanQuestion | None,
        is_reverse: bool,  # noqa: FBT001
        is_tracked: bool,  # noqa: FBT001
    ) -> None:
        self.basis = basis
        self.fields = fields
        self.question = question
        self.is_reverse = is_reverse
        # It is a dependency of the run, and not only checked for conflicts.
        self.is_tracked = is_tracked
        # The last key that was seen; no bytes before the first, None if all of them were.
        self.end: bytes | None = b""
        # The canonical form of an answer.
        self.answer = b""

    def saw(self, key: bytes) -> None:
        """A key was passed on."""
        end = self.end
        if end is not None and (not end or (key < end if self.is_reverse else key > end)):
            self.end = key

    @property
    def covered(self) -> tuple[bytes, bytes] | None:
        """The part that was seen; None if nothing was."""
        basis, end = self.basis, self.end
        if end is None:
            return basis.lo, basis.hi
        if not end:
            return None
        return (end, basis.hi) if self.is_reverse else (basis.lo, end + _END)

    @property
    def key(self) -> SpanKey | None:
        """The read as a dependency; None if nothing was seen."""
        basis, covered = self.basis, self.covered
        if self.question is not None:
            covered = basis.lo, basis.hi
        return None if covered is None else SpanKey(basis.named.name, *covered, self.fields, self.question)

    def is_hit(self) -> bool:
        """Whether what was seen has changed since."""
        covered = self.covered
        return covered is not None and self.basis.is_hit(*covered, self.fields)
