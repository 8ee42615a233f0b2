"""Which declared total has the answer to a question about a span, and which of its rows."""

from __future__ import annotations

from typing import NamedTuple

from headwater.cells.span_records import SpanQuestion
from headwater.store.collection_record import CollectionRecord, NamedIndex
from headwater.values.sortkey import AFTER, INEXACT, Ordered, fields_of, whole_fields


class TotalRead(NamedTuple):
    """The rows of a total that answer a question."""

    name: str
    # The span of its rows.
    lo: bytes
    hi: bytes
    # The fields of a group, as encoded fields; None: any value.
    wanted: tuple[bytes | None, ...]
    # The place of the field by which the answer is grouped, if it is.
    by_place: int | None

    def group(self, row: bytes) -> tuple[Ordered] | None:
        """The value by which a row is grouped; None if the row is not wanted. Raises ValueError if it is not known."""
        parts = whole_fields(row, len(self.wanted))
        for part, wanted in zip(parts, self.wanted, strict=True):
            if wanted is not None and part != wanted:
                return None
        if self.by_place is None:
            return (None,)
        value = fields_of(parts[self.by_place])[0]
        if value is INEXACT:
            raise ValueError("a value of the group is longer than a key has it")
        return (value,)


def total_for(
    record: CollectionRecord, named: NamedIndex, lo: bytes, hi: bytes, question: SpanQuestion
) -> TotalRead | None:
    """The rows that answer a question about a span; None: it has to be answered by the keys, or by the documents."""
    if question.kind not in ("count", "sum") or hi != lo + AFTER:
        return None
    totals = [each for each in record.named if each.index.total is not None]
    first = 0 if record.scope == "space" else 1
    parts = _parts(lo) if totals else None
    if parts is None or len(parts) < first:
        return None
    compared = dict(zip(named.index.fields, parts[first:], strict=False))
    groups = compared.keys() | ({question.by} if question.by is not None else set())
    for each in totals:
        width = each.index.total
        by, of = each.index.fields[:width], each.index.fields[width:]
        if set(by) != groups or (question.field is not None and of != (question.field,)):
            continue
        wanted = (*parts[:first], *[compared.get(field) for field in by])
        start = b""
        for part in wanted:
            if part is None:
                break
            start += part
        place = None if question.by is None else first + by.index(question.by)
        return TotalRead(each.name, start, start + AFTER, wanted, place)
    return None


def _parts(lo: bytes) -> list[bytes] | None:
    """The fields that the first key of a span has, as encoded fields; None if it ends within one."""
    try:
        return whole_fields(lo)
    except ValueError:
        return None
