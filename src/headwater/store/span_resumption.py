"""What has changed in spans of indexes since earlier openings have read them: one pass over the later shifts.

If the shifts are not known so far back, nothing can be proven, and the computation runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Protocol, TypeAlias

from headwater.store.collection_record import Shift, keys_of, kind_of, kind_of_index, record_doc
from headwater.store.engine import Engine
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.ranges import RangeIndex


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

_Reader: TypeAlias = tuple[int, tuple[str, ...]]
"""The place of a row, and the fields of one of its spans."""


def shifted_since(engine: Engine, branch: BranchId, rows: Sequence[SpanRow]) -> list[list[DocKey]]:
    """For each row, the documents that changed in its spans after its sequence number.

    If that is not known, the record of a collection. One question for all functions of a space.
    """
    found: list[list[DocKey]] = [[] for _ in rows]
    known = _oldest_known(engine, branch, [seq for _, seq in rows])
    indexes: dict[str, RangeIndex[_Reader]] = {}
    for place, (spans, seq) in enumerate(rows):
        missing = [each for each in spans if not engine.collections.has_index(branch, each.index)]
        if known is None or seq < known or seq > engine.head or missing:
            found[place].append(record_doc(kind_of_index(spans[0].index)))
            continue
        for each in spans:
            indexes.setdefault(each.index, RangeIndex()).add(each.lo, each.hi, (place, each.fields))
    shifts = engine.collections.shifts_after(branch, known) if known is not None and indexes else None
    for shift in shifts or ():
        hit = _hit_by(engine, branch, shift, indexes)
        for place in dict.fromkeys([place for place in hit if rows[place][1] < shift.seq]):
            if shift.doc not in found[place]:
                found[place].append(shift.doc)
    return found


def _oldest_known(engine: Engine, branch: BranchId, seqs: Sequence[Seq]) -> Seq | None:
    """The smallest of these after which all shifts are known; None if there is none."""
    numbers = sorted({seq for seq in seqs if seq <= engine.head})
    place = bisect_left(numbers, True, key=lambda seq: engine.collections.shifts_after(branch, seq) is not None)
    return numbers[place] if place < len(numbers) else None


def _hit_by(engine: Engine, branch: BranchId, shift: Shift, indexes: dict[str, RangeIndex[_Reader]]) -> list[int]:
    """The rows with a span that a shift has changed."""
    found: list[int] = []
    for move in shift.moves:
        ranges = indexes.get(move.index)
        if ranges is not None:
            keys = [key for key in (move.before, move.after) if key is not None]
            found += [place for place, _ in ranges.match(keys)]
    record = engine.collections.records(branch).get(kind_of(shift.doc))
    if record is None or not any(kind_of_index(name) == record.kind for name in indexes):
        return found
    # Its keys as of the shift: it may have moved later.
    value = engine.documents.at(branch, shift.doc, shift.seq).value
    for name, key in keys_of(record, shift.doc, value):
        for place, fields in indexes[name].match([key]) if name in indexes else ():
            if fields and (shift.fields is None or any(field in shift.fields for field in fields)):
                found.append(place)
    return found
