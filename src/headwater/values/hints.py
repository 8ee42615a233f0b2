"""Schemas from type hints and default values: which types can be declared, and what to write instead of the others.

A class may bring its own schema, by a class method `__headwater_schema__(args, schema_of)`.

A recursive type is read once: a record is registered before its fields are read, and any other type is represented by a
LazySchema until it is complete. Unions and defaults are checked when everything is read.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, Flag
from typing import Annotated, Any, Final, Literal, NoReturn, Self, TypeVar, Union, cast, get_args, get_origin

from headwater.errors import DeclarationError, SchemaError
from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.codec import encode
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.intake import SIZE_SPREAD, RefusedError, spend
from headwater.values.schema import ANY, Handle, LazySchema, Schema, short, solid, to_chunked, too_deep
from headwater.values.schema_choices import ChoiceSchema, EnumSchema, FlagSchema, LiteralSchema
from headwater.values.schema_containers import ListSchema, MapSchema, RowSchema, TupleSchema
from headwater.values.schema_fields import QUALIFIERS, complete, fill, record_kind
from headwater.values.schema_records import RecordSchema
from headwater.values.schema_ruled import RuledSchema, bounds_of, rules_of
from headwater.values.schema_scalars import BOOL, BYTES, FLOAT, INT, NONE, STR
from headwater.values.schema_text_types import TEXTS
from headwater.values.schema_union import UnionSchema, clash
from headwater.values.tree import CONTAINERS, Array, Map, Value, depth_of, freeze
from headwater.values.value_limits import DEPTH_MAX, DOCUMENT_BYTES_MAX, INT_MAX, INT_MIN

_CACHE_MAX: Final = 4096
"""Cached hints. More than a program has, unless it creates classes at run time, which are then not kept alive."""

_cache: dict[object, Schema] = {}


_LIST: Final = ListSchema(ANY, "list")
_DICT: Final = MapSchema(ANY, expected="dict")

_KNOWN: Final[dict[object, Schema]] = {
    int: INT,
    float: FLOAT,
    str: STR,
    bool: BOOL,
    bytes: BYTES,
    None: NONE,
    types.NoneType: NONE,
    **{schema.takes()[0]: schema for schema in TEXTS},
    **dict.fromkeys((Any, object, Value), ANY),
    **dict.fromkeys((list, Sequence, FrozenList, ChunkedList, Array), _LIST),
    **dict.fromkeys((dict, Mapping, FrozenDict, ChunkedMap, Map), _DICT),
    tuple: RowSchema(ANY),
}

_INSTEAD: Final[dict[str, str]] = {
    **dict.fromkeys(("set", "frozenset", "Set", "MutableSet"), "use list[...], or hw.Map with the members as keys"),
    **dict.fromkeys(("bytearray", "memoryview"), "use bytes"),
    **dict.fromkeys(("deque", "MutableSequence", "Iterable", "Iterator", "Collection", "Generator"), "use list[...]"),
    **dict.fromkeys(("defaultdict", "OrderedDict", "Counter", "MutableMapping", "ChainMap"), "use dict[str, ...]"),
    **dict.fromkeys(("Path", "PurePath", "PosixPath"), "use str"),
    **dict.fromkeys(("Callable", "type"), "store a name, and look it up"),
    "complex": "use tuple[float, float]",
    "ClassVar": "it is no field",
}


def _text(hint: object) -> str:
    """A hint as text."""
    if isinstance(hint, type):
        return hint.__name__
    if get_origin(hint) is Annotated:
        return _text(get_args(hint)[0])
    return repr(hint).replace("typing.", "").replace("collections.abc.", "")


def _instead(hint: object) -> str:
    base = get_origin(hint) or hint
    name = getattr(base, "__name__", None) or getattr(base, "_name", None) or ""
    if name in _INSTEAD:
        return _INSTEAD[name]
    if isinstance(base, str) or type(base).__name__ == "ForwardRef":
        return "it is text: use the type itself"
    if not isinstance(base, type):
        return "use a type"
    for plain in (str, int, float, bytes):
        if issubclass(base, plain):
            return f"use {plain.__name__}, or NewType({name!r}, {plain.__name__})"
    return "use None, bool, int, float, str, bytes, list, dict, or make it a dataclass"


def _key(hint: object) -> object:
    """The cache key of a hint; None if it is not hashable, or depends on its class."""
    try:
        hash(hint)
    except TypeError:
        return None
    # With its text: unions in another order are equal, but are named in another order in messages.
    text = "" if isinstance(hint, type) else repr(hint)
    return None if "typing.Self" in text else (type(hint), hint, text)


def schema_of(hint: object, *, where: str = "") -> Schema:
    """The schema of a type. Raises DeclarationError, naming `where` the type is declared."""
    key = _key(hint)
    if key in _cache:
        return _cache[key]
    reader = _Reader(where)
    schema = reader.read(hint)
    reader.finish()
    if len(_cache) + len(reader.known) > _CACHE_MAX:
        _cache.clear()
    _cache.update(reader.known)
    return solid(schema)


class _Reader:
    """Reads one hint and all hints in it. Its schemas are not used before `finish`."""

    def __init__(self, where: str) -> None:
        self.known: dict[object, Schema] = {}
        self._where = where
        self._labels: list[str] = []
        self._owners: list[Schema] = []
        self._made: list[tuple[Schema, str]] = []
        self._is_open = True

    def schema_of(self, hint: object, *, where: str = "") -> Schema:
        """For classes that bring their own schema; can also be called after `finish`."""
        return self.read(hint, where) if self._is_open else schema_of(hint, where=where)

    def read(self, hint: object, label: str = "") -> Schema:
        """The schema of a hint, or a LazySchema if it is being read already."""
        key = _key(hint)
        if key in _cache:
            return _cache[key]
        if key in self.known:
            return self.known[key]
        if label:
            self._labels.append(label)
        lazy = LazySchema(_text(hint))
        if key is not None:
            self.known[key] = lazy
        schema = self._make(hint, key)
        if schema is lazy:
            self._refuse(f"{_text(hint)} is nothing but itself")
        lazy.target = schema
        if key is not None:
            self.known[key] = schema
        if label:
            self._labels.pop()
        return schema

    def _label(self) -> str:
        return self._labels[-1] if self._labels else ""

    def _refuse(self, reason: str, label: str | None = None) -> NoReturn:
        label = self._label() if label is None else label
        problem = ": ".join(filter(None, (self._where or "a type", label, reason)))
        raise DeclarationError(f"cannot declare {problem}", where=self._where, place=label, reason=reason) from None

    def _register(self, schema: Schema) -> Schema:
        """Register a schema that has to be settled."""
        self._made.append((schema, self._label()))
        return schema

    def _make(self, hint: Any, key: object) -> Schema:  # noqa: ANN401, PLR0911  # any object; a return for each kind
        if key is not None and hint in _KNOWN:
            return _KNOWN[hint]
        origin, args = get_origin(hint), get_args(hint)
        base = hint if origin is None else origin
        if hasattr(base, "__headwater_schema__"):
            return cast("Schema", base.__headwater_schema__(args, self.schema_of))
        if base is Union or base is types.UnionType:
            return self._union(args)
        if base is Literal:
            return self._choice(LiteralSchema, args)
        if base is Annotated and args:
            return self._annotated(hint, args)
        if base is Self and self._owners:
            return self._owners[-1]
        meant = self._resolve(base, args)
        if meant is not base:
            return self.read(meant)
        if not isinstance(base, type):
            self._refuse(f"{_text(hint)} cannot be stored; {_instead(hint)}")
        return self._of_class(hint, base, args, key)

    def _resolve(self, base: Any, args: tuple[Any, ...]) -> object:  # noqa: ANN401
        """The hint that a form of `typing` stands for, such as an alias; any other hint itself."""
        if getattr(base, "_name", None) in QUALIFIERS and args:
            return args[0]
        if hasattr(base, "__supertype__"):
            return base.__supertype__
        if isinstance(base, TypeVar):
            return Union[base.__constraints__] if base.__constraints__ else base.__bound__ or Any  # noqa: UP007
        if type(base).__name__ == "TypeAliasType":
            try:
                return fill(base.__value__, dict(zip(base.__type_params__, args, strict=False)))
            except NameError as error:
                self._refuse(f"{_text(base)} names {error.name!r}, which is not defined yet")
        return base

    def _of_class(self, hint: object, base: type, args: tuple[Any, ...], key: object) -> Schema:
        if base in {list, Sequence}:
            return self._register(ListSchema(self.read(args[0] if args else Any)))
        if base is tuple:
            return self._tuple(hint, args)
        if base in {dict, Mapping}:
            return self._dict(*(args or (str, Any)))
        if issubclass(base, Enum):
            return FlagSchema(base) if issubclass(base, Flag) else self._choice(EnumSchema, base)
        kind = record_kind(base)
        if kind is None:
            self._refuse(f"{_text(hint)} cannot be stored; {_instead(hint)}")
        record = kind(base, _text(hint))
        if key is not None:
            self.known[key] = record
        self._owners.append(record)
        try:
            complete(record, args, self.read)
        except ValueError as error:
            self._refuse(str(error))
        self._owners.pop()
        return self._register(record)

    def _annotated(self, hint: object, args: tuple[Any, ...]) -> Schema:
        schema = self.read(args[0])
        try:
            rules = rules_of(hint, args[1:])
        except ValueError as error:
            self._refuse(str(error))
        if rules and isinstance(schema, Handle):
            self._refuse(f"{schema.expected} takes no rules; put them into the type of what it holds")
        return self._register(RuledSchema(schema, rules, bounds_of(args[1:]), args[1:])) if rules else schema

    def _union(self, args: Iterable[object]) -> Schema:
        options = list(dict.fromkeys(self.read(arg) for arg in args))
        if ANY in options and not any(isinstance(option, Handle) for option in options):
            for option in options:
                if not _is_tree(option):
                    self._refuse(_clash_text(option, ANY))
            return ANY
        return options[0] if len(options) == 1 else self._register(UnionSchema(options))

    def _choice(self, kind: Callable[[Any], Schema], choices: object) -> Schema:
        try:
            return kind(choices)
        except ValueError as error:
            self._refuse(str(error))

    def _tuple(self, hint: object, args: tuple[Any, ...]) -> Schema:
        if len(args) == 2 and args[1] is ...:  # noqa: PLR2004
            return self._register(RowSchema(self.read(args[0])))
        if any(
            getattr(arg, "__unpacked__", False) or getattr(get_origin(arg), "_name", None) == "Unpack" for arg in args
        ):
            self._refuse(f"{_text(hint)} cannot be stored; use tuple[T, ...], or tuple[A, B] of a fixed length")
        return self._register(TupleSchema([self.read(arg) for arg in args]))

    def _dict(self, key: object, item: object) -> Schema:
        keys = self.read(key)
        if keys is STR or keys is ANY:
            return self._register(MapSchema(self.read(item)))
        if not keys.is_key or (isinstance(keys.bare, ChoiceSchema) and not keys.bare.has_keys()):
            self._refuse(
                f"{_text(key)} cannot be the key of a dict; keys are stored as text: "
                "use str, int, UUID, date, an Enum or a Literal"
            )
        return self._register(MapSchema(self.read(item), keys))

    def finish(self) -> None:
        """Settle the schemas, then check unions and defaults."""
        self._is_open = False
        unions = [(schema, label) for schema, label in self._made if isinstance(schema, UnionSchema)]
        for union, _ in unions:
            union.settle()
        for schema, _ in self._made:
            if not isinstance(schema, UnionSchema):
                schema.settle()
        for union, label in unions:
            pair = clash(union)
            if pair is not None:
                self._refuse(_clash_text(*pair), label)
        for schema, label in self._made:
            if isinstance(schema, RecordSchema):
                self._check_defaults(schema, label)

    def _check_defaults(self, record: RecordSchema, label: str) -> None:
        for field in record.fields:
            if field.fixed and not field.schema.has_handles:
                try:
                    record.field_default(field.key)
                except RefusedError as refused:
                    self._refuse(f"the default of field {field.name!r} of {record.expected}: {refused.reason}", label)


def _is_tree(schema: Schema) -> bool:
    """Whether it loads trees unchanged, as Any does."""
    if type(schema) is ListSchema or (isinstance(schema, MapSchema) and schema.key is None):
        return _is_tree(schema.item)
    return bool(schema.plain)


def _clash_text(a: Schema, b: Schema) -> str:
    if isinstance(a, RecordSchema) and isinstance(b, RecordSchema):
        advice = "give each a field with a Literal of its own (kind: Literal['a'] = 'a'), or a msgspec tag"
    elif isinstance(a, ListSchema | TupleSchema):
        advice = "use one list, of a union"
    else:
        advice = "declare one of them, or put each in a dataclass of its own"
    return f"{a.expected} and {b.expected} cannot be distinguished once stored; {advice}"


# --- from default values ------------------------------------------------------------------------------------------


_PLAIN: Final = frozenset({bool, int, float, str, bytes})


def infer(default: object, *, where: str = "") -> Schema:  # noqa: PLR0911  # one for each kind of value
    """The schema for a default value. Raises DeclarationError."""
    if default is None:
        return ANY
    # Its `__class__`: a value that was read from a document may be a frozen twin.
    kind = default.__class__
    if kind in _PLAIN:
        return _KNOWN[kind]
    if kind is tuple:
        return _KNOWN[tuple]
    if isinstance(default, list | ChunkedList):
        return _LIST
    if isinstance(default, dict | ChunkedMap):
        is_numbered = bool(default) and all(type(key) is int for key in default)
        return schema_of(dict[int, Any]) if is_numbered else _DICT
    if not isinstance(default, Enum):
        for plain in (bool, int, float, str, bytes, *(schema.takes()[0] for schema in TEXTS)):
            if isinstance(default, plain):
                return _KNOWN[plain]
    if kind is object:
        raise DeclarationError(f"cannot declare {where or 'a type'}: {short(default)} is no value", where=where)
    return schema_of(kind, where=where)


# --- storing ------------------------------------------------------------------------------------------------------

UNMEASURED: Final = frozenset({types.NoneType, bool, int, float})
"""Types of the tree that always fit into a document."""


def freeze_with(schema: Schema, value: object, at: str) -> Value:
    """`schema.store`, with refusals as errors for the author: as `tree.freeze` for Any, else as a SchemaError."""
    if schema is ANY:
        kind = type(value)
        if kind is bool or (kind is int and INT_MIN <= value <= INT_MAX):  # type: ignore[operator]
            return value  # type: ignore[return-value]
        return to_chunked(freeze(value, at))
    try:
        stored = schema.store(value)
        if type(stored) not in UNMEASURED:
            measure(stored)
    except RefusedError as refused:
        error = refused.explain(at)
        if refused.limit:
            raise error from None
        raise SchemaError(error.message, expected=schema.expected, **error.facts) from None
    except RecursionError:
        raise too_deep().explain(at) from None
    return stored


def measure(stored: Value) -> None:
    """Raise RefusedError if the value is larger or deeper than a document may be."""
    if isinstance(stored, str | bytes):
        if len(stored) * SIZE_SPREAD > DOCUMENT_BYTES_MAX:
            spend(len(encode(stored)), [DOCUMENT_BYTES_MAX])
    elif type(stored) in CONTAINERS:
        if depth_of(stored) > DEPTH_MAX:
            raise RefusedError(f"nested deeper than {DEPTH_MAX} levels (does it contain itself?)", limit=True)
        spend(len(encode(stored)), [DOCUMENT_BYTES_MAX])
