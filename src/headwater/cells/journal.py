"""The journal of a transaction: reads and attempted writes, recorded once and projected into three sets.

An entry is an address, a depth, the version of the document that was seen, and flags. The dependencies of a run, the
reads that its commit must find unchanged, and the labels of its result are projections of the same entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from headwater.cells.journal_entry import Entry
from headwater.cells.pending_commit import SHALLOW_BIT, Mark, ReadKey
from headwater.values.address import Depth, is_prefix, overlaps
from headwater.values.ids import NEVER, DocKey
from headwater.values.patch import Add, AddUnique, Append, Increment, Move, PatchOp, Remove, RemoveByValue, Splice
from headwater.values.tree import Path

Flags: TypeAlias = int
"""A sum of the five flags below. Plain ints: combining flags of an enum costs more than a read."""

IGNORED_FOR_SCHEDULING: Final = 1
"""Read without depending on it: `peek`."""
IGNORED_FOR_CONFLICT: Final = 2
"""Not checked for conflicts: a write that does not build on the value it found."""
LINK_PROBE: Final = 4
"""Read only to resolve a link."""
LABEL_ONLY: Final = 8
"""Neither a dependency nor checked for conflicts; its label counts."""
ATTEMPTED_WRITE: Final = 16
"""Not a read: an attempted write, even if it changed nothing."""
_DEEP_READ: Final = Depth.DEEP
_SHALLOW_READ: Final = Depth.SHALLOW

_NOT_DEPENDED_ON: Final = IGNORED_FOR_SCHEDULING | LABEL_ONLY | ATTEMPTED_WRITE
_NOT_CHECKED: Final = IGNORED_FOR_CONFLICT | LABEL_ONLY | ATTEMPTED_WRITE


class Journal:
    """The entries of one transaction, without duplicates, in the order of their first use."""

    __slots__ = ("entries", "is_plain")

    def __init__(self) -> None:
        # A dict for its keys: an address that is read a thousand times is one entry. A transaction has one snapshot per
        # document, so the version is not part of the key. Entries without flags may be added directly: `record` costs a
        # call.
        self.entries: dict[ReadKey, Mark | None] = {}
        # No entry has flags.
        self.is_plain = True

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags, mark: Mark | None) -> None:
        """Record a read or an attempted write."""
        if flags:
            self.is_plain = False
        self.entries[doc, path, flags if depth is _DEEP_READ else flags | SHALLOW_BIT] = mark

    def drop(self, doc: DocKey, paths: Iterable[Path]) -> None:
        """Remove deep reads without flags, which another read subsumes."""
        for path in paths:
            self.entries.pop((doc, path, 0), None)

    def reads(self) -> dict[ReadKey, Mark | None]:
        """The dependencies of the run as keys of the reader index. Read-only for the caller."""
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
        """Every document that was read."""
        return {key[0] for key in self.entries}

    def __iter__(self) -> Iterator[Entry]:
        for (doc, path, bits), mark in self.entries.items():
            yield Entry(doc, path, _SHALLOW_READ if bits & SHALLOW_BIT else _DEEP_READ, bits & ~SHALLOW_BIT, mark)

    def dependencies(self) -> list[Entry]:
        """The reads whose change runs the function again."""
        return self._without(_NOT_DEPENDED_ON)

    def conflicts(self) -> list[Entry]:
        """The reads that must be unchanged for the commit to be accepted."""
        return self._without(_NOT_CHECKED)

    def _without(self, flags: Flags) -> list[Entry]:
        entries = [
            Entry(doc, path, _SHALLOW_READ if bits & SHALLOW_BIT else _DEEP_READ, 0, mark)
            for (doc, path, bits), mark in self.entries.items()
            if not bits & flags
        ]
        # Reads of different documents are never merged, and most transactions read each document once.
        return entries if len({entry.doc for entry in entries}) == len(entries) else compact(entries)

    def labels(self) -> list[Entry]:
        """All entries, with flags: the inputs and the targets of the result."""
        return compact(self, keep_flags=True)

    def clear(self) -> None:
        """Remove all entries."""
        self.entries = {}


def compact(entries: Iterable[Entry], *, keep_flags: bool = False) -> list[Entry]:
    """The smallest equivalent set of entries.

    A deep read subsumes every read at or below its path, a shallow one only itself. Reads of different versions are
    never merged: one of them would be checked against the wrong version. Flags are dropped (they have already selected
    the entries), unless `keep_flags`; then entries with different flags are not merged either.
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
    """Whether the path is strictly below one of them."""
    if not tops:
        return False
    for length in range(len(path)):
        if path[:length] in tops:
            return True
    return False


class EditInputs:
    """What the edits of a document depended on: a read of an edited value also reads those inputs.

    After the first element was removed, the new first is the former second; after a move, a path has the value of
    another path. May name too much, never too little.
    """

    __slots__ = ("_all",)

    def __init__(self, ops: Iterable[PatchOp] = ()) -> None:
        # The edited path; the path and depth of its input.
        self._all: dict[tuple[Path, Path, Depth], None] = {}
        for op in ops:
            self.add(op)

    def add(self, op: PatchOp) -> None:
        """Add an edit. An edit that determines its result completely (a key set or removed) has no inputs."""
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
        """An element is inserted or removed: every index of its list depends on the whole list."""
        if not path or type(path[-1]) is not int:
            return path
        above = path[:-1]
        self._all[above, above, _DEEP_READ] = None
        return above

    def of(self, path: Path, depth: Depth) -> list[tuple[Path, Depth]]:
        """The inputs of a read, through one edit or several; empty if it reads nothing edited."""
        found: list[tuple[Path, Depth]] = []
        todo = [(path, depth)]
        while todo:
            seen, far = todo.pop()
            for left, source, how in self._all:
                meets = overlaps(seen, left) if far is _DEEP_READ else is_prefix(left, seen)
                if meets and (source, how) not in found:
                    found.append((source, how))
                    todo.append((source, how))
        return found


_BY_CONTENT: Final = frozenset({Splice, AddUnique, RemoveByValue, Increment})
"""Edits whose result depends on the whole value at their path."""

NO_MARK: Final = Mark(NEVER, [], 0)
"""The version of a value that is in no replica."""
