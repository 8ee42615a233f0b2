"""Types as data: the schema of an app, stored in the file, and read by programs that do not have its classes.

A shape is a tree. A word names a simple type; a map with one or two keys describes a type with parts:

    "int"  "str"  "datetime"  "any"        {"list": S}  {"tuple": [S, ...]}  {"dict": S, "keys": S}
    {"choice": [value, ...]}               {"union": [S, ...]}
    {"record": "Note"}                     {"link": "Person", "optional": true}
    {"handle": S}                          {"of": S, "rules": {"ge": 0}}

Records are in a table beside it, so that a type can contain itself: `{"Note": {"fields": {"title": S}, "required":
["title"]}}`. A word that a reader does not know means any value: shapes are advice, and never hide data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final, cast

import msgspec

from headwater.values.frozen import FrozenDict
from headwater.values.intake import RefusedError
from headwater.values.schema import ANY, Handle, LinkFound, Schema, misfit, solid
from headwater.values.schema_choices import ChoiceSchema, EnumSchema, FlagSchema, LiteralSchema
from headwater.values.schema_containers import ListSchema, MapSchema, ReadDict, RowSchema, TupleSchema
from headwater.values.schema_records import RecordField, RecordSchema
from headwater.values.schema_ruled import BOUNDS, RuledSchema, rules_of
from headwater.values.schema_scalars import BOOL, BYTES, FLOAT, INT, NONE, STR
from headwater.values.schema_text_types import TEXTS
from headwater.values.schema_union import UnionSchema
from headwater.values.tree import Value, freeze, is_array, is_map

_WORDS: Final[dict[str, Schema]] = {
    "any": ANY,
    "null": NONE,
    **{schema.expected: schema for schema in (INT, FLOAT, STR, BOOL, BYTES, *TEXTS)},
}
_NAMES: Final = {schema: word for word, schema in _WORDS.items()}


# --- from types to shapes -----------------------------------------------------------------------------------------


class Shaping:
    """One table of records, and the shapes that use it. `classes` has the document classes that were found."""

    def __init__(self) -> None:
        self.records: dict[str, Value] = {}
        self.classes: dict[type, str] = {}
        self._taken: dict[object, str] = {}

    def shape(self, schema: Schema) -> Value:  # noqa: C901, PLR0911  # one for each kind of type
        """The shape of a type."""
        schema = solid(schema)
        if schema in _NAMES:
            return _NAMES[schema]
        match schema:
            case RuledSchema():
                inner = self.shape(schema.inner)
                return freeze({"of": inner, "rules": schema.bounds}) if schema.bounds else inner
            case RowSchema() | ListSchema():
                return freeze({"list": self.shape(schema.item)})
            case TupleSchema():
                return freeze({"tuple": [self.shape(item) for item in schema.items]})
            case MapSchema():
                keys = {} if schema.key is None else {"keys": self.shape(schema.key)}
                return freeze({"dict": self.shape(schema.item), **keys})
            case ChoiceSchema():
                return _choice(schema)
            case FlagSchema():
                return "int"
            case UnionSchema():
                return freeze({"union": [self.shape(option) for option in schema.options]})
            case RecordSchema():
                return freeze({"record": self._record(schema)})
            case Handle():
                return self._handle(schema)
            case _:
                return "any"

    def name(self, thing: object, wanted: str) -> str:
        """A unique name for a class, the same each time."""
        if thing not in self._taken:
            names = set(self._taken.values())
            made, number = wanted, 1
            while made in names:
                number += 1
                made = f"{wanted}#{number}"
            self._taken[thing] = made
        return self._taken[thing]

    def put(self, name: str, fields: Mapping[str, Schema], required: list[str]) -> None:
        """Add a record with these fields."""
        shapes = {key: self.shape(schema) for key, schema in fields.items()}
        self.records[name] = freeze({"fields": shapes, "required": sorted(required)})

    def _record(self, schema: RecordSchema) -> str:
        name = self.name(schema, schema.expected)
        if name not in self.records:
            self.records[name] = freeze({})  # it is being made: a record may contain itself
            fields = {field.key: field.schema for field in schema.fields}
            if schema.tag is not None:
                fields[schema.tag[0]] = schema.tags[schema.tag[0]]
            self.put(name, fields, sorted(schema.needed))
        return name

    def _handle(self, schema: Handle) -> Value:
        behind = schema.target()
        if isinstance(behind, Schema):
            return freeze({"handle": self.shape(behind)})
        if behind is None:
            return "any"
        name = self.name(behind, behind.__name__)
        self.classes.setdefault(behind, name)
        return freeze({"link": name, "optional": schema.optional})


def _choice(schema: ChoiceSchema) -> Value:
    values = [stored for _, stored in schema.loads]
    # `_missing_` of an enum may accept values that it does not list.
    is_open = isinstance(schema, EnumSchema) and schema.kind._missing_.__func__ is not Enum._missing_.__func__  # type: ignore[attr-defined]
    return "any" if is_open or len(values) != schema.count() else freeze({"choice": values})


# --- from shapes to types -----------------------------------------------------------------------------------------


class StoredRecord(RecordSchema):
    """A record without its class. It is read as a dict."""

    __slots__ = ()

    def _loaded(self, given: dict[str, object], binder: object) -> object:  # noqa: ARG002
        return ReadDict(given)


class LinkSchema(Schema):
    """A link to a document, or none."""

    __slots__ = ("_optional",)

    def __init__(self, name: str, *, optional: bool) -> None:
        super().__init__(f"a link to {name}")
        self._optional = optional

    def store(self, value: object) -> Value:
        raise misfit(self.expected, value)

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        if value is None and self._optional:
            return None
        raise self.unfit(value)


class Shapes:
    """Types from shapes that use one table of records."""

    def __init__(self, records: Value) -> None:
        self._records: dict[str, StoredRecord] = {}
        table = cast("Mapping[str, Value]", records) if is_map(records) else {}
        for name in table:
            self._records[name] = StoredRecord(dict, name)
        for name, record in self._records.items():
            self._complete(record, table[name])
        for record in self._records.values():
            record.settle()

    def _complete(self, record: StoredRecord, shape: Value) -> None:
        fields = _part(shape, "fields")
        required = _part(shape, "required")
        needed = {item for item in _items(required) if isinstance(item, str)}
        made = [
            RecordField(str(key), str(key), self.schema(item), required=key in needed)
            for key, item in (cast("Mapping[str, Value]", fields) if is_map(fields) else {}).items()
        ]
        record.complete(made, is_frozen=True)

    def schema(self, shape: Value) -> Schema:
        """The type of a shape; Any if the shape is unknown."""
        try:
            made = self._schema(shape)
        except (RefusedError, ValueError, TypeError):
            return ANY
        made.settle()
        return made

    def record(self, name: str) -> Schema | None:
        """A record of the table."""
        return self._records.get(name)

    def _schema(self, shape: Value) -> Schema:  # one for each kind of type
        if isinstance(shape, str):
            return _WORDS.get(shape, ANY)
        for word, make in self._makers().items():
            if (part := _part(shape, word)) is not None:
                return make(part, shape)
        return ANY

    def _makers(self) -> dict[str, Callable[[Value, Value], Schema]]:
        return {
            "list": lambda part, _: ListSchema(self.schema(part)),
            "tuple": lambda part, _: TupleSchema([self.schema(item) for item in _items(part)]),
            "dict": self._dict,
            "choice": lambda part, _: LiteralSchema(_items(part)),
            "union": lambda part, _: UnionSchema([self.schema(item) for item in _items(part)]),
            "record": lambda part, _: self._records.get(str(part), ANY),
            "link": lambda part, whole: LinkSchema(str(part), optional=_part(whole, "optional") is True),
            "handle": lambda part, _: self.schema(part),
            "of": self._ruled,
        }

    def _dict(self, part: Value, whole: Value) -> Schema:
        keys = _part(whole, "keys")
        return MapSchema(self.schema(part), None if keys is None else self.schema(keys))

    def _ruled(self, part: Value, whole: Value) -> Schema:
        rules = _part(whole, "rules")
        bounds = {key: item for key, item in (rules.items() if is_map(rules) else ()) if key in BOUNDS}
        meta = msgspec.Meta(**bounds)  # type: ignore[arg-type]  # a bound of another type is refused there
        return RuledSchema(self.schema(part), rules_of(None, [meta]), bounds)


def _part(shape: Value, word: str) -> Value:
    return shape.get(word) if type(shape) is FrozenDict else None


def _items(part: Value) -> list[Value]:
    return list(part) if is_array(part) else []


def misfit_of(schema: Schema, tree: Value) -> tuple[tuple[str | int, ...], str] | None:
    """The path where a tree does not fit a type, and why; None if it fits, or if that depends on a link."""
    try:
        schema.load(tree, None)
    except LinkFound:
        return None
    except RefusedError as refused:
        return tuple(reversed(refused.steps)), refused.reason
    return None
