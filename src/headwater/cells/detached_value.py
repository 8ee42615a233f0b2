"""A value with a type that stands in no document: what an event carries, and what came of it.

Must never know: events.
"""

from __future__ import annotations

from typing import Final

from headwater.cells.journal import Flags
from headwater.cells.slot import Slot
from headwater.cells.space_port import Home
from headwater.cells.traverse import Source, Traverse
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe, Path, Value, get, map_of

_DEEP: Final = Depth.DEEP


class _Around:
    """Documents as a source has them, and one that only looks as if it were there."""

    __slots__ = ("_doc", "_path", "_source", "_tree")

    def __init__(self, source: Source, doc: DocKey, path: Path, tree: Value) -> None:
        self._source = source
        self._doc = doc
        self._path = path
        self._tree = tree

    def _here(self) -> Value:
        """The document, with nothing in it but this value."""
        whole = self._tree
        for step in reversed(self._path):
            whole = map_of({str(step): whole})
        return whole

    def read(self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0) -> Maybe:
        """What stands there."""
        return get(self._here(), path) if doc == self._doc else self._source.read(doc, path, depth, flags)

    def look(self, doc: DocKey) -> Maybe:
        """The document."""
        return self._here() if doc == self._doc else self._source.look(doc)

    def note(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """What was read."""
        if doc != self._doc:
            self._source.note(doc, path, depth, flags)


class Sealed(Slot):
    """The name and type of such a value: how it is checked and kept, and how authors get it."""

    __slots__ = ()

    @property
    def expected(self) -> str:
        """The type, for people."""
        return self._schema.expected

    def has_part(self, key: str) -> bool:
        """Whether something of that name can be in it."""
        return self._schema.child(key) is not None

    def seal(self, given: object) -> Value:
        """As it is kept. Raises SchemaError, AddressError or LimitError, naming this value."""
        return self._stored(self._schema, given)

    def unseal(self, home: Home, source: Source, tree: Value) -> object:
        """As authors get it: of its type, frozen, documents as handles. Raises SchemaError."""
        doc = self._key(home)
        return self._load(home, Traverse(_Around(source, doc, self._path, tree), home.scope, 0), doc, tree)
