"""Reads of a part of a list: a slice, a loop that may be left early, a search. Each costs what it reads, not the list.

A slice depends on its elements, and on what decides where it ends. A loop over documents depends on the elements that
it has reached; if it goes on, or ends by itself, on the whole list. It goes through the version of the list with
which it began. A search for a document compares stored links.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import index as as_index
from typing import Any, Final, NamedTuple, cast

from headwater.cells.binding import Binder
from headwater.cells.context import PEEKING
from headwater.cells.display import shorten
from headwater.cells.journal import IGNORED_FOR_SCHEDULING
from headwater.cells.reading import misread
from headwater.cells.slot import Slot
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import ReadSource, Traverse, own_link
from headwater.values.address import Depth
from headwater.values.author_text import safe_repr
from headwater.values.chunked import ChunkedList
from headwater.values.frozen import FrozenDict
from headwater.values.ids import DocKey
from headwater.values.intake import RefusedError
from headwater.values.link import link_to
from headwater.values.schema import Handle, LinkFound, Schema, solid
from headwater.values.tree import ABSENT, LINK_TAG, LINK_VERSION, Array, Maybe, Path, Value, get, is_array, is_link

_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW

SLICE_MAX: Final = 64
"""A slice of up to so many elements is a read of each; a longer one is one read, of the list."""
LOOP_MAX: Final = 16
"""A loop that goes on after so many elements depends on the list, in one read."""
_OWN: Final = 2
"""A link of the commonest form has an id and a scope."""
_FAR_END: Final = 2**31
"""A place that no list reaches."""


# --- slices -------------------------------------------------------------------------------------------------


class SliceSpan(NamedTuple):
    """What a slice of a list of a known length selects, and what decides that."""

    places: range
    # Open or counted from the end: it depends on the length.
    is_counted: bool
    # The first place it would have in a longer list.
    missing: int | None


def span_of(part: slice, length: int) -> SliceSpan:
    """What a slice selects. Raises TypeError and ValueError, as for a list."""
    places = range(*part.indices(length))
    step = 1 if part.step is None else as_index(part.step)
    start = None if part.start is None else as_index(part.start)
    stop = None if part.stop is None else as_index(part.stop)
    if (start or 0) < 0 or (stop or 0) < 0 or (stop if step > 0 else start) is None:
        return SliceSpan(places, is_counted=True, missing=None)
    if step > 0:
        missing, end = (start or 0) + len(places) * step, (stop or 0) - 1
    else:
        # A longer list begins the slice at another element, so the first place behind the list decides.
        missing, end = max(length, 0 if stop is None else stop + 1), start or 0
    if missing > end:
        return SliceSpan(places, is_counted=False, missing=None)
    return SliceSpan(places, missing >= _FAR_END, None if missing >= _FAR_END else missing)


def read_slice(at: Slot, part: slice) -> list[object]:
    """The elements of a slice."""
    space, source = at._source()
    doc, path = at._key(space), at._path
    items = get(source.document(doc), path)
    item = at._schema.child(0)
    if not is_array(items) or item is None:
        return _slice_elsewhere(at, Traverse(source, space), doc, part)
    span = span_of(part, len(items))
    if item.has_handles and not _is_link_list(item):
        # The content of handles is not read.
        source.record(doc, path, _SHALLOW)
        return [at._part(place)._read(0) for place in span.places]
    _record_span(source, doc, path, span, len(items))
    found = zip(span.places, items[part], strict=True)
    return [_element(at, space, item, place, value) for place, value in found]


def _record_span(source: ReadSource, doc: DocKey, path: Path, span: SliceSpan, length: int) -> None:
    is_all = len(span.places) == length and (span.is_counted or span.missing is not None)
    if (is_all and length) or len(span.places) > SLICE_MAX:
        source.record(doc, path, _DEEP)
        return
    if span.is_counted:
        source.record(doc, path, _SHALLOW)
    elif span.missing is not None:
        source.record(doc, (*path, span.missing), _DEEP)
    for place in span.places:
        source.record(doc, (*path, place), _DEEP)


def _element(at: Slot, space: SpacePort, item: Schema, place: int, value: Value) -> object:
    """One element, which is recorded; through a link, what it leads to."""
    if own_link(value) is not None if item.has_handles else not (item.may_hold_links or is_link(value)):
        try:
            return item.load(value, space)
        except (LinkFound, RefusedError):
            pass
    return at._part(place)._read(0)


def _slice_elsewhere(at: Slot, traverse: Traverse, doc: DocKey, part: slice) -> list[object]:
    """Behind a link, or in the default. It depends on the length."""
    resolved = traverse.resolve(doc, at._path)
    shape: Maybe = ABSENT if resolved is None else traverse.read(resolved.doc, resolved.path, _SHALLOW)
    if shape is ABSENT:
        shape = at._effective_default(traverse, doc)
    if not is_array(shape):
        return cast("list[object]", at._read(0))[part]
    places = range(*part.indices(len(shape)))
    if resolved is not None and len(places) > SLICE_MAX:
        traverse.record(resolved.doc, resolved.path, _DEEP)
    return [at._part(place)._read(0) for place in places]


# --- lists of documents -------------------------------------------------------------------------------------


def _is_link_list(item: Schema) -> bool:
    """Whether the elements are links by their type, and reading one reads nothing else."""
    handle = item.as_handle(linked=True)
    return handle is not None and handle.always_link and not handle.optional


class StoredLinks:
    """A list of documents as it is stored: one link for each."""

    __slots__ = ("_at", "_doc", "_handle", "_item", "_source", "_space", "items")

    def __init__(self, at: Slot, space: SpacePort, source: ReadSource, item: Schema, items: Array) -> None:
        handle = item.as_handle(linked=True)
        assert handle is not None
        self._at = at
        self._item = item
        self._space = space
        self._source = source
        self._handle: Handle = handle
        self._doc = at._key(space)
        self.items = items

    # -- loops ---------------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[object]:
        return self._loop(range(len(self.items)), iter(self.items), self._start())

    def __reversed__(self) -> Iterator[object]:
        tx = self._start()
        if tx is not None:
            _record_seen(tx, self._doc, self._at._path, _SHALLOW)
        return self._loop(range(len(self.items))[::-1], reversed(self.items), tx)

    def _start(self) -> Transaction | None:
        """The transaction that is to record what a loop reaches; None if it has recorded all of it."""
        tx = self._source
        if not isinstance(tx, Transaction):
            return None
        if self._doc in tx._drafts:
            # A part of what it goes through was written here.
            tx.record(self._doc, self._at._path, _DEEP)
            return None
        return tx

    def _loop(self, places: range, links: Iterator[Value], tx: Transaction | None) -> Iterator[object]:
        doc, path = self._doc, self._at._path
        reached: list[Path] = []
        for place, link in zip(places, links, strict=True):
            if tx is not None:
                if len(reached) < LOOP_MAX:
                    reached.append((*path, place))
                    _record_seen(tx, doc, reached[-1], _DEEP)
                else:
                    _record_seen(tx, doc, path, _DEEP, reached)
                    tx = None
            yield self._load(place, link)
        if tx is not None:
            _record_seen(tx, doc, path, _DEEP, reached)

    # -- searches ------------------------------------------------------------------------------------------

    def holds(self, value: object) -> bool:
        """Whether the list contains a document. Depends on the first element that is it; without one, on the list."""
        wanted = self._sought(value)
        if wanted is None:
            return any(item is value or item == value for item in self)
        path = self._at._path
        place = self._place_of(link_to(wanted).to_value()) if wanted else None
        if place is not None:
            self._source.record(self._doc, (*path, place), _DEEP)
            return True
        self._source.record(self._doc, path, _DEEP)
        return any(self._load(odd, self.items[odd]) == value for odd in self._odd())

    def index(self, value: object, start: int, stop: int) -> int:
        """As `list.index`. Depends on the list."""
        link = self._only_link(value)
        if link is None:
            return list(self).index(value, start, stop)
        try:
            return self._flat().index(link, start, stop)
        except ValueError:
            raise ValueError(f"{shorten(safe_repr(value))} is not in {self._at.address}") from None

    def count(self, value: object) -> int:
        """As `list.count`. Depends on the list."""
        link = self._only_link(value)
        return list(self).count(value) if link is None else self._flat().count(link)

    def _sought(self, value: object) -> DocKey | None:
        """The document to look for, as `Handle.sought`: not known where elements may also be something else."""
        return self._handle.sought(value, self._space) if solid(self._item) is self._handle else None

    def _only_link(self, value: object) -> Value:
        """The one link in this list that means this value; None if loaded elements must be compared."""
        wanted = self._sought(value)
        if not wanted or self._odd():
            return None
        self._source.record(self._doc, self._at._path, _DEEP)
        return link_to(wanted).to_value()

    def _flat(self) -> list[Value]:
        return self.items.flat() if isinstance(self.items, ChunkedList) else self.items

    def _place_of(self, link: Value) -> int | None:
        start = 0
        for chunk in self.items.chunks() if isinstance(self.items, ChunkedList) else [self.items]:
            if link in chunk:
                return start + chunk.index(link)
            start += len(chunk)
        return None

    def _odd(self) -> list[int]:
        """The places of links of another form than the commonest. It calls nothing for each of the others."""
        try:
            fields: list[Any] = [link[LINK_TAG][LINK_VERSION] for link in self.items]  # type: ignore[index,call-overload]
            own = [
                type(each) is FrozenDict and len(each) == _OWN and "id" in each and each["scope"] == "space"
                for each in fields
            ]
        except (TypeError, LookupError):
            own = [own_link(link) is not None for link in self.items]
        return [] if all(own) else [place for place, is_own in enumerate(own) if not is_own]

    def _load(self, place: int, link: Value) -> object:
        at = self._at
        found: Maybe = link
        if own_link(link) is None:
            found = Traverse(self._source, self._space).pointer(link, self._doc, (*at._path, place), self._handle)
        try:
            return self._item.load(None if found is ABSENT else found, Binder(self._space, at))
        except RefusedError as refused:
            raise misread(self._doc, (*at._path, place), refused.reason, refused.steps) from None
        except LinkFound:
            reason = f"expected {self._item.expected}, got a malformed link"
            raise misread(self._doc, (*at._path, place), reason) from None


def _record_seen(tx: Transaction, doc: DocKey, path: Path, depth: Depth, parts: Sequence[Path] = ()) -> None:
    """Record a read of the snapshot that a transaction has of a document, whatever it has written there since.

    Unlike `Transaction.read`, which reads its own writes. A deep read replaces those of the `parts`, which are below.
    """
    journal, seen = tx.journal, tx._seen
    if not tx.is_open and tx.ended_with is not None:
        # A run that has ended it goes on.
        journal, seen = tx.ended_with
    mark = seen.get(doc)
    if mark is None:
        # It has ended: nothing depends on what is read now.
        return
    flags = IGNORED_FOR_SCHEDULING if tx.peeks and PEEKING.get() else 0
    tx._has_read = True
    journal.record(doc, path, depth, flags, mark)
    if not flags:
        journal.drop(doc, parts)


def links_at(at: Slot) -> StoredLinks | None:
    """The list at this address, if it is stored there and its elements are documents by its type. Records nothing."""
    item = at._schema.child(0)
    if item is None or not item.has_handles or not _is_link_list(item):
        return None
    space, source = at._source()
    items = get(source.document(at._key(space)), at._path)
    return StoredLinks(at, space, source, item, items) if is_array(items) else None
