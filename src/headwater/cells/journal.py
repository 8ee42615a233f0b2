"""The journal of a transaction: reads and attempted writes, recorded once and projected into three sets.

An entry is an address, a depth, the version of the document that was seen, and flags. The dependencies of a run, the
reads that its commit must find unchanged, and the labels of its result are projections of the same entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

import msgspec

from headwater.cells.pending_commit import PendingCommit, ranges
from headwater.store.commit import Committed, PendingRead, Read
from headwater.values.address import Depth, is_prefix, overlaps
from headwater.values.ids import NEVER, DocKey, Seq
from headwater.values.patch import Add, AddUnique, Append, Increment, Move, PatchOp, Remove, RemoveByValue, Splice
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
SHALLOW_BIT: Final = 32
"""Not a flag of reads: how the journal and the index of readers write down that only a shape was looked at."""

_DEEP_READ: Final = Depth.DEEP
_SHALLOW_READ: Final = Depth.SHALLOW

_NOT_DEPENDED_ON: Final = IGNORED_FOR_SCHEDULING | LABEL_ONLY | ATTEMPTED_WRITE
_NOT_CHECKED: Final = IGNORED_FOR_CONFLICT | LABEL_ONLY | ATTEMPTED_WRITE


class Mark(msgspec.Struct, eq=False, frozen=True):
    """The version of a document that a transaction sees: confirmed as of `seq`, with its own session's layers on top.

    `layers` is the replica's list as it was: it only ever grows at its end, so the first `count` stay what they are.
    """

    seq: Seq
    layers: list[PendingCommit]
    count: int

    def read(self, doc: DocKey, path: Path, depth: Depth) -> Read | PendingRead:
        """What a commit has to name that is made from what was seen there."""
        if not self.count:
            return Read(doc, path, self.seq, depth)
        return PendingRead(doc, path, self.seq, ranges(self.layers[: self.count]), depth)

    def written_since(self, earlier: Mark, doc: DocKey) -> list[Path]:
        """Where the document may have been written since an earlier version: anywhere, if others have confirmed it."""
        if self.layers is earlier.layers and self.count == earlier.count:
            return []
        seen = earlier.layers[: earlier.count]
        own = seen[-1].verdict if seen else None
        if self.seq != earlier.seq and not (type(own) is Committed and own.seq == self.seq):
            return [()]
        before = set(map(id, seen))
        fresh = [layer for layer in self.layers[: self.count] if id(layer) not in before]
        return [
            touch.path for layer in fresh for effect in layer.effects if effect.doc == doc for touch in effect.touches
        ]


class Entry(msgspec.Struct, frozen=True):
    """One place in the journal."""

    doc: DocKey
    path: Path
    depth: Depth = Depth.DEEP
    flags: Flags = 0
    mark: Mark | None = None


ReadKey: TypeAlias = tuple[DocKey, Path, int]
"""Where, and whether only the shape was looked at: 0 or SHALLOW_BIT."""


class Journal:
    """The entries of one transaction, each once, in the order they were first made."""

    __slots__ = ("entries", "is_plain")

    def __init__(self) -> None:
        # A dict for its keys: the same place read a thousand times is one entry. A transaction looks at a document
        # once, so the version belongs to the document and need not tell entries apart. Entries without flags may be
        # put in by hand: `note` costs a call.
        self.entries: dict[ReadKey, Mark | None] = {}
        # Nothing was read, or tried, in a special way.
        self.is_plain = True

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags, mark: Mark | None) -> None:
        """A place was read, or a write was tried there."""
        if flags:
            self.is_plain = False
        self.entries[doc, path, flags if depth is _DEEP_READ else flags | SHALLOW_BIT] = mark

    def reads(self) -> dict[ReadKey, Mark | None]:
        """What the run depends on, as the index of readers takes it: the keys. Not to be changed."""
        if self.is_plain:
            return self.entries
        return {
            (doc, path, bits & SHALLOW_BIT): mark
            for (doc, path, bits), mark in self.entries.items()
            if not bits & _NOT_DEPENDED_ON
        }

    def __len__(self) -> int:
        return len(self.entries)

    def docs(self) -> set[DocKey]:
        """Every document that was looked at."""
        return {key[0] for key in self.entries}

    def __iter__(self) -> Iterator[Entry]:
        for (doc, path, bits), mark in self.entries.items():
            yield Entry(doc, path, _SHALLOW_READ if bits & SHALLOW_BIT else _DEEP_READ, bits & ~SHALLOW_BIT, mark)

    def dependencies(self) -> list[Entry]:
        """What has to change for the run to be worth repeating."""
        return self._without(_NOT_DEPENDED_ON)

    def conflicts(self) -> list[Entry]:
        """What must not have changed for the commit to be accepted."""
        return self._without(_NOT_CHECKED)

    def _without(self, flags: Flags) -> list[Entry]:
        entries = [
            Entry(doc, path, _SHALLOW_READ if bits & SHALLOW_BIT else _DEEP_READ, 0, mark)
            for (doc, path, bits), mark in self.entries.items()
            if not bits & flags
        ]
        # Reads of different documents are never merged, and most transactions look at each document once.
        return entries if len({entry.doc for entry in entries}) == len(entries) else compact(entries)

    def labels(self) -> list[Entry]:
        """What the result has been made of, and where it was to go: all of it."""
        return compact(self, keep_flags=True)

    def clear(self) -> None:
        """Let go of everything."""
        self.entries = {}


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


class EditInputs:
    """What decided the edits of a document: whoever reads what such an edit left has looked at that as well.

    After the first element was removed, the new first is what the second was; after a move, a place shows what stood
    at another. May name more than was needed, never less.
    """

    __slots__ = ("_all",)

    def __init__(self, ops: Iterable[PatchOp] = ()) -> None:
        # Where an edit left something; where it looked for that, and how far down.
        self._all: dict[tuple[Path, Path, Depth], None] = {}
        for op in ops:
            self.add(op)

    def add(self, op: PatchOp) -> None:
        """One more edit. One that says all of what it leaves (a key set or removed) leans on nothing."""
        path, kind = op.path, type(op)
        if kind in _BY_CONTENT:
            self._all[path, path, _DEEP_READ] = None
        elif kind is Append:
            self._all[path, path, _SHALLOW_READ] = None
        elif kind is Add or kind is Remove:
            self._shift(path)
        elif type(op) is Move:
            self._shift(op.source)
            self._all[self._shift(path), op.source, _DEEP_READ] = None

    def _shift(self, path: Path) -> Path:
        """An element comes or goes: what stands at any place of its list depends on the others."""
        if not path or type(path[-1]) is not int:
            return path
        above = path[:-1]
        self._all[above, above, _DEEP_READ] = None
        return above

    def of(self, path: Path, depth: Depth) -> list[tuple[Path, Depth]]:
        """What a read leans on, through one edit or several; nothing if it sees nothing that an edit left."""
        found: list[tuple[Path, Depth]] = []
        todo = [(path, depth)]
        while todo:
            seen, far = todo.pop()
            for left, place, how in self._all:
                meets = overlaps(seen, left) if far is _DEEP_READ else is_prefix(left, seen)
                if meets and (place, how) not in found:
                    found.append((place, how))
                    todo.append((place, how))
        return found


_BY_CONTENT: Final = frozenset({Splice, AddUnique, RemoveByValue, Increment})
"""Edits whose result depends on all that stands at their place."""

NO_MARK: Final = Mark(NEVER, [], 0)
"""The mark of what no replica holds."""
