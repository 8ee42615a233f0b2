"""The fields of the events of a stream, with types: from the parameters of a function, or from a class.

When an event is sent, unknown fields are rejected and defaults filled in: a queued event is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, Signature
from typing import Any, Final, cast, get_type_hints

from headwater.cells.context import Owner
from headwater.cells.detached_value import DetachedValue
from headwater.cells.reading import FIX_ADVICE
from headwater.cells.space_port import SpacePort
from headwater.cells.traverse import ReadSource
from headwater.declare.functions.function_code import signature_of
from headwater.errors import DeclarationError, SchemaError
from headwater.values.hints import schema_of
from headwater.values.schema import ANY
from headwater.values.tree import ABSENT, Maybe, Path, Value, freeze, is_array, is_link, is_map, map_of, same

SINGLE_VALUE: Final = "payload"
"""The only field of a stream whose events carry a value of a class."""

_PLAIN: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def hints_of(fn: Callable[..., object], where: str) -> dict[str, object]:
    """The types that a function is annotated with. Raises DeclarationError."""
    try:
        return get_type_hints(fn, include_extras=True) if getattr(fn, "__annotations__", True) else {}
    except NameError as error:
        message = f"{where}: its types cannot be resolved: {error}; declare or import them at module level"
        raise DeclarationError(message) from None
    except TypeError:
        raise DeclarationError(f"{where}: the types of {fn!r} are not known; declare a plain function") from None


class Payload:
    """The fields of the events of a stream."""

    # The event carries one value of a class, whose fields are those of the event.
    is_single_value: bool = False

    def __init__(self, owner: Owner, doc: str, where: str, signature: Signature, hints: Mapping[str, object]) -> None:
        self._where = where
        self._signature = signature
        kinds = [parameter.kind for parameter in signature.parameters.values()]
        # The number of positional parameters; keyword-only ones follow.
        self._positional_count = len(kinds) - kinds.count(Parameter.KEYWORD_ONLY)
        self._defaults: dict[str, Value] | None = None
        self.fields: dict[str, DetachedValue] = {}
        for name in signature.parameters:
            schema = schema_of(hints.get(name, Any), where=f"{where}, {name}") if name in hints else ANY
            self.fields[name] = DetachedValue(owner, doc, (name,), schema=schema)

    @classmethod
    def of_function(cls, owner: Owner, fn: Callable[..., object], doc: str, where: str) -> Payload:
        """The parameters of a handler. Raises DeclarationError."""
        signature = signature_of(fn)
        check_parameters(signature, where)
        return cls(owner, doc, where, signature, hints_of(fn, where))

    @classmethod
    def of_type(cls, owner: Owner, kind: object, doc: str, where: str) -> Payload:
        """A single value of a class."""
        signature = Signature([Parameter(SINGLE_VALUE, Parameter.POSITIONAL_ONLY)])
        made = cls(owner, doc, where, signature, {SINGLE_VALUE: kind})
        made.is_single_value = True
        return made

    @property
    def may_link(self) -> bool:
        """Whether a payload may contain links."""
        return any(field.may_link for field in self.fields.values())

    # -- sending -------------------------------------------------------------------------------------------

    def seal(self, *args: object, **kwargs: object) -> Value:
        """The payload of an event, checked. Raises TypeError, as a call would, or SchemaError."""
        if not kwargs and len(args) == self._positional_count == len(self.fields):
            # The usual case, without `bind`.
            named = zip(self.fields.items(), args, strict=True)
            return map_of({name: field.to_tree(given) for (name, field), given in named})
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._where}: {error}; it takes {self._described()}") from None
        bound.apply_defaults()
        return map_of({name: self.fields[name].to_tree(given) for name, given in bound.arguments.items()})

    def given(self, sealed: Value) -> Value:
        """The payload without the fields that have their default value.

        So a new version that adds or changes a default leaves the identity of an event that is sent again unchanged.
        """
        if self._defaults is None:
            named = self._signature.parameters.items()
            defaults = {name: each.default for name, each in named if each.default is not Parameter.empty}
            self._defaults = {name: self.fields[name].to_tree(default) for name, default in defaults.items()}
        if not self._defaults or not is_map(sealed):
            return sealed
        left = {
            name: value
            for name, value in sealed.items()
            if name not in self._defaults or not same(value, self._defaults[name])
        }
        return map_of(left)

    def from_json(self, home: SpacePort, fields: Mapping[str, object]) -> Value:
        """The payload from fields by name that come from outside of Python. Raises SchemaError."""
        if not isinstance(cast("object", fields), Mapping):
            raise SchemaError(
                f"{self._where}: fields by name are expected, not {fields!r}; it takes {self._described()}"
            )
        if self.is_single_value:
            whole = self.fields[SINGLE_VALUE]
            for name in fields:
                if not whole.has_part(name):
                    raise self._unknown(name, f"{whole.expected} has no such field")
            given: dict[str, object] = {SINGLE_VALUE: fields}
        else:
            for name in fields:
                if name not in self.fields:
                    raise self._unknown(name, f"it takes {self._described()}")
            given = dict(fields)
        sealed: dict[str, Value] = {}
        for name, parameter in self._signature.parameters.items():
            field = self.fields[name]
            if name in given:
                sealed[name] = self._checked_value(home, field, freeze(given[name], field.address))
            elif parameter.default is not Parameter.empty:
                sealed[name] = field.to_tree(parameter.default)
            else:
                raise SchemaError(f"{self._where}: {name} is missing; it takes {self._described()}", field=name)
        return map_of(sealed)

    def _checked_value(self, home: SpacePort, field: DetachedValue, given: Value) -> Value:
        """One value in its stored form. Parts that the type does not have are rejected: a reader would ignore them."""
        try:
            sealed = field.to_tree(field.from_tree(home, home.untracked, given))
        except SchemaError as error:
            told = error.message.removesuffix(FIX_ADVICE).replace("cannot read", "cannot send", 1)
            raise SchemaError(told, **error.facts) from None
        stray = next(_unknown_paths(given, sealed), None)
        if stray is not None:
            raise self._unknown("/".join(map(str, stray)), f"{field.address} is {field.expected}")
        return sealed

    def _unknown(self, name: str, why: str) -> SchemaError:
        return SchemaError(f"{self._where}: there is no field {name!r}: {why}", field=name)

    def listed(self) -> list[tuple[str, str, Maybe]]:
        """Each field with its type in words and its default; ABSENT: it must be given."""
        return [
            (
                name,
                self.fields[name].expected,
                ABSENT if each.default is Parameter.empty else self.fields[name].to_tree(each.default),
            )
            for name, each in self._signature.parameters.items()
        ]

    def _described(self) -> str:
        return ", ".join(f"{name}: {field.expected}" for name, field in self.fields.items()) or "nothing"

    def unsealed(self, home: SpacePort, sealed: Value) -> dict[str, object]:
        """The fields by name, as Python values, without recording reads."""
        there = cast("Mapping[str, Value]", sealed)
        found: dict[str, object] = {}
        for name, field in self.fields.items():
            if name not in there:
                default = self._signature.parameters[name].default
                if default is Parameter.empty:
                    message = f"{self._where}: what is kept has no {name}; give it"
                    raise SchemaError(message, field=name)
                found[name] = field.from_tree(home, home.untracked, field.to_tree(default))
            else:
                found[name] = field.from_tree(home, home.untracked, there[name])
        return found

    # -- handling ------------------------------------------------------------------------------------------

    def call(self, fn: Callable[..., object], home: SpacePort, source: ReadSource, payload: Value) -> object:
        """Call a function with a payload. Fields missing in an older event get their default, or raise SchemaError."""
        there: Mapping[str, Value] = payload  # type: ignore[assignment]  # as `seal` makes it
        given: list[object] = []
        for name, field in self.fields.items():
            given.append(field.from_tree(home, source, there[name] if name in there else self._default(name)))
        placed = self._positional_count
        if placed == len(given):
            return fn(*given)
        return fn(*given[:placed], **dict(zip(list(self.fields)[placed:], given[placed:], strict=True)))

    def _default(self, name: str) -> Value:
        default = self._signature.parameters[name].default
        if default is Parameter.empty:
            message = f"{self._where}: what was sent has no {name}; it was sent by another version of the program"
            raise SchemaError(message, field=name)
        return self.fields[name].to_tree(default)


def _unknown_paths(given: Value, sealed: Maybe, path: Path = ()) -> Iterator[Path]:
    """The paths of given values that the stored form does not have."""
    if is_link(given):
        return
    if is_map(given):
        for key, inner in given.items():
            if is_map(sealed) and key in sealed:
                yield from _unknown_paths(inner, sealed[key], (*path, key))
            else:
                yield (*path, key)
    elif is_array(given) and is_array(sealed):
        for index, (inner, kept) in enumerate(zip(given, sealed, strict=False)):
            yield from _unknown_paths(inner, kept, (*path, index))


def check_parameters(signature: Signature, where: str) -> None:
    """Reject parameters that cannot be fields. Raises DeclarationError."""
    for name, parameter in signature.parameters.items():
        if parameter.kind not in _PLAIN:
            stars = "*" if parameter.kind is Parameter.VAR_POSITIONAL else "**"
            raise DeclarationError(f"{where}: {stars}{name} cannot be sent; name what an event carries")
