"""What one step does to the known keys of documents that are not here: of a replica whose store is a server."""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.span_records import Span
from headwater.store.collection_record import CollectionRecord, KeyMove, NamedIndex, doc_of
from headwater.values.ids import DocKey


class KeyMoves:
    """The moves of one step, as the net of what was taken out of known spans, and what came into them."""

    __slots__ = ("_added", "_lost", "_removed", "come")

    def __init__(self) -> None:
        # Documents that were not here before the step, and are now: their values are no changes.
        self.come: set[DocKey] = set()
        # By the name of the index.
        self._removed: dict[str, dict[bytes, None]] = {}
        self._added: dict[str, dict[bytes, None]] = {}
        # Spans of which nothing is known any more.
        self._lost: list[Span] = []

    def __bool__(self) -> bool:
        return bool(self._removed or self._added or self._lost)

    def take(self, index: str, key: bytes) -> None:
        """A key has left a known span."""
        added = self._added.get(index)
        if added is not None and key in added:
            del added[key]
        else:
            self._removed.setdefault(index, {})[key] = None

    def put(self, index: str, key: bytes) -> None:
        """A key has come into a known span."""
        removed = self._removed.get(index)
        if removed is not None and key in removed:
            del removed[key]
        else:
            self._added.setdefault(index, {})[key] = None

    def lose(self, index: str, lo: bytes, hi: bytes) -> None:
        """Whatever was read in this span may have changed."""
        self._lost.append(Span(index, lo, hi))

    def of_docs(
        self, index: Callable[[str], tuple[CollectionRecord, NamedIndex] | None]
    ) -> dict[DocKey, tuple[CollectionRecord, dict[str, KeyMove]]]:
        """The moves of each document, with its collection."""
        found: dict[DocKey, tuple[CollectionRecord, dict[str, KeyMove]]] = {}
        for name in dict.fromkeys((*self._removed, *self._added)):
            known = index(name)
            if known is None:
                continue
            record = known[0]
            for key in self._removed.get(name, ()):
                found.setdefault(doc_of(record, key), (record, {}))[1][name] = KeyMove(name, key, None)
            for key in self._added.get(name, ()):
                moves = found.setdefault(doc_of(record, key), (record, {}))[1]
                before = moves.get(name)
                moves[name] = KeyMove(name, None if before is None else before.before, key)
        return found

    def lost(
        self, index: Callable[[str], tuple[CollectionRecord, NamedIndex] | None]
    ) -> list[tuple[CollectionRecord, Span]]:
        """The lost spans, with their collections."""
        known = [(index(span.index), span) for span in self._lost]
        return [(each[0], span) for each, span in known if each is not None]
