"""Cells and documents of an open space by their addresses and ids, without an app; and which class an id belongs to."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from headwater.cells.address_lookup import resolve_address, resolve_document
from headwater.cells.binding import scope_of
from headwater.cells.cell import Cell
from headwater.cells.document_class import Doc, declare_doc, open_doc
from headwater.cells.document_kinds import check_class
from headwater.cells.space_port import SpacePort
from headwater.cells.untyped_document import AnyDoc
from headwater.errors import SchemaError
from headwater.values.address import settle_path
from headwater.values.hints import freeze_with, schema_of
from headwater.values.schema import ANY
from headwater.values.tree import ABSENT, Maybe

T = TypeVar("T")
D = TypeVar("D", bound=Doc)


class ByAddress(SpacePort):
    """The part of an open space that finds things by name."""

    def check_open(self) -> None:
        """Raise ClosedError if it is not."""
        if self.needs_check:
            self.check(f"space {self.name!r}")

    @overload
    def cell(self, address: str, type: type[T], *, default: T = ...) -> Cell[T]: ...
    @overload
    def cell(self, address: str) -> Cell[object]: ...
    def cell(self, address: str, type: Any = None, *, default: Any = ...) -> Cell[Any]:  # noqa: A002  # as in app.cell
        """The cell at an address, such as `todo.board/items/0`, of a type if one is given."""
        self.check_open()
        key, steps = resolve_address(address, self)
        # Whether a step is an index depends on the current value.
        path = settle_path(self.untracked.document(key) if steps else ABSENT, steps)
        schema = ANY if type is None else schema_of(type, where=f"space.cell({address!r})")
        stored: Maybe = ABSENT if default is ... else freeze_with(schema, default, f"the default of {address}")
        return Cell(self, key.partition("/")[2], path, schema=schema, default=stored, key=key)

    @overload
    def doc(self, doc_id: str, kind: type[D]) -> D: ...
    @overload
    def doc(self, doc_id: str) -> AnyDoc: ...
    def doc(self, doc_id: str, kind: type[Doc] = AnyDoc) -> Doc:
        """The document of an id, as a class of yours, or with whatever fields it has; `user:ann!...` as in `cell`."""
        self.check_open()
        key = resolve_document(doc_id, self)
        name = key.partition("/")[2]
        if kind is AnyDoc:
            return declare_doc(AnyDoc, self, name, scope_of(key, self), key)
        check_doc(kind, name, self.owner)
        return open_doc(kind, self, name, key)


def check_doc(kind: object, name: str, owner: object) -> None:
    """Refuse a class that is not that of the document `name`. A value that is no class is refused elsewhere."""
    if not isinstance(kind, type) or not issubclass(kind, Doc):
        return
    check_class(kind, name, fixed=True)
    app, _, rest = name.partition(".")
    thing = getattr(owner, "declared", {}).get(rest) if app == getattr(owner, "name", None) else None
    if thing is None:
        return
    if not isinstance(thing, Doc):
        raise SchemaError(f"{name} is no document of class {kind.__qualname__}: the app declares it as {thing!r}")
    made = type(thing)
    if not (issubclass(kind, made) or issubclass(made, kind)):
        message = f"{name} is declared as a document of class {made.__qualname__}, not of {kind.__qualname__}"
        raise SchemaError(message, doc=name, kind=kind.__qualname__)
