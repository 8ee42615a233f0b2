"""The verbs that declare cells and documents, of an app and of the builder of a pattern."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from headwater.cells.cell import Cell
from headwater.cells.document_class import Doc, declare_doc
from headwater.cells.reading import SCOPES, ScopeName
from headwater.declare.verb_port import Verbs
from headwater.errors import DeclarationError, HeadwaterError
from headwater.values.hints import freeze_with, infer, schema_of
from headwater.values.schema import ANY
from headwater.values.tree import ABSENT, Maybe

T = TypeVar("T")
D = TypeVar("D", bound=Doc)


class ValueVerbs(Verbs):
    """The verbs for cells and documents."""

    name: str

    @overload
    def cell(self, name: str, default: T, *, type: type[T], scope: ScopeName = ...) -> Cell[T]: ...
    @overload
    def cell(self, name: str, default: T, *, type: object = ..., scope: ScopeName = ...) -> Cell[T]: ...
    @overload
    def cell(self, name: str, *, type: type[T], scope: ScopeName = ...) -> Cell[T]: ...
    def cell(self, name: str, default: Any = ABSENT, *, type: object = None, scope: ScopeName = "space") -> Cell[Any]:  # noqa: A002
        """Declare a cell: one named value, with a type and a default.

        The type follows from the default. Give `type` if the default does not say enough, such as an empty list.

        Args:
            name: The name, unique in the app.
            default: The value while none is stored. Without a default, a read of an unset cell raises an error.
            type: The type of the value: `list[int]`, a dataclass, a document class, a pydantic model.
            scope: `"space"`: one value for all. `"user"`: one for each actor. `"session"`: one for each opening.

        Returns:
            The cell. Read and write it with `.value` in an open space.

        Raises:
            DeclarationError: HW110. The name is already declared, or the default does not fit the type.
            NameRefusedError: HW105. The name cannot be used.

        Example:
            ```python
            import headwater as hw

            app = hw.App("shop")
            price = app.cell("price", 250)
            tags = app.cell("tags", type=list[str], default=[])

            with app.open("memory:"):
                tags.append("tea")
                print(price.value, tags.value)  # 250 ['tea']
            ```
        """
        where = f"{self.verb}.cell({name!r})"
        schema = (
            schema_of(type, where=where)
            if type is not None
            else ANY
            if default is ABSENT
            else infer(default, where=where)
        )
        stored: Maybe = ABSENT
        if default is not ABSENT:
            try:
                stored = freeze_with(schema, default, f"the default of {self.name}.{name}")
            except HeadwaterError as error:
                raise DeclarationError(error.message, **error.facts) from None
        self._check_scope(scope, where)
        cell: Cell[Any] = Cell(self.owner, self._id(name), schema=schema, default=stored, scope=scope)
        self._declare(name, cell, where)
        return cell

    def doc(self, name: str, kind: type[D], *, scope: ScopeName = "space") -> D:
        """Declare one document of a class, under a fixed name.

        Args:
            name: The name, unique in the app.
            kind: The class of the document, a subclass of `hw.Doc`.
            scope: `"space"`, `"user"` or `"session"`, as for `cell`.

        Returns:
            The document. Its fields can be read and written in an open space.

        Raises:
            DeclarationError: HW110. The name is already declared, or `kind` is not a document class.

        Example:
            ```python
            import headwater as hw


            class Settings(hw.Doc):
                theme: str = "light"


            app = hw.App("editor")
            settings = app.doc("settings", Settings)
            with app.open("memory:"):
                print(settings.theme)  # light
            ```
        """
        where = f"{self.verb}.doc({name!r})"
        self._check_scope(scope, where)
        doc = declare_doc(kind, self.owner, self._id(name), scope)
        self._declare(name, doc, where)
        return doc

    @staticmethod
    def _check_scope(scope: str, where: str) -> None:
        if scope not in SCOPES:
            raise DeclarationError(f"{where}: {scope!r} is no scope; space, user or session is expected", scope=scope)
