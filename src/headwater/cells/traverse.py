"""Reads through links under a schema, every hop journalled.

A schema says how far a read goes. Where it asks for a handle (a cell, a document, a list of its own) the read stops
and hands out the place; everywhere else a link is followed and its target read as if it stood there. What has no
target, leads back to itself, or leads to a narrower scope than the schema allows, reads as absent.

Must never know: handles themselves, and what happens with the value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, TypeAlias

import msgspec

from headwater.cells.journal import LINK_PROBE, Flags
from headwater.errors import AddressError
from headwater.values.address import Address, Depth, Scope, address_text, doc_key, split_key
from headwater.values.frozen import FrozenDict
from headwater.values.ids import DocKey
from headwater.values.limits import LINK_HOPS_MAX
from headwater.values.link import Link, link_to, parse_link, target
from headwater.values.schema import ANY, Handle, Schema
from headwater.values.tree import (
    ABSENT,
    CONTAINERS,
    LINK_TAG,
    LINK_VERSION,
    Maybe,
    Path,
    Value,
    array_of,
    child,
    get,
    is_array,
    is_link,
    is_map,
    map_of,
)

_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW

BREADTH: Final[dict[str, int]] = {"space": 0, "user": 1, "session": 2}
"""Scopes from broad to narrow."""


class Source(Protocol):
    """What is read from: a transaction, which keeps a journal, or the replica as it is now, which does not."""

    def read(self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0) -> Maybe:
        """What stands there; noted."""

    def look(self, doc: DocKey) -> Maybe:
        """The document; not noted."""

    def note(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """It was read."""


InstanceOf: TypeAlias = Callable[[str], Scope]
"""Tells which instance of a scope the reader means by its name."""


class Place(msgspec.Struct, frozen=True):
    """Where something stands once all links on the way are followed."""

    doc: DocKey
    path: Path


class Traverse(msgspec.Struct, frozen=True):
    """One traversal: what it reads from, for whom, and how its reads are flagged."""

    source: Source
    instance_of: InstanceOf
    flags: Flags = 0

    # -- finding the place ---------------------------------------------------------------------------------

    def place(
        self, doc: DocKey, path: Path, *, at_end: bool = True, only_redirects: bool = False, ceiling: str = "session"
    ) -> Place | None:
        """Where a path leads when links on the way are followed, and, `at_end`, one that stands there as well.

        None if it leads nowhere: in a circle, or to a scope narrower than the ceiling. Every link that was followed
        is in the journal, so that whoever turns one of them elsewhere wakes the reader.
        """
        seen: set[tuple[DocKey, Path, int]] = set()
        while True:
            length = self._first_link(doc, path, at_end=at_end, only_redirects=only_redirects)
            if length is None:
                return Place(doc, path)
            if (doc, path, length) in seen:
                return None
            if len(seen) == LINK_HOPS_MAX:
                message = f"followed {LINK_HOPS_MAX} links to {address_text(doc, path)} without reaching a value"
                raise AddressError(message, doc=doc, path=path)
            seen.add((doc, path, length))
            link = parse_link(self.source.read(doc, path[:length], _DEEP, self.flags | LINK_PROBE))
            assert link is not None
            there = self._target(link, doc, path[:length])
            doc, path = there.doc, there.path + path[length:]
            if BREADTH[_scope_name(doc)] > BREADTH[ceiling]:
                return None

    def _target(self, link: Link, doc: DocKey, path: Path) -> Address:
        there = target(link, Address(doc, path), self.instance_of)
        if there.space:
            at = address_text(doc, path)
            message = f"{at} links into space {there.space!r}: links between spaces are not followed yet"
            raise AddressError(message, doc=doc, path=path, space=there.space)
        return there

    def _first_link(self, doc: DocKey, path: Path, *, at_end: bool, only_redirects: bool) -> int | None:
        """How many steps of the path lead to the first link that is to be followed."""
        value = self.source.look(doc)
        for length, step in enumerate(path):
            if type(value) in CONTAINERS and parse_link(value) is not None:
                return length
            value = child(value, step)
        if at_end:
            link = parse_link(value)
            if link is not None and (link.redirect or not only_redirects):
                return len(path)
        return None

    # -- reading -------------------------------------------------------------------------------------------

    def value(self, doc: DocKey, path: Path, schema: Schema) -> Maybe:
        """What stands there under a schema: free of links, except that each handle is an absolute link to its place."""
        handle = schema.as_handle(linked=is_link(get(self.source.look(doc), path)))
        if handle is not None:
            return self.handle(doc, path, handle)
        place = self.place(doc, path)
        if place is None:
            return ABSENT
        return self._unfold(place.doc, place.path, schema, ((place.doc, place.path),))

    def _unfold(self, doc: DocKey, path: Path, schema: Schema, trail: tuple[tuple[DocKey, Path], ...]) -> Maybe:
        """A value that is no link, with everything below it. `trail` holds the places it is part of."""
        if schema.has_handles:
            item = schema.child(0)
            handle = None if item is None else item.as_handle(linked=True)
            if handle is not None and handle.always_link and not handle.optional:
                # Links are leaves: one deep read of the list depends on which documents are in it, and on nothing else.
                return self._pointers(doc, path, handle)
            value = self.source.read(doc, path, _SHALLOW, self.flags)
        else:
            # One deep read stands for everything that is in this document.
            value = self.source.read(doc, path, _DEEP, self.flags)
            if not holds_link(value):
                return value
        if is_map(value):
            items: dict[str, Value] = {}
            for key in dict.fromkeys([*value, *schema.handle_steps()]):
                inner = self._below(doc, (*path, key), schema.child(key), trail)
                if inner is not ABSENT:
                    items[key] = inner
            return map_of(items)
        if is_array(value):
            found = [self._below(doc, (*path, index), schema.child(index), trail) for index in range(len(value))]
            # A list keeps its places: what cannot be read leaves a None, or every later element would move.
            return array_of([None if inner is ABSENT else inner for inner in found])
        return value

    def _below(self, doc: DocKey, path: Path, schema: Schema | None, trail: tuple[tuple[DocKey, Path], ...]) -> Maybe:
        if schema is None:
            # No part of what the schema describes: there, but not read.
            return ABSENT
        value = get(self.source.look(doc), path)
        handle = schema.as_handle(linked=is_link(value))
        if handle is not None:
            return self.handle(doc, path, handle)
        if is_link(value) and parse_link(value) is not None:
            place = self.place(doc, path)
            if place is None or (place.doc, place.path) in trail:
                return ABSENT
            return self._unfold(place.doc, place.path, schema, (*trail, (place.doc, place.path)))
        return self._unfold(doc, path, schema, trail)

    def handle(self, doc: DocKey, path: Path, schema: Handle) -> Maybe:
        """An absolute link to what a handle at this place stands for. Its target is not looked at."""
        if schema.always_link:
            place = self.place(doc, path, at_end=False)
            if place is None:
                return ABSENT
            slot = self.source.read(place.doc, place.path, _DEEP, self.flags | LINK_PROBE)
            return self._pointer(slot, place.doc, place.path, schema)
        value = self.source.read(doc, path, _SHALLOW, self.flags | LINK_PROBE)
        if value is None or (value is ABSENT and not schema.stands_alone):
            return value
        place = self.place(doc, path, ceiling=schema.ceiling)
        return ABSENT if place is None else link_to(place.doc, place.path).to_value()

    def _pointers(self, doc: DocKey, path: Path, schema: Handle) -> Maybe:
        """A list of such handles."""
        value = self.source.read(doc, path, _DEEP, self.flags)
        if not is_array(value):
            return value
        found = [self._pointer(item, doc, (*path, index), schema) for index, item in enumerate(value)]
        return array_of([None if item is ABSENT else item for item in found])

    def _pointer(self, slot: Maybe, doc: DocKey, path: Path, schema: Handle) -> Maybe:
        """The link in a slot, as an absolute one. Anything else is left for the schema to refuse."""
        if own_link(slot) is None:
            link = parse_link(slot)
            if link is None:
                return slot
            there = self._target(link, doc, path)
            if BREADTH[_scope_name(there.doc)] > BREADTH[schema.ceiling]:
                return ABSENT
            slot = link_to(there.doc, there.path).to_value()
        if schema.optional and slot is not ABSENT:
            there_doc, there_path = _place_of(slot)
            if self.source.read(there_doc, there_path, _SHALLOW, self.flags) is ABSENT:
                return None
        return slot


def own_link(value: Maybe) -> DocKey | None:
    """The document that a link names, if it is of the commonest form: an id, in the space's own scope, and no more."""
    if type(value) is FrozenDict and LINK_TAG in value and is_link(value):
        fields: Maybe = value[LINK_TAG][LINK_VERSION]  # type: ignore[index,call-overload]
        if type(fields) is FrozenDict and len(fields) == 2 and fields.get("scope") == "space":  # noqa: PLR2004
            doc = fields.get("id")
            if type(doc) is str and doc:
                return DocKey(f"space/{doc}")
    return None


def _place_of(link: Value) -> tuple[DocKey, Path]:
    """The place that an absolute link names."""
    own = own_link(link)
    if own is not None:
        return own, ()
    record = parse_link(link)
    assert record is not None
    there = target(record, Address(doc_key("-")))
    return there.doc, there.path


def holds_link(value: Maybe) -> bool:
    """Tell whether a link stands anywhere in it."""
    level: list[Maybe] = [value]
    while level := [item for item in level if type(item) in CONTAINERS]:
        inside: list[Maybe] = []
        for item in level:
            if is_map(item):
                if LINK_TAG in item and is_link(item):
                    return True
                inside.extend(item.values())
            elif is_array(item):
                inside.extend(item)
        level = inside
    return False


def _scope_name(doc: DocKey) -> str:
    scope, _ = split_key(doc)
    return "session" if scope.session else "user" if scope.user else "space"


__all__ = ["ANY", "BREADTH", "Place", "Source", "Traverse", "holds_link"]
