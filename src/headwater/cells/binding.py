"""Conversion between links and handles: the space and the slot that a handle is bound to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, NamedTuple

from headwater.cells.context import Owner, innermost
from headwater.cells.linked_spaces import LinkedSpace, owner_in
from headwater.cells.space_port import SpacePort
from headwater.cells.traverse import holds_link, own_link
from headwater.errors import UnconfirmedLinkError, UsageError
from headwater.values.address import Address, address_text, doc_key, is_far, split_far
from headwater.values.ids import DocId, DocKey, SpaceId
from headwater.values.intake import RefusedError
from headwater.values.link import link_to, parse_link, target
from headwater.values.schema import ANY, Schema
from headwater.values.tree import ABSENT, Maybe, Path, Value, array_of, get, is_array, is_link, is_map, map_of

if TYPE_CHECKING:  # a slot binds the handles in its value to itself
    from headwater.cells.slot import Slot

_NO_BASE: Final = Address(doc_key("-"))

WRITE_SPACE: Final[ContextVar[SpacePort | None]] = ContextVar("headwater-into", default=None)
"""The space that is written to; None: the innermost one."""


@contextmanager
def writing_to(space: SpacePort) -> Iterator[None]:
    """Values that are stored in the block belong to this space, not to the innermost one."""
    token = WRITE_SPACE.set(space)
    try:
        yield
    finally:
        WRITE_SPACE.reset(token)


class Binder(NamedTuple):
    """What a schema passes to its handles when it loads: the space, and the slot that is read."""

    space: SpacePort
    slot: Slot


class Bound(NamedTuple):
    """The address that a handle is bound to."""

    space: SpacePort | LinkedSpace
    key: DocKey
    doc: DocId
    path: Path
    scope: str
    # The slot of the value that contains it, if that was read, and its default by the type.
    parent: Slot | None
    default: Maybe


def bound(value: Value, binder: object) -> Bound | None:
    """The address of an absolute link, as a traversal returns it for a handle."""
    space = binder.space if isinstance(binder, Binder) else binder
    assert isinstance(space, SpacePort)
    own = own_link(value)
    if own is not None:
        return Bound(space, own, DocId(own[len("space/") :]), (), "space", None, ABSENT)
    link = parse_link(value)
    if link is None or link.doc is None:
        return None
    there = target(link, _NO_BASE, space.scope)
    scope = scope_of(there.doc, space)
    if there.space and there.space != space.space_id:
        return Bound(owner_in(there.space, space), there.doc, link.doc, there.path, scope, None, ABSENT)
    parent, default = _above(binder, there.doc, there.path) if isinstance(binder, Binder) else (None, ABSENT)
    return Bound(space, there.doc, link.doc, there.path, scope, parent, default)


def _above(binder: Binder, doc: DocKey, path: Path) -> tuple[Slot | None, Maybe]:
    slot = binder.slot
    length = len(slot._path)
    if path[:length] != slot._path or slot._key(binder.space) != doc:
        return None, ABSENT
    if len(path) == length:
        return slot._parent, slot._default
    for step in path[length:-1]:
        if slot._schema.child(step) is None:
            return None, ABSENT
        slot = slot._part(step)
    return slot, slot._schema.field_default(path[-1])


def owner_of_key(doc: DocKey, space: SpacePort) -> tuple[SpacePort | LinkedSpace, DocKey]:
    """The owner of handles to a document that a traversal has reached, and its key there."""
    if not is_far(doc):
        return space, doc
    far, own = split_far(doc)
    return owner_in(SpaceId(far), space), own


def scope_of(key: DocKey, space: SpacePort | LinkedSpace) -> str:
    """The scope in a link: the name alone for the reader's own scope, so that the link means each reader's."""
    if isinstance(space, LinkedSpace):
        space = space.near
    instance, _, _ = key.partition("/")
    name, _, _ = instance.partition(":")
    if name != "space" and space.actor is not None and space.scope(name).text == instance:
        return name
    return instance


def link_space(owner: Owner, what: str, key: DocKey | None) -> SpaceId | None:
    """The space that a link to a handle names; None for a handle of the space that is written.

    A document of another space has to be confirmed there: it could be rolled back, and the link would lead nowhere.
    """
    space = WRITE_SPACE.get()
    if space is None:
        around = innermost(what)
        space = None if around is None else around[0]
    if space is None or same_space(owner, space):
        return None
    if isinstance(owner, LinkedSpace):
        # Read from another link.
        return None if owner.space_id == space.space_id else owner.space_id
    far = owner if isinstance(owner, SpacePort) else owner.sole_space(what)
    if far.closed:
        raise RefusedError(f"the {what} belongs to another space, which was closed; read it again, and link to that")
    if not far.space_id or not space.space_id:
        raise RefusedError(f"the {what} belongs to another space, whose server does not tell its id; update the server")
    if key is None:
        raise RefusedError(f"the {what} belongs to another space, where each user or session has its own")
    if far.inbox:
        far.catch_up()
    if not far.replica.is_confirmed(key):
        raise _unconfirmed(key, far, space)
    return None if far.space_id == space.space_id else far.space_id


def _unconfirmed(key: DocKey, far: SpacePort, space: SpacePort) -> UnconfirmedLinkError:
    name = address_text(key)
    found = "is not confirmed yet" if far.replica.is_layered(key) else "does not exist"
    message = (
        f"space {space.name!r} cannot link to {name} of space {far.name!r}: it {found} there, so the link could lead "
        "nowhere. Call sync() of that space first, or await synced()"
    )
    return UnconfirmedLinkError(message, doc=name, space=far.name)


def same_space(one: object, other: object) -> bool:
    """Whether two owners mean the same space. A handle of an app means any space the app is open in."""
    return (
        one is other
        or (isinstance(one, SpacePort) and one.owner is other)
        or (isinstance(other, SpacePort) and other.owner is one)
        or (isinstance(one, SpacePort) and isinstance(other, SpacePort) and one.storage_key == other.storage_key)
        or (isinstance(one, LinkedSpace) and one.space_id == getattr(other, "space_id", None))
        or (isinstance(other, LinkedSpace) and other.space_id == getattr(one, "space_id", None))
    )


# --- in values ----------------------------------------------------------------------------------------------


def with_handle_links(default: Value, doc: DocKey, path: Path, schema: Schema) -> Value:
    """A default as it is read at an empty address: each handle in it is a link to its own address."""
    handle = schema.as_handle(linked=is_link(default))
    if handle is not None:
        return link_to(doc, path).to_value() if handle.has_default and not is_link(default) else default
    if not schema.has_handles:
        return default
    if is_map(default):
        items = {**dict.fromkeys(schema.handle_steps()), **default}
        return map_of(
            {key: with_handle_links(item, doc, (*path, key), schema.child(key) or ANY) for key, item in items.items()}
        )
    if is_array(default):
        elements = enumerate(default)
        return array_of(
            [with_handle_links(item, doc, (*path, step), schema.child(step) or ANY) for step, item in elements]
        )
    return default


def with_own_values(value: Value, doc: DocKey, path: Path, old: Maybe) -> Maybe:
    """A value as it is written to an address: the contents of cells below the address instead of links to them.

    Such a cell was read from the value that is now overwritten; a link to it would lead to the new value. ABSENT if
    there is nothing to write: the value is a link to the address itself.
    """
    length, instance = len(path), doc.partition("/")[0]
    name = DocId(doc[len(instance) + 1 :])

    def along(part: Value) -> Maybe:
        link = parse_link(part)
        if link is not None:
            is_here = link.doc == name and link.scope in {instance, instance.partition(":")[0], None}
            is_inside = is_here and link.path[:length] == path and len(link.path) > length and link.space is None
            return get(old, link.path[length:]) if is_inside else part
        if not holds_link(part):
            return part
        if is_map(part):
            stored = {key: along(item) for key, item in part.items()}
            return map_of({key: item for key, item in stored.items() if item is not ABSENT})
        assert is_array(part)
        return array_of([None if (item := along(each)) is ABSENT else item for each in part])

    link = parse_link(value)
    if link is not None and link.doc == name and link.path == path and link.space is None:
        return ABSENT
    return along(value)


class HandleCopies:
    """A copy of a handle is the handle itself. A handle cannot be pickled."""

    __slots__ = ()

    def __copy__(self) -> object:
        return self

    def __deepcopy__(self, _memo: object) -> object:
        return self

    def __reduce__(self) -> str:
        message = f"{self!r} is a handle into an open space and cannot be pickled; pass its address, and open it there"
        raise UsageError(message)
