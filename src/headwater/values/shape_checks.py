"""Checks of stored values against types as data, where a value differs from the one before it.

A part that is the same object in both is not checked: it costs a comparison of identities, and what does not fit there
is not the fault of this write. A link fits everywhere, because a reader follows it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias, cast

from headwater.values.chunked import common_ends
from headwater.values.intake import RefusedError
from headwater.values.schema import ANY, LinkFound, Schema, short
from headwater.values.shape import Shapes
from headwater.values.tree import ABSENT, Maybe, Value, is_array, is_link, is_map, same

Misfit: TypeAlias = tuple[tuple[str | int, ...], str]
"""The path of the part that does not fit, and why."""

_KINDS: Final[dict[str, frozenset[type]]] = {
    "null": frozenset({type(None)}),
    "int": frozenset({int}),
    "float": frozenset({float, int}),
    "str": frozenset({str}),
    "bool": frozenset({bool}),
    "bytes": frozenset({bytes}),
}
_NO_KINDS: Final[frozenset[type]] = frozenset()


class TypeCheck:
    """A type. This one takes every value."""

    def __init__(self, expected: str, kinds: frozenset[type] = _NO_KINDS) -> None:
        self.expected: Final = expected
        # Values of these types fit whatever they are: callers look here first.
        self.kinds: Final = kinds

    def misfit(self, before: Maybe, after: Value) -> Misfit | None:  # noqa: ARG002
        """What does not fit in a value; None if all fits. `before`: the value before, ABSENT if there was none."""
        return None

    def part(self, step: str | int, before: Maybe, after: Value) -> Misfit | None:
        """As `misfit`, for the value at a step of another one."""
        if after is before or type(after) in self.kinds:
            return None
        found = self.misfit(before, after)
        return None if found is None else ((step, *found[0]), found[1])

    def unfit(self, value: Value) -> Misfit | None:
        """The misfit of the value itself, unless it is a link."""
        return None if is_link(value) else ((), f"expected {self.expected}, got {short(value)}")


class _Simple(TypeCheck):
    """A type without parts, as its schema loads it."""

    def __init__(self, schema: Schema, kinds: frozenset[type]) -> None:
        super().__init__(schema.expected, kinds)
        self._schema = schema

    def misfit(self, before: Maybe, after: Value) -> Misfit | None:  # noqa: ARG002
        try:
            self._schema.load(after, None)
        except LinkFound:
            return None
        except RefusedError as refused:
            return tuple(reversed(refused.steps)), refused.reason
        return None


class _List(TypeCheck):
    def __init__(self, expected: str, item: TypeCheck) -> None:
        super().__init__(expected)
        self._item = item

    def misfit(self, before: Maybe, after: Value) -> Misfit | None:
        if not is_array(after):
            return self.unfit(after)
        item, first, last = self._item, 0, len(after)
        if is_array(before):
            first, behind = common_ends(before, after)
            last -= behind
        for index in range(first, last):
            if (found := item.part(index, ABSENT, after[index])) is not None:
                return found
        return None


class _Tuple(TypeCheck):
    def __init__(self, expected: str, items: list[TypeCheck]) -> None:
        super().__init__(expected)
        self._items = items

    def misfit(self, before: Maybe, after: Value) -> Misfit | None:  # noqa: ARG002
        if not is_array(after) or len(after) != len(self._items):
            return self.unfit(after)
        for index, item in enumerate(self._items):
            if (found := item.part(index, ABSENT, after[index])) is not None:
                return found
        return None


class _Map(TypeCheck):
    def __init__(self, expected: str, item: TypeCheck, key: Schema | None) -> None:
        super().__init__(expected)
        self._item = item
        self._key = key

    def misfit(self, before: Maybe, after: Value) -> Misfit | None:
        if not is_map(after) or is_link(after):
            return self.unfit(after)
        olds: Mapping[str, Value] = before if is_map(before) else {}
        for name, value in after.items():
            old = olds.get(name, ABSENT)
            if self._key is not None and old is ABSENT:
                try:
                    self._key.key_of(name)
                except RefusedError as refused:
                    return (name,), refused.reason
            if (found := self._item.part(name, old, value)) is not None:
                return found
        return None


class _Record(TypeCheck):
    """A map with known keys. Keys that it does not name may have any value."""

    def __init__(self, expected: str) -> None:
        super().__init__(expected)
        self.fields: dict[str, TypeCheck] = {}
        self.required: frozenset[str] = frozenset()

    def misfit(self, before: Maybe, after: Value) -> Misfit | None:
        if not is_map(after) or is_link(after):
            return self.unfit(after)
        return misfit_of_fields(self.fields, self.required, before, after)


class _Union(TypeCheck):
    def __init__(self, expected: str, options: list[TypeCheck]) -> None:
        super().__init__(expected, frozenset[type]().union(*(each.kinds for each in options)))
        self._options = options

    def misfit(self, before: Maybe, after: Value) -> Misfit | None:  # noqa: ARG002
        found: list[Misfit] = []
        for option in self._options:
            # Whole: the value before may have been of another option.
            wrong = None if type(after) in option.kinds else option.misfit(ABSENT, after)
            if wrong is None:
                return None
            found.append(wrong)
        inside = [each for each in found if each[0]]
        return inside[0] if len(inside) == 1 else self.unfit(after)


class _Link(TypeCheck):
    """A link to a document. Which document it leads to is not checked: it may be made later."""

    def __init__(self, name: str, *, optional: bool) -> None:
        expected = f"a link to {name}{' or None' * optional}"
        super().__init__(expected, _KINDS["null"] if optional else _NO_KINDS)

    def misfit(self, before: Maybe, after: Value) -> Misfit | None:  # noqa: ARG002
        return self.unfit(after)


class TypeChecks:
    """Checks for shapes that share one table of records."""

    def __init__(self, types: Value) -> None:
        self._types = cast("Mapping[str, Value]", types) if is_map(types) else {}
        self._shapes = Shapes(types)
        self._records: dict[str, _Record] = {}

    def of(self, shape: Value) -> TypeCheck:
        """The check of a shape. A shape that this version does not know takes every value."""
        schema = self._shapes.schema(shape)
        if isinstance(shape, str):
            return TypeCheck("Any") if schema is ANY else _Simple(schema, _KINDS.get(shape, _NO_KINDS))
        if is_map(shape):
            for word, part in shape.items():
                if (made := self._of_parts(word, part, shape, schema)) is not None:
                    return made
        return TypeCheck("Any")

    def _of_parts(  # noqa: PLR0911  # one for each kind of type
        self, word: str, part: Value, shape: Mapping[str, Value], schema: Schema
    ) -> TypeCheck | None:
        match word:
            case "list":
                return _List(schema.expected, self.of(part))
            case "tuple":
                return _Tuple(schema.expected, [self.of(each) for each in _items(part)])
            case "dict":
                key = self._shapes.schema(shape["keys"]) if "keys" in shape else None
                return _Map(schema.expected, self.of(part), key)
            case "choice":
                return _Simple(schema, _NO_KINDS)
            case "union":
                options = [self.of(each) for each in _items(part)]
                # An option that is not known takes every value.
                return (
                    TypeCheck("Any")
                    if any(type(each) is TypeCheck for each in options)
                    else _Union(schema.expected, options)
                )
            case "record":
                return self._record(str(part)) if str(part) in self._types else None
            case "link":
                return _Link(str(part), optional=shape.get("optional") is True)
            case "handle" | "of":
                # Rules beyond the structure are those of programs.
                return self.of(part)
            case _:
                return None

    def _record(self, name: str) -> _Record:
        made = self._records.get(name)
        if made is None:
            # Known before its fields: a record may contain itself.
            made = self._records[name] = _Record(name)
            table = self._types[name]
            found: Mapping[str, Value] = table if is_map(table) else {}
            made.fields.update(self.of_fields(found.get("fields")))
            required = {str(each) for each in _items(found.get("required"))}
            made.required = frozenset(required)
        return made

    def of_fields(self, fields: Value) -> dict[str, TypeCheck]:
        """The checks of the fields of a record."""
        return {name: self.of(shape) for name, shape in fields.items()} if is_map(fields) else {}


def misfit_of_fields(
    checks: Mapping[str, TypeCheck], required: frozenset[str], before: Maybe, after: Mapping[str, Value]
) -> Misfit | None:
    """What does not fit in the fields of a map that differ from those before."""
    olds: Mapping[str, Value] = before if is_map(before) else {}
    for name, check in checks.items():
        value = after.get(name, ABSENT)
        if value is ABSENT:
            if name in required and (name in olds or not is_map(before)):
                return (name,), f"expected {check.expected}, and it is missing; it has no default"
        elif type(value) not in check.kinds:
            old = olds.get(name, ABSENT)
            if value is old or (found := check.misfit(old, value)) is None:
                continue
            if not same(value, old):  # a map that is written as a whole may repeat what did not fit before
                return (name, *found[0]), found[1]
    return None


def _items(part: Value) -> list[Value]:
    return list(part) if is_array(part) else []
