"""Record schemas: dataclasses, Structs, pydantic models, named tuples and typed dicts, stored as maps.

All fields are stored, also those that hold their default: a later change of the default does not change stored data. On
reading, a missing field has its default, and unknown keys are ignored. Of an instance of a subclass, the fields of the
declared class are stored. A record is made by its constructor: data that the constructor refuses cannot be read, and
what the constructor changes is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Final

import msgspec

from headwater.values.chunked import ChunkedMap
from headwater.values.frozen import FrozenDict
from headwater.values.intake import RefusedError
from headwater.values.schema import Forms, Handle, LinkFound, Schema, misfit, short, solid, too_deep
from headwater.values.schema_choices import LiteralSchema
from headwater.values.schema_containers import MAPS, ReadDict, new_map
from headwater.values.schema_ruled import message_of_check
from headwater.values.schema_twins import freeze_into, make_twin
from headwater.values.tree import ABSENT, LINK_TAG, AbsentType, Map, Value, is_link

_COPIES: Final = (list, dict, tuple)
"""Types of which a constructor may have made a copy."""


class RecordField(msgspec.Struct, eq=False):
    """One field; `key` is its name in the tree."""

    name: str
    key: str
    schema: Schema
    required: bool
    default: Callable[[], object] | None = None
    """Returns the default, if it does not depend on other fields."""
    fixed: bool = False
    """The default is always the same object: it is checked when the type is declared."""
    in_init: bool = True
    """Passed to the constructor; else set afterwards."""


class RecordSchema(Schema):
    """The base of all records. `fields` are set later by `complete`: a record may contain itself."""

    __slots__ = ("_deep", "_ruled", "_twin", "by_key", "cls", "fields", "needed", "tag", "tags")

    how: ClassVar[str | None] = None
    """How authors make a changed copy of a frozen instance; None if instances are immutable anyway."""

    def __init__(self, cls: type, expected: str) -> None:
        super().__init__(expected)
        self.cls = cls
        self.fields: tuple[RecordField, ...] = ()
        self.tag: tuple[str, Value] | None = None
        self.by_key: dict[str, RecordField] = {}
        self._deep: tuple[RecordField, ...] = ()
        self.tags: dict[str, LiteralSchema] = {}
        self.needed: set[str] = set()
        self._twin: type | None = None
        self._ruled = False

    def complete(
        self,
        fields: Iterable[RecordField],
        *,
        is_frozen: bool,
        is_ruled: bool = False,
        tag: tuple[str, Value] | None = None,
    ) -> None:
        """Set the fields, once. Raises ValueError for a class that cannot have a frozen twin.

        `is_ruled`: its constructor may refuse fields that fit their types.
        """
        self.fields = tuple(fields)
        self._ruled = is_ruled
        self.tag = tag
        self.by_key = {field.key: field for field in self.fields}
        if self.how is not None and not is_frozen:
            self._twin = make_twin(self.cls, self.how)

    def settle(self) -> None:
        for field in self.fields:
            field.schema = solid(field.schema)
        self.tags = {field.key: field.schema for field in self.fields if isinstance(field.schema, LiteralSchema)}
        self.needed = {field.key for field in self.fields if field.required}
        if self.tag is not None:
            self.tags[self.tag[0]] = LiteralSchema([self.tag[1]])
            self.needed.add(self.tag[0])
        # Fields with parts, where a constructor may have put something mutable.
        self._deep = tuple(field for field in self.fields if not field.schema.is_leaf)

    # -- storing ---------------------------------------------------------------------------------------------

    def store(self, value: object) -> Value:
        if not isinstance(value, self.cls):
            raise misfit(self.expected, value)
        if value.__class__ is not self.cls:
            self._refuse_more(value.__class__)
        items: dict[str, Value] = {}
        for field in self.fields:
            item = getattr(value, field.name, ABSENT)
            if item is ABSENT:
                if field.in_init:
                    raise RefusedError(f"field {field.key!r} is missing")
                continue
            try:
                items[field.key] = field.schema.store(item)
            except RefusedError as refused:
                refused.steps.append(field.key)
                raise
            except RecursionError:
                raise too_deep() from None
        if self.tag is not None:
            items[self.tag[0]] = self.tag[1]
        if self._ruled and type(value) is not self._twin:
            # An attribute may have been assigned unchecked; the stored record could not be read back.
            self._made({field.name: getattr(value, field.name) for field in self.fields if field.in_init})
        return new_map(items)

    def _refuse_more(self, cls: type) -> None:
        """Refuse a subclass with fields of its own: they would be lost silently."""
        for names in ("__dataclass_fields__", "__struct_fields__", "model_fields", "_fields"):
            found = getattr(cls, names, None)
            more = [name for name in found or () if name not in {field.name for field in self.fields}]
            if found is not None and more:
                lost = ", ".join(map(str, more))
                raise RefusedError(
                    f"expected {self.expected}, got {cls.__name__}, whose {lost} would be lost; declare "
                    f"{cls.__name__}, or {self.expected} | {cls.__name__}"
                )

    # -- loading ---------------------------------------------------------------------------------------------

    def load(self, value: Value, binder: object) -> object:
        if type(value) is FrozenDict:
            if LINK_TAG in value and is_link(value):
                raise LinkFound
        elif type(value) is not ChunkedMap:
            raise self.unfit(value)
        if self.tag is not None and value.get(self.tag[0], self.tag[1]) != self.tag[1]:
            raise RefusedError(f"expected {self.tag[0]} {self.tag[1]!r}, got {short(value[self.tag[0]])}")
        given: dict[str, object] = {}
        for field in self.fields:
            item = value.get(field.key, ABSENT)
            if item is ABSENT:
                if field.required:
                    raise RefusedError(f"field {field.key!r} is missing")
                continue
            try:
                given[field.name] = field.schema.load(item, binder)
            except (RefusedError, LinkFound) as met:
                met.steps.append(field.key)
                raise
            except RecursionError:
                raise too_deep() from None
        return self._loaded(given, binder)

    def _loaded(self, given: dict[str, object], binder: object) -> object:
        """The instance with these fields."""
        later = {
            field.name: given.pop(field.name) for field in self.fields if not field.in_init and field.name in given
        }
        made = self._made(given)
        later.update(self._refrozen(made, given, later, binder))
        if later:
            made = self._change(made, later)
        if self._twin is not None and type(made) is self.cls:
            freeze_into(made, self._twin)
        return made

    def _made(self, given: dict[str, object]) -> object:
        try:
            return self._construct(given)
        except Exception as error:  # noqa: BLE001  # an author's constructor may raise anything
            raise RefusedError(f"{self.expected} refuses it: {message_of_check(error)}") from None

    def _construct(self, given: dict[str, object]) -> object:
        return self.cls(**given)

    def _refrozen(
        self, made: object, given: dict[str, object], later: dict[str, object], binder: object
    ) -> dict[str, object]:
        """Frozen versions of values that the constructor set itself: a default list, a copy, a changed value."""
        found: dict[str, object] = {}
        for field in self._deep:
            item, mine = getattr(made, field.name, ABSENT), given.get(field.name, ABSENT)
            if item is mine or item is ABSENT or field.name in later:
                continue
            if type(item) in _COPIES and item == mine:
                found[field.name] = mine
                continue
            try:
                frozen = field.schema.load(field.schema.store(item), binder)
            except RefusedError as refused:
                refused.steps.append(field.key)
                raise
            if frozen is not item:
                found[field.name] = frozen
        return found

    def _change(self, made: object, fields: dict[str, object]) -> object:
        for name, item in fields.items():
            object.__setattr__(made, name, item)
        return made

    # -- parts -----------------------------------------------------------------------------------------------

    def has_rules(self) -> bool:
        return self._ruled

    def needs(self, step: str | int) -> bool:
        return step in self.needed

    def child(self, step: str | int) -> Schema | None:
        if self.tag is not None and step == self.tag[0]:
            return self.tags[self.tag[0]]
        field = self.by_key.get(step)  # type: ignore[arg-type]  # an index is never found
        return None if field is None else field.schema

    def field_default(self, step: str | int) -> Value | AbsentType:
        field = self.by_key.get(step)  # type: ignore[arg-type]  # as above
        if field is None or field.default is None:
            return ABSENT
        return field.schema.store(field.default())

    def handle_steps(self) -> Iterable[str]:
        return [field.key for field in self.fields if isinstance(field.schema, Handle)]

    def parts(self) -> Iterable[Schema]:
        return [field.schema for field in self.fields]

    # -- in unions -------------------------------------------------------------------------------------------

    def takes(self) -> tuple[type, ...]:
        return (self.cls,)

    def forms(self) -> Forms:
        return {FrozenDict: None}

    def fits(self, value: Map) -> bool:
        if not self.needed <= value.keys():
            return False
        return all(tag.holds(value[key]) for key, tag in self.tags.items() if key in value)

    def differs_from(self, other: Schema) -> bool:
        if not isinstance(other, RecordSchema):
            return False
        mine, theirs = self.tags, other.tags
        if any(mine[key].differs_from(theirs[key]) for key in mine.keys() & theirs.keys()):
            return True
        return bool(self.needed - other.by_key.keys()) and bool(other.needed - self.by_key.keys())


class DataclassSchema(RecordSchema):
    """A dataclass. Fields that its constructor does not take are set afterwards, to the stored value."""

    __slots__ = ()

    how: ClassVar[str | None] = "dataclasses.replace(cell.value, {name}=...)"


class StructSchema(RecordSchema):
    """A msgspec.Struct, with the field names and the tag of its JSON encoding."""

    __slots__ = ()

    how: ClassVar[str | None] = "msgspec.structs.replace(cell.value, {name}=...)"

    def _change(self, made: Any, fields: dict[str, object]) -> object:  # noqa: ANN401
        for name, item in fields.items():
            msgspec.structs.force_setattr(made, name, item)
        return made


class ModelSchema(RecordSchema):
    """A pydantic model. It validates its fields, also before anything is stored."""

    __slots__ = ("_aliases",)

    how: ClassVar[str | None] = "cell.value.model_copy(update={{{name!r}: ...}})"

    def __init__(self, cls: type, expected: str) -> None:
        super().__init__(cls, expected)
        self._aliases: dict[str, str] = {}

    def set_aliases(self, aliases: dict[str, str]) -> None:
        """Set the names under which the model takes its fields, once."""
        self._aliases = aliases

    def _construct(self, given: dict[str, object]) -> object:
        model: Any = self.cls
        return model.model_validate({self._aliases[name]: item for name, item in given.items()})


class NamedTupleSchema(RecordSchema):
    """A named tuple: stored as a map, so that fields can be added later."""

    __slots__ = ()

    def _change(self, made: Any, fields: dict[str, object]) -> object:  # noqa: ANN401
        return made._replace(**fields)


class TypedDictSchema(RecordSchema):
    """A typed dict. An undeclared key is refused: it would be lost."""

    __slots__ = ()

    def store(self, value: object) -> Value:
        if not isinstance(value, dict | Mapping):
            raise misfit(self.expected, value)
        for key in value:
            if key not in self.by_key:
                raise RefusedError(f"{self.expected} has no field {short(key)}")
        items: dict[str, Value] = {}
        for field in self.fields:
            if field.key not in value:
                if field.required:
                    raise RefusedError(f"field {field.key!r} is missing")
                continue
            try:
                items[field.key] = field.schema.store(value[field.key])
            except RefusedError as refused:
                refused.steps.append(field.key)
                raise
            except RecursionError:
                raise too_deep() from None
        return new_map(items)

    def load(self, value: Value, binder: object) -> object:
        loaded = super().load(value, binder)
        assert isinstance(loaded, ReadDict)
        if type(value) is FrozenDict and loaded.keys() == value.keys():
            loaded = value if all(loaded[key] is item for key, item in value.items()) else loaded
        return loaded

    def _loaded(self, given: dict[str, object], binder: object) -> object:  # noqa: ARG002
        return ReadDict(given)

    def takes(self) -> tuple[type, ...]:
        return MAPS
