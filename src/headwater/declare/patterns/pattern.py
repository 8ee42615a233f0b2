"""Patterns: functions that build a graph, started many times with different inputs."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, cast, overload

from headwater.cells.context import Owner
from headwater.cells.detached_value import DetachedValue
from headwater.cells.reading import Readable
from headwater.declare.events.payload import Payload, check_parameters, hints_of
from headwater.declare.functions.function_code import is_async, is_generator, signature_of
from headwater.declare.functions.invocation import Invocation
from headwater.errors import DeclarationError, HeadwaterError
from headwater.values.schema import ANY, Schema
from headwater.values.tree import Value

if TYPE_CHECKING:
    from headwater.declare.patterns.builder import Builder
    from headwater.declare.patterns.piece import Piece

P = ParamSpec("P")
R = TypeVar("R")

ARGUMENTS = "arguments"
"""The key of the inputs in the document of a piece."""


class Pattern(Generic[P, R]):
    """A declared pattern. Made by `@hw.pattern`; a call starts nothing and returns an `Invocation`."""

    def __init__(self, fn: Callable[Concatenate[Builder, P], R], name: str, version: str = "") -> None:
        self.name = name
        self.__wrapped__ = fn
        self.__doc__ = fn.__doc__
        self.__name__ = name
        self.version = version
        signature = _check(fn, name)
        given = list(signature.parameters.values())[1:]
        self._signature = signature.replace(parameters=given)
        self._schemas: dict[str, Schema] | None = None

    @property
    def identity(self) -> str:
        """The module and the qualified name of its function."""
        fn = self.__wrapped__
        return f"{getattr(fn, '__module__', '')}:{getattr(fn, '__qualname__', self.name)}"

    def inputs(self, owner: Owner, doc: str) -> PieceInputs:
        """The inputs of one piece."""
        if self._schemas is None:
            # Resolved at first use: the types may be declared after the pattern.
            where = f"pattern {self.name}()"
            made = Payload(owner, doc, where, self._signature, hints_of(self.__wrapped__, where))
            self._schemas = {name: field._schema for name, field in made.fields.items()}  # noqa: SLF001  # to be shared
        return PieceInputs(owner, doc, self, self._signature, self._schemas)

    def __call__(self, *args: P.args, **inputs: P.kwargs) -> Piece[R]:
        """An invocation: a computed that returns it starts a piece as its child, and is read as that piece."""
        # Typed as what readers of the computed get.
        return cast("Piece[R]", Invocation(self, args, inputs))

    def __repr__(self) -> str:
        return f"<pattern {self.name}>"


class PieceInputs(Payload):
    """The inputs of one piece, by name: each is stored in the document of the piece.

    An input that is declared as a cell and given as a value is the cell at that address.
    """

    def __init__(
        self, owner: Owner, doc: str, pattern: Pattern[..., Any], signature: Signature, schemas: dict[str, Schema]
    ) -> None:
        super().__init__(owner, doc, f"pattern {pattern.name}()", signature.replace(parameters=[]), {})
        self._signature = signature
        kinds = [parameter.kind for parameter in signature.parameters.values()]
        self._positional_count = len(kinds) - kinds.count(Parameter.KEYWORD_ONLY)
        for name in signature.parameters:
            self.fields[name] = DetachedValue(owner, doc, (ARGUMENTS, name), schema=schemas.get(name, ANY))

    def named(self, args: tuple[object, ...], inputs: dict[str, Any]) -> dict[str, object]:
        """The given inputs by name, without defaults. Raises TypeError, as a call would."""
        try:
            return dict(self._signature.bind(*args, **inputs).arguments)
        except TypeError as error:
            raise TypeError(f"{self._where}: {error}; it takes {self._described()}") from None

    def sealed(self, args: tuple[object, ...], inputs: dict[str, Any]) -> Value:
        """The stored form. Raises SchemaError, AddressError or LimitError, with the names of the inputs."""
        try:
            return self.seal(*args, **inputs)
        except HeadwaterError as error:
            message = error.message
            for name, field in self.fields.items():
                told = message.replace(f"cannot store {field.address}", f"{self._where} cannot take {name}", 1)
                if told != message and isinstance(self.named(args, inputs).get(name), Readable):
                    told += f"; declare {name}: hw.Cell[{field.expected}] to be given a cell, or give what it holds"
                message = told
            raise type(error)(message, **error.facts) from None


@overload
def pattern(fn: Callable[Concatenate[Builder, P], R], /) -> Pattern[P, R]: ...
@overload
def pattern(
    *, name: str | None = None, version: str | int = ...
) -> Callable[[Callable[Concatenate[Builder, P], R]], Pattern[P, R]]: ...
def pattern(
    fn: Callable[Concatenate[Builder, P], R] | None = None, /, *, name: str | None = None, version: str | int = ""
) -> Any:
    """Declare a function that builds a graph. Each start of it makes a piece.

    The function takes a builder, which has the verbs of an app, and inputs. It returns outputs with names: a dict, or
    an object with fields, of cells, functions, handlers and plain values. Use it as `@hw.pattern`, or with options.

    Args:
        fn: The function.
        name: Its name; by default that of the function.
        version: A version of the code. Change it to build running pieces again.

    Returns:
        The pattern. `space.start(pattern, key, ...)` starts a piece of it.

    Raises:
        DeclarationError: HW110. The function takes no builder, or an option is wrong.

    Example:
        ```python
        import headwater as hw


        @hw.pattern
        def timer(p: hw.Builder, minutes: int) -> dict[str, object]:
            left = p.cell("left", minutes)
            return {"left": left}


        app = hw.App("kitchen")
        with app.open("memory:"):
            print(hw.start(timer, "eggs", minutes=5).outputs["left"].value)  # 5
        ```
    """
    if fn is None:
        return lambda function: Pattern(function, name or _name_of(function), str(version))
    return Pattern(fn, name or _name_of(fn), str(version))


def _name_of(fn: object) -> str:
    return str(getattr(fn, "__name__", ""))


def _check(fn: object, name: str) -> Signature:
    if is_generator(fn) or is_async(fn):
        kind = "a generator" if is_generator(fn) else "async"
        message = f"pattern {name}() is {kind}, and only builds: it returns its outputs at once"
        raise DeclarationError(f"{message}; functions that it declares, as with @p.computed, may be async")
    if not callable(fn) or isinstance(fn, type):
        raise DeclarationError(f"hw.pattern is put in front of a plain function, not of {fn!r}")
    if not name.isidentifier():
        raise DeclarationError(f"hw.pattern needs a name for {fn!r}: give it one with name=..., made of letters")
    signature = signature_of(fn)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
        raise DeclarationError(f"pattern {name}() takes a builder as its first parameter: def {name}(p, ...)")
    check_parameters(signature, f"pattern {name}()")
    return signature


__all__ = ["Pattern", "PieceInputs", "pattern"]
