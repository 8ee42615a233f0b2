"""What has changed in spans of indexes since earlier openings have read them: the later shifts, by their keys.

If the shifts are not known so far back, nothing can be proven, and the computation runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Protocol, TypeAlias

from headwater.store.collection_record import IndexName, Shift, keys_of, kind_of, kind_of_index, record_doc
from headwater.store.engine import Engine
from headwater.values.ids import NEVER, BranchId, DocKey, Seq


class ReadSpan(Protocol):
    """A read of an index: of keys, and of some fields of the documents."""

    @property
    def index(self) -> str: ...
    @property
    def lo(self) -> bytes: ...
    @property
    def hi(self) -> bytes: ...
    @property
    def fields(self) -> tuple[str, ...]: ...


SpanRow: TypeAlias = tuple[Sequence[ReadSpan], Seq]
"""The spans of one run, and the sequence number as of which they were read."""

_Moved: TypeAlias = tuple[bytes, Seq, DocKey]
"""A key that a document has got or lost, with the commit."""

_Held: TypeAlias = tuple[bytes, Seq, DocKey, tuple[str, ...] | None]
"""The key that a document has after a commit, and the fields that have changed; None: all."""


class SpanShifts:
    """The later shifts of a branch by their keys: made at the first question, and continued at the next ones.

    Functions with arguments are restored one by one, when they are called: each asks for its own spans alone.
    """

    def __init__(self) -> None:
        self._branch: BranchId | None = None
        # Of the feed: commits that were not written are forgotten, and their numbers are used again.
        self._undone = 0
        # Answers are here for reads as of `_asked` and later; those before `_since` are not known.
        self._asked: Seq = NEVER
        self._since: Seq = NEVER
        self._through: Seq = NEVER
        self._shifts: list[Shift] = []
        self._moved: dict[IndexName, list[_Moved]] = {}
        # Of the indexes that were read with fields.
        self._held: dict[IndexName, list[_Held]] = {}

    def shifted_since(self, engine: Engine, branch: BranchId, rows: Sequence[SpanRow]) -> list[list[DocKey]]:
        """For each row, the documents that changed in its spans after its sequence number.

        If that is not known, the record of a collection.
        """
        seqs = [seq for _, seq in rows if seq <= engine.head]
        is_known = bool(seqs) and self._cover(engine, branch, seqs)
        found: list[list[DocKey]] = []
        for spans, seq in rows:
            missing = [each for each in spans if not engine.collections.has_index(branch, each.index)]
            if not is_known or seq < self._since or seq > engine.head or missing:
                found.append([record_doc(kind_of_index(spans[0].index))])
                continue
            docs: dict[DocKey, None] = {}
            for span in spans:
                docs.update(dict.fromkeys(self._hits(engine, branch, span, seq)))
            found.append(list(docs))
        return found

    def _cover(self, engine: Engine, branch: BranchId, seqs: Sequence[Seq]) -> bool:
        """Have the shifts after the smallest of these that is known. Returns whether one is."""
        undone = engine.collections.undone
        if (branch, undone) != (self._branch, self._undone) or min(seqs) < self._asked:
            known = _oldest_known(engine, branch, seqs)
            if known is None:
                return False
            self._branch, self._undone = branch, undone
            self._shifts, self._moved = [], {}
            self._asked, self._since, self._through = min(seqs), known, known
        later = engine.collections.shifts_after(branch, self._through)
        if later is None:
            self._branch = None
            return False
        self._through = engine.head
        if later:
            self._shifts += later
            for shift in later:
                for move in shift.moves:
                    keys = self._moved.setdefault(move.index, [])
                    keys += [(key, shift.seq, shift.doc) for key in (move.before, move.after) if key is not None]
            for moved in self._moved.values():
                # Most of it is sorted already.
                moved.sort()
            self._held = {}
        return True

    def _hits(self, engine: Engine, branch: BranchId, span: ReadSpan, seq: Seq) -> Iterator[DocKey]:
        """The documents that a later commit has moved within a span, or whose named fields it has changed there."""
        moved = self._moved.get(span.index, ())
        for _, at, doc in moved[bisect_left(moved, (span.lo,)) : bisect_left(moved, (span.hi,))]:
            if at > seq:
                yield doc
        if span.fields:
            held = self._held_in(engine, branch, span.index)
            low, high = (bisect_left(held, bound, key=_key_of) for bound in (span.lo, span.hi))
            for _, at, doc, fields in held[low:high]:
                if at > seq and (fields is None or any(field in fields for field in span.fields)):
                    yield doc

    def _held_in(self, engine: Engine, branch: BranchId, index: IndexName) -> list[_Held]:
        """The keys that documents had as of each shift: they may have moved later."""
        found = self._held.get(index)
        if found is None:
            found = self._held[index] = []
            record = engine.collections.records(branch).get(kind_of_index(index))
            for shift in self._shifts:
                if record is not None and kind_of(shift.doc) == record.kind:
                    value = engine.documents.at(branch, shift.doc, shift.seq).value
                    keys = [key for name, key in keys_of(record, shift.doc, value) if name == index]
                    found += [(key, shift.seq, shift.doc, shift.fields) for key in keys]
            found.sort(key=_key_of)
        return found


def _key_of(held: _Held) -> bytes:
    return held[0]


def _oldest_known(engine: Engine, branch: BranchId, seqs: Sequence[Seq]) -> Seq | None:
    """The smallest of these after which all shifts are known; None if there is none."""
    numbers = sorted(set(seqs))
    place = bisect_left(numbers, True, key=lambda seq: engine.collections.shifts_after(branch, seq) is not None)
    return numbers[place] if place < len(numbers) else None
