"""A place with a type: how it is read and written, through links, with defaults, in a transaction or as its own.

Must never know: what authors call it (`cell`, `collection` and `doc` do).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import NoneType
from typing import Final, Literal, TypeAlias

from headwater.cells.here import HERE, Owner, find
from headwater.cells.home import Home
from headwater.cells.journal import IGNORED_FOR_CONFLICT, IGNORED_FOR_SCHEDULING, Flags
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import Place, Source, Traverse, holds_link, own_link
from headwater.errors import AddressError, SchemaError
from headwater.store.commit import PatchDoc, SetDoc
from headwater.values.address import Address, Depth, address_text, doc_key
from headwater.values.frozen import FrozenDict
from headwater.values.hints import freeze_with, measure
from headwater.values.ids import DocId, DocKey
from headwater.values.intake import RefusedError
from headwater.values.link import Link, parse_link, target
from headwater.values.patch import Append, PatchOp, Remove, Replace, Splice
from headwater.values.schema import ANY, LinkMet, Schema
from headwater.values.tree import (
    ABSENT,
    LINK_TAG,
    Array,
    Maybe,
    Path,
    Step,
    Value,
    array_of,
    child,
    get,
    is_array,
    is_link,
)

ScopeName: TypeAlias = Literal["space", "user", "session"]
"""Whose a document is: everybody's in the space, one user's, or one session's of that user."""
SCOPES: Final[tuple[ScopeName, ...]] = ("space", "user", "session")

_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW
MISSING: Final = object()
_SMALL: Final = frozenset({NoneType, bool, int, float})
"""Types of the tree that always fit a document."""
_PARTS_MAX: Final = 64
"""Parts that a place keeps at hand. The fields of a record fit; the keys of a large dict would only take memory."""
_ANYWHERE: Final = 2**31
"""An index that lists have and tuples of a fixed length do not: only the former can be added to."""
_NOBODY: Final = Address(doc_key("-"))


class Slot:
    """One place. It holds no value: it finds the space and the transaction it is used in."""

    __slots__ = (
        "__weakref__",
        "_default",
        "_doc",
        "_handles",
        "_last",
        "_owner",
        "_parent",
        "_parts",
        "_path",
        "_schema",
        "_scope",
    )

    # Whether a transaction keeps what was read through it, to be found by `Cell.value`.
    _remembers = False

    def __init__(
        self,
        owner: Owner,
        doc: str,
        path: Path = (),
        *,
        schema: Schema = ANY,
        default: Maybe = ABSENT,
        scope: str = "space",
        key: DocKey | None = None,
        parent: Slot | None = None,
    ) -> None:
        self._owner = owner
        # The key where it is always the same; a user's or session's own differs from opening to opening.
        self._doc: DocKey | None = key if key is not None else doc_key(doc) if scope == "space" else None
        self._scope = (doc, scope)
        self._path = path
        self._schema = schema
        self._handles = schema.has_handles
        # What is read while nothing stands here; for a part of a record, the default of that field.
        self._default = default
        self._parent = parent
        # The tree that was last read from here, and what was made of it: an unchanged value is the same object again.
        self._last: tuple[object, object] = (MISSING, None)
        self._parts: dict[str, Slot] = {}

    @property
    def address(self) -> str:
        """Where it stands, as text: `headwater get` takes it."""
        doc, scope = self._scope
        if self._doc is not None:
            return address_text(self._doc, self._path)
        return f"{scope}!{address_text(doc_key(doc), self._path)}"

    def _key(self, home: Home) -> DocKey:
        return self._doc or home.key(*self._scope)

    def _to_link(self) -> Link:
        """A link to this place, for whoever follows it: it names a scope, never somebody's instance."""
        doc, scope = self._scope
        return Link(doc=DocId(doc), path=self._path, scope=scope)

    # -- reading -------------------------------------------------------------------------------------------

    def _source(self) -> tuple[Home, Source]:
        home, tx = find(self._owner, self)
        if tx is not None:
            return home, tx
        if home.news:
            home.catch_up()
        return home, home.untracked

    def _read(self, flags: Flags) -> object:
        home, source = self._source()
        doc = self._doc or home.key(*self._scope)
        if self._handles:
            loaded = self._load(home, Traverse(source, home.scope, flags), doc, ABSENT)
        else:
            tree = source.read(doc, self._path, _DEEP, flags)
            last = self._last
            loaded = last[1] if last[0] is tree else self._load(home, Traverse(source, home.scope, flags), doc, tree)
        if self._remembers and not flags and isinstance(source, Transaction):
            source.memo[self] = loaded
        return loaded

    def _load(self, home: Home, traverse: Traverse, doc: DocKey, read: Maybe) -> object:
        """What authors get for a tree: of their type, frozen, with links followed."""
        schema, tree = self._schema, read
        linked = (
            schema.has_handles
            or (tree is ABSENT and bool(self._path))
            or is_link(tree)
            or (schema.may_hold_links and holds_link(tree))
        )
        if linked:
            tree = traverse.value(doc, self._path, schema)
        try:
            try:
                loaded = schema.load(self._absent(traverse, doc) if tree is ABSENT else tree, home)
            except LinkMet:
                # A link where the type has none: what it leads to stands in for it.
                linked, tree = True, traverse.value(doc, self._path, schema)
                loaded = schema.load(self._absent(traverse, doc) if tree is ABSENT else tree, home)
        except LinkMet:
            message = f"cannot read {address_text(doc, self._path)}: expected {schema.expected}, got a malformed link"
            raise SchemaError(message, doc=doc, path=self._path) from None
        except RefusedError as refused:
            where = address_text(doc, (*self._path, *reversed(refused.steps)))
            message = f"cannot read {where}: {refused.reason}. Mend what is stored, or declare a type that takes it"
            raise SchemaError(message, doc=doc, path=self._path, reason=refused.reason) from None
        if not linked:
            self._last = (read, loaded)
        return loaded

    def _absent(self, traverse: Traverse, doc: DocKey) -> Value:
        """What is read where nothing stands. None if nothing else, and the type takes it."""
        default = self._default_here(traverse, doc)
        if default is not ABSENT:
            return default
        try:
            return self._schema.store(None)
        except RefusedError:
            message = f"{self.address} has no value yet; write one, or declare it with a default"
            raise SchemaError(message, doc=doc, path=self._path) from None

    def _default_here(self, traverse: Traverse, doc: DocKey) -> Maybe:
        """The default of the field; or, while the whole that this is a part of does not exist, that part of its."""
        parent = self._parent
        if parent is not None:
            place = traverse.place(doc, parent._path)
            if place is None or traverse.source.read(place.doc, place.path, _SHALLOW, traverse.flags) is ABSENT:
                part = child(parent._default_here(traverse, doc), self._path[-1])
                if part is not ABSENT:
                    return part
        return self._default

    def _exists(self) -> bool:
        home, source = self._source()
        place = Traverse(source, home.scope).place(self._key(home), self._path)
        return place is not None and source.read(place.doc, place.path, _SHALLOW) is not ABSENT

    def _stands(self) -> bool:
        """Whether anything is stored here, be it only a link that leads nowhere."""
        home, source = self._source()
        place = Traverse(source, home.scope).place(self._key(home), self._path, at_end=False)
        return place is not None and source.read(place.doc, place.path, _SHALLOW) is not ABSENT

    # -- parts ---------------------------------------------------------------------------------------------

    def _part(self, step: Step) -> Slot:
        if type(step) is str:
            # Keys are few and used again; indexes are neither.
            part = self._parts.get(step)
            if part is None:
                part = self._make(step)
                if len(self._parts) < _PARTS_MAX:
                    self._parts[step] = part
            return part
        if type(step) is not int or step < 0:
            message = f"{step!r} is not a step into {self.address}: a key (text) or an index (a number) is expected"
            if type(step) is int:
                message = f"{step} is not a step into {self.address}: elements are counted from the front, from 0 on"
            raise AddressError(message, step=step)
        return self._make(step)

    def _read_part(self, step: Step, schema: Schema) -> object:
        """A part that stands right here, with nothing to be followed: MISSING if it takes more than a look."""
        home, source = self._source()
        doc, path = self._key(home), (*self._path, step)
        there = get(source.look(doc), path)
        if there is ABSENT:
            return MISSING
        if own_link(there) is not None:
            handle = schema.as_handle(linked=True)
            if handle is None or not handle.always_link or handle.optional:
                return MISSING
        elif schema.has_handles or schema.may_hold_links or is_link(there):
            return MISSING
        source.note(doc, path, _DEEP)
        try:
            return schema.load(there, home)
        except (LinkMet, RefusedError):
            return MISSING

    def _make(self, step: Step) -> Slot:
        schema = self._schema.child(step)
        if schema is None:
            message = f"{self.address} has no part {step!r}: it is declared as {self._schema.expected}"
            raise SchemaError(message, step=step, expected=self._schema.expected)
        return self._sibling((*self._path, step), schema, self._schema.field_default(step), self)

    def _sibling(self, path: Path, schema: Schema, default: Maybe, parent: Slot | None) -> Slot:
        """Another slot of the same kind in the same document."""
        doc, scope = self._scope
        return Slot(self._owner, doc, path, schema=schema, default=default, scope=scope, key=self._doc, parent=parent)

    # -- writing -------------------------------------------------------------------------------------------

    def _write(self, new: object) -> None:
        tree = self._stored(self._schema, new)
        frame = HERE.get()
        if frame is not None and frame.home is self._owner and not frame.home.wary:
            # As `find` would say, at half its price.
            home, tx = frame.home, frame.tx
        else:
            home, tx = find(self._owner, self)
        doc = self._doc or home.key(*self._scope)
        path = self._path
        there = home.replica.read(doc) if tx is None else tx.look(doc)
        for step in path:
            # The commonest step, without a call; an index is never found.
            if type(there) is FrozenDict and LINK_TAG not in there:
                there = there.get(step, ABSENT)  # type: ignore[arg-type]
            else:
                there = child(there, step)
        if (path and there is ABSENT) or (type(there) is FrozenDict and is_link(there)):
            # Links on the way, or something to be made first.
            self._put(home, tx, tree)
        elif tx is not None:
            tx.set(doc, path, tree)
        else:
            home.replica.commit((PatchDoc(doc, (Replace(path, tree),)) if path else SetDoc(doc, tree),))
            if home.restless or home.news:
                home.catch_up()

    def _stored(self, schema: Schema, new: object) -> Value:
        """What an author writes, as a tree. Raises SchemaError, AddressError or LimitError, naming this place."""
        try:
            tree = schema.store(new)
            if type(tree) not in _SMALL:
                measure(tree)
        except RefusedError:
            # Once more, for the whole story: the address is not worth making while all goes well.
            return freeze_with(schema, new, self.address)
        return tree

    def _put(self, home: Home, tx: Transaction | None, tree: Value) -> None:
        if tx is None:
            with home.transaction() as own:
                self._put(home, own, tree)
            return
        if self._parent is not None:
            self._parent._materialise(home, tx)
        place = self._place(home, tx, only_redirects=True)
        tx.set(place.doc, place.path, tree)

    def _place(self, home: Home, tx: Transaction, *, only_redirects: bool = False) -> Place:
        """Where a write lands: links above are followed; one that stands here is replaced, unless it redirects."""
        doc = self._key(home)
        traverse = Traverse(tx, home.scope, IGNORED_FOR_SCHEDULING)
        place = traverse.place(doc, self._path, only_redirects=only_redirects)
        if place is None:
            message = f"cannot write {self.address}: the links on the way lead in a circle or out of reach"
            raise AddressError(message, doc=doc, path=self._path)
        return place

    def _materialise(self, home: Home, tx: Transaction) -> None:
        """Write down the defaults that a write below, or an edit of what is here, builds on."""
        if self._parent is not None:
            self._parent._materialise(home, tx)
        place = self._place(home, tx)
        if get(tx.look(place.doc), place.path) is not ABSENT:
            return
        if self._default is ABSENT or not self._default:
            return
        # Checked, so that of two who do this at the same time one does it again on what the other has made.
        tx.read(place.doc, place.path, _SHALLOW, IGNORED_FOR_SCHEDULING)
        tx.set(place.doc, place.path, self._default)

    def _edit(self, make: Callable[[Path], PatchOp]) -> None:
        """Edit what stands here by one operation, without reading it: others may edit it at the same time."""
        home, tx = find(self._owner, self)
        doc = self._key(home)
        there = get(home.replica.read(doc) if tx is None else tx.look(doc), self._path)
        if there is ABSENT or is_link(there):
            # Links on the way, or something to be made first.
            self._edit_in(home, tx, make)
        elif tx is not None:
            tx.patch(doc, make(self._path))
        else:
            home.commit_one(PatchDoc(doc, (make(self._path),)))

    def _edit_in(self, home: Home, tx: Transaction | None, make: Callable[[Path], PatchOp]) -> None:
        if tx is None:
            with home.transaction() as own:
                self._edit_in(home, own, make)
            return
        self._materialise(home, tx)
        place = self._place(home, tx)
        tx.patch(place.doc, make(place.path))

    def _there(self) -> Maybe:
        """What stands here, or its default, unnoted: for writes that need to know where they go."""
        home, tx = find(self._owner, self)
        source: Source = home.untracked if tx is None else tx
        traverse = Traverse(source, home.scope, IGNORED_FOR_SCHEDULING | IGNORED_FOR_CONFLICT)
        doc = self._key(home)
        place = traverse.place(doc, self._path)
        value = ABSENT if place is None else get(source.look(place.doc), place.path)
        return self._default_here(traverse, doc) if value is ABSENT else value

    def _insert(self, index: int, items: Array) -> None:
        """Put items in front of an element, as `list.insert` does; at the end wherever that will be."""
        there = self._there()
        length = len(there) if is_array(there) else 0
        place = max(0, length + index) if index < 0 else index
        if items:
            self._edit(lambda path: Splice(path, place, 0, items) if place < length else Append(path, items))

    def _remove(self) -> None:
        """Take away what is stored here, if anything is."""
        home, tx = find(self._owner, self)
        if tx is None:
            with home.transaction():
                self._remove()
            return
        place = self._place(home, tx, only_redirects=True)
        if not place.path:
            tx.delete(place.doc)
        elif get(tx.look(place.doc), place.path) is not ABSENT:
            tx.patch(place.doc, Remove(place.path))

    def _items(self, items: Iterable[object]) -> Array:
        """Items for a list that stands here, checked."""
        schema = self._schema.child(_ANYWHERE)
        if schema is None or isinstance(items, str | bytes):
            found = f"it is declared as {self._schema.expected}" if schema is None else f"{items!r} is one text"
            message = f"cannot add to {self.address}: a list, and items for it, are expected, and {found}"
            raise SchemaError(message, expected=self._schema.expected)
        return array_of([self._stored(schema, item) for item in items])


def slot_place(value: Value, home: Home) -> tuple[DocKey, DocId, Path] | None:
    """The place that an absolute link names, as traversal hands it out for a handle."""
    own = own_link(value)
    if own is not None:
        return own, DocId(own[len("space/") :]), ()
    link = parse_link(value)
    if link is None or link.doc is None:
        return None
    there = target(link, _NOBODY, home.scope)
    return there.doc, link.doc, there.path
