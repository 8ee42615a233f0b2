"""One field of a document class: its type and default, and its slot in each document."""

from __future__ import annotations

import re
from inspect import get_annotations
from typing import Any, ClassVar, Final, NoReturn, Protocol, get_origin, get_type_hints

from headwater.cells.cell import Cell
from headwater.cells.conditions import Condition, Operator, compare, not_contained, not_joined
from headwater.cells.context import Owner
from headwater.cells.field_changes import ClassChanges
from headwater.cells.list_and_map import ContainerHandle, List
from headwater.cells.slot import Slot
from headwater.errors import DeclarationError, HeadwaterError
from headwater.values.hints import freeze_with, schema_of
from headwater.values.ids import DocKey
from headwater.values.schema import Schema
from headwater.values.tree import ABSENT, Maybe

_CLASS_VARIABLE: Final = re.compile(r"['\"]*(\w+\.)*ClassVar\b")


class HasFields(Protocol):
    """A document, as its fields use it."""

    _hw_owner: Owner
    _hw_scope: tuple[str, str]
    _hw_key: DocKey | None
    _hw_slots: dict[str, Any]
    _hw_changes: ClassVar[ClassChanges]


class DocField:
    """The descriptor of one field of a document class. Its operators make conditions of queries."""

    __slots__ = ("declared", "name", "owner", "resolved")

    is_document_field: ClassVar[bool] = True

    def __init__(self, owner: type[Any], name: str, declared: object) -> None:
        self.owner = owner
        self.name = name
        # The value in the class body: the default. ABSENT if there is none.
        self.declared = declared
        # Made at first use: a class may name others that are declared after it.
        self.resolved: tuple[Schema, Maybe] | None = None

    def resolve(self) -> tuple[Schema, Maybe]:
        """The schema and the default, as a tree."""
        if self.resolved is None:
            where = f"{self.owner.__qualname__}.{self.name}"
            schema = schema_of(_hints(self.owner)[self.name], where=where)
            default: Maybe = ABSENT
            if self.declared is not ABSENT:
                declared = None if getattr(self.declared, "reads_as_none", False) else self.declared
                try:
                    default = freeze_with(schema, declared, where)
                except HeadwaterError as error:
                    message = f"the default of {where} does not fit its type: {error.message}"
                    raise DeclarationError(message, field=where) from None
            elif isinstance(schema, ContainerHandle):
                default = schema.inner.store([] if issubclass(schema.kind, List) else {})
            self.resolved = (schema, default)
        return self.resolved

    def __get__(self, instance: HasFields | None, owner: type[Any]) -> object:
        if instance is None:
            return self
        slot = instance._hw_slots.get(self.name)
        if slot is None:
            slot = self.slot(instance)
        return slot.value if type(slot) is Cell else slot

    def __set__(self, instance: HasFields, value: object) -> None:
        setattr(instance, self.name, value)  # a data descriptor, or the instance's own attributes would come first

    def __delete__(self, instance: HasFields) -> None:
        self.slot(instance)._remove()

    def slot(self, doc: HasFields) -> Slot:
        """The field of one document."""
        found: Slot | None = doc._hw_slots.get(self.name)
        if found is not None:
            return found
        schema, default = self.resolve()
        owner, (name, scope), key = doc._hw_owner, doc._hw_scope, doc._hw_key
        made: Slot
        if isinstance(schema, ContainerHandle):
            made = schema.kind.bound(
                owner, name, (self.name,), schema=schema.inner, default=default, scope=scope, key=key
            )
        else:
            # Without its type in brackets, which would be a second call at run time.
            cell: Cell[Any] = Cell(owner, name, (self.name,), schema=schema, default=default, scope=scope, key=key)
            made = cell
        made._change = type(doc)._hw_changes.by_field.get(self.name)  # of the same package
        doc._hw_slots[self.name] = made
        return made

    # -- as a part of a query ------------------------------------------------------------------------------

    def __eq__(self, other: object) -> bool | Condition:  # type: ignore[override]
        # Two fields are compared by identity: in collections of fields, not in queries.
        return self is other if isinstance(other, DocField) else compare(self, Operator.EQUAL, other)

    def __ne__(self, other: object) -> bool | Condition:  # type: ignore[override]
        return self is not other if isinstance(other, DocField) else compare(self, Operator.NOT_EQUAL, other)

    def __lt__(self, other: object) -> Condition:
        return compare(self, Operator.LESS, other)

    def __le__(self, other: object) -> Condition:
        return compare(self, Operator.AT_MOST, other)

    def __gt__(self, other: object) -> Condition:
        return compare(self, Operator.MORE, other)

    def __ge__(self, other: object) -> Condition:
        return compare(self, Operator.AT_LEAST, other)

    # `&` binds closer than `==`, so without brackets it meets the field: Order.state == "open" & Order.number == 1.

    def __and__(self, other: object) -> NoReturn:
        raise not_joined(self, "&", other)

    def __rand__(self, other: object) -> NoReturn:
        raise not_joined(other, "&", self)

    def __or__(self, other: object) -> NoReturn:
        raise not_joined(self, "|", other)

    def __ror__(self, other: object) -> NoReturn:
        raise not_joined(other, "|", self)

    def __contains__(self, other: object) -> NoReturn:
        raise not_contained(self, other)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"<field {self.owner.__qualname__}.{self.name}>"


def fields_of(base: type) -> dict[str, DocField]:
    """The fields that the class itself declares, without its bases."""
    return {name: field for name, field in vars(base).items() if isinstance(field, DocField)}


def is_class_variable(hint: object) -> bool:
    """Whether an annotation is a ClassVar, and so no field."""
    if isinstance(hint, str):
        return _CLASS_VARIABLE.match(hint) is not None
    return hint is ClassVar or get_origin(hint) is ClassVar


def _hints(cls: type[Any]) -> dict[str, object]:
    """The types of the fields that the class itself declares."""
    own = {name: hint for name, hint in get_annotations(cls).items() if name in fields_of(cls)}
    alone = type(cls.__name__, (), {"__annotations__": own, "__module__": cls.__module__})
    around = {**vars(cls).get("_hw_locals", {}), cls.__name__: cls}
    try:
        return get_type_hints(alone, localns=around, include_extras=True)
    except NameError as error:
        message = f"the types of {cls.__qualname__} cannot be resolved: {error}; declare or import it at module level"
        raise DeclarationError(message, kind=cls.__qualname__) from None
