"""The elements of a list: the identity of each, and how it is read.

A document, and any target of a link, is identified by its id; a value in the list itself by its index. Iterating over a
list depends on its length and on the links in it, not on the content of its elements.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Final, TypeAlias

from headwater.cells.binding import Binder, owner_of_key
from headwater.cells.cell import Cell
from headwater.cells.document_class import Doc
from headwater.cells.document_operations import identity_key
from headwater.cells.linked_spaces import owner_in
from headwater.cells.reading import Readable
from headwater.cells.slot import Slot
from headwater.cells.space_port import SpacePort
from headwater.cells.traverse import ResolvedAddress, Traverse, own_link
from headwater.errors import SchemaError
from headwater.values.address import Depth, address_text, is_far
from headwater.values.chunked import common_ends
from headwater.values.ids import DocId, DocKey
from headwater.values.intake import RefusedError
from headwater.values.link import parse_link
from headwater.values.schema import ANY, Schema, short
from headwater.values.tree import ABSENT, Array, Maybe, Value, get, is_array, is_link

_ANYWHERE: Final = 2**31
"""An index that lists have and tuples of a fixed length do not: all elements of a list are of one type."""

ElementKey: TypeAlias = tuple[str, ...]
"""The identity of an element."""


class ElementEntry(ABC):
    """One element of a list."""

    __slots__ = ("key", "label")

    def __init__(self, key: ElementKey, label: str) -> None:
        self.key = key
        # Shown to people.
        self.label = label

    @abstractmethod
    def read(self) -> object:
        """The element as authors get it. Tracked like any read."""

    @abstractmethod
    def reference(self) -> Value:
        """Its representation in another document: a link, if it has an address."""

    def prepare(self, space: SpacePort) -> tuple[DocKey, ...]:  # noqa: ARG002  # most need nothing
        """Start what keeps it current. Returns the documents that are written by it."""
        return ()


class DocEntry(ElementEntry):
    """A document. Returning it reads none of its fields."""

    __slots__ = ("doc",)

    def __init__(self, doc: Doc) -> None:
        identity = identity_key(doc)
        super().__init__(("doc", type(doc).__name__, identity), identity.removeprefix("space!"))
        self.doc = doc

    def read(self) -> Doc:
        """The document."""
        return self.doc

    def reference(self) -> Value:
        """A link to it."""
        return self.doc.__headwater_value__()


class HandleEntry(ElementEntry):
    """A cell, list or map: the handle is returned, not its value."""

    __slots__ = ("handle",)

    def __init__(self, handle: Readable) -> None:
        super().__init__(("cell", handle.address), handle.address)
        self.handle = handle

    def read(self) -> Readable:
        """The handle."""
        return self.handle

    def reference(self) -> Value:
        """A link to it."""
        return self.handle._to_link().to_value()


class LinkedEntry(ElementEntry):
    """The target of a link without a declared class: its value."""

    __slots__ = ("cell",)

    def __init__(self, cell: Cell[Any]) -> None:
        super().__init__(("at", cell.address), cell.address)
        self.cell = cell

    def read(self) -> object:
        """The value."""
        return self.cell.value

    def reference(self) -> Value:
        """A link to it."""
        return self.cell._to_link().to_value()


class PartEntry(ElementEntry):
    """A value in the list itself."""

    __slots__ = ("index", "slot")

    def __init__(self, slot: Slot, where: str, index: int) -> None:
        super().__init__(("at", f"{where}/{index}"), str(index))
        self.slot = slot
        self.index = index

    def read(self) -> object:
        """The value."""
        return self.slot._part(self.index)._read(0)

    def reference(self) -> Value:
        """A link to its address."""
        return self.slot._part(self.index)._to_link().to_value()


def entry_for(thing: Doc | Readable) -> ElementEntry:
    """The entry of a handle."""
    return DocEntry(thing) if isinstance(thing, Doc) else HandleEntry(thing)


def is_listlike(slot: Slot) -> bool:
    """Whether its type allows a list."""
    return slot._schema.child(0) is not None


def owner_of(thing: Doc | Readable) -> object:
    """Its owner."""
    return thing._hw_owner if isinstance(thing, Doc) else thing._owner


class LinkList:
    """A list whose elements are documents or cells by its type, as it is stored: one link for each."""

    __slots__ = ("_item", "_space", "links", "slot")

    def __init__(self, space: SpacePort, slot: Slot, item: Schema, links: Array) -> None:
        self._space = space
        self.slot = slot
        self._item = item
        self.links = links

    @property
    def is_plain(self) -> bool:
        """Whether its elements depend on nothing but their links."""
        return all(own_link(link) is not None for link in self.links)

    @property
    def source(self) -> object:
        """What has the list."""
        return self.slot

    def __len__(self) -> int:
        return len(self.links)

    def common_ends(self, before: LinkList) -> tuple[int, int]:
        """How many elements at the beginning, and how many at the end, are those of another list of this source."""
        return common_ends(before.links, self.links)

    def entries(self, start: int, end: int) -> list[ElementEntry] | None:
        """The entries of some of its elements; None if one depends on more than its link.

        An entry of a link that is an id alone stays valid as long as the link is the same object.
        """
        found: list[ElementEntry] = []
        for index, link in enumerate(self.links[start:end], start):
            entry = None if own_link(link) is None else _of_link(self._space, self.slot, self._item, link, index)
            if entry is None:
                return None
            found.append(entry)
        return found


def links_of(slot: Slot) -> LinkList | None:
    """The list at this slot, if its elements are documents or cells by its type. It is the read of `entries_of`."""
    space, source = slot._source()
    resolved = Traverse(source, space).resolve(slot._key(space), slot._path)
    item = slot._schema.child(_ANYWHERE)
    handle = None if item is None else item.as_handle(linked=True)
    if resolved is None or item is None or handle is None or not handle.always_link or handle.optional:
        return None
    if is_far(resolved.doc) or not is_array(get(source.document(resolved.doc), resolved.path)):
        # In another space, a link is to a document of that space.
        return None
    links = source.read(resolved.doc, resolved.path, Depth.DEEP)
    return LinkList(space, slot, item, links) if is_array(links) else None


def entries_of(slot: Slot) -> list[ElementEntry | None]:
    """Entries of the list at this slot; None for a dangling link. Empty if nothing is stored."""
    space, source = slot._source()
    traverse = Traverse(source, space)
    doc = slot._key(space)
    where = address_text(doc, slot._path)
    resolved = traverse.resolve(doc, slot._path)
    there: Maybe = ABSENT if resolved is None else get(traverse.document(resolved.doc), resolved.path)
    if resolved is None or not is_array(there):
        return _elsewhere(slot, traverse, resolved, where)
    item = slot._schema.child(_ANYWHERE)
    handle = None if item is None else item.as_handle(linked=True)
    if item is not None and handle is not None and handle.always_link and not handle.optional:
        # Links are leaves: one deep read depends only on which documents are in the list.
        links = traverse.value(resolved.doc, resolved.path, slot._schema)
        assert is_array(links)
        return [_of_link(space, slot, item, link, index) for index, link in enumerate(links)]
    traverse.record(resolved.doc, resolved.path, Depth.SHALLOW)
    return [
        _of_linked(space, slot, traverse, resolved, index) if is_link(part) else PartEntry(slot, where, index)
        for index, part in enumerate(there)
    ]


def _elsewhere(
    slot: Slot, traverse: Traverse, resolved: ResolvedAddress | None, where: str
) -> list[ElementEntry | None]:
    """No list is stored: the entries of the default, if there is one."""
    there: Maybe = ABSENT
    if resolved is not None:
        there = traverse.read(resolved.doc, resolved.path, Depth.SHALLOW)
    if there is ABSENT:
        there = slot._effective_default(traverse, slot._key(slot._source()[0]))
    if there is ABSENT or there is None:
        return []
    if not is_array(there):
        raise SchemaError(f"{where} holds {short(there)}; a list is expected", place=where)
    return [PartEntry(slot, where, index) for index in range(len(there))]


def _of_linked(
    space: SpacePort, slot: Slot, traverse: Traverse, resolved: ResolvedAddress, index: int
) -> ElementEntry | None:
    """A link in a list of mixed elements. A change of the link runs the readers of the list."""
    at = (*resolved.path, index)
    traverse.record(resolved.doc, at, Depth.DEEP)
    schema = slot._schema.child(index)
    handle = None if schema is None else schema.as_handle(linked=True)
    if schema is not None and handle is not None:
        return _of_link(space, slot, schema, traverse.handle(resolved.doc, at, handle), index)
    end = traverse.resolve(resolved.doc, at)
    if end is None:
        return None
    owner, key = owner_of_key(end.doc, space)
    return LinkedEntry(Cell(owner, DocId(key.partition("/")[2]), end.path, schema=schema or ANY, key=key))


def _of_link(space: SpacePort, slot: Slot, schema: Schema, link: Maybe, index: int) -> ElementEntry | None:
    if link is ABSENT or link is None:
        return None
    try:
        thing = schema.load(link, Binder(space, slot))
    except RefusedError as refused:
        message = f"cannot read {slot.address}/{index}: {refused.reason}"
        raise SchemaError(message, place=slot.address, reason=refused.reason) from None
    assert isinstance(thing, Doc | Readable)
    return entry_for(thing)


def as_linked(space: SpacePort, reference: Value) -> object:
    """The target of a reference, as it is stored; any other value is returned unchanged."""
    link = parse_link(reference)
    if link is None or link.doc is None:
        return reference
    owner = space if link.space in (None, space.space_id) else owner_in(link.space, space)
    return Cell[Any](owner, link.doc, link.path, scope=link.scope or "space").value
