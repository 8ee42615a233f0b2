"""Ranges of keys with their readers: which readers have a range that holds a key, at the cost of the hits.

A range is `lo <= key < hi`. Ranges are filed under the longest prefix that both bounds share. A key can only be in
ranges that are filed under one of its own prefixes. Within one file both bounds differ at the next byte, so two sorted
lists answer without looking at a range that does not match. Nothing has to be balanced.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable
from typing import Final, Generic, TypeAlias, TypeVar

Range: TypeAlias = tuple[bytes, bytes]

R = TypeVar("R")

_ENDS_HERE: Final = -1
"""In the place of the next byte, of a bound that has none."""


class _File:
    """Ranges whose bounds share a prefix and differ at the next byte."""

    __slots__ = ("by_hi", "by_lo", "count", "wide")

    def __init__(self) -> None:
        # By the next byte of `lo`: (lo, hi), sorted. By the next byte of `hi`: (hi, lo), sorted.
        self.by_lo: dict[int, list[Range]] = {}
        self.by_hi: dict[int, list[Range]] = {}
        # By both next bytes, if there is a byte in between: (lo, hi).
        self.wide: dict[tuple[int, int], dict[Range, None]] = {}
        self.count = 0

    def add(self, lo: bytes, hi: bytes, size: int) -> None:
        first, last = _next_byte(lo, size), hi[size]
        insort(self.by_lo.setdefault(first, []), (lo, hi))
        insort(self.by_hi.setdefault(last, []), (hi, lo))
        if last - first > 1:
            self.wide.setdefault((first, last), {})[lo, hi] = None
        self.count += 1

    def remove(self, lo: bytes, hi: bytes, size: int) -> None:
        first, last = _next_byte(lo, size), hi[size]
        _take(self.by_lo, first, (lo, hi))
        _take(self.by_hi, last, (hi, lo))
        if last - first > 1:
            wide = self.wide[first, last]
            del wide[lo, hi]
            if not wide:
                del self.wide[first, last]
        self.count -= 1

    def find(self, key: bytes, size: int, found: list[Range]) -> None:
        """Add all ranges that hold the key, which begins with the prefix of this file."""
        at = _next_byte(key, size)
        for (first, last), ranges in self.wide.items():
            if first < at < last:
                found.extend(ranges)
        # `hi` is further at the next byte, so only `lo` decides; and the other way round.
        entries = self.by_lo.get(at)
        if entries is not None:
            found.extend(entries[: bisect_right(entries, key, key=_bound)])
        entries = self.by_hi.get(at)
        if entries is not None:
            found.extend([(lo, hi) for hi, lo in entries[bisect_right(entries, key, key=_bound) :]])


def _bound(entry: Range) -> bytes:
    return entry[0]


def _next_byte(bound: bytes, size: int) -> int:
    return bound[size] if len(bound) > size else _ENDS_HERE


def _take(table: dict[int, list[Range]], place: int, entry: Range) -> None:
    entries = table[place]
    del entries[bisect_left(entries, entry)]
    if not entries:
        del table[place]


def _shared(lo: bytes, hi: bytes) -> int:
    """The number of bytes that both begin with."""
    low, high = 0, min(len(lo), len(hi))
    if lo[:high] == hi[:high]:
        return high
    # The first `low` bytes are equal, the first `high` are not.
    while high - low > 1:
        middle = (low + high) // 2
        if lo[:middle] == hi[:middle]:
            low = middle
        else:
            high = middle
    return low


class RangeIndex(Generic[R]):
    """The ranges of one index with their readers, which are hashable."""

    def __init__(self) -> None:
        self._files: dict[bytes, _File] = {}
        # The number of files by the length of their prefix, and these lengths in order.
        self._lengths: dict[int, int] = {}
        self._sorted: list[int] = []
        self._readers: dict[Range, dict[R, None]] = {}
        # Files and ranges that queries have looked at: tests bound it.
        self.visits = 0

    def __len__(self) -> int:
        """The number of different ranges."""
        return len(self._readers)

    def add(self, lo: bytes, hi: bytes, reader: R) -> None:
        """Add a reader of a range. Readers of equal ranges share one entry; adding one again changes nothing."""
        readers = self._readers.get((lo, hi))
        if readers is not None:
            readers[reader] = None
            return
        if not lo < hi:
            # No key is in it.
            return
        self._readers[lo, hi] = {reader: None}
        size = _shared(lo, hi)
        file = self._files.get(lo[:size])
        if file is None:
            file = self._files[lo[:size]] = _File()
            count = self._lengths[size] = self._lengths.get(size, 0) + 1
            if count == 1:
                insort(self._sorted, size)
        file.add(lo, hi, size)

    def remove(self, lo: bytes, hi: bytes, reader: R) -> None:
        """Remove a reader of a range. Without effect if it is not one."""
        readers = self._readers.get((lo, hi))
        if readers is None or reader not in readers:
            return
        del readers[reader]
        if readers:
            return
        del self._readers[lo, hi]
        size = _shared(lo, hi)
        file = self._files[lo[:size]]
        file.remove(lo, hi, size)
        if not file.count:
            del self._files[lo[:size]]
            self._lengths[size] -= 1
            if not self._lengths[size]:
                del self._lengths[size]
                self._sorted.remove(size)

    def ranges(self, key: bytes) -> list[Range]:
        """All ranges that hold the key."""
        found: list[Range] = []
        for size in self._sorted:
            if size > len(key):
                break
            file = self._files.get(key[:size])
            if file is not None:
                self.visits += 1
                file.find(key, size, found)
        self.visits += len(found)
        return found

    def entries(self) -> list[tuple[bytes, bytes, R]]:
        """All ranges with their readers: for the checks of invariants."""
        return [(lo, hi, reader) for (lo, hi), readers in self._readers.items() for reader in readers]

    def readers(self, lo: bytes, hi: bytes) -> list[R]:
        """The readers of exactly this range."""
        return list(self._readers.get((lo, hi), ()))

    def match(self, keys: Iterable[bytes]) -> list[R]:
        """All readers of ranges that hold one of the keys, each once."""
        found: dict[R, None] = {}
        for key in keys:
            for each in self.ranges(key):
                found.update(self._readers[each])
        return list(found)
