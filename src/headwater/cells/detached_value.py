"""A typed value outside any document: the payload of an event, and its result."""

from __future__ import annotations

from typing import Final

from headwater.cells.binding import WRITE_SPACE
from headwater.cells.journal import Flags
from headwater.cells.reading import HANDLES, MISSING, NO_LINKS
from headwater.cells.slot import Slot
from headwater.cells.space_port import SpacePort
from headwater.cells.traverse import ReadSource, Traverse
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe, Path, Value, get, map_of

_DEEP: Final = Depth.DEEP
_SCALARS: Final = frozenset({int, str, float, bool})
"""Types of the tree that hold no link and load without a source."""


class _Overlay:
    """A source with one extra document that contains only the detached value."""

    __slots__ = ("_doc", "_path", "_source", "_tree")

    def __init__(self, source: ReadSource, doc: DocKey, path: Path, tree: Value) -> None:
        self._source = source
        self._doc = doc
        self._path = path
        self._tree = tree

    def _document(self) -> Value:
        """The extra document."""
        whole = self._tree
        for step in reversed(self._path):
            whole = map_of({str(step): whole})
        return whole

    def read(self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0) -> Maybe:
        """The value at the address."""
        return get(self._document(), path) if doc == self._doc else self._source.read(doc, path, depth, flags)

    def document(self, doc: DocKey) -> Maybe:
        """The document."""
        return self._document() if doc == self._doc else self._source.document(doc)

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """Record a read."""
        if doc != self._doc:
            self._source.record(doc, path, depth, flags)


class DetachedValue(Slot):
    """The name and type of a detached value: how it is checked, stored and loaded."""

    __slots__ = ()

    @property
    def expected(self) -> str:
        """The type, as text."""
        return self._schema.expected

    @property
    def may_link(self) -> bool:
        """Whether a stored value may contain links."""
        return self._linking != NO_LINKS

    def has_part(self, key: str) -> bool:
        """Whether it can have a part of that name."""
        return self._schema.child(key) is not None

    def to_tree(self, given: object) -> Value:
        """The stored form. Raises SchemaError, AddressError or LimitError, naming this value."""
        return self._stored(self._schema, given)

    def to_tree_in(self, space: SpacePort, given: object) -> Value:
        """The same for a space that is known, whatever is around the code that asks."""
        token = WRITE_SPACE.set(space)
        try:
            return self._stored(self._schema, given)
        finally:
            WRITE_SPACE.reset(token)

    def from_tree(self, space: SpacePort, source: ReadSource, tree: Value) -> object:
        """The loaded value: of its type, frozen, documents as handles. Raises SchemaError."""
        last = self._last
        if isinstance(last, tuple) and last[0] is tree:
            # Loaded before, and without following a link: the same for every reader.
            return last[1]
        if type(tree) in _SCALARS and self._linking != HANDLES and (loaded := self._scalar(tree)) is not MISSING:
            return loaded
        doc = self._key(space)
        return self._load(space, Traverse(_Overlay(source, doc, self._path, tree), space, 0), doc, tree)
