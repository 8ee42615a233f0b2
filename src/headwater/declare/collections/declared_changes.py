"""Changes of the fields of a collection: a new name, a new type, or a field that is gone. Made by authors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast, overload

from headwater.cells.container import ContainerHandle
from headwater.cells.document_class import Doc, Link, fields_of_class
from headwater.cells.document_field import DocField
from headwater.cells.field_changes import NO_CHANGES, ClassChanges, FieldChange, Retype
from headwater.cells.indexed_fields import field_of
from headwater.errors import DeclarationError
from headwater.values.author_text import safe_repr
from headwater.values.hints import schema_of
from headwater.values.schema import Schema
from headwater.values.shape import Shaping
from headwater.values.shape_width import takes_all

T = TypeVar("T")
Old = TypeVar("Old")


class DeclaredChange:
    """A change of one field. Made by `hw.renamed`, `hw.retyped` and `hw.dropped`."""

    __slots__ = ("field", "hint", "how", "old_name")

    def __init__(self, field: object, old_name: object, hint: object, how: object) -> None:
        self.field = field
        self.old_name = old_name
        self.hint = hint
        self.how = how

    def __repr__(self) -> str:
        if self.field is None:
            return f"hw.dropped({self.old_name!r})"
        if self.how is None:
            return f"hw.renamed({self.field!r}, was={self.old_name!r})"
        return f"hw.retyped({self.field!r}, was={safe_repr(self.hint)}, how={safe_repr(self.how)})"


def renamed(field: object, *, was: str) -> DeclaredChange:
    """A field that has another name now: `changes=[hw.renamed(Order.cents, was="amount")]`.

    A document that has the former name and not the new one is read under the former name. A write of the field stores
    the new name. `headwater collections migrate` does that for all documents.

    Args:
        field: The field under its new name.
        was: The former name.

    Returns:
        The change, for `changes=` of `app.collection`.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            cents: int = 0


        app = hw.App("shop")
        orders = app.collection(Order, indexes=[Order.cents], changes=[hw.renamed(Order.cents, was="amount")])
        with app.open("memory:") as space:
            space.cell("order:old", type=dict[str, int]).value = {"amount": 250}
            print(orders["order:old"].cents, orders.where(Order.cents > 100).count())  # 250 1
        ```
    """
    return DeclaredChange(field, was, None, None)


@overload
def retyped(field: Link[T], *, was: object, how: Callable[[Any], T]) -> DeclaredChange: ...
@overload
def retyped(field: T, *, was: type[Old], how: Callable[[Old], T]) -> DeclaredChange: ...
@overload
def retyped(field: T, *, was: object, how: Callable[[Any], T]) -> DeclaredChange: ...
def retyped(field: object, *, was: object, how: Callable[[Any], object]) -> DeclaredChange:
    """A field that has another type now: `changes=[hw.retyped(Order.number, was=str, how=int)]`.

    A stored value of the former type that does not fit the new one is read through `how`. A write stores the new type.
    `headwater collections migrate` does that for all documents. Until then, a query over an index that has the field
    raises QueryError; `.scan()` reads the documents.

    Args:
        field: The field with its new type.
        was: The former type.
        how: A function that makes a value of the new type of one of the former.

    Returns:
        The change, for `changes=` of `app.collection`.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            number: int


        app = hw.App("shop")
        orders = app.collection(Order, changes=[hw.retyped(Order.number, was=str, how=int)])
        with app.open("memory:") as space:
            space.cell("order:old", type=dict[str, str]).value = {"number": "12"}
            print(orders["order:old"].number + 1)  # 13
        ```
    """
    return DeclaredChange(field, None, was, how)


def dropped(name: str) -> DeclaredChange:
    """A field that is gone: `changes=[hw.dropped("color")]`.

    Nothing reads it. `headwater collections migrate` removes it from all documents.

    Args:
        name: The name of the field.

    Returns:
        The change, for `changes=` of `app.collection`.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            number: int


        app = hw.App("shop")
        orders = app.collection(Order, changes=[hw.dropped("color")])
        ```
    """
    return DeclaredChange(None, name, None, None)


# --- checking ---------------------------------------------------------------------------------------------------


def checked_changes(kind: type[Doc], given: object, where: str) -> ClassChanges:
    """The changes of a class, as a declaration names them. Raises DeclarationError."""
    where = f"{where}: changes"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DeclarationError(
            f"{where}=... is a list of hw.renamed, hw.retyped and hw.dropped, not {safe_repr(given)}"
        )
    names: dict[str, list[str]] = {}
    retypes: dict[str, Retype] = {}
    gone: list[str] = []
    for change in cast("Sequence[object]", given):
        if not isinstance(change, DeclaredChange):
            message = f"{where}=... is a list of hw.renamed, hw.retyped and hw.dropped, and has {safe_repr(change)}"
            raise DeclarationError(message)
        if change.field is None:
            gone.append(_former_name(kind, change.old_name, where))
            continue
        field = field_of(kind, change.field, where)
        if change.how is None:
            names.setdefault(field.name, []).append(_former_name(kind, change.old_name, where))
        elif field.name in retypes:
            raise DeclarationError(f"{where}: {kind.__qualname__}.{field.name} is retyped twice; one `how` can do both")
        else:
            retypes[field.name] = _retype(kind, field, change, where)
    former = [*gone, *(name for many in names.values() for name in many)]
    twice = next((name for name in former if former.count(name) > 1), None)
    if twice is not None:
        raise DeclarationError(f"{where}: {twice!r} is named twice; a former field has one change")
    if not former and not retypes:
        return NO_CHANGES
    fields = fields_of_class(kind)
    made = {
        name: FieldChange(name, _lazily(fields[name]), tuple(names.get(name, ())), retypes.get(name))
        for name in dict.fromkeys([*names, *retypes])
    }
    return ClassChanges(made, tuple(gone))


def check_types(kind: type[Doc], changes: ClassChanges, where: str) -> None:
    """Raise DeclarationError for a change of types that cannot be recognized. The types can be resolved now."""
    for name, change in changes.by_field.items():
        if change.retype is None:
            continue
        new, old = fields_of_class(kind)[name].resolve()[0], change.retype.schema
        if isinstance(new, ContainerHandle) or isinstance(old, ContainerHandle):
            message = (
                f"{where}: {kind.__qualname__}.{name} is a container; a retyped field is read as one value: use "
                "list[...] or dict[...], or give the new field another name and fill it in a handler"
            )
            raise DeclarationError(message, field=name)
        shaping = Shaping()
        if takes_all(shaping.shape(new), shaping.shape(old)):
            message = (
                f"{where}: every value of {kind.__qualname__}.{name} as {old.expected} is one of today's type, "
                f"{new.expected}, too; a changed meaning cannot be recognized. Give the new field another name"
            )
            raise DeclarationError(message, field=name)


def _lazily(field: DocField) -> Callable[[], Schema]:
    return lambda: field.resolve()[0]


def _former_name(kind: type[Doc], name: object, where: str) -> str:
    if not isinstance(name, str) or not name:
        raise DeclarationError(f"{where}: the name of a former field is text, not {safe_repr(name)}")
    if name in fields_of_class(kind):
        message = (
            f"{where}: {name!r} is a field of {kind.__qualname__} today; a former field is not in the class any more"
        )
        raise DeclarationError(message, field=name)
    return name


def _retype(kind: type[Doc], field: DocField, change: DeclaredChange, where: str) -> Retype:
    where = f"{where}: hw.retyped({kind.__qualname__}.{field.name})"
    if not callable(change.how):
        raise DeclarationError(f"{where}: how=... is a function of the former value, not {safe_repr(change.how)}")
    hint = change.hint
    return Retype(hint, lambda: schema_of(hint, where=where), cast("Callable[..., object]", change.how))
