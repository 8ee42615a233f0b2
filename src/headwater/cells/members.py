"""The collections of a replica: its visible shifts, and the keys of its indexes with pending commits on top.

A replica has none until a collection is attached, and then asks it at every change.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Final

from headwater.cells.key_moves import KeyMoves
from headwater.cells.layered_keys import LayeredKeys
from headwater.cells.loaded_document import Document
from headwater.cells.member_shifts import ShiftLog, VisibleShift
from headwater.cells.visible_step import VisibleStep
from headwater.errors import QueryError
from headwater.store.collection_record import CollectionRecord, NamedIndex, Shift, id_of, kind_of, scope_prefix
from headwater.store.commit import Effect, SpanRead
from headwater.values.ids import DocKey, Seq
from headwater.values.tree import ABSENT, Maybe

NO_SHIFTS: Final[tuple[VisibleShift, ...]] = ()


class Members:
    """The documents of collections in one replica."""

    def __init__(self, layered: Callable[[], Iterable[tuple[DocKey, Document]]]) -> None:
        # The loaded documents with pending layers.
        self._layered = layered
        self.records: Mapping[str, CollectionRecord] = {}
        self._indexes: dict[str, tuple[CollectionRecord, NamedIndex]] = {}
        self.log = ShiftLog()
        # Of the indexes that were queried.
        self._overlays: dict[str, LayeredKeys] = {}
        # The names of these, by the kind of their documents.
        self._queried: dict[str, list[str]] = {}
        # Of a partial replica: what the present step does to keys of documents that are not here.
        self.moves: KeyMoves | None = None

    def attach(self, records: Mapping[str, CollectionRecord]) -> None:
        """The collections of the space. Later calls name more of them, or more indexes."""
        self.records = dict(records)
        self._indexes = {named.name: (record, named) for record in self.records.values() for named in record.named}
        self._overlays, self._queried = {}, {}

    def index(self, name: str) -> tuple[CollectionRecord, NamedIndex]:
        """An index with the record of its collection. Raises QueryError: no collection has it."""
        found = self._indexes.get(name)
        if found is None:
            known = ", ".join(sorted(self._indexes)) or "none"
            message = (
                f"there is no index {name!r} here; the indexes of the attached collections are: {known}. Open the app "
                "that declares it with `app.collection(...)`"
            )
            raise QueryError(message, index=name)
        return found

    def has(self, name: str) -> bool:
        """Whether an index is known here."""
        return name in self._indexes

    def is_of(self, name: str, record: CollectionRecord) -> bool:
        """Whether an index is one of a collection."""
        found = self._indexes.get(name)
        return found is not None and found[0] is record

    # -- changes -------------------------------------------------------------------------------------------

    def record_of(self, doc: DocKey) -> CollectionRecord | None:
        """The record of the collection that a document belongs to."""
        record = self.records.get(kind_of(doc))
        return None if record is None or scope_prefix(record, doc) is None else record

    def shifted(self, doc: DocKey, before: Maybe, after: Maybe) -> VisibleShift | None:
        """A visible document has changed."""
        if before is after:
            return None
        record = self.record_of(doc)
        return None if record is None else self.log.add(record, doc, before, after)

    def relayered(self, doc: DocKey, document: Document) -> None:
        """The confirmed value or the layers of a loaded document have changed."""
        queried = self._queried.get(kind_of(doc)) if self._queried else None
        if queried is None or (record := self.record_of(doc)) is None:
            return
        for name in queried:
            overlay = self._overlays[name]
            if document.layers:
                self._put(overlay, record, self._indexes[name][1], doc, document)
            else:
                overlay.drop(doc)

    def moved(self, doc: DocKey, before: Maybe, document: Document, kinds: Container[str]) -> tuple[VisibleShift, ...]:
        """A loaded document has another visible value or other layers. Returns its shift, if it is of these kinds."""
        shift = self.shifted(doc, before, document.visible)
        self.relayered(doc, document)
        return NO_SHIFTS if shift is None or shift.record is None or shift.record.kind not in kinds else (shift,)

    def shifts_of(
        self, step: VisibleStep[Document], kinds: Container[str]
    ) -> tuple[tuple[VisibleShift, ...], tuple[VisibleShift, ...]]:
        """The net shifts of a step: of rolled back documents, and of the others, as far as they are of these kinds."""
        found: list[tuple[VisibleShift, ...]] = []
        come: Container[DocKey] = () if self.moves is None else self.moves.come
        # Numbered in the order of the notifications.
        for is_reverted in (True, False):
            shifts: list[VisibleShift] = []
            for doc, move in step.moved.items():
                if (doc in step.rolled_back) is not is_reverted or doc in come:
                    continue
                shift = self.shifted(doc, move.before, move.after)
                if shift is not None and shift.record is not None and shift.record.kind in kinds:
                    shifts.append(shift)
            if self.moves is not None and not is_reverted:
                shifts += self._blind(self.moves, step, kinds)
            found.append(tuple(shifts))
        return found[0], found[1]

    def _blind(self, moves: KeyMoves, step: VisibleStep[Document], kinds: Container[str]) -> Iterator[VisibleShift]:
        """The shifts of documents that were not here before the step."""
        for doc, (record, keys) in moves.of_docs(self._indexes.get).items():
            moved = step.moved.get(doc)
            shift = self.log.add(record, doc, ABSENT, ABSENT if moved is None else moved.after, keys)
            if record.kind in kinds:
                yield shift
        for record, span in moves.lost(self._indexes.get):
            shift = self.log.add(record, record.doc, ABSENT, ABSENT, {})
            shift.lost = span
            if record.kind in kinds:
                yield shift

    def are_hit(
        self, spans: Iterable[SpanRead], effects: Iterable[Effect], seq: Seq, shifts: Iterable[Shift] = ()
    ) -> bool:
        """Whether a commit of another session has changed one of these reads, by the rule of the store.

        `shifts`: what is known of its documents that are not here.
        """
        for move in [move for shift in shifts for move in shift.moves]:
            for span in spans:
                if (
                    span.index == move.index
                    and span.seq < seq
                    and (_is_in(move.before, span) or _is_in(move.after, span))
                ):
                    return True
        for effect in effects:
            record = self.record_of(effect.doc)
            if record is None or effect.before is effect.after:
                continue
            shift = VisibleShift(0, record, effect.doc, effect.before, effect.after)
            for span in spans:
                if span.seq >= seq or not self.is_of(span.index, record):
                    continue
                named = self._indexes[span.index][1]
                if effect.doc in span.layered or shift.hits(named, span.lo, span.hi, span.fields):
                    return True
        return False

    @staticmethod
    def _put(  # noqa: PLR0917  # called in two places
        overlay: LayeredKeys,
        record: CollectionRecord,
        named: NamedIndex,
        doc: DocKey,
        document: Document,
        effects: Iterable[Effect] = (),
    ) -> None:
        prefix, name = scope_prefix(record, doc) or b"", id_of(doc)

        def key(value: Maybe) -> bytes | None:
            return None if value is ABSENT else named.key(prefix, value, name)

        others = [made for effect in effects for value in (effect.before, effect.after) if (made := key(value))]
        overlay.put(doc, key(document.confirmed), key(document.visible), others)

    # -- keys ----------------------------------------------------------------------------------------------

    def overlay(self, name: str) -> LayeredKeys:
        """The keys of pending commits in an index, from now on kept current."""
        found = self._overlays.get(name)
        if found is None:
            record, named = self.index(name)
            found = LayeredKeys()
            for doc, document in self._layered():
                if kind_of(doc) == record.kind and scope_prefix(record, doc) is not None:
                    effects = [each for layer in document.layers for each in layer.effects if each.doc == doc]
                    self._put(found, record, named, doc, document, effects)
            self._overlays[name] = found
            self._queried.setdefault(record.kind, []).append(name)
        return found


def _is_in(key: bytes | None, span: SpanRead) -> bool:
    return key is not None and span.lo <= key < span.hi
