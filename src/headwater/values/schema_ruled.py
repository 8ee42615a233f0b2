"""Types with rules: `Annotated[int, Field(gt=0)]`, `Annotated[str, msgspec.Meta(max_length=8)]`.

Constraints of msgspec and annotated-types are checked here; rules that only pydantic understands (a validator, a
pattern) are checked by pydantic. Any other annotation is ignored.

If a rule changes the value (a validator that strips blanks), the changed value is stored. Loading only checks, and
returns what is stored.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

from headwater.values.author_text import describe, kind_of, text_of
from headwater.values.intake import RefusedError
from headwater.values.schema import Forms, Handle, Schema, short, solid
from headwater.values.tree import AbsentType, Map, Value

Rule: TypeAlias = Callable[[Any], object]
"""Returns the value, or a changed one. Raises RefusedError."""

_COMPARED: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "gt": (operator.gt, "greater than"),
    "ge": (operator.ge, "at least"),
    "lt": (operator.lt, "less than"),
    "le": (operator.le, "at most"),
}
_MEASURED: Final[dict[str, tuple[Callable[[Any, Any], bool], str]]] = {
    "min_length": (operator.ge, "at least"),
    "max_length": (operator.le, "at most"),
}

BOUNDS: Final = (*_COMPARED, *_MEASURED, "multiple_of", "pattern")
"""Names of rules that are simple bounds."""


class RuledSchema(Schema):
    """A type with rules for its values."""

    __slots__ = ("bounds", "extras", "inner", "rules")

    def __init__(
        self, inner: Schema, rules: Iterable[Rule], bounds: Mapping[str, Value], extras: Iterable[object] = ()
    ) -> None:
        super().__init__(inner.expected)
        self.inner = inner
        self.rules = tuple(rules)
        # The rules that can be stored as data: {"ge": 0}.
        self.bounds: dict[str, Value] = dict(bounds)
        # As the author wrote them: part of the code that a result depends on.
        self.extras = tuple(extras)

    def store(self, value: object) -> Value:
        stored = self.inner.store(value)
        made = value
        for rule in self.rules:
            made = rule(made)
        return stored if made is value else self.inner.store(made)

    def load(self, value: Value, binder: object) -> object:
        loaded = self.inner.load(value, binder)
        for rule in self.rules:
            rule(loaded)
        return loaded

    def has_rules(self) -> bool:
        return True

    # -- delegated to the type --------------------------------------------------------------------------------

    @property
    def bare(self) -> Schema:
        return self.inner.bare

    @property
    def is_leaf(self) -> bool:
        return self.inner.is_leaf

    @property
    def is_key(self) -> bool:  # type: ignore[override]  # a property instead of a class attribute
        return self.inner.is_key

    def child(self, step: str | int) -> Schema | None:
        return self.inner.child(step)

    def field_default(self, step: str | int) -> Value | AbsentType:
        return self.inner.field_default(step)

    def needs(self, step: str | int) -> bool:
        return self.inner.needs(step)

    def handle_steps(self) -> Iterable[str]:
        return self.inner.handle_steps()

    def as_handle(self, *, linked: bool) -> Handle | None:
        return self.inner.as_handle(linked=linked)

    def parts(self) -> Iterable[Schema]:
        return (self.inner,)

    def settle(self) -> None:
        self.inner = solid(self.inner)

    def takes(self) -> tuple[type, ...]:
        return self.inner.takes()

    def forms(self) -> Forms:
        return self.inner.forms()

    def fits(self, value: Map) -> bool:
        return self.inner.fits(value)

    def differs_from(self, other: Schema) -> bool:
        return self.inner.differs_from(other)

    def key_text(self, key: object) -> str:
        for rule in self.rules:
            key = rule(key)
        return self.inner.key_text(key)

    def key_of(self, text: str) -> object:
        key = self.inner.key_of(text)
        for rule in self.rules:
            rule(key)
        return key

    def store_key(self, key: object) -> str:
        return self.inner.store_key(key)

    def load_key(self, text: str) -> object:
        return self.inner.load_key(text)


# --- from annotations to rules ----------------------------------------------------------------------------------


def rules_of(hint: object, extras: Iterable[object]) -> list[Rule]:
    """The rules among the extras of `Annotated`. Raises ValueError for a rule that cannot be checked here."""
    found: list[Rule] = []
    for extra in _spread(extras):
        home = type(extra).__module__.partition(".")[0]
        if isinstance(extra, msgspec.Meta) or home == "annotated_types":
            found += _constraints(extra)
        elif home in {"pydantic", "pydantic_core"} or hasattr(extra, "__get_pydantic_core_schema__"):
            return [_by_pydantic(hint)]
    return found


def bounds_of(extras: Iterable[object]) -> dict[str, Value]:
    """The rules that are simple bounds, by their names in msgspec."""
    found: dict[str, Value] = {}
    for extra in _spread(extras):
        if isinstance(extra, msgspec.Meta) or type(extra).__module__.partition(".")[0] == "annotated_types":
            for name in BOUNDS:
                bound = getattr(extra, name, None)
                if type(bound) in {int, float, str}:
                    found[name] = bound
    return found


def _spread(extras: Iterable[object]) -> Iterable[object]:
    """The single constraints: a pydantic `Field`, an `Interval` or a `Len` contains several."""
    for extra in extras:
        home = type(extra).__module__.partition(".")[0]
        if type(extra).__name__ == "FieldInfo" and home == "pydantic":
            yield from extra.metadata  # type: ignore[attr-defined]  # pydantic's FieldInfo
        elif home == "annotated_types" and hasattr(extra, "__iter__"):
            yield from extra
        else:
            yield extra


def _constraints(extra: Any) -> Iterable[Rule]:  # noqa: ANN401  # of msgspec or annotated-types
    for name, (holds, phrase) in _COMPARED.items():
        if (bound := getattr(extra, name, None)) is not None:
            yield _compared(holds, phrase, bound)
    for name, (holds, phrase) in _MEASURED.items():
        if (bound := getattr(extra, name, None)) is not None and bound != 0:
            yield _measured(holds, phrase, bound)
    if (step := getattr(extra, "multiple_of", None)) is not None:
        yield _tested(lambda value: value % step == 0, f"a multiple of {step}")
    if (pattern := getattr(extra, "pattern", None)) is not None:
        yield _tested(lambda value: re.search(pattern, value) is not None, f"text that matches {pattern!r}")
    if (aware := _wants_zone(extra)) is not None:
        yield _tested(lambda value: (value.tzinfo is not None) is aware, f"a time with{'' if aware else 'out'} zone")
    if callable(test := getattr(extra, "func", None)):
        yield _tested(lambda value: bool(test(value)), f"a value for which {_name(test)} is true")


def _wants_zone(extra: Any) -> bool | None:  # noqa: ANN401
    if isinstance(extra, msgspec.Meta):
        return extra.tz
    return extra.tz is not None if hasattr(extra, "tz") else None


def _name(test: object) -> str:
    return str(getattr(test, "__qualname__", None) or type(test).__name__)


def _tested(holds: Callable[[Any], bool], phrase: str) -> Rule:
    def rule(value: object) -> object:
        try:
            if holds(value):
                return value
        except RefusedError:
            raise
        except Exception as error:  # noqa: BLE001  # an author's own test, or values that cannot be compared
            raise RefusedError(f"must be {phrase}, got {short(value)} ({describe(error)})") from None
        raise RefusedError(f"must be {phrase}, got {short(value)}")

    return rule


def _compared(holds: Callable[[Any, Any], bool], phrase: str, bound: object) -> Rule:
    return _tested(lambda value: holds(value, bound), f"{phrase} {bound!r}")


def _measured(holds: Callable[[Any, Any], bool], phrase: str, bound: int) -> Rule:
    def rule(value: Any) -> object:  # noqa: ANN401
        if not holds(len(value), bound):
            raise RefusedError(f"must have a length of {phrase} {bound}, got {len(value)}")
        return value

    return rule


def _by_pydantic(hint: object) -> Rule:
    pydantic: Any = sys.modules.get("pydantic")
    if pydantic is None:
        raise ValueError(f"{hint!r} has a rule of pydantic, which is not imported")
    try:
        try:
            adapter = pydantic.TypeAdapter(hint, config={"arbitrary_types_allowed": True})
        except pydantic.PydanticUserError:
            # A model or a dataclass has its own configuration, and accepts no other.
            adapter = pydantic.TypeAdapter(hint)
    except Exception as error:  # noqa: BLE001  # pydantic may raise anything
        first = (text_of(error).splitlines() or [kind_of(error)])[0]
        raise ValueError(f"pydantic cannot check {hint!r}: {first}") from None

    def rule(value: object) -> object:
        try:
            made: object = adapter.validate_python(value)
        except Exception as error:  # noqa: BLE001  # a validator may raise anything
            raise RefusedError(message_of_check(error)) from None
        return value if type(made) is type(value) and made == value else made

    return rule


def message_of_check(error: Exception) -> str:
    """The message of an author's own check, in one line; each finding of a pydantic error with its path."""
    try:
        findings = [("/".join(map(str, found["loc"])), found["msg"]) for found in error.errors()]  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001  # not an error of pydantic's, or one of an author's that only looks like it
        return text_of(error) or kind_of(error)
    return "; ".join(f"{path}: {message}" if path else message for path, message in findings)
