"""What one transaction read and tried to write: one journal, of which three different sets are taken.

An entry is a place, how far down it was looked at, the version of the document that was seen, and flags. What a run
depends on, what its commit must find unchanged, and what its result has to be labelled with are projections of the
same entries: none of them is written down a second time.

Must never know: values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from headwater.cells.pending import Pending, ranges
from headwater.store.commit import PendingRead, Read
from headwater.values.address import Depth
from headwater.values.ids import NEVER, DocKey, Seq
from headwater.values.tree import Path

Flags: TypeAlias = int
"""Any of the five below, added up. Plain ints: an enum's flags cost more to combine than a read costs."""

IGNORED_FOR_SCHEDULING: Final = 1
"""Read without depending on it: `peek`."""
IGNORED_FOR_CONFLICT: Final = 2
"""May have changed meanwhile without harm: a write that does not build on what it found."""
LINK_PROBE: Final = 4
"""Only looked at to see where a link leads."""
LABEL_ONLY: Final = 8
"""Neither wakes nor conflicts; its label counts."""
ATTEMPTED_WRITE: Final = 16
"""Not a read: a write was tried here, also if it changed nothing."""
_SHALLOW: Final = 32

_NOT_DEPENDED_ON: Final = IGNORED_FOR_SCHEDULING | LABEL_ONLY | ATTEMPTED_WRITE
_NOT_CHECKED: Final = IGNORED_FOR_CONFLICT | LABEL_ONLY | ATTEMPTED_WRITE


class Mark(msgspec.Struct, eq=False, frozen=True):
    """The version of a document that a transaction sees: confirmed as of `seq`, with its own session's layers on top.

    `layers` is the replica's list as it was: it only ever grows at its end, so the first `count` stay what they are.
    """

    seq: Seq
    layers: list[Pending]
    count: int

    def read(self, doc: DocKey, path: Path, depth: Depth) -> Read | PendingRead:
        """What a commit has to name that is made from what was seen there."""
        if not self.count:
            return Read(doc, path, self.seq, depth)
        return PendingRead(doc, path, self.seq, ranges(self.layers[: self.count]), depth)


class Entry(msgspec.Struct, frozen=True):
    """One place in the journal."""

    doc: DocKey
    path: Path
    depth: Depth = Depth.DEEP
    flags: Flags = 0
    mark: Mark | None = None


_Key: TypeAlias = tuple[DocKey, Path, int, Mark | None]


class Journal:
    """The entries of one transaction, each once, in the order they were first made."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        # A dict for its keys: the same place read a thousand times is one entry.
        self._entries: dict[_Key, None] = {}

    def note(self, doc: DocKey, path: Path, depth: Depth, flags: Flags, mark: Mark | None) -> None:
        """A place was read, or a write was tried there."""
        self._entries[doc, path, flags if depth is Depth.DEEP else flags | _SHALLOW, mark] = None

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        for doc, path, bits, mark in self._entries:
            yield Entry(doc, path, Depth.SHALLOW if bits & _SHALLOW else Depth.DEEP, bits & ~_SHALLOW, mark)

    def dependencies(self) -> list[Entry]:
        """What has to change for the run to be worth repeating."""
        return compact(entry for entry in self if not entry.flags & _NOT_DEPENDED_ON)

    def conflicts(self) -> list[Entry]:
        """What must not have changed for the commit to be accepted."""
        return compact(entry for entry in self if not entry.flags & _NOT_CHECKED)

    def labels(self) -> list[Entry]:
        """What the result has been made of, and where it was to go: all of it."""
        return compact(self, keep_flags=True)

    def clear(self) -> None:
        """Let go of everything."""
        self._entries.clear()


def compact(entries: Iterable[Entry], *, keep_flags: bool = False) -> list[Entry]:
    """The fewest entries that say the same.

    A deep read subsumes every read at or below its place, a shallow one only itself: it did not look further. Reads
    of different versions are never merged, or one of them would be checked against the wrong past. Flags are dropped
    (they have decided who is in the set) unless they are to be kept; then different flags are not merged either.
    """
    deep: dict[tuple[DocKey, Mark | None, Flags], dict[Path, None]] = {}
    shallow: dict[tuple[DocKey, Mark | None, Flags], dict[Path, None]] = {}
    for entry in entries:
        group = (entry.doc, entry.mark, entry.flags if keep_flags else 0)
        (deep if entry.depth is Depth.DEEP else shallow).setdefault(group, {})[entry.path] = None
    found: list[Entry] = []
    for group in {**deep, **shallow}:
        doc, mark, flags = group
        tops = deep.get(group, {})
        found += [Entry(doc, path, Depth.DEEP, flags, mark) for path in tops if not _is_below(path, tops)]
        for path in shallow.get(group, ()):
            if path not in tops and not _is_below(path, tops):
                found.append(Entry(doc, path, Depth.SHALLOW, flags, mark))
    return found


def _is_below(path: Path, tops: dict[Path, None]) -> bool:
    """Strictly below one of them."""
    if not tops:
        return False
    for length in range(len(path)):
        if path[:length] in tops:
            return True
    return False


NOWHERE: Final = Mark(NEVER, [], 0)
"""The mark of what no replica holds."""
