"""A trie of reads per document: which readers a change concerns.

Each document has a trie of the paths that are read in it, unless one reader reads it whole. A change is walked down the
trie together with the values before and after; where both are the same object, nothing below is compared.

`values.overlap.is_touched` is the rule for one read. `match` applies the same rule to all reads at once, because every
write comes here. While both sides are containers, the walk continues below. Where only one is, every read below is
touched; where neither is, none. A property test compares the two.

One thread at a time may add and remove. Other threads may read in the meantime, and find the index as before or after
each step: a dict of the index is never iterated over, but copied to a list first, which is atomic.
"""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from itertools import zip_longest
from typing import Final, Generic, TypeAlias, TypeVar

from headwater.values.ids import DocKey
from headwater.values.notifications import Change
from headwater.values.tree import (
    ABSENT,
    Array,
    Map,
    Maybe,
    Path,
    Step,
    child,
    is_container,
    is_map,
    same,
    same_shape,
    unshared,
)

R = TypeVar("R")

Group: TypeAlias = R | dict[R, None] | None
"""The readers of one place at one depth, in the order of adding. A single reader is stored without a dict."""

SPARSE: Final = 8
"""If two containers have fewer entries per place read below them, comparing all entries is faster."""


class _Place(Generic[R]):
    """One path of one document: its readers, and the places below. It exists while it has readers at or below it."""

    __slots__ = ("deep", "kids", "shallow", "step")

    def __init__(self, step: Step) -> None:
        self.step = step
        self.deep: Group[R] = None
        self.shallow: Group[R] = None
        # A single one is stored without a dict, which would take more memory than everything else.
        self.kids: _Place[R] | dict[Step, _Place[R]] | None = None

    def put(self, shallow: bool, group: Group[R]) -> None:  # noqa: FBT001  # a part of the read
        """Set the readers of one depth."""
        if shallow:
            self.shallow = group
        else:
            self.deep = group

    def kid(self, step: Step) -> _Place[R] | None:
        kids = self.kids
        if isinstance(kids, dict):
            return kids.get(step)
        return kids if kids is not None and kids.step == step else None

    def all_kids(self) -> list[_Place[R]]:
        kids = self.kids
        if isinstance(kids, dict):
            return list(kids.values())
        return [] if kids is None else [kids]

    def grow(self, step: Step) -> _Place[R]:
        """Add a place below."""
        kids, kid = self.kids, type(self)(step)
        if isinstance(kids, dict):
            kids[step] = kid
        else:
            self.kids = kid if kids is None else {kids.step: kids, step: kid}
        return kid

    def drop(self, step: Step) -> None:
        """Remove a place below."""
        kids = self.kids
        if isinstance(kids, dict):
            del kids[step]
            if len(kids) == 1:
                (self.kids,) = kids.values()
        else:
            self.kids = None


class ReaderIndex(Generic[R]):
    """All reads, by place. Readers are compared with `==`; None, dicts and places cannot be readers."""

    def __init__(self) -> None:
        # A document that is read whole by one reader, as most are, has that reader instead of a trie.
        self._roots: dict[DocKey, _Place[R] | R] = {}
        self._count = 0
        self.docs: Final[KeysView[DocKey]] = self._roots.keys()  # a live view; faster to ask than the index
        self.visits = 0  # the number of places that `match` has visited

    def __contains__(self, doc: object) -> bool:
        return doc in self._roots

    def __len__(self) -> int:
        return self._count

    def add(self, doc: DocKey, path: Path, shallow: bool, reader: R) -> None:  # noqa: FBT001  # a part of the read
        """Add a read. Idempotent."""
        root = self._roots.get(doc)
        if root is None and not path and not shallow:
            self._roots[doc] = reader
            self._count += 1
            return
        place: _Place[R]
        if isinstance(root, _Place):
            place = root
        else:
            place = _Place("")
            place.deep = root
            self._roots[doc] = place
        for step in path:
            place = place.kid(step) or place.grow(step)
        group = place.shallow if shallow else place.deep
        if isinstance(group, dict):
            self._count += reader not in group
            group[reader] = None
        elif group != reader:
            self._count += 1
            place.put(shallow, reader if group is None else {group: None, reader: None})

    def remove(self, doc: DocKey, path: Path, shallow: bool, reader: R) -> None:  # noqa: FBT001  # as above
        """Remove a read. Idempotent."""
        root = self._roots.get(doc)
        if isinstance(root, _Place):
            if self._remove_at(root, path, shallow, reader):
                self._drop_root(doc)
        elif root is not None and root == reader and not path and not shallow:
            self._count -= 1
            self._drop_root(doc)

    def _remove_at(self, root: _Place[R], path: Path, shallow: bool, reader: R) -> bool:  # noqa: FBT001  # as above
        """Remove a read, and the places that it leaves without readers. Returns whether the root is one of them."""
        place: _Place[R] | None = root
        way: list[_Place[R]] = []
        for step in path:
            if place is not None:
                way.append(place)
                place = place.kid(step)
        if place is None:
            return False
        group = place.shallow if shallow else place.deep
        if isinstance(group, dict):
            self._count -= reader in group
            group.pop(reader, None)
            if len(group) == 1:
                place.put(shallow, next(iter(group)))
        elif group is not None and group == reader:
            self._count -= 1
            place.put(shallow, None)
        while place.deep is place.shallow is place.kids is None:
            if not way:
                return True
            step, place = place.step, way.pop()
            place.drop(step)
        return False

    def _drop_root(self, doc: DocKey) -> None:
        del self._roots[doc]
        if not self._roots:
            self._roots.clear()  # a dict does not shrink by itself

    def of_doc(self, doc: DocKey) -> list[R]:
        """The readers of anything in a document, each once."""
        root = self._roots.get(doc)
        if not isinstance(root, _Place):
            return [] if root is None else [root]
        groups: list[Group[R]] = []
        _take_all([root], groups)
        return _each_once(groups)

    def entries(self) -> Iterator[tuple[DocKey, Path, bool, R]]:
        """All reads, in the order of adding: for inspection."""
        for doc, root in list(self._roots.items()):
            if not isinstance(root, _Place):
                yield doc, (), False, root
                continue
            todo: list[tuple[Path, _Place[R]]] = [((), root)]
            for path, place in todo:
                for group, shallow in ((place.deep, False), (place.shallow, True)):
                    if group is not None:
                        for reader in list(group) if isinstance(group, dict) else [group]:
                            yield doc, path, shallow, reader
                todo += [((*path, kid.step), kid) for kid in place.all_kids()]

    def match(self, change: Change) -> list[R]:
        """The readers that the change touches, each once. Upper places first; at each place, in the order of adding."""
        place = self._roots.get(change.doc)
        before, after = change.before, change.after
        if place is None or before is after:
            return []
        if not isinstance(place, _Place):
            # By far the most common case: a document is one value, and one reader reads it whole.
            self.visits += 1
            return [] if before == after and same(before, after) else [place]
        if place.kids is place.shallow is None:
            # The same, with several readers.
            self.visits += 1
            if before == after and same(before, after):
                return []
            only = place.deep
            return list(only) if isinstance(only, dict) else [] if only is None else [only]
        groups: list[Group[R]] = []
        visits, left = 1, len(change.path)
        for step in change.path:
            if place.deep is not None:
                if not groups and same(before, after):
                    break
                groups.append(place.deep)
            left -= 1
            if not left and (before is ABSENT or after is ABSENT):
                # The shape one step above changes when the place itself appears or vanishes.
                groups.append(place.shallow)
            if (kid := place.kid(step)) is None:
                break
            visits += 1
            place = kid
        else:
            visits += _take_touched([(place, before, after)], groups)
        self.visits += visits
        return _each_once(groups)


def _take_touched(todo: list[tuple[_Place[R], Maybe, Maybe]], groups: list[Group[R]]) -> int:
    """Collect the touched readers at these places or below. Returns the number of visited places below."""
    visits = 0
    for place, old, new in todo:
        if place.deep is not None:
            if same(old, new):
                continue
            groups.append(place.deep)
        if place.shallow is not None and not same_shape(old, new):
            groups.append(place.shallow)
        if place.kids is None:
            continue
        if is_container(old) and is_container(new):
            below = _below(place, old, new)
            visits += len(below)
            todo += [found for found in below if found[1] is not found[2]]
        elif is_container(old) or is_container(new):
            visits += _take_all(place.all_kids(), groups)
    return visits


def _below(place: _Place[R], old: Map | Array, new: Map | Array) -> list[tuple[_Place[R], Maybe, Maybe]]:
    """The children of two containers at the places below. Some equal ones are left out."""
    kids = place.kids
    if isinstance(kids, dict) and len(kids) * SPARSE > len(old) + len(new) and is_map(old) is is_map(new):
        return [(kid, x, y) for step, x, y in _unlike(old, new) if (kid := kids.get(step)) is not None]
    return [(kid, child(old, kid.step), child(new, kid.step)) for kid in place.all_kids()]


def _unlike(old: Map | Array, new: Map | Array) -> Iterator[tuple[Step, Maybe, Maybe]]:
    """The children that are not the same object in two maps or two arrays."""
    if not (is_map(old) and is_map(new)):
        for index, (x, y) in enumerate(zip_longest(old, new, fillvalue=ABSENT)):
            if x is not y:
                yield index, x, y
        return
    mine, theirs = unshared(old, new)
    for key, x in mine.items():
        if x is not (y := theirs.get(key, ABSENT)):
            yield key, x, y
    for key, y in theirs.items():
        if key not in mine:
            yield key, ABSENT, y


def _take_all(places: list[_Place[R]], groups: list[Group[R]]) -> int:
    """Collect all readers at these places and below. Returns the number of places."""
    for place in places:
        groups += (place.deep, place.shallow)
        places += place.all_kids()
    return len(places)


def _each_once(groups: list[Group[R]]) -> list[R]:
    """The readers of all groups, in this order."""
    if len(groups) == 1 and (only := groups[0]) is not None:
        return list(only) if isinstance(only, dict) else [only]
    found: dict[R, None] = {}
    for group in groups:
        if isinstance(group, dict):
            found.update(group)
        elif group is not None:
            found[group] = None
    return list(found)
