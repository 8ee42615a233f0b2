"""Changes of the visible documents of collections, in order: the keys of each before and after, in every index.

A shift refers to the next one, and nothing to the first: those that no transaction has to look back to are released.
"""

from __future__ import annotations

from typing import Final

from headwater.cells.span_records import Span
from headwater.store.collection_record import (
    CollectionRecord,
    KeyMove,
    NamedIndex,
    changed_fields,
    id_of,
    scope_prefix,
)
from headwater.values.ids import DocId, DocKey
from headwater.values.tree import ABSENT, Maybe, child, same


class VisibleShift:
    """A change of one document of a collection: its visible values before and after."""

    __slots__ = ("_keys", "after", "before", "doc", "is_blind", "lost", "next", "number", "record")

    def __init__(  # noqa: PLR0917  # what a change is
        self,
        number: int,
        record: CollectionRecord | None,
        doc: DocKey,
        before: Maybe,
        after: Maybe,
        keys: dict[str, KeyMove] | None = None,
    ) -> None:
        """`keys`: all that is known of a document that is not here; then absent values mean nothing."""
        # Counts the shifts of a replica.
        self.number = number
        # None: the beginning of a log, which is no shift.
        self.record = record
        self.doc = doc
        self.before = before
        self.after = after
        self.next: VisibleShift | None = None
        # By the name of the index. Few indexes are read, so a key is made when it is asked for.
        self._keys: dict[str, KeyMove] | None = keys
        # The values are not known: the document was, or is, not here.
        self.is_blind = keys is not None
        # It is no change of a document: whatever was read in this span may have changed.
        self.lost: Span | None = None

    def move(self, named: NamedIndex) -> KeyMove:
        """Its keys in an index: equal ones if it has not moved there."""
        keys = self._keys
        if keys is None:
            keys = self._keys = {}
        found = keys.get(named.name)
        if found is None and self.is_blind:
            found = keys[named.name] = KeyMove(named.name, None, None)
        elif found is None:
            assert self.record is not None
            prefix = scope_prefix(self.record, self.doc) or b""
            found = keys[named.name] = self._move(named, prefix, id_of(self.doc))
        return found

    def _move(self, named: NamedIndex, prefix: bytes, name: DocId) -> KeyMove:
        before, after = self.before, self.after
        old = None if before is ABSENT else named.key(prefix, before, name)
        if old is not None and after is not ABSENT:
            for field in named.index.fields:
                if field.was or child(before, field.name) is not child(after, field.name):
                    break
            else:
                return KeyMove(named.name, old, old)
        return KeyMove(named.name, old, None if after is ABSENT else named.key(prefix, after, name))

    def touches(self, fields: tuple[str, ...]) -> bool:
        """Whether one of these top-level fields has changed, or may have."""
        if self.is_blind:
            return True
        before, after = self.before, self.after
        for name in fields:
            old, new = child(before, name), child(after, name)
            if old is not new and not same(old, new):
                return True
        return False

    @property
    def changed(self) -> tuple[str, ...] | None:
        """The top-level fields that have changed; None: all, or it is not known."""
        return None if self.is_blind else changed_fields(self.before, self.after)

    def hits(self, named: NamedIndex, lo: bytes, hi: bytes, fields: tuple[str, ...]) -> bool:
        """Whether a key moves into, out of or within a span; or one of the fields of a member of it has changed."""
        move = self.move(named)
        before, after = move.before, move.after
        is_inside = (before is not None and lo <= before < hi) or (after is not None and lo <= after < hi)
        return is_inside and (before != after or (bool(fields) and self.touches(fields)))


class FarShift:
    """A change of a document of a collection of another space."""

    __slots__ = ("shift", "space")

    def __init__(self, space: str, shift: VisibleShift) -> None:
        # The id of the space.
        self.space = space
        self.shift = shift


class ShiftLog:
    """The newest shift of a replica. Each transaction holds the one from which it has to look on."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = VisibleShift(0, None, NO_DOC, ABSENT, ABSENT)

    def add(  # what a change is
        self,
        record: CollectionRecord,
        doc: DocKey,
        before: Maybe,
        after: Maybe,
        keys: dict[str, KeyMove] | None = None,
    ) -> VisibleShift:
        """Add a shift."""
        last = self.last
        shift = VisibleShift(last.number + 1, record, doc, before, after, keys)
        last.next = self.last = shift
        return shift


NO_DOC: Final = DocKey("")
