"""Fields of documents that were renamed, or have another type now: how documents from before are read.

A change is recognized by what is stored: the value is under the former name and not under the new one, or it is of the
former type and not of the new one. So a document is read correctly before and after its migration, in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from headwater.cells.binding import writing_to
from headwater.cells.space_port import SpacePort
from headwater.cells.traverse import Traverse
from headwater.errors import HeadwaterError, SchemaError
from headwater.values.address import address_text
from headwater.values.author_text import describe
from headwater.values.hints import freeze_with
from headwater.values.ids import DocKey
from headwater.values.intake import RefusedError
from headwater.values.schema import Handle, LinkFound, Schema
from headwater.values.shape import Shapes, Shaping
from headwater.values.tree import ABSENT, Maybe, Path, Value, child, is_link, is_map, map_of


class Retype:
    """The former type of a field, and what makes a value of the new type of one of the former."""

    __slots__ = ("_made", "_old", "hint", "how")

    def __init__(self, hint: object, old: Callable[[], Schema], how: Callable[..., object]) -> None:
        self.hint = hint
        # Resolved at first use: classes may name each other.
        self._old = old
        self.how = how
        self._made: Schema | None = None

    @property
    def schema(self) -> Schema:
        """The former type."""
        if self._made is None:
            self._made = self._old()
        return self._made


class FieldChange:
    """What has changed in one field of a class: its name, its type, or both."""

    __slots__ = ("_schema", "name", "retype", "was")

    def __init__(
        self, name: str, schema: Callable[[], Schema], was: tuple[str, ...] = (), retype: Retype | None = None
    ) -> None:
        self.name = name
        self._schema = schema
        # Former names, the latest first.
        self.was = was
        self.retype = retype

    @property
    def told(self) -> tuple[object, ...]:
        """What the declaration says of its type."""
        return () if self.retype is None else (self.retype.hint, self.retype.how)

    # -- what is stored ------------------------------------------------------------------------------------

    def is_old(self, value: Maybe) -> bool:
        """Whether a stored value is of the former type, and not of the new one."""
        retype = self.retype
        if retype is None or value is ABSENT:
            return False
        return not fits(self._schema(), value) and fits(retype.schema, value)

    def name_in(self, document: Maybe) -> str:
        """The key under which a document has the field: a former name, if it has it there only."""
        if self.was and child(document, self.name) is ABSENT:
            return next((name for name in self.was if child(document, name) is not ABSENT), self.name)
        return self.name

    # -- reading -------------------------------------------------------------------------------------------

    def former(self, traverse: Traverse, doc: DocKey, path: Path, schema: Schema) -> Maybe:
        """The value under a former name. It is read where it is, so that a change of it is noticed."""
        if self.retype is not None:
            schema = self.retype.schema
        for name in self.was:
            found = traverse.value(doc, (*path[:-1], name), schema)
            if found is not ABSENT:
                return found
        return ABSENT

    def converted(self, space: SpacePort, traverse: Traverse, doc: DocKey, path: Path, binder: object) -> Maybe:
        """The value in the new type, if what is stored is of the former type; else ABSENT. Raises SchemaError."""
        retype = self.retype
        if retype is None:
            return ABSENT
        value = traverse.value(doc, path, retype.schema)
        if value is ABSENT:
            value = self.former(traverse, doc, path, retype.schema)
        if value is ABSENT or not fits(retype.schema, value):
            return ABSENT
        return self.made(value, address_text(doc, path), space, binder)

    def made(self, value: Value, where: str, space: SpacePort, binder: object) -> Value:
        """A value of the former type in the new one. Raises SchemaError."""
        assert self.retype is not None
        try:
            given = self.retype.schema.load(value, binder)
            made = self.retype.how(given)
        except HeadwaterError:
            raise
        except (RefusedError, LinkFound) as error:
            raise SchemaError(f"cannot read {where}: {error}", field=self.name) from None
        except Exception as error:
            message = f"cannot read {where}: `how` of its change raised {describe(error)}; correct it, or the value"
            raise SchemaError(message, field=self.name) from error
        with writing_to(space):
            return freeze_with(self._schema(), made, f"what `how` makes of {where}")


class ClassChanges:
    """What has changed in the fields of a class."""

    __slots__ = ("by_field", "dropped")

    def says(self, other: ClassChanges) -> bool:
        """Whether it is the same as another declaration."""
        mine, theirs = ([(each.name, each.was, *each.told) for each in one.by_field.values()] for one in (self, other))
        return mine == theirs and self.dropped == other.dropped

    def __init__(self, by_field: Mapping[str, FieldChange], dropped: tuple[str, ...]) -> None:
        self.by_field: Mapping[str, FieldChange] = MappingProxyType(dict(by_field))
        self.dropped = dropped

    def is_old(self, document: Maybe) -> bool:
        """Whether a document is not migrated yet."""
        if not is_map(document):
            return False
        if any(name in document for name in self.dropped):
            return True
        for change in self.by_field.values():
            name = change.name_in(document)
            if name != change.name or change.is_old(child(document, name)):
                return True
        return False

    def current(self, document: Maybe, where: str, space: SpacePort, *, is_strict: bool = False) -> Maybe:
        """A document in its new form, dropped fields included.

        `is_strict`: raise SchemaError for a value that `how` does not take; otherwise it stays as it is.
        """
        if not is_map(document):
            return document
        items: dict[str, Value] | None = None
        for change in self.by_field.values():
            name = change.name_in(document)
            value = child(document, name)
            if value is ABSENT:
                continue
            made = value
            if change.is_old(value):
                try:
                    made = change.made(value, f"{where}/{name}", space, space)
                except HeadwaterError:
                    if is_strict:
                        raise
            if name != change.name or made is not value:
                items = dict(document) if items is None else items
                del items[name]
                items[change.name] = made
        return document if items is None else map_of(items)


def fits(schema: Schema, value: Value) -> bool:
    """Whether a stored value is one of a type, by its form alone."""
    if isinstance(schema, Handle):
        content = schema.target()
        if isinstance(content, Schema) and not is_link(value):
            return fits(content, value)
        return is_link(value) or (value is None and bool(getattr(schema, "optional", False)))
    inner = schema
    if schema.has_handles:
        shaping = Shaping()
        shape = shaping.shape(schema)
        inner = Shapes(map_of(shaping.records)).schema(shape)
    try:
        inner.load(value, None)
    except LinkFound:
        return inner is not schema
    except RefusedError:
        return False
    return True


NO_CHANGES: Final = ClassChanges({}, ())
