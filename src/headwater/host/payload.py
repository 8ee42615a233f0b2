"""What events of a stream carry: named fields with types, from a function's parameters or from a class.

Unknown fields are refused, and defaults filled in, when an event is sent; so whatever waits is complete.

Must never know: when an event is handled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any, Final, cast, get_type_hints

from headwater.cells.here import Owner
from headwater.cells.home import Home
from headwater.cells.sealed import Sealed
from headwater.cells.traverse import Source
from headwater.errors import DeclarationError, SchemaError
from headwater.host.code import signature_of
from headwater.values.hints import schema_of
from headwater.values.schema import ANY
from headwater.values.tree import Value, freeze, map_of

WHOLE: Final = "payload"
"""The one field of a stream that carries values of a class."""

_PLAIN: Final = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def hints_of(fn: Callable[..., object], where: str) -> dict[str, object]:
    """The types that a function is annotated with. Raises DeclarationError."""
    try:
        return get_type_hints(fn) if getattr(fn, "__annotations__", True) else {}
    except NameError as error:
        message = f"{where}: its types cannot be resolved: {error}; declare or import them at module level"
        raise DeclarationError(message) from None


class Payload:
    """The fields of a stream's events."""

    def __init__(self, owner: Owner, doc: str, where: str, signature: Signature, hints: Mapping[str, object]) -> None:
        self._where = where
        self._signature = signature
        self.fields: dict[str, Sealed] = {}
        for name in signature.parameters:
            schema = schema_of(hints.get(name, Any), where=f"{where}, {name}") if name in hints else ANY
            self.fields[name] = Sealed(owner, doc, (name,), schema=schema)

    @classmethod
    def of_function(cls, owner: Owner, fn: Callable[..., object], doc: str, where: str) -> Payload:
        """From the parameters of a handler. Raises DeclarationError."""
        signature = signature_of(fn)
        check_parameters(signature, where)
        return cls(owner, doc, where, signature, hints_of(fn, where))

    @classmethod
    def of_type(cls, owner: Owner, kind: object, doc: str, where: str) -> Payload:
        """One value of a class."""
        signature = Signature([Parameter(WHOLE, Parameter.POSITIONAL_ONLY)])
        return cls(owner, doc, where, signature, {WHOLE: kind})

    # -- sending -------------------------------------------------------------------------------------------

    def seal(self, *args: object, **kwargs: object) -> Value:
        """What is sent, checked. Raises TypeError, as a call would, or SchemaError."""
        try:
            bound = self._signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._where}: {error}; it takes {self._told()}") from None
        bound.apply_defaults()
        return map_of({name: self.fields[name].seal(given) for name, given in bound.arguments.items()})

    def from_json(self, home: Home, fields: Mapping[str, object]) -> Value:
        """What comes from outside of Python, by name. Raises SchemaError for what is unknown, missing or misfit."""
        if list(self.fields) == [WHOLE] and self._signature.parameters[WHOLE].kind is Parameter.POSITIONAL_ONLY:
            whole = self.fields[WHOLE]
            for name in fields:
                if not whole.has_part(name):
                    raise self._unknown(name, f"{whole.expected} has no such field")
            given: dict[str, object] = {WHOLE: fields}
        else:
            for name in fields:
                if name not in self.fields:
                    raise self._unknown(name, f"it takes {self._told()}")
            given = dict(fields)
        sealed: dict[str, Value] = {}
        for name, parameter in self._signature.parameters.items():
            field = self.fields[name]
            if name in given:
                value = field.unseal(home, home.untracked, freeze(given[name], field.address))
            elif parameter.default is not Parameter.empty:
                value = parameter.default
            else:
                raise SchemaError(f"{self._where}: {name} is missing; it takes {self._told()}", field=name)
            sealed[name] = field.seal(value)
        return map_of(sealed)

    def _unknown(self, name: str, why: str) -> SchemaError:
        return SchemaError(f"{self._where}: there is no field {name!r}: {why}", field=name)

    def _told(self) -> str:
        return ", ".join(f"{name}: {field.expected}" for name, field in self.fields.items()) or "nothing"

    # -- handling ------------------------------------------------------------------------------------------

    def call(self, fn: Callable[..., object], home: Home, source: Source, payload: Value) -> object:
        """Call a function with what was sent. What an older version has sent is completed, or refused."""
        there = cast("Mapping[str, Value]", payload)
        given: dict[str, object] = {}
        for name, parameter in self._signature.parameters.items():
            if name in there:
                given[name] = self.fields[name].unseal(home, source, there[name])
            elif parameter.default is Parameter.empty:
                message = f"{self._where}: what was sent has no {name}; it was sent by another version of the program"
                raise SchemaError(message, field=name)
        if len(given) == 1 and WHOLE in given:
            return fn(given[WHOLE])
        bound = self._signature.bind_partial()
        bound.arguments.update(given)
        return fn(*bound.args, **bound.kwargs)


def check_parameters(signature: Signature, where: str) -> None:
    """Refuse parameters that cannot be fields."""
    for name, parameter in signature.parameters.items():
        if parameter.kind not in _PLAIN:
            raise DeclarationError(f"{where}: *{name} cannot be sent; name what an event carries")
