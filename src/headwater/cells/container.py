"""The base of lists and maps in documents, and the handle that represents them in a type."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Self, TypeVar, cast

from headwater.cells.binding import bound
from headwater.cells.context import Addressed, Owner, find
from headwater.cells.cross_space import WRITTEN
from headwater.cells.display import shorten
from headwater.cells.slot import Slot
from headwater.cells.space_port import SpacePort
from headwater.cells.traverse import Traverse
from headwater.errors import UsageError
from headwater.values.address import Depth
from headwater.values.author_text import safe_repr
from headwater.values.ids import DocKey
from headwater.values.intake import RefusedError
from headwater.values.schema import Handle, Schema
from headwater.values.tree import ABSENT, Maybe, Path, Value

T = TypeVar("T")


class _Unbound:
    """The owner of a list or map in a class body, which only declares a field."""

    def sole_space(self, _what: str | Addressed) -> SpacePort:
        message = (
            "hw.List() and hw.Map() in a class body declare a field; use them through a document of that class, "
            "such as board.items"
        )
        raise UsageError(message)


UNBOUND: Final = _Unbound()


class Container(Slot):
    """The base of List and Map: a declared default, and a shape."""

    __slots__ = ("declared",)

    # The default, if it is in a class body; else None.
    declared: object

    @classmethod
    def bound(
        cls, owner: Owner, doc: str, path: Path, *, schema: Schema, default: Maybe, scope: str, key: DocKey | None
    ) -> Self:
        """The container at an address of a document."""
        made = cls.__new__(cls)
        Slot.__init__(made, owner, doc, path, schema=schema, default=default, scope=scope, key=key)
        made.declared = None
        return made

    @abstractmethod
    def _plain(self) -> object:
        """Its content as the built-in type."""

    def _write(self, new: object) -> None:
        super()._write(new._plain() if isinstance(new, Container) else new)

    def _detached(self, item: T) -> T:
        """An element that is about to be removed: a container inside is copied, because its address ends with it."""
        if not isinstance(item, Slot) or item._doc != self._doc or item._path[: len(self._path)] != self._path:
            return item
        if isinstance(item, Container):
            return cast("T", item._plain())
        message = (
            f"{item.address} is a cell of its own, which ends when it is taken out; read its value, then delete it"
        )
        raise UsageError(message)

    def _atomically(self) -> AbstractContextManager[object]:
        """A context for several steps: the current transaction, or a new one."""
        space, tx = find(self._owner, self, WRITTEN)
        return space.transaction() if tx is None else nullcontext()

    def _shape(self) -> Maybe:
        """The value, of which only keys or length may be used."""
        space, source = self._source()
        traverse = Traverse(source, space)
        doc = self._key(space)
        resolved = traverse.resolve(doc, self._path)
        value: Maybe = ABSENT if resolved is None else traverse.read(resolved.doc, resolved.path, Depth.SHALLOW)
        return self._effective_default(traverse, doc) if value is ABSENT else value

    def __repr__(self) -> str:
        return f"hw.{type(self).__name__}()" if self._owner is UNBOUND else super().__repr__()


class ContainerHandle(Handle):
    """A list or map in a document: reading the document returns the container."""

    __slots__ = ("inner", "kind")

    has_default = True

    def __init__(self, kind: type[Container], inner: Schema) -> None:
        super().__init__(f"hw.{kind.__name__} ({inner.expected})")
        self.kind: type[Container] = kind
        self.inner: Schema = inner

    def store(self, value: object) -> Value:
        """Its content as plain values."""
        return self.inner.store(value._plain() if isinstance(value, Container) else value)

    def load(self, value: Value, binder: object) -> object:
        """The container at the address."""
        at = bound(value, binder)
        if at is None:
            raise RefusedError(f"expected {self.expected}, got {shorten(safe_repr(value))}")
        made = self.kind.bound(
            at.space, at.doc, at.path, schema=self.inner, default=at.default, scope=at.scope, key=at.key
        )
        made._parent = at.parent
        return made

    def target(self) -> Schema:
        """The type of its content."""
        return self.inner

    def child(self, step: str | int) -> Schema | None:
        """The type of its elements."""
        return self.inner.child(step)
