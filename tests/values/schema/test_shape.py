"""Types as data: what is written down of a type tells right from wrong as the type itself does."""

from __future__ import annotations

from enum import Enum, IntFlag
from typing import Annotated, Any, Literal

import annotated_types
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from headwater.values.codec import decode, encode
from headwater.values.hints import schema_of
from headwater.values.shape import Shapes, Shaping, misfit_of
from headwater.values.tree import Value, freeze
from tests.values.schema.shapes import Cat, Dog, Mutable, Node, Note, OtherTagged, Point, Renamed, Slotted, Tagged
from tests.values.strategies import plain_values


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Open(Enum):
    A = "a"

    @classmethod
    def _missing_(cls, value: object) -> Open | None:
        return cls.A if value else None


class Bits(IntFlag):
    ONE = 1


HINTS: list[Any] = [
    *(int, float, str, bool, bytes, None, Any, list, dict, tuple),
    *(list[int], dict[str, int], dict[int, str], tuple[int, str], tuple[int, ...], int | str | None),
    *(Literal["a", 1], Colour, Open, Bits, Cat | Dog, Tagged | OtherTagged),
    *(Note, Node, Slotted, Mutable, Renamed, Point, list[Note | None]),
    Annotated[int, Field(ge=0, lt=9)],
    Annotated[list[Annotated[str, msgspec.Meta(max_length=2)]], annotated_types.Len(1, 3)],
]


def kept(hint: Any) -> tuple[Value, Value]:
    """The shape of a type and its table, as the file has them."""
    shaping = Shaping()
    shape = shaping.shape(schema_of(hint))
    stored = decode(encode(freeze([shape, shaping.records])))
    assert isinstance(stored, list)
    return stored[0], stored[1]


@pytest.mark.parametrize("hint", HINTS, ids=str)
@given(tree=plain_values)
def test_a_shape_refuses_nothing_that_its_type_takes(hint: Any, tree: Any) -> None:
    shape, records = kept(hint)
    read = Shapes(records).schema(shape)
    value = freeze(tree)
    if misfit_of(schema_of(hint), value) is None:
        assert misfit_of(read, value) is None
    elif hint is not Open and hint is not Bits:
        # And takes nothing that it refuses; but what a class makes of a value is not written down.
        assert misfit_of(read, value) is not None


@pytest.mark.parametrize(
    ("hint", "tree", "reason"),
    [
        (int, "text", "expected int, got str 'text'"),
        (Note, {"title": 1}, "expected str, got int 1"),
        (Note, {}, "field 'title' is missing"),
        (Node, {"name": "a", "children": [{"name": 2}]}, "expected str, got int 2"),
        (Annotated[int, Field(ge=0)], -1, "must be at least 0, got int -1"),
        (Annotated[str, msgspec.Meta(pattern="^a")], "b", "must be text that matches '^a', got str 'b'"),
        (Colour, "green", "expected 'red' or 'blue', got str 'green'"),
    ],
)
def test_the_reason_is_that_of_the_type(hint: Any, tree: Any, reason: str) -> None:
    shape, records = kept(hint)
    found = misfit_of(Shapes(records).schema(shape), freeze(tree))
    assert found is not None
    assert found[1] == reason


def test_classes_of_one_name_are_told_apart() -> None:
    def made(kind: type) -> type:
        return msgspec.defstruct("Same", [("a", kind)])

    shaping = Shaping()
    shapes = [shaping.shape(schema_of(made(kind))) for kind in (int, str)]
    assert shapes == [{"record": "Same"}, {"record": "Same#2"}]
    read = Shapes(freeze(shaping.records))
    assert misfit_of(read.schema(shapes[0]), freeze({"a": "x"})) is not None
    assert misfit_of(read.schema(shapes[1]), freeze({"a": "x"})) is None


@given(shape=plain_values, tree=plain_values)
@pytest.mark.parametrize(
    "around", [lambda s: s, lambda s: {"list": s}, lambda s: {"of": "int", "rules": s}, lambda s: {"choice": s}]
)
def test_what_is_not_understood_means_anything_and_never_raises(shape: Any, tree: Any, around: Any) -> None:
    read = Shapes(freeze({"Odd": {"fields": shape, "required": shape}}))
    misfit_of(read.schema(freeze(around(shape))), freeze(tree))
    assert misfit_of(read.schema(freeze({"a word of a later version": shape})), freeze(tree)) is None


@given(st.sampled_from(HINTS))
def test_the_same_type_has_the_same_shape_each_time(hint: Any) -> None:
    assert kept(hint) == kept(hint)
