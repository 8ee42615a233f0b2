"""Schemas with a fixed set of values: literals, enums, flags."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, Flag

from headwater.errors import AddressError, LimitError
from headwater.values.schema import Forms, Schema, misfit
from headwater.values.schema_scalars import INT, LeafSchema
from headwater.values.tree import CONTAINERS, Value, freeze, same


def value_of(choice: object) -> Value:
    """The stored value of an enum member or a literal. Raises ValueError if it cannot be stored."""
    try:
        return freeze(choice.value if isinstance(choice, Enum) else choice)
    except (AddressError, LimitError) as error:
        raise ValueError(f"{choice!r} cannot be stored: {error.facts['reason']}") from None


class ChoiceSchema(LeafSchema):
    """One of a few values, each with its own tree."""

    __slots__ = ("_by_text", "_odd", "loads")

    is_key = True

    def __init__(self, expected: str, choices: Iterable[object]) -> None:
        """Raises ValueError if one cannot be stored, or two would be stored alike."""
        super().__init__(expected)
        self.loads: dict[tuple[type, Value], object] = {}
        # Enum members may have lists or dicts as values, which are not hashable.
        self._odd: list[tuple[Value, object]] = []
        for choice in choices:
            stored = value_of(choice)
            if type(stored) in CONTAINERS:
                self._odd.append((stored, choice))
                continue
            twin = self.loads.setdefault((type(stored), stored), choice)
            if twin is not choice:
                raise ValueError(f"{twin!r} and {choice!r} would be stored alike")
        self._by_text = {str(stored): choice for (_, stored), choice in self.loads.items()}

    def count(self) -> int:
        """The number of choices."""
        return len(self.loads) + len(self._odd)

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        if type(value) not in CONTAINERS:
            found = self.loads.get((type(value), value), self)
            if found is not self:
                return found
        for stored, choice in self._odd:
            if same(stored, value):
                return choice
        return self._unknown(value)

    def _unknown(self, value: Value) -> object:
        raise self.unfit(value)

    def forms(self) -> Forms:
        found: Forms = {type(stored): None for stored, _ in self._odd}
        for kind in {kind for kind, _ in self.loads}:
            found[kind] = frozenset(stored for each, stored in self.loads if each is kind)
        return found

    def holds(self, value: Value) -> bool:
        """Whether a choice is stored as this value."""
        return type(value) not in CONTAINERS and (type(value), value) in self.loads

    def differs_from(self, other: Schema) -> bool:
        return isinstance(other, ChoiceSchema) and self.loads.keys().isdisjoint(other.loads)

    def has_keys(self) -> bool:
        """Whether the choices differ as keys, which are text."""
        return not self._odd and len(self._by_text) == len(self.loads)

    def key_text(self, key: object) -> str:
        return str(self.store(key))

    def key_of(self, text: str) -> object:
        if text in self._by_text:
            return self._by_text[text]
        raise misfit(f"{self.expected} as key", text)


class LiteralSchema(ChoiceSchema):
    """Type-exact: Literal[1] takes neither True nor 1.0."""

    __slots__ = ("_stored",)

    def __init__(self, values: Iterable[object]) -> None:
        """Raises ValueError as ChoiceSchema does."""
        choices = list(values)
        super().__init__(" or ".join(map(_literal_text, choices)), choices)
        self._stored = {(type(choice), choice): value_of(choice) for choice in choices}

    def store(self, value: object) -> Value:
        kind = type(value)
        if kind is not str and isinstance(value, str) and not isinstance(value, Enum):
            value, kind = str.__str__(value), str
        try:
            return self._stored[kind, value]
        except (KeyError, TypeError):  # TypeError: not hashable
            raise misfit(self.expected, value) from None

    def takes(self) -> tuple[type, ...]:
        return tuple(dict.fromkeys(kind for kind, _ in self._stored))


def _literal_text(choice: object) -> str:
    return f"{type(choice).__name__}.{choice.name}" if isinstance(choice, Enum) else repr(choice)


class EnumSchema(ChoiceSchema):
    """Members of an enum, stored by value. An unknown value is passed to the enum's own `_missing_`."""

    __slots__ = ("_stored", "kind")

    def __init__(self, kind: type[Enum]) -> None:
        """Raises ValueError as ChoiceSchema does."""
        super().__init__(kind.__name__, kind)
        self.kind = kind
        self._stored = {member.name: value_of(member) for member in kind}

    def store(self, value: object) -> Value:
        if isinstance(value, self.kind):
            return self._stored[value.name]
        raise misfit(self.expected, value)

    def _unknown(self, value: Value) -> object:
        try:
            found = self.kind._missing_(value)  # the documented hook for exactly this
        except ValueError:
            found = None
        if isinstance(found, self.kind):
            return found
        raise self.unfit(value)

    def takes(self) -> tuple[type, ...]:
        return (self.kind,)


class FlagSchema(LeafSchema):
    """Flags, alone or combined, stored as their number."""

    __slots__ = ("_kind",)

    def __init__(self, kind: type[Flag]) -> None:
        super().__init__(kind.__name__)
        self._kind = kind

    def store(self, value: object) -> Value:
        if isinstance(value, self._kind):
            return INT.store(value.value)
        raise misfit(self.expected, value)

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        if type(value) is not int:
            raise self.unfit(value)
        try:
            return self._kind(value)
        except ValueError:
            raise misfit(self.expected, value) from None

    def takes(self) -> tuple[type, ...]:
        return (self._kind,)

    def forms(self) -> Forms:
        return {int: None}
