"""Documents as classes: typed fields, read and written as attributes, each tracked separately.

A `Doc` is a handle, not the data: two handles of one document are equal, and what one writes the other reads. Names
that start with an underscore are not fields. The class has no public names of its own, so that a field may have any
name, `id` and `value` included: operations on a whole document are functions.

Length: documents, links and their handles refer to one another.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from inspect import get_annotations
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Generic,
    TypeVar,
    cast,
    dataclass_transform,
    get_args,
    overload,
)

from headwater.cells.binding import WRITE_SPACE, HandleCopies, bound, link_space, same_space, scope_of
from headwater.cells.context import UNTRACKED, Owner, find, sole_open
from headwater.cells.display import brief, cell_html, once, record_html, shorten
from headwater.cells.document_field import DocField, fields_of, is_class_variable
from headwater.cells.document_kinds import check_class, kind_of_id, register_class, rename_kind
from headwater.cells.field_changes import NO_CHANGES, ClassChanges
from headwater.cells.gathered_documents import GATHERED, Gathered
from headwater.cells.linked_spaces import LinkedSpace
from headwater.cells.space_port import SpacePort
from headwater.cells.traverse import BREADTH
from headwater.cells.unique_values import check_unique
from headwater.errors import DeclarationError, HeadwaterError, SchemaError
from headwater.store.commit import SetDoc
from headwater.values.address import address_text, doc_key
from headwater.values.author_text import safe_repr
from headwater.values.hints import freeze_with
from headwater.values.ids import DocId, DocKey
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import Handle, Schema
from headwater.values.text import inert
from headwater.values.tree import ABSENT, Value, map_of

T = TypeVar("T")
D = TypeVar("D", bound="Doc")

_NONE: Final = type(None)
_NEVER_EQUAL: Final = frozenset({_NONE, bool, int, float, str, bytes, list, dict, tuple, set})
"""Types whose values are equal to no document."""


class Link(Generic[T]):
    """A field that links to another document: `owner: hw.Link[Person]`. A read follows the link.

    A field `hw.Link[Person | None]` with the default `hw.Link()` may be empty. It then reads as None, also after the
    linked document was deleted.

    Raises:
        DeclarationError: HW110. The link does not name one class of documents.

    Example:
        ```python
        import headwater as hw


        class Person(hw.Doc):
            name: str


        class Task(hw.Doc):
            owner: hw.Link[Person | None] = hw.Link()


        app = hw.App("todo")
        with app.open("memory:"):
            print(Task(owner=Person(name="Ann")).owner.name)  # Ann
        ```
    """

    __slots__ = ()

    reads_as_none: ClassVar[bool] = True
    """As a default: no document."""

    # For type checkers: reading the field gives the document, and a document is assigned. `Field` does it.
    @overload
    def __get__(self, instance: None, owner: type[object]) -> Link[T]: ...
    @overload
    def __get__(self, instance: object, owner: type[object]) -> T: ...
    def __get__(self, instance: object, owner: type[object]) -> object:
        return self

    def __set__(self, instance: object, value: T) -> None:
        raise AttributeError("a link is assigned through its document")

    # For type checkers: on the class it is compared with a document, for a query. `DocField` does it.
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    @classmethod
    def __headwater_schema__(cls, args: tuple[object, ...], schema_of: Callable[[object], Schema]) -> Schema:
        """A handle of the linked document."""
        if not args:
            raise DeclarationError("hw.Link needs to know what it leads to: hw.Link[Person]")
        options = get_args(args[0]) if _NONE in get_args(args[0]) else (args[0],)
        kinds = [option for option in options if option is not _NONE]
        if len(kinds) != 1:
            raise DeclarationError(f"hw.Link leads to one class of documents, not to {args[0]}")
        return DocHandle(lambda: _doc_class(kinds[0]), optional=_NONE in options)


def _doc_class(kind: object) -> type[Doc]:
    if kind is Doc:
        raise DeclarationError("hw.Link[hw.Doc] says nothing of the document; name a class of yours, or hw.AnyDoc")
    if isinstance(kind, type) and issubclass(kind, Doc):
        return kind
    raise DeclarationError(f"hw.Link leads to documents: {kind!r} is not a subclass of hw.Doc", hint=kind)


@dataclass_transform(kw_only_default=True, eq_default=False)
class Doc(HandleCopies):
    """The base class of documents: annotated names are fields, read and written as attributes.

    `Person(name="Ann")` in an open space creates a document with a new id. The object is a handle: two handles of one
    document are equal, and what one writes the other reads. Operations on whole documents are functions, such as
    `hw.delete` and `hw.id_of`, so that a field may have any name.

    Args:
        by_position: Not allowed: fields are given by name.
        fields: The values of the fields. A field without a default must be given.

    Raises:
        SchemaError: HW108. A field is missing or unknown, or a value does not fit its type.
        NotOpen: HW001. There is no open space here.
        DeclarationError: HW110. The class cannot be declared like this.

    Example:
        ```python
        import headwater as hw


        class Person(hw.Doc):
            name: str
            age: int = 0


        app = hw.App("club")
        with app.open("memory:"):
            ann = Person(name="Ann")
            ann.age += 1
            print(ann.age)  # 1
        ```
    """

    __slots__ = ("__weakref__", "_hw_key", "_hw_owner", "_hw_scope", "_hw_slots")

    _hw_owner: Owner
    _hw_scope: tuple[str, str]
    _hw_key: DocKey | None
    _hw_slots: dict[str, Any]

    _hw_fields: ClassVar[dict[str, DocField]] = {}
    _hw_locals: ClassVar[dict[str, object]] = {}
    _hw_within: ClassVar[str] = "session"
    # The scope of new documents.
    _hw_made_in: ClassVar[str] = "space"
    # What has changed in the fields since some documents were written.
    _hw_changes: ClassVar[ClassChanges] = NO_CHANGES
    # Has only the fields of its class. False: a document of any class.
    _hw_fixed: ClassVar[bool] = True

    def __init_subclass__(cls, *, within: str | None = None) -> None:
        """`within="space"`: links to documents of a narrower scope, a user's or a session's own, read as absent."""
        super().__init_subclass__()
        if within is not None:
            if within not in BREADTH:
                message = f"{cls.__qualname__}: {within!r} is no scope; space, user or session is expected"
                raise DeclarationError(message, scope=within)
            cls._hw_within = within
        fields = {name: field for base in reversed(cls.__mro__[1:]) for name, field in fields_of(base).items()}
        annotations = get_annotations(cls)
        for name, hint in annotations.items():
            if name.startswith("_") or is_class_variable(hint):
                continue
            field = DocField(cls, name, cls.__dict__.get(name, ABSENT))
            fields[name] = field
            setattr(cls, name, field)
        for name, declared in list(vars(cls).items()):
            if name in fields and not isinstance(declared, DocField):
                message = (
                    f"{cls.__qualname__}.{name} hides a field of {fields[name].owner.__qualname__}: "
                    "annotate it to change its default"
                )
                raise DeclarationError(message, name=name)
        cls._hw_fields = fields
        # A subclass is a collection of its own.
        cls._hw_made_in = "space"
        cls._hw_changes = NO_CHANGES
        register_class(cls)
        frame = sys._getframe(1)
        if frame.f_locals is not frame.f_globals and any("'" in repr(hint) for hint in annotations.values()):
            # Types in quotes: classes that are made inside a function are not found by the names of their module.
            cls._hw_locals = dict(frame.f_locals)

    def __init__(self, /, *by_position: object, **fields: object) -> None:
        cls = type(self)
        name = cls.__qualname__
        if by_position:
            has = ", ".join(f"{field}=..." for field in cls._hw_fields)
            raise SchemaError(f"the fields of a document are given by name: {name}({has})")
        if cls is Doc:
            raise DeclarationError("hw.Doc is a base: declare a class with fields, class Person(hw.Doc): name: str")
        gathered = GATHERED.get()
        if gathered is not None and gathered.cls is cls:
            self._hw_gather(gathered, fields)
            return
        space, tx = sole_open(f"{name}(...)")
        token = WRITE_SPACE.set(space)
        try:
            value = self._hw_value(fields)
        finally:
            WRITE_SPACE.reset(token)
        doc, scope = space.mint(kind_of_id(cls), tx), cls._hw_made_in
        key = doc_key(doc) if scope == "space" else space.key(doc, scope)
        if space.replica.members is not None:
            check_unique(space, key, value)
        self._hw_bind(space, doc, scope, key)
        space.handles[key, cls] = self
        if tx is None:
            space.commit_one(SetDoc(key, value))
        else:
            tx.make(key, value)

    def _hw_gather(self, gathered: Gathered, fields: dict[str, object]) -> None:
        """Within a bulk insert: only the fields are checked, and the document is stored with its batch."""
        token = WRITE_SPACE.set(gathered.space)
        try:
            value = type(self)._hw_value(fields)
        finally:
            WRITE_SPACE.reset(token)
        self._hw_bind(gathered, f"{kind_of_id(type(self))}:", "space", None)
        gathered.put(self, value)

    @classmethod
    def _hw_collect(cls, word: str, scope: str, changes: ClassChanges, where: str) -> None:
        """It is the class of a collection: the word of its ids, the scope of new documents, and changed fields."""
        known = cls.__dict__.get("_hw_collected")
        if known is not None and known == (word, scope) and not changes.says(cls._hw_changes):
            message = f"{where}: another app declares the collection of this class with other changes=; use the same"
            raise DeclarationError(message, kind=cls.__qualname__)
        if known is not None and known != (word, scope):
            message = (
                f"{where}: another app declares its collection as {known[0]!r} in scope {known[1]!r}; use the same"
            )
            raise DeclarationError(message, kind=cls.__qualname__)
        type.__setattr__(cls, "_hw_collected", (word, scope))
        type.__setattr__(cls, "_hw_made_in", scope)
        type.__setattr__(cls, "_hw_changes", changes)
        if word != kind_of_id(cls):
            rename_kind(cls, word)

    @classmethod
    def _hw_value(cls, given: dict[str, object]) -> Value:
        """The value of a new document: the given fields, checked, and the defaults of the others."""
        unknown = [name for name in given if name not in cls._hw_fields]
        if unknown:
            has = ", ".join(cls._hw_fields) or "none"
            message = f"{cls.__qualname__} has no field {', '.join(map(repr, unknown))}; its fields are {has}"
            raise SchemaError(message, unknown=tuple(unknown))
        items: dict[str, Value] = {}
        for name, field in cls._hw_fields.items():
            schema, default = field.resolve()
            if name in given:
                items[name] = freeze_with(schema, given[name], f"{cls.__qualname__}.{name}")
            elif default is not ABSENT:
                items[name] = default
            else:
                message = f"{cls.__qualname__}(...) needs {name}: {schema.expected}; it has no default"
                raise SchemaError(message, field=name, expected=schema.expected)
        return map_of(items)

    def _hw_bind(self, owner: Owner, doc: str, scope: str, key: DocKey | None) -> None:
        put = object.__setattr__  # bypasses `__setattr__`, which writes fields
        put(self, "_hw_owner", owner)
        put(self, "_hw_scope", (doc, scope))
        put(self, "_hw_key", key)
        put(self, "_hw_slots", {})

    # -- identity ------------------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Doc):
            return NotImplemented
        if self is other:
            return True
        mine, theirs = self._hw_key, other._hw_key
        # Without a key it means the document of each reader: compare name and scope.
        same = self._hw_scope == other._hw_scope if mine is None or theirs is None else mine == theirs
        return same and same_space(self._hw_owner, other._hw_owner)

    def __hash__(self) -> int:
        return hash(self._hw_scope[0])

    def _hw_set(self, name: str, value: object) -> None:
        # Here and not in `DocField.__set__`, which would be two calls deeper: fields are written often.
        slot = self._hw_slots.get(name)
        if slot is None:
            field = type(self)._hw_fields.get(name)
            if field is None:
                if name.startswith("_") or hasattr(getattr(type(self), name, None), "__set__"):
                    # An author's own: a private attribute, or a property with a setter.
                    object.__setattr__(self, name, value)
                    return
                has = ", ".join(type(self)._hw_fields) or "none"
                raise SchemaError(f"{type(self).__qualname__} has no field {name!r}; its fields are {has}", name=name)
            slot = field.slot(self)
        if value is not slot:  # `board.items += [...]` has done it already
            slot._write(value)

    if not TYPE_CHECKING:  # checkers that see it would let any name be assigned
        __setattr__ = _hw_set

    def __headwater_value__(self) -> Value:
        """A document is stored as a link to it."""
        doc, scope = self._hw_scope
        space = link_space(self._hw_owner, "document", self._hw_key)
        return LinkRecord(doc=DocId(doc), scope=scope, space=space).to_value()

    @classmethod
    def __headwater_schema__(cls, _args: tuple[object, ...], _schema_of: Callable[[object], Schema]) -> Schema:
        """A document class as a type means a link to a document."""
        return DocHandle(lambda: cls, optional=False)

    # -- for people ----------------------------------------------------------------------------------------

    def _hw_peek(self) -> list[tuple[str, object]]:
        found: list[tuple[str, object]] = []
        for name, field in type(self)._hw_fields.items():
            slot = field.slot(self)
            try:
                found.append((name, slot._shown()))
            except HeadwaterError as error:
                found.append((name, _Unreadable(error)))
        return found

    def __repr__(self) -> str:
        short = f"<{type(self).__name__} {inert(document_address(self))}"
        return once(f"{short}>", lambda: f"{short}: {self._hw_summary()}>")

    def _hw_summary(self) -> str:
        try:
            find(self._hw_owner, document_address(self), UNTRACKED)
            return ", ".join(f"{inert(name)}={brief(value, 40)}" for name, value in self._hw_peek())
        except HeadwaterError:
            return "not readable here"

    def _repr_html_(self) -> str:
        name, kind = document_address(self), type(self).__name__
        try:
            find(self._hw_owner, name, UNTRACKED)
        except HeadwaterError as error:
            return cell_html(name, kind, None, str(error))
        return once(name, lambda: record_html(name, kind, self._hw_peek()))


class _Unreadable:
    """Shown for a field that cannot be read."""

    def __init__(self, error: HeadwaterError) -> None:
        self._code = error.code

    def __repr__(self) -> str:
        return f"<{self._code}>"


class DocHandle(Handle):
    """A document class in a type: stored as a link, read as the document."""

    __slots__ = ("_kind", "_made", "_optional")

    always_link = True

    def __init__(self, kind: Callable[[], type[Doc]], *, optional: bool) -> None:
        # Resolved at first use: classes may name each other.
        self._kind = kind
        self._made: type[Doc] | None = None
        super().__init__("a document or None" if optional else "a document")
        self._optional = optional

    @property
    def optional(self) -> bool:  # type: ignore[override]
        """Whether the link may be empty."""
        return self._optional

    @property
    def ceiling(self) -> str:  # type: ignore[override]
        """The narrowest scope, as declared by the class."""
        return self.kind._hw_within

    @property
    def kind(self) -> type[Doc]:
        """The linked class."""
        if self._made is None:
            self._made = self._kind()
            name = self._made.__qualname__
            self.expected = f"{name} or None" if self.optional else name
        return self._made

    def target(self) -> type[Doc]:
        """The linked class."""
        return self.kind

    def store(self, value: object) -> Value:
        """A link to the document."""
        kind = self.kind
        if value is None and self.optional:
            return None
        if not isinstance(value, kind if kind._hw_fixed else Doc):
            what = (
                f"another class of documents, {type(value).__qualname__}"
                if isinstance(value, Doc)
                else safe_repr(value)
            )
            raise RefusedError(f"expected {self.expected}, got {shorten(what)}")
        return value.__headwater_value__()

    def sought(self, value: object, space: object) -> DocKey | None:
        """The document, if it is of this space; None for a value with an equality of its own."""
        if not isinstance(value, Doc):
            return DocKey("") if type(value) in _NEVER_EQUAL and self.kind.__eq__ is Doc.__eq__ else None
        if type(value).__eq__ is not Doc.__eq__ or self.kind.__eq__ is not Doc.__eq__:
            return None
        key = value._hw_key
        is_here = key is not None and key.startswith("space/") and same_space(value._hw_owner, space)
        return key if is_here else DocKey("")

    def load(self, value: Value, binder: object) -> object:
        """The document."""
        kind = self.kind
        if value is None and self.optional:
            return None
        at = bound(value, binder)
        if at is None or at.path:
            raise RefusedError(f"expected a link to {self.expected}, got {shorten(safe_repr(value))}")
        try:
            check_class(kind, at.doc, fixed=kind._hw_fixed)
        except SchemaError as error:
            raise RefusedError(error.message) from None
        return open_doc(kind, at.space, at.doc, at.key)


def open_doc(kind: type[D], space: SpacePort | LinkedSpace, doc: str, key: DocKey) -> D:
    """The handle of a document in an open space: one per class, while it is referenced."""
    made = space.handles.get((key, kind))
    if made is None:
        made = space.handles[key, kind] = declare_doc(kind, space, doc, scope_of(key, space), key)
    return cast("D", made)


def declare_doc(kind: type[D], owner: Owner, doc: str, scope: str = "space", key: DocKey | None = None) -> D:
    """A handle of a document that may not exist yet."""
    if not _is_doc_class(kind):
        raise DeclarationError(f"{kind!r} is not a subclass of hw.Doc with fields of its own", kind=kind)
    made = kind.__new__(kind)
    made._hw_bind(owner, doc, scope, key if key is not None or scope != "space" else doc_key(doc))
    return made


def document_address(doc: Doc) -> str:
    """The address of a document, as text."""
    name, scope = doc._hw_scope
    return address_text(doc._hw_key) if doc._hw_key is not None else f"{scope}!{address_text(doc_key(name))}"


# --- classes ------------------------------------------------------------------------------------------------


def fields_of_class(cls: type[Doc]) -> dict[str, DocField]:
    """The fields of a class and its bases."""
    return cls._hw_fields


def _is_doc_class(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, Doc) and kind is not Doc
