"""The keys that the pending commits of a session take away from an index, and those that they add to it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

from headwater.cells.member_shifts import NO_DOC
from headwater.values.ids import DocKey


class _Layered:
    """One document with pending layers."""

    __slots__ = ("confirmed", "keys", "visible")

    def __init__(self, confirmed: bytes | None, visible: bytes | None, keys: dict[bytes, None]) -> None:
        self.confirmed = confirmed
        self.visible = visible
        # All that it has had since it was confirmed.
        self.keys = keys


class LayeredKeys:
    """One index of one replica. A document is in it while it has layers."""

    def __init__(self) -> None:
        # Confirmed keys that are not visible; and visible keys that are not confirmed, sorted.
        self.gone: dict[bytes, None] = {}
        self.added: list[bytes] = []
        self._docs: dict[DocKey, _Layered] = {}
        # Each key that a layered document has had, with the document, sorted.
        self._held: list[tuple[bytes, DocKey]] = []

    def __len__(self) -> int:
        return len(self._docs)

    def put(self, doc: DocKey, confirmed: bytes | None, visible: bytes | None, others: Iterable[bytes] = ()) -> None:
        """A document has layers: its keys without them and with them, and others in between."""
        known = self._docs.get(doc)
        if known is None:
            known = self._docs[doc] = _Layered(None, None, {})
        else:
            self._withdraw(known)
        known.confirmed, known.visible = confirmed, visible
        if confirmed != visible:
            if confirmed is not None:
                self.gone[confirmed] = None
            if visible is not None:
                insort(self.added, visible)
        for key in (confirmed, visible, *others):
            if key is not None and key not in known.keys:
                known.keys[key] = None
                insort(self._held, (key, doc))

    def drop(self, doc: DocKey) -> None:
        """A document has no layers any more."""
        known = self._docs.pop(doc, None)
        if known is None:
            return
        self._withdraw(known)
        for key in known.keys:
            del self._held[bisect_left(self._held, (key, doc))]

    def _withdraw(self, known: _Layered) -> None:
        if known.confirmed != known.visible:
            if known.confirmed is not None:
                del self.gone[known.confirmed]
            if known.visible is not None:
                del self.added[bisect_left(self.added, known.visible)]

    def between(self, lo: bytes, hi: bytes) -> list[bytes]:
        """The added keys of a span."""
        added = self.added
        return added[bisect_left(added, lo) : bisect_left(added, hi)] if added else []

    def docs_between(self, lo: bytes, hi: bytes, *, unmoved: bool) -> list[DocKey]:
        """The documents that have had a key in a span since they were confirmed.

        `unmoved`: those too whose key was the same all the time.
        """
        held = self._held
        if not held:
            return []
        start, end = bisect_left(held, (lo, NO_DOC)), bisect_left(held, (hi, NO_DOC))
        found = dict.fromkeys([doc for _, doc in held[start:end]])
        return [doc for doc in found if unmoved or self._has_moved(self._docs[doc])]

    @staticmethod
    def _has_moved(known: _Layered) -> bool:
        return known.confirmed is None or known.visible is None or len(known.keys) > 1
