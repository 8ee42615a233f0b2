"""Schemas without parts: the scalars of the tree, and types that are stored as text.

Storing or loading a value that fits takes one look at its type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from types import NoneType
from typing import Any, Final, cast

from headwater.values.intake import SCALARS, RefusedError, as_scalar
from headwater.values.schema import Forms, Schema, misfit
from headwater.values.tree import Value
from headwater.values.value_limits import INT_MAX, INT_MIN

_check_int: Final = SCALARS[int]
_check_float: Final = SCALARS[float]
_check_text: Final = SCALARS[str]


class LeafSchema(Schema):
    """A schema without parts, whose values are immutable."""

    __slots__ = ()

    is_leaf = True


class IntSchema(LeafSchema):
    """64 bits, signed or unsigned. A bool is no int here, other than in Python."""

    __slots__ = ()

    plain = frozenset({int})
    is_key = True

    def store(self, value: object) -> Value:
        if type(value) is not int:
            if not isinstance(value, int) or isinstance(value, bool):
                raise misfit(self.expected, value)
            value = int.__int__(value)
        if not INT_MIN <= value <= INT_MAX:
            _check_int(value)
        return value

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        if type(value) is int:
            return value
        raise self.unfit(value)

    def stores_all(self, values: Collection[Any]) -> bool:
        return set(map(type, values)) == {int} and min(values) >= INT_MIN and max(values) <= INT_MAX

    def takes(self) -> tuple[type, ...]:
        return (int,)

    def forms(self) -> Forms:
        return {int: None}

    def key_text(self, key: object) -> str:
        return str(self.store(key))

    def key_of(self, text: str) -> object:
        # Only texts from `key_text`: "07" and "7" would be the same key.
        if text.removeprefix("-").isdecimal() and len(text) <= len(str(INT_MIN)) and str(number := int(text)) == text:
            return number
        raise misfit(f"{self.expected} as key", text)


class FloatSchema(LeafSchema):
    """An int is accepted and converted to a float, when stored and when loaded."""

    __slots__ = ()

    plain = frozenset({float})

    def store(self, value: object) -> Value:
        if type(value) is not float:
            if isinstance(value, float):
                value = float.__float__(value)
            elif isinstance(value, int) and not isinstance(value, bool):
                try:
                    exact = float(value)
                except OverflowError:
                    raise misfit(self.expected, value) from None
                if exact != value:
                    raise RefusedError(f"expected {self.expected}, got int {value}, which no float is equal to")
                value = exact
            else:
                raise misfit(self.expected, value)
        _check_float(value)
        return value

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        if type(value) is float:
            return value
        if type(value) is int:
            return float(value)
        raise self.unfit(value)

    def stores_all(self, values: Collection[Any]) -> bool:
        # The sum is finite only if all are; if it overflows, the values are checked one by one.
        return set(map(type, values)) == {float} and (total := sum(values)) - total == 0.0

    def takes(self) -> tuple[type, ...]:
        return (float, int)

    def forms(self) -> Forms:
        return {float: None}


class StrSchema(LeafSchema):
    """Text; a subclass of str is stored as plain text."""

    __slots__ = ()

    plain = frozenset({str})
    is_key = True

    def key_text(self, key: object) -> str:
        return cast("str", self.store(key))

    def key_of(self, text: str) -> object:
        return text

    def store(self, value: object) -> Value:
        if type(value) is not str:
            if not isinstance(value, str):
                raise misfit(self.expected, value)
            value = str.__str__(value)
        if not value.isascii():
            _check_text(value)
        return value

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        if type(value) is str:
            return value
        raise self.unfit(value)

    def stores_all(self, values: Collection[Any]) -> bool:
        return set(map(type, values)) == {str} and all(map(str.isascii, values))

    def takes(self) -> tuple[type, ...]:
        return (str,)

    def forms(self) -> Forms:
        return {str: None}


class PlainSchema(LeafSchema):
    """One scalar type of the tree whose every value can be stored: bool, bytes, None."""

    __slots__ = ("kind",)

    def __init__(self, kind: type, expected: str) -> None:
        super().__init__(expected)
        self.kind = kind

    @property
    def plain(self) -> frozenset[type]:
        return frozenset({self.kind})

    def store(self, value: object) -> Value:
        if type(value) is self.kind:
            return cast("Value", value)
        if self.kind is bytes and isinstance(value, bytes | bytearray | memoryview):
            return as_scalar(value)
        raise misfit(self.expected, value)

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        if type(value) is self.kind:
            return value
        raise self.unfit(value)

    def stores_all(self, values: Collection[object]) -> bool:
        return set(map(type, values)) == {self.kind}

    def takes(self) -> tuple[type, ...]:
        return (bytes, bytearray, memoryview) if self.kind is bytes else (self.kind,)

    def forms(self) -> Forms:
        return {self.kind: None}


INT: Final = IntSchema("int")
FLOAT: Final = FloatSchema("float")
STR: Final = StrSchema("str")
BOOL: Final = PlainSchema(bool, "bool")
BYTES: Final = PlainSchema(bytes, "bytes")
NONE: Final = PlainSchema(NoneType, "None")


class TextSchema(LeafSchema):
    """A type that is stored as text: `write` makes the text and `read` parses it."""

    __slots__ = ("_but", "_kind", "_read", "_write")

    is_key = True

    def __init__(
        self, kind: type, write: Callable[[Any], str], read: Callable[[str], object], but: type | tuple[type, ...] = ()
    ) -> None:
        super().__init__(kind.__name__)
        self._kind = kind
        self._write = write
        self._read = read
        # Subclasses that count as another type: a datetime is a subclass of date.
        self._but = but

    def store(self, value: object) -> Value:
        if not isinstance(value, self._kind) or isinstance(value, self._but):
            raise misfit(self.expected, value)
        return self._write(value)

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        if type(value) is not str:
            raise self.unfit(value)
        try:
            return self._read(value)
        except (ValueError, ArithmeticError):
            raise misfit(self.expected, value) from None

    def takes(self) -> tuple[type, ...]:
        return (self._kind,)

    def forms(self) -> Forms:
        return {str: None}

    def key_text(self, key: object) -> str:
        return cast("str", self.store(key))

    def key_of(self, text: str) -> object:
        key = self.load(text, None)
        # As for int: each key has one text.
        if self.key_text(key) == text:
            return key
        raise misfit(f"{self.expected} as key", text)
