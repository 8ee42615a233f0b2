"""A typed address and how it is read: through links, with defaults, inside or outside a transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from headwater.cells.binding import Binder, HandleCopies, with_handle_links
from headwater.cells.context import CONTEXT, UNTRACKED, Owner, find
from headwater.cells.context_frame import ContextFrame
from headwater.cells.cross_space import READ
from headwater.cells.display import brief, cell_html, once
from headwater.cells.field_changes import FieldChange
from headwater.cells.journal import IGNORED_FOR_CONFLICT, IGNORED_FOR_SCHEDULING, Flags
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import ReadSource, Traverse, holds_link, own_link
from headwater.errors import HeadwaterError, SchemaError, SpaceNotOpenError
from headwater.values.address import Depth, address_text, doc_key
from headwater.values.ids import DocId, DocKey
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import ANY, LinkFound, Schema
from headwater.values.text import inert
from headwater.values.tree import ABSENT, Maybe, Path, Step, Value, child, get, is_link

if TYPE_CHECKING:  # the subclass: parts of a slot are slots
    from headwater.cells.slot import Slot

ScopeName: TypeAlias = Literal["space", "user", "session"]
"""The scope of a document: shared in the space, one user's, or one session's of that user."""
SCOPES: Final[tuple[ScopeName, ...]] = ("space", "user", "session")

_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW
_SCALARS: Final = frozenset({int, str, float, bool})
MISSING: Final = object()
"""Marks a missing value where None is a value."""
NO_LINKS: Final = 0
MAY_LINK: Final = 1
HANDLES: Final = 2
"""What the values of a slot may contain, in one field of it. Values with links or handles take documents and cells."""
_NOTHING_READ: Final[tuple[object, object]] = (MISSING, None)

FIX_ADVICE: Final = (
    ". Write the whole anew (cell.value = ...; headwater set), or declare a type that takes what is stored"
)
"""The advice for a stored value that does not fit its type."""


class Readable(HandleCopies):
    """A typed address without a value: each use finds the space and the transaction of its context."""

    __slots__ = (
        "__weakref__",
        "_change",
        "_default",
        "_doc",
        "_guard",
        "_last",
        "_linking",
        "_owner",
        "_parent",
        "_parts",
        "_path",
        "_place",
        "_schema",
    )

    # Whether a transaction memoizes its value, for `Cell.value`.
    _is_memoized = False

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
        if key is not None and scope == "space":
            scope = key.partition("/")[0]
        self._owner = owner
        # The key, if it is the same in every opening; that of a user's or session's document is not.
        self._doc: DocKey | None = key if key is not None else doc_key(doc) if scope == "space" else None
        # The document and its scope, where the key does not say both.
        self._place = None if scope == "space" else (doc, scope)
        self._path = path
        self._schema = schema
        # Whether its values are or contain handles, or may contain links.
        self._linking = HANDLES if schema.has_handles else MAY_LINK if schema.may_hold_links else NO_LINKS
        # The value while nothing is stored; for a part of a record, the default of that field.
        self._default = default
        self._parent = parent
        # What has changed in this field of a document since some documents were written.
        self._change: FieldChange | None = None
        # The outermost containing value with rules, found at the first write; most have none.
        self._guard: object = MISSING
        # The tree of the last read and its loaded value: an unchanged value is the same object again. A tree that is
        # its own loaded value, as a number is, stands alone: no tree is a tuple.
        self._last: object = _NOTHING_READ
        # Made on demand; most cells have none.
        self._parts: dict[str, Slot] | None = None

    @property
    def _scope(self) -> tuple[str, str]:
        """The document and its scope."""
        if self._place is not None:
            return self._place
        assert self._doc is not None
        return self._doc.partition("/")[2], "space"

    @property
    def address(self) -> str:
        """The address as text, as in `headwater get`."""
        doc, scope = self._scope
        if self._doc is not None:
            return address_text(self._doc, self._path)
        return f"{scope}!{address_text(doc_key(doc), self._path)}"

    def _key(self, space: SpacePort) -> DocKey:
        return self._doc or space.key(*self._scope)

    def _to_link(self) -> LinkRecord:
        """A link to this address. It names a scope, not an instance of it, so that it means each reader's own."""
        doc, scope = self._scope
        return LinkRecord(doc=DocId(doc), path=self._path, scope=scope)

    # -- reading -------------------------------------------------------------------------------------------

    def _source(self, use: str = READ) -> tuple[SpacePort, ReadSource]:
        space, tx = find(self._owner, self, use)
        if tx is not None:
            return space, tx
        if space.inbox:
            space.runtime.catch_up()
        return space, space.untracked

    def _read(self, flags: Flags) -> object:
        frame = CONTEXT.get()
        return self._read_anywhere(flags) if flags or frame is None else self._read_in(frame)

    def _read_in(self, frame: ContextFrame) -> object:
        """The value for code in this context, without flags."""
        space, tx, doc = frame.space, frame.tx, self._doc
        if tx is None or doc is None or self._linking == HANDLES:
            return self._read_anywhere(0)
        if space.owner is not self._owner or space.needs_check:
            views = tx.views
            if views is None or self._owner not in views:
                return self._read_anywhere(0)
            # The same for a run that reads in another space.
            peeks, tx = tx.peeks, views[self._owner]
            tx.peeks = peeks
            space = tx.far.far  # type: ignore[attr-defined]  # a cast is a call
        # The commonest case of `_read_anywhere`, at half the cost.
        tree = tx.read(doc, self._path)
        last = self._last
        loaded: object
        if last is tree:
            loaded = tree
        elif isinstance(last, tuple) and last[0] is tree:
            loaded = last[1]
        elif type(tree) in self._schema.plain:
            loaded = tree
        elif type(tree) not in _SCALARS:
            loaded = self._load(space, Traverse(tx, space, 0), doc, tree)
        else:
            loaded = self._scalar(tree)  # type: ignore[arg-type]  # no container, and not absent
            if loaded is MISSING:
                loaded = self._load(space, Traverse(tx, space, 0), doc, tree)
        if self._is_memoized:
            tx.memo[self] = loaded
        return loaded

    def _scalar(self, tree: Value) -> object:
        """The loaded value of a scalar; MISSING if it does not fit the type."""
        try:
            return self._schema.load(tree, None)
        except RefusedError:
            return MISSING

    def _read_anywhere(self, flags: Flags) -> object:
        space, source = self._source(UNTRACKED if flags & IGNORED_FOR_SCHEDULING else READ)
        doc = self._doc or space.key(*self._scope)
        if self._linking == HANDLES:
            loaded = self._load(space, Traverse(source, space, flags), doc, ABSENT)
        else:
            tree = source.read(doc, self._path, _DEEP, flags)
            last = self._last
            if last is tree:
                loaded = tree
            elif isinstance(last, tuple) and last[0] is tree:
                loaded = last[1]
            elif type(tree) in self._schema.plain:
                loaded = tree
            else:
                loaded = self._load(space, Traverse(source, space, flags), doc, tree)
        if self._is_memoized and not flags and isinstance(source, Transaction):
            source.memo[self] = loaded
        return loaded

    def _load(self, space: SpacePort, traverse: Traverse, doc: DocKey, read: Maybe) -> object:
        """The loaded value of a tree: of the declared type, frozen, with links followed."""
        schema, tree = self._schema, read
        linked = (
            schema.has_handles
            or (tree is ABSENT and bool(self._path))
            or is_link(tree)
            or (schema.may_hold_links and holds_link(tree))
        )
        if linked:
            tree = traverse.value(doc, self._path, schema)
        binder = Binder(space, cast("Slot", self)) if schema.has_handles else space
        try:
            try:
                loaded = schema.load(self._absent(traverse, doc) if tree is ABSENT else tree, binder)
            except LinkFound:
                # A link where the type has no handle: read its target instead.
                linked, tree = True, traverse.value(doc, self._path, schema)
                loaded = schema.load(self._absent(traverse, doc) if tree is ABSENT else tree, binder)
        except LinkFound:
            message = f"cannot read {address_text(doc, self._path)}: expected {schema.expected}, got a malformed link"
            raise SchemaError(message, doc=doc, path=self._path) from None
        except RefusedError as refused:
            made = ABSENT if self._change is None else self._converted(space, traverse, doc, binder)
            if made is ABSENT:
                raise misread(doc, self._path, refused.reason, refused.steps) from None
            return schema.load(made, binder)
        if not linked:
            self._last = read if loaded is read else (read, loaded)
        return loaded

    def _converted(self, space: SpacePort, traverse: Traverse, doc: DocKey, binder: object) -> Maybe:
        """The value in the type of today, if it was stored in a former one; else ABSENT."""
        assert self._change is not None
        resolved = traverse.resolve(doc, ())
        if resolved is None:
            return ABSENT
        return self._change.converted(space, traverse, resolved.doc, (*resolved.path, *self._path), binder)

    def _absent(self, traverse: Traverse, doc: DocKey) -> Value:
        """The value of an empty address: its default, or None if the type allows it."""
        default = self._effective_default(traverse, doc)
        if default is not ABSENT:
            resolved = traverse.resolve(doc, self._path) if self._linking == HANDLES else None
            return (
                default if resolved is None else with_handle_links(default, resolved.doc, resolved.path, self._schema)
            )
        try:
            return self._schema.store(None)
        except RefusedError:
            message = f"{self.address} has no value yet; write one, or declare it with a default"
            if self._path and isinstance(self._owner, SpacePort) and traverse.source.document(doc) is ABSENT:
                message = f"{self.address} cannot be read: the document does not exist; it was deleted, or never made"
            raise SchemaError(message, doc=doc, path=self._path) from None

    def _effective_default(self, traverse: Traverse, doc: DocKey) -> Maybe:
        """The default of this address: that part of the container's default, while the container does not exist."""
        parent = self._parent
        if parent is not None:
            resolved = traverse.resolve(doc, parent._path)
            if resolved is None or traverse.read(resolved.doc, resolved.path, _SHALLOW, traverse.flags) is ABSENT:
                part = child(parent._effective_default(traverse, doc), self._path[-1])
                if part is not ABSENT:
                    return part
        if self._change is not None:
            former = self._change.former(traverse, doc, self._path, self._schema)
            if former is not ABSENT:
                return former
        return self._default

    # -- for people ----------------------------------------------------------------------------------------

    def _shown(self) -> object:
        """The value for display: neither a dependency nor checked for conflicts."""
        return self._read(IGNORED_FOR_SCHEDULING | IGNORED_FOR_CONFLICT)

    def __repr__(self) -> str:
        short = f"<{type(self).__name__} {inert(self.address)}"
        return once(f"{short}>", lambda: f"{short}{self._summary()}>")

    def _summary(self) -> str:
        try:
            return f" = {brief(self._shown())}"
        except HeadwaterError:
            return ": not readable here"

    def _repr_html_(self) -> str:
        name, expected = self.address, self._schema.expected
        try:
            value = self._shown()
        except HeadwaterError as error:
            return cell_html(name, expected, None, str(error))
        return once(name, lambda: cell_html(name, expected, value, None))

    # -- existence -----------------------------------------------------------------------------------------

    def _exists(self) -> bool:
        try:
            space, source = self._source()
            traverse = Traverse(source, space)
            resolved = traverse.resolve(self._key(space), self._path)
            if resolved is not None and traverse.read(resolved.doc, resolved.path, _SHALLOW) is not ABSENT:
                return True
            change = self._change
            return (
                change is not None and change.former(traverse, self._key(space), self._path, self._schema) is not ABSENT
            )
        except SpaceNotOpenError:
            return False

    def _is_stored(self) -> bool:
        """Whether anything is stored at the address, including a dangling link."""
        space, source = self._source()
        traverse = Traverse(source, space)
        resolved = traverse.resolve(self._key(space), self._path, at_end=False)
        return resolved is not None and traverse.read(resolved.doc, resolved.path, _SHALLOW) is not ABSENT

    def _read_part(self, step: Step, schema: Schema) -> object:
        """A part without links or defaults, the fast path; MISSING if the general way is needed."""
        space, source = self._source()
        doc, path = self._key(space), (*self._path, step)
        there = get(source.document(doc), path)
        if there is ABSENT:
            return MISSING
        if own_link(there) is not None:
            handle = schema.as_handle(linked=True)
            if handle is None or not handle.always_link or handle.optional:
                return MISSING
        elif schema.has_handles or schema.may_hold_links or is_link(there):
            return MISSING
        source.record(doc, path, _DEEP)
        try:
            return schema.load(there, space)
        except (LinkFound, RefusedError):
            return MISSING


def misread(doc: DocKey, path: Path, reason: str, steps: Sequence[Step] = ()) -> SchemaError:
    """The error for a stored value that does not fit its type. `steps`: the place below, from the inside out."""
    where = address_text(doc, (*path, *reversed(steps)))
    return SchemaError(f"cannot read {where}: {reason}{FIX_ADVICE}", doc=doc, path=path, reason=reason)


def schema_at(resolved: Readable) -> Schema:
    """The declared type of an address."""
    return resolved._schema
