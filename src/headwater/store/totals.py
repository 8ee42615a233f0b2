"""The rows of one declared total on one branch: for each group of documents their number, and the sum of a field.

A total has keys as an index has: of its groups' fields, then the field that is summed, then the document. These are in
the feed of shifts, so totals follow commits, and go back to earlier ones, as indexes do. What is stored is one row for
each group: the fields of the group, and the number and sum of its documents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headwater.store.backend import Backend, EntryFold, IndexRow
from headwater.store.entries import Entries
from headwater.store.key_changes import KeyChanges, KeyPair, between
from headwater.values.exact_sum import ExactSum, decode_sum
from headwater.values.ids import BranchId, Seq
from headwater.values.sortkey import AFTER, fields_end, fields_of

_SUM: Final = b"\0"
"""Before the number and the sum: less than the tag of every field."""

_NOTHING: Final = ExactSum()

_PAGE: Final = 1024


def split_row(row: bytes, width: int) -> tuple[bytes, ExactSum]:
    """The group of a row, as the encoded fields, and its number and sum. `width`: the number of these fields."""
    place = fields_end(row, width)
    if row[place : place + 1] != _SUM:
        raise ValueError(f"{row!r} is not a row of a total")
    return row[:place], decode_sum(row[place + 1 :])


class TotalEntries(Entries):
    """The rows of one total on one branch."""

    def __init__(  # noqa: PLR0917  # made in one place
        self, backend: Backend, branch: BranchId, name: str, row: IndexRow | None, since: Seq, width: int
    ) -> None:
        super().__init__(backend, branch, name, row, since)
        # The number of fields of a group.
        self._width = width
        # Relative to the table, by group.
        self._deltas: dict[bytes, ExactSum] = {}

    @property
    def unfolded(self) -> int:
        return len(self._deltas)

    def fill(self, keys: list[bytes], through: Seq) -> None:
        self._add(keys, 1, self._deltas)
        self.through = through

    def lay(self, moves: Sequence[KeyPair], through: Seq) -> None:
        self.through = through
        self._add([before for before, _ in moves if before is not None], -1, self._deltas)
        self._add([after for _, after in moves if after is not None], 1, self._deltas)

    def _add(self, keys: Sequence[bytes], sign: int, deltas: dict[bytes, ExactSum]) -> None:
        """Add the documents of keys, or take them out. Groups that do not differ are left out."""
        for key in keys:
            place = fields_end(key, self._width)
            group = key[:place]
            found = deltas.get(group)
            if found is None:
                found = deltas[group] = ExactSum()
            # The id comes next if documents are counted only.
            found.add(next(iter(fields_of(key[place:])), None), sign)
            if found.is_empty:
                del deltas[group]

    def span(
        self, lo: bytes, hi: bytes, limit: int | None, *, reverse: bool, undone: KeyChanges | None = None
    ) -> list[bytes]:
        """The rows of the groups from `lo` to `hi`, in order. The changes that are undone are of keys."""
        if limit is not None and limit <= 0:
            return []
        deltas = self._deltas
        if undone is not None:
            deltas = {group: _sum_of(each) for group, each in deltas.items() if _is_in(group, lo, hi)}
            self._add(between(undone.added, lo, hi), -1, deltas)
            self._add(between(undone.gone, lo, hi), 1, deltas)
        groups = sorted([group for group in deltas if _is_in(group, lo, hi)], reverse=reverse)
        stored = self._rows(lo, hi, None if limit is None else limit + len(groups), reverse=reverse)
        if not groups:
            return stored if limit is None else stored[:limit]
        known = dict([split_row(row, self._width) for row in stored])
        for group in groups:
            found = _sum_of(known.get(group, _NOTHING), deltas[group])
            if found.is_empty:
                known.pop(group, None)
            else:
                known[group] = found
        rows = [_row(group, known[group]) for group in sorted(known, reverse=reverse)]
        return rows if limit is None else rows[:limit]

    def _rows(self, lo: bytes, hi: bytes, limit: int | None, *, reverse: bool) -> list[bytes]:
        """The rows of the table whose groups are from `lo` to `hi`."""
        found: list[bytes] = []
        if self.row is None:
            return found
        first, end = lo, hi
        while limit is None or len(found) < limit:
            page = self._backend.entries(self.branch, self.name, lo, hi, _PAGE, reverse=reverse)
            found += [row for row in page if _is_in(row[: fields_end(row, self._width)], first, end)]
            if len(page) < _PAGE:
                break
            if reverse:
                hi = page[-1]
            else:
                lo = page[-1] + b"\0"
        return found

    def build_fold(self, through: Seq) -> EntryFold:
        removed: list[bytes] = []
        added: list[bytes] = []
        for group in sorted(self._deltas):
            stored = self._rows(group, group + AFTER, 1, reverse=False)
            removed += stored
            before = split_row(stored[0], self._width)[1] if stored else _NOTHING
            now = _sum_of(before, self._deltas[group])
            if not now.is_empty:
                added.append(_row(group, now))
        return self._fold(through, removed, added)

    def after_fold(self, fold: EntryFold) -> None:
        super().after_fold(fold)
        self._deltas = {}


def _is_in(group: bytes, lo: bytes, hi: bytes) -> bool:
    """Whether a group is in a span, which may begin after a row, or end before one.

    The row may have been another one then.
    """
    return lo <= group < hi and not hi.startswith(group + _SUM)


def _row(group: bytes, known: ExactSum) -> bytes:
    return group + _SUM + known.encode()


def _sum_of(*parts: ExactSum) -> ExactSum:
    found = ExactSum()
    for each in parts:
        found.merge(each)
    return found
