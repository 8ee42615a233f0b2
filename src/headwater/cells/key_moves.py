"""What one step does to the known keys of documents that are not here: of a replica whose store is a server."""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.span_records import Span
from headwater.store.collection_record import CollectionRecord, KeyMove, NamedIndex, doc_of
from headwater.values.ids import DocKey


class KeyMoves:
    """The moves of one step, as the net of what was taken out of known spans, and what came into them."""

    __slots__ = ("_before", "_lost", "_now", "come")

    def __init__(self) -> None:
        # Documents that were not here before the step, and are now: their values are no changes.
        self.come: set[DocKey] = set()
        # By the name of the index: whether a key was there before the step, and whether it is now. Known spans overlap,
        # and learn of one change one after the other: the first and the last that is said of a key count.
        self._before: dict[str, dict[bytes, bool]] = {}
        self._now: dict[str, dict[bytes, bool]] = {}
        # Spans of which nothing is known any more.
        self._lost: list[Span] = []

    def __bool__(self) -> bool:
        return bool(self._before or self._lost)

    def take(self, index: str, key: bytes) -> None:
        """A key has left a known span."""
        self._note(index, key, is_there=False)

    def put(self, index: str, key: bytes) -> None:
        """A key has come into a known span."""
        self._note(index, key, is_there=True)

    def _note(self, index: str, key: bytes, *, is_there: bool) -> None:
        self._before.setdefault(index, {}).setdefault(key, not is_there)
        self._now.setdefault(index, {})[key] = is_there

    def lose(self, index: str, lo: bytes, hi: bytes) -> None:
        """Whatever was read in this span may have changed."""
        self._lost.append(Span(index, lo, hi))

    def of_docs(
        self, index: Callable[[str], tuple[CollectionRecord, NamedIndex] | None]
    ) -> dict[DocKey, tuple[CollectionRecord, dict[str, KeyMove]]]:
        """The moves of each document, with its collection."""
        found: dict[DocKey, tuple[CollectionRecord, dict[str, KeyMove]]] = {}
        for name, now in self._now.items():
            known = index(name)
            if known is None:
                continue
            record, before = known[0], self._before[name]
            for key, is_there in now.items():
                if before[key] is is_there:
                    continue
                moves = found.setdefault(doc_of(record, key), (record, {}))[1]
                other = moves.get(name, KeyMove(name, None, None))
                moves[name] = KeyMove(name, other.before, key) if is_there else KeyMove(name, key, other.after)
        return found

    def lost(
        self, index: Callable[[str], tuple[CollectionRecord, NamedIndex] | None]
    ) -> list[tuple[CollectionRecord, Span]]:
        """The lost spans, with their collections."""
        known = [(index(span.index), span) for span in self._lost]
        return [(each[0], span) for each, span in known if each is not None]
