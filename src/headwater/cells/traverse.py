"""Reads through links under a schema, with every hop in the journal.

The schema decides how far a read goes. Where it has a handle (a cell, a document, a list of its own) the read stops and
returns the address; everywhere else a link is followed and its target read in its place. A link without a target, a
cycle, and a link to a narrower scope than the schema allows read as absent.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec
from msgspec.structs import replace

from headwater.cells.journal import LINK_PROBE, Flags
from headwater.errors import AddressError, LimitError, SpaceNotOpenError
from headwater.values.address import (
    Address,
    Depth,
    Scope,
    address_text,
    doc_key,
    far_key,
    is_far,
    split_far,
    split_key,
)
from headwater.values.frozen import FrozenDict
from headwater.values.ids import DocKey, SpaceId
from headwater.values.link import LinkRecord, link_to, parse_link, target
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
from headwater.values.value_limits import LINK_HOPS_MAX

_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW

BREADTH: Final[dict[str, int]] = {"space": 0, "user": 1, "session": 2}
"""Scopes from broad to narrow."""

LINKS_MAX: Final = 50_000
"""Links followed in one read of a value: about a second. Documents that link to each other in both directions have
exponentially many paths."""
_ANYWHERE: Final = 2**31
"""An index that lists have and tuples of a fixed length do not: all elements of a list have one type."""


class ReadSource(Protocol):
    """The source of reads: a transaction, which records them in its journal, or the replica, which does not."""

    def read(self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0) -> Maybe:
        """The value at the address; recorded."""

    def document(self, doc: DocKey) -> Maybe:
        """The document; not recorded."""

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """Record a read."""


class LinkingSpace(Protocol):
    """The space of a traversal."""

    space_id: SpaceId

    def scope(self, name: str) -> Scope:
        """The reader's instance of a scope, by its name."""

    def reads_of(self, space_id: SpaceId, what: str) -> ReadSource:
        """The source of reads in the space that a link names. Raises SpaceNotOpenError."""


class ResolvedAddress(msgspec.Struct, frozen=True):
    """An address after all links on the path are followed. In another space, the key of its document is far."""

    doc: DocKey
    path: Path


class _WalkPoint(msgspec.Struct, frozen=True):
    """An address during a walk: the depth at which its document was entered, and the link that led there."""

    doc: DocKey
    path: Path
    entered: int
    link: _WalkPoint | None = None

    def below(self, step: str | int) -> _WalkPoint:
        """One step down."""
        return _WalkPoint(self.doc, (*self.path, step), self.entered, self.link)

    def is_within(self, resolved: ResolvedAddress) -> bool:
        """Whether this is a part, directly or through links, of the value at an address."""
        length = len(resolved.path)
        spot: _WalkPoint | None = self
        while spot is not None:
            if spot.doc == resolved.doc and spot.entered <= length and spot.path[:length] == resolved.path:
                return True
            spot = spot.link
        return False


class _Walk:
    """One read of a value through links."""

    __slots__ = ("_links", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._links = 0

    def step(self) -> None:
        """Count a link."""
        self._links += 1
        if self._links > LINKS_MAX:
            message = (
                f"followed {LINKS_MAX:,} links below {self._name}: what it holds is linked back and forth; "
                "give it a type, so that reading stops at documents, or read a part of it"
            )
            raise LimitError(message, links=LINKS_MAX)


class Traverse(msgspec.Struct, frozen=True):
    """One traversal: its source, the space of its reader, and the flags of its reads.

    Documents of other spaces have far keys (`values.address.far_key`), and are read there.
    """

    source: ReadSource
    space: LinkingSpace
    flags: Flags = 0

    # -- where a document is -------------------------------------------------------------------------------

    def _at(self, doc: DocKey) -> tuple[ReadSource, DocKey]:
        """The source of a document, and its key there."""
        if is_far(doc):
            space, own = split_far(doc)
            return self.space.reads_of(SpaceId(space), address_text(own)), own
        return self.source, doc

    def read(self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0) -> Maybe:
        """The value at the address, in whichever space; recorded."""
        source, key = self._at(doc)
        return source.read(key, path, depth, flags)

    def document(self, doc: DocKey) -> Maybe:
        """The document, in whichever space; not recorded."""
        source, key = self._at(doc)
        return source.document(key)

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """Record a read, in whichever space."""
        source, key = self._at(doc)
        source.record(key, path, depth, flags)

    # -- resolving addresses -------------------------------------------------------------------------------

    def resolve(
        self,
        doc: DocKey,
        path: Path,
        *,
        at_end: bool = True,
        only_redirects: bool = False,
        only_near: bool = False,
        ceiling: str = "session",
    ) -> ResolvedAddress | None:
        """The address of a path after links on it are followed and, `at_end`, a link at its end, too.

        With `only_near`, links are followed up to the first address in another space.

        None for a cycle, and for a scope narrower than the ceiling. Every followed link is in the journal, so that a
        change of a link runs the reader.
        """
        # The followed links, each with the number of remaining steps: the same link with as many steps left is a cycle.
        seen: dict[tuple[DocKey, Path], int] = {}
        for _ in range(LINK_HOPS_MAX):
            length = self._first_link(doc, path, at_end=at_end, only_redirects=only_redirects)
            if length is None:
                return ResolvedAddress(doc, path)
            at, left = (doc, path[:length]), len(path) - length
            seen = {other: more for other, more in seen.items() if more <= left}
            if at in seen:
                return None
            seen[at] = left
            link = parse_link(self.read(*at, _DEEP, self.flags | LINK_PROBE))
            assert link is not None
            there = self._target(link, doc, path[:length])
            doc, path = there.doc, there.path + path[length:]
            if only_near and is_far(doc):
                return ResolvedAddress(doc, path)
            if BREADTH[_scope_name(doc)] > BREADTH[ceiling]:
                return None
        message = f"followed {LINK_HOPS_MAX} links to {address_text(doc, path)} without reaching a value"
        raise AddressError(message, doc=doc, path=path)

    def _target(self, link: LinkRecord, doc: DocKey, path: Path) -> Address:
        space = ""
        if is_far(doc):
            space, doc = split_far(doc)
        there = target(link, Address(doc, path, SpaceId(space)), self.space.scope)
        if not there.space or there.space == self.space.space_id:
            return Address(there.doc, there.path)
        return Address(far_key(there.space, there.doc), there.path)

    def _first_link(self, doc: DocKey, path: Path, *, at_end: bool, only_redirects: bool) -> int | None:
        """The number of steps to the first link to follow."""
        value = self.document(doc)
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
        """The value at an address under a schema: without links, except that each handle is an absolute link."""
        slot = self.resolve(doc, path, at_end=False)
        if slot is None:
            return ABSENT
        handle = schema.as_handle(linked=is_link(get(self.document(slot.doc), slot.path)))
        if handle is not None:
            return self.handle(slot.doc, slot.path, handle)
        resolved = self.resolve(slot.doc, slot.path)
        if resolved is None:
            return ABSENT
        walk = _Walk(address_text(doc, path))
        return self._unfold(walk, _WalkPoint(resolved.doc, resolved.path, len(resolved.path)), schema, noted=False)

    def _unfold(self, walk: _Walk, at: _WalkPoint, schema: Schema, *, noted: bool) -> Maybe:
        """A value that is no link, with everything below it. `noted`: a deep read above it is already recorded."""
        if schema.has_handles:
            item = schema.child(_ANYWHERE)
            handle = None if item is None else item.as_handle(linked=True)
            if handle is not None and handle.always_link and not handle.optional:
                # Links are leaves: one deep read of the list depends only on which documents are in it.
                return self._pointers(at.doc, at.path, handle)
        if not noted:
            # One deep read covers everything in this document, except the contents of handles.
            noted = not schema.has_handles
            self.record(at.doc, at.path, _DEEP if noted else _SHALLOW, self.flags)
        value = get(self.document(at.doc), at.path)
        if noted and not holds_link(value):
            return value
        if is_link(value):
            return value  # a malformed link is a plain value
        if is_map(value):
            items: dict[str, Value] = {}
            for key in dict.fromkeys([*value, *schema.handle_steps()]):
                inner = self._below(walk, at.below(key), schema.child(key), noted=noted)
                if inner is not ABSENT:
                    items[key] = inner
            return map_of(items)
        if is_array(value):
            found = [
                self._below(walk, at.below(index), schema.child(index), noted=noted) for index in range(len(value))
            ]
            # Indexes do not shift: an element that cannot be read is None.
            return array_of([None if inner is ABSENT else inner for inner in found])
        return value

    def _below(self, walk: _Walk, at: _WalkPoint, schema: Schema | None, *, noted: bool) -> Maybe:
        value = ABSENT if schema is None else get(self.document(at.doc), at.path)
        if schema is None or (noted and type(value) not in CONTAINERS):
            # Not described by the schema, so not read; or nothing to follow.
            return value
        handle = schema.as_handle(linked=is_link(value))
        if handle is not None:
            return self.handle(at.doc, at.path, handle)
        if parse_link(value) is None:
            return self._unfold(walk, at, schema, noted=noted)
        walk.step()
        resolved = self.resolve(at.doc, at.path)
        if resolved is None or at.is_within(resolved):
            return ABSENT
        return self._unfold(walk, _WalkPoint(resolved.doc, resolved.path, len(resolved.path), at), schema, noted=False)

    def handle(self, doc: DocKey, path: Path, schema: Handle) -> Maybe:
        """An absolute link for a handle at this address. The target is not read."""
        if schema.always_link:
            slot = self.read(doc, path, _DEEP, self.flags | LINK_PROBE)
            return self.pointer(slot, doc, path, schema)
        value = get(self.document(doc), path)
        if not schema.has_default and (value is None or value is ABSENT):
            self.record(doc, path, _SHALLOW, self.flags | LINK_PROBE)
            return value
        # Without a link, the handle is this address; its content is not read.
        resolved = self.resolve(doc, path, ceiling=schema.ceiling)
        return ABSENT if resolved is None else absolute_link(resolved.doc, resolved.path).to_value()

    def _pointers(self, doc: DocKey, path: Path, schema: Handle) -> Maybe:
        """A list of links for handles."""
        value = self.read(doc, path, _DEEP, self.flags)
        if not is_array(value):
            return value
        found = [self.pointer(item, doc, (*path, index), schema) for index, item in enumerate(value)]
        return array_of([None if item is ABSENT else item for item in found])

    def pointer(self, slot: Maybe, doc: DocKey, path: Path, schema: Handle) -> Maybe:
        """The link as an absolute one. Any other value is left for the schema to refuse."""
        if own_link(slot) is None:
            link = parse_link(slot)
            if link is None:
                return slot
            there: Address | ResolvedAddress | None = self._target(link, doc, path)
            assert there is not None
            if there.path:
                # A link into a document: its target may be another link.
                there = self.resolve(there.doc, there.path, ceiling=schema.ceiling)
                if there is None:
                    return ABSENT
            if BREADTH[_scope_name(there.doc)] > BREADTH[schema.ceiling]:
                return ABSENT
            slot = absolute_link(there.doc, there.path).to_value()
        if schema.optional and slot is not ABSENT:
            there_doc, there_path = _address_of(slot)
            try:
                if self.read(there_doc, there_path, _SHALLOW, self.flags) is ABSENT:
                    return None
            except SpaceNotOpenError:
                # Whether it exists is not known. Its fields raise the error.
                return slot
        return slot


def own_link(value: Maybe) -> DocKey | None:
    """The document of a link of the commonest form: only an id, in the scope of the space."""
    if type(value) is FrozenDict and LINK_TAG in value and is_link(value):
        fields: Maybe = value[LINK_TAG][LINK_VERSION]  # type: ignore[index,call-overload]
        if type(fields) is FrozenDict and len(fields) == 2 and fields.get("scope") == "space":  # noqa: PLR2004
            doc = fields.get("id")
            if type(doc) is str and doc:
                return DocKey(f"space/{doc}")
    return None


def _address_of(link: Value) -> tuple[DocKey, Path]:
    """The address of an absolute link."""
    own = own_link(link)
    if own is not None:
        return own, ()
    record = parse_link(link)
    assert record is not None
    there = target(record, Address(doc_key("-")))
    return far_key(there.space, there.doc) if there.space else there.doc, there.path


def absolute_link(doc: DocKey, path: Path = ()) -> LinkRecord:
    """An absolute link to an address, which may be in another space."""
    if not is_far(doc):
        return link_to(doc, path)
    space, own = split_far(doc)
    return replace(link_to(own, path), space=SpaceId(space))


def holds_link(value: Maybe) -> bool:
    """Whether the value contains a link."""
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
    scope, _ = split_key(split_far(doc)[1] if is_far(doc) else doc)
    return "session" if scope.session else "user" if scope.user else "space"


__all__ = ["ANY", "BREADTH", "ReadSource", "ResolvedAddress", "Traverse", "holds_link"]
