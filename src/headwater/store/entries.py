"""The keys of one index on one branch: the table as of the last fold, with the moves since on top, in memory.

A query merges both. A query as of an earlier commit undoes the later moves within its span.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

from headwater.store.backend import Backend, EntryFold, IndexRow
from headwater.values.ids import BranchId, Seq
from headwater.values.sortkey import AFTER

ALL: Final = (b"", AFTER)
"""The bounds of a whole index."""

_AT_ONCE: Final = 64
"""With more moves at once, the list of added keys is sorted anew."""

_PAGE: Final = 1024
_SLACK: Final = 16
"""Keys that are asked for beyond the limit, since some of them may be gone."""


class Undone:
    """The effect of undoing moves within a span: keys to leave out, and keys to put back."""

    __slots__ = ("back", "hi", "lo", "out")

    def __init__(self, lo: bytes, hi: bytes) -> None:
        self.lo, self.hi = lo, hi
        self.out: set[bytes] = set()
        self.back: set[bytes] = set()

    def undo(self, before: bytes | None, after: bytes | None) -> None:
        """Undo a move. Newest first."""
        if after is not None and self.lo <= after < self.hi:
            if after in self.back:
                self.back.discard(after)
            else:
                self.out.add(after)
        if before is not None and self.lo <= before < self.hi:
            if before in self.out:
                self.out.discard(before)
            else:
                self.back.add(before)


class Entries:
    """The keys of one index on one branch."""

    def __init__(self, backend: Backend, branch: BranchId, name: str, row: IndexRow | None, since: Seq) -> None:
        self._backend = backend
        self.branch = branch
        self.name = name
        # As of the last fold; None if it is not in the table, and all keys are in memory.
        self.row = row
        self.since = since
        # The newest commit whose moves are here.
        self.through = since if row is None else row.through
        # Relative to the table: keys that are no longer there, and keys that are new, both sorted.
        self._gone: list[bytes] = []
        self._added: list[bytes] = []

    @property
    def unfolded(self) -> int:
        """The number of keys that the next fold writes."""
        return len(self._gone) + len(self._added)

    def fill(self, keys: list[bytes], through: Seq) -> None:
        """Take all keys, sorted: they were made from the documents as of a commit."""
        self._added, self.through = keys, through

    def lay(self, moves: Sequence[tuple[bytes | None, bytes | None]], through: Seq) -> None:
        """Apply later moves, oldest first: keys before and after."""
        self.through = through
        if len(moves) > _AT_ONCE:
            self._lay_many(moves)
            return
        for before, after in moves:
            if before is not None and not _take(self._added, before):
                insort(self._gone, before)
            if after is not None and not _take(self._gone, after):
                insort(self._added, after)

    def _lay_many(self, moves: Iterable[tuple[bytes | None, bytes | None]]) -> None:
        # What changes in the two lists: these are long while a collection is filled, and are merged, not sorted anew.
        gone, added = _ListChange(self._gone), _ListChange(self._added)
        for before, after in moves:
            if before is not None and not added.take(before):
                gone.put(before)
            if after is not None and not gone.take(after):
                added.put(after)
        self._gone, self._added = gone.changed(), added.changed()

    def span(self, lo: bytes, hi: bytes, limit: int | None, *, reverse: bool, undone: Undone | None) -> list[bytes]:
        """The first keys with `lo <= key < hi`, or the last, backwards."""
        if limit is not None and limit <= 0:
            return []
        added = self._added[bisect_left(self._added, lo) : bisect_left(self._added, hi)]
        if undone is not None and (undone.out or undone.back):
            added = sorted([key for key in added if key not in undone.out] + list(undone.back))
        if limit is not None:
            added = added[-limit:] if reverse else added[:limit]
        stored = self._stored(lo, hi, limit, reverse=reverse, undone=undone) if self.row is not None else []
        if not stored:
            return added[::-1] if reverse else added
        if added:
            stored += added
            stored.sort(reverse=reverse)
        return stored if limit is None else stored[:limit]

    def all_keys(self) -> list[bytes]:
        """All keys, in order."""
        return self.span(*ALL, None, reverse=False, undone=None)

    def _stored(self, lo: bytes, hi: bytes, limit: int | None, *, reverse: bool, undone: Undone | None) -> list[bytes]:
        """Keys of the table without those that are gone."""
        out: set[bytes] = set() if undone is None else undone.out
        gone = self._gone[bisect_left(self._gone, lo) : bisect_left(self._gone, hi)]
        is_without = bool(gone or out)
        found: list[bytes] = []
        while True:
            most = _PAGE if limit is None else limit - len(found) + (_SLACK if is_without else 0)
            page = self._backend.entries(self.branch, self.name, lo, hi, most, reverse=reverse)
            if is_without:
                found += [key for key in page if key not in out and not _has(gone, key)]
            else:
                found += page
            if len(page) < most or (limit is not None and len(found) >= limit):
                return found
            if reverse:
                hi = page[-1]
            else:
                lo = page[-1] + b"\0"

    def build_fold(self, through: Seq) -> EntryFold:
        """What the next fold writes. All moves up to this commit are here."""
        count, total = (0, 0) if self.row is None else (self.row.count, self.row.digest)
        self.through = through
        row = IndexRow(
            self.branch,
            self.name,
            self.since,
            through,
            count + len(self._added) - len(self._gone),
            total + sum(map(crc32, self._added)) - sum(map(crc32, self._gone)),
        )
        return EntryFold(row, self._gone.copy(), self._added.copy(), is_new=self.row is None)

    def after_fold(self, fold: EntryFold) -> None:
        """The fold is written. Nothing was laid since it was built."""
        self.row = fold.row
        self._gone, self._added = [], []


def _has(keys: list[bytes], key: bytes) -> bool:
    place = bisect_left(keys, key)
    return place < len(keys) and keys[place] == key


class _ListChange:
    """Keys that come into a sorted list, and keys that go."""

    __slots__ = ("_before", "_new", "_out")

    def __init__(self, before: list[bytes]) -> None:
        self._before = before
        self._new: set[bytes] = set()
        self._out: set[bytes] = set()

    def take(self, key: bytes) -> bool:
        """Take out a key. Returns whether it was there."""
        if key in self._new:
            self._new.remove(key)
            return True
        if key in self._out or not self._was_there(key):
            return False
        self._out.add(key)
        return True

    def put(self, key: bytes) -> None:
        """Add a key."""
        if key in self._out:
            self._out.remove(key)
        elif not self._was_there(key):
            self._new.add(key)

    def _was_there(self, key: bytes) -> bool:
        before = self._before
        place = bisect_left(before, key)
        return place < len(before) and before[place] == key

    def changed(self) -> list[bytes]:
        """The list afterwards."""
        kept = [key for key in self._before if key not in self._out] if self._out else self._before
        if not self._new:
            return kept
        found = kept + sorted(self._new)
        # Two sorted parts: one merge.
        found.sort()
        return found


def _take(keys: list[bytes], key: bytes) -> bool:
    """Remove a key from a sorted list. Returns whether it was there."""
    place = bisect_right(keys, key) - 1
    if place < 0 or keys[place] != key:
        return False
    del keys[place]
    return True
