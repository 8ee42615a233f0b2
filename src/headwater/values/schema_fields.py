"""The fields of a record class, read from its annotations, for each way to declare a record in Python.

A declaration that is not possible raises ValueError with the reason; the caller adds where it was declared.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Final, TypeAlias, get_args, get_origin

import msgspec

from headwater.values.author_text import text_of
from headwater.values.class_rules import is_ruled_dataclass, is_ruled_model, is_ruled_tuple
from headwater.values.schema import Schema
from headwater.values.schema_records import (
    DataclassSchema,
    ModelSchema,
    NamedTupleSchema,
    RecordField,
    RecordSchema,
    StructSchema,
    TypedDictSchema,
)

Read: TypeAlias = Callable[[object, str], Schema]
"""Makes the schema of a hint; the text names its owner in messages."""

_NO_DEFAULT: Final = object()

QUALIFIERS: Final = frozenset({"Final", "Required", "NotRequired", "ReadOnly"})
"""Qualifiers of a hint that describe the field, not its type."""


def record_kind(cls: type) -> type[RecordSchema] | None:
    """The schema class of a record class; None if it is no record."""
    if issubclass(cls, dict):
        return TypedDictSchema if hasattr(cls, "__required_keys__") else None
    if issubclass(cls, tuple):
        return NamedTupleSchema if hasattr(cls, "_fields") else None
    if issubclass(cls, msgspec.Struct):
        return StructSchema
    if _is_model(cls):
        return ModelSchema
    return DataclassSchema if dataclasses.is_dataclass(cls) else None


def _is_model(cls: type) -> bool:
    # A model exists only if pydantic is imported, so it is not imported here.
    model = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return model is not None and issubclass(cls, model)


def complete(record: RecordSchema, args: tuple[object, ...], read: Read) -> None:
    """Set the fields of a record. `args` are those of a generic class, as in Box[int]."""
    match record:
        case TypedDictSchema():
            record.complete(_typed_dict_fields(record.cls, args, read), is_frozen=True)
        case NamedTupleSchema():
            fields = _named_tuple_fields(record.cls, args, read)
            record.complete(fields, is_frozen=True, is_ruled=is_ruled_tuple(record.cls))
        case StructSchema():
            _complete_struct(record, args, read)
        case ModelSchema():
            _complete_model(record, read)
        case _:
            _complete_dataclass(record, args, read)


# --- annotations ----------------------------------------------------------------------------------------------


def hints_of(cls: type, args: tuple[object, ...] = ()) -> dict[str, Any]:
    """The annotations of a class and its bases, with names resolved and type parameters replaced."""
    try:
        try:
            hints = typing.get_type_hints(cls, include_extras=True)
        except NameError:
            # A class inside a function is not found by its name, although it names itself.
            own = {base.__name__: base for base in reversed(cls.__mro__)}
            hints = typing.get_type_hints(cls, localns=own, include_extras=True)
    except NameError as error:
        raise ValueError(
            f"the annotations of {cls.__name__} name {error.name!r}, which module {cls.__module__} does not have "
            "when the program runs: import it there (not only for type checkers), and define it before it is used"
        ) from None
    except Exception as error:  # noqa: BLE001  # annotations are code
        raise ValueError(f"the annotations of {cls.__name__} cannot be read: {text_of(error)}") from None
    filled = dict(zip(getattr(cls, "__parameters__", ()), args, strict=False))
    return {name: fill(hint, filled) for name, hint in hints.items()} if filled else hints


def fill(hint: Any, arguments: Mapping[Any, object]) -> Any:  # noqa: ANN401  # a hint can be any object
    """A hint with its type parameters replaced."""
    if isinstance(hint, typing.TypeVar):
        return arguments.get(hint, hint)
    open_parameters = getattr(hint, "__parameters__", ())
    if isinstance(hint, type) or not open_parameters:
        return hint
    return hint[tuple(arguments.get(parameter, parameter) for parameter in open_parameters)]


def _default(value: object, factory: Callable[[], object] | None) -> dict[str, Any]:
    """The arguments of a RecordField for its default."""
    if factory is not None:
        return {"required": False, "default": factory}
    if value is _NO_DEFAULT:
        return {"required": True}
    return {"required": False, "default": lambda: value, "fixed": True}


# --- each way to declare a record -----------------------------------------------------------------------------


def _complete_dataclass(record: RecordSchema, args: tuple[object, ...], read: Read) -> None:
    cls: Any = record.cls
    hints = hints_of(cls, args)
    _check_constructor(cls)
    fields = []
    for each in dataclasses.fields(cls):
        value = _NO_DEFAULT if each.default is dataclasses.MISSING else each.default
        factory = None if each.default_factory is dataclasses.MISSING else each.default_factory
        default = _default(value, factory) if each.init else {"required": False}
        schema = read(hints[each.name], f"field {each.name!r} of {cls.__name__}")
        fields.append(RecordField(each.name, each.name, schema, in_init=each.init, **default))
    record.complete(fields, is_frozen=cls.__dataclass_params__.frozen, is_ruled=is_ruled_dataclass(cls))


def _check_constructor(cls: type) -> None:
    """Check that the constructor takes exactly the fields."""
    mine = {each.name for each in dataclasses.fields(cls) if each.init}
    taken = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
    for each in taken:
        is_open = each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD}
        if each.name not in mine and each.default is each.empty and not is_open:
            raise ValueError(
                f"making a {cls.__name__} takes {each.name!r}, which is no field and is therefore not stored: "
                "give it a default, or make it a field"
            )
    if any(each.kind is each.VAR_KEYWORD for each in taken):
        return
    for name in sorted(mine - {each.name for each in taken}):
        raise ValueError(f"the constructor of {cls.__name__} does not take its field {name!r}: read back, it must")


def _complete_struct(record: RecordSchema, args: tuple[object, ...], read: Read) -> None:
    cls: Any = record.cls
    hints = hints_of(cls, args)
    names, defaults = cls.__struct_fields__, cls.__struct_defaults__
    padded = (msgspec.NODEFAULT,) * (len(names) - len(defaults)) + defaults
    fields = []
    for name, key, default in zip(names, cls.__struct_encode_fields__, padded, strict=True):
        factory = getattr(default, "factory", None) if type(default).__module__.startswith("msgspec") else None
        value = _NO_DEFAULT if default is msgspec.NODEFAULT else default
        schema = read(hints[name], f"field {name!r} of {cls.__name__}")
        fields.append(RecordField(name, key, schema, **_default(value, factory)))
    config = cls.__struct_config__
    tag = None if config.tag is None else (config.tag_field, config.tag)
    # Without fields there is nothing to write, and a twin is not possible.
    is_ruled = hasattr(cls, "__post_init__")
    record.complete(fields, is_frozen=config.frozen or not names, is_ruled=is_ruled, tag=tag)


def _complete_model(record: ModelSchema, read: Read) -> None:
    cls: Any = record.cls
    if not cls.__pydantic_complete__:
        try:
            cls.model_rebuild()
        except NameError as error:
            raise ValueError(f"{cls.__name__} is not complete: {str(error).splitlines()[0]}") from None
    config = cls.model_config
    if config.get("extra") == "allow":
        raise ValueError(f"{cls.__name__} has extra='allow': what is stored must be declared; use a field of type dict")
    if getattr(cls, "__pydantic_root_model__", False):
        raise ValueError(f"{cls.__name__} is a RootModel: use the type of its root itself, or a field")
    fields, aliases = [], {}
    for name, info in cls.model_fields.items():
        takes_others = getattr(info, "default_factory_takes_validated_data", False)
        if info.is_required():
            default = _default(_NO_DEFAULT, None)
        elif takes_others:
            default = {"required": False}
        elif info.default_factory is not None:
            default = _default(None, info.default_factory)
        else:
            default = _default(info.default, None)
        # The rules of one field belong to its type: a part is then checked without the whole.
        hint = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
        schema = read(hint, f"field {name!r} of {cls.__name__}")
        fields.append(RecordField(name, name, schema, **default))
        aliases[name] = name if config.get("validate_by_alias") is False else _alias(cls, name, info)
    record.set_aliases(aliases)
    record.complete(fields, is_frozen=bool(config.get("frozen")), is_ruled=is_ruled_model(cls))


def _alias(cls: type, name: str, info: Any) -> str:  # noqa: ANN401  # pydantic's FieldInfo
    """The name under which a model takes a field."""
    alias = info.validation_alias if info.validation_alias is not None else info.alias
    choices = [alias] if alias is None or isinstance(alias, str) else getattr(alias, "choices", [])
    for choice in choices:
        if choice is None or isinstance(choice, str):
            return name if choice is None else choice
    raise ValueError(
        f"field {name!r} of {cls.__name__} is found by a path (AliasPath): give it an alias that is a name"
    )


def _named_tuple_fields(cls: Any, args: tuple[object, ...], read: Read) -> Iterator[RecordField]:  # noqa: ANN401
    hints = hints_of(cls, args)
    for name in cls._fields:
        default = _default(cls._field_defaults.get(name, _NO_DEFAULT), None)
        yield RecordField(name, name, read(hints.get(name, Any), f"field {name!r} of {cls.__name__}"), **default)


def _typed_dict_fields(cls: Any, args: tuple[object, ...], read: Read) -> Iterator[RecordField]:  # noqa: ANN401
    for name, hint in hints_of(cls, args).items():
        is_required, inner = name in cls.__required_keys__, hint
        # With `from __future__ import annotations` the qualifiers are known only now.
        while (mark := getattr(get_origin(inner), "_name", None)) in QUALIFIERS:
            is_required = {"Required": True, "NotRequired": False}.get(mark, is_required)
            inner = get_args(inner)[0]
        yield RecordField(name, name, read(hint, f"field {name!r} of {cls.__name__}"), required=is_required)
