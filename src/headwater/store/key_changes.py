"""Changes of the keys of an index: which are gone, and which are new, as the net of moves of documents."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from typing import Final, TypeAlias

from headwater.values.ids import Seq

KeyPair: TypeAlias = tuple[bytes | None, bytes | None]
"""The key of a document before and after a commit. None: it has none."""

_AT_ONCE: Final = 64
"""More moves at once are merged into the lists, not inserted one by one."""


class KeyChanges:
    """The net of moves, oldest first: keys that were there and are gone, and keys that are new, both sorted."""

    __slots__ = ("added", "gone")

    def __init__(self) -> None:
        self.gone: list[bytes] = []
        self.added: list[bytes] = []

    def lay(self, moves: Sequence[KeyPair]) -> None:
        """Add later moves."""
        if len(moves) > _AT_ONCE:
            self._lay_many(moves)
            return
        for before, after in moves:
            if before is not None and not _take(self.added, before):
                insort(self.gone, before)
            if after is not None and not _take(self.gone, after):
                insort(self.added, after)

    def _lay_many(self, moves: Sequence[KeyPair]) -> None:
        if not self.gone and all(before is None for before, _ in moves):
            # Documents that are new: nothing goes, and no key can be there already. Two sorted parts: one merge.
            self.added = self.added + sorted([after for _, after in moves if after is not None])
            self.added.sort()
            return
        # What changes in the two lists: these are long while a collection is filled, and are merged, not sorted anew.
        gone, added = _ListChange(self.gone), _ListChange(self.added)
        for before, after in moves:
            if before is not None and not added.take(before):
                gone.put(before)
            if after is not None and not gone.take(after):
                added.put(after)
        self.gone, self.added = gone.changed(), added.changed()


class LaterChanges:
    """The changes of an index after a commit, as far as they are known."""

    __slots__ = ("changes", "since", "through", "undone")

    def __init__(self, since: Seq, through: Seq, undone: int, changes: KeyChanges) -> None:
        self.since = since
        self.through = through
        # How often commits had been forgotten when it was begun.
        self.undone = undone
        self.changes = changes


def between(keys: list[bytes], lo: bytes, hi: bytes) -> list[bytes]:
    """Those of the sorted keys with `lo <= key < hi`."""
    return keys[bisect_left(keys, lo) : bisect_left(keys, hi)]


def has_key(keys: list[bytes], key: bytes) -> bool:
    """Whether a key is among the sorted keys."""
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
