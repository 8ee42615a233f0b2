"""Unions: nothing extra is stored, so what is stored must tell."""

# ruff: noqa: DTZ001, PYI051, UP007  # times without a zone, and hints as people write them

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, IntEnum
from typing import Any, Literal, Optional, TypedDict, Union
from uuid import UUID

import pytest

from headwater.errors import DeclarationError
from headwater.values.hints import schema_of
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import ANY, LinkFound
from headwater.values.tree import freeze, same
from headwater.values.value_limits import INT_MAX
from tests.values.schema.shapes import Cat, Circle, Dog, Movie, Note, OtherTagged, Point, Square, Tagged


class Colour(Enum):
    RED = "red"
    DUE = "2024-01-02"


class Size(Enum):
    SMALL = "small"


class Level(IntEnum):
    LOW = 1


class Corner(Enum):
    ORIGIN = (0, 0)


class Cut(TypedDict):
    inches: int


FITTING: list[tuple[Any, Any, Any]] = [
    (int | None, None, None),
    (int | None, 5, 5),
    (Optional[int], 5, 5),  # noqa: UP045
    (Union[int, str], "a", "a"),
    (int | float, 5, 5),
    (float | int, 5, 5),
    (int | float, 5.0, 5.0),
    (bool | int, True, True),
    (bool | int, 1, 1),
    (bool | float, True, True),
    (float | None, 1.5, 1.5),
    (bytes | str, b"a", b"a"),
    (Literal["auto"] | int, "auto", "auto"),
    (Literal["auto"] | int, 3, 3),
    (Literal["auto"] | str, "auto", "auto"),
    (Literal["auto"] | str, "other", "other"),
    (Literal["auto"] | date, "auto", "auto"),
    (Literal["auto"] | date, date(2024, 1, 2), "2024-01-02"),
    (Literal["a", "b"], "b", "b"),
    (Size | int, Size.SMALL, "small"),
    (Size | date, date(2024, 1, 2), "2024-01-02"),
    (Size | Level, Level.LOW, 1),
    (datetime | int, datetime(2024, 1, 2), "2024-01-02T00:00:00"),
    (list[int] | int, [1], [1]),
    (list[int] | int, 1, 1),
    (list[int] | dict[str, int], {"a": 1}, {"a": 1}),
    (dict[str, int] | None, {"a": 1}, {"a": 1}),
    (Note | None, Note("a"), {"title": "a", "done": False, "tags": []}),
    (Note | str, "a", "a"),
    (Circle | Square, Circle(1), {"radius": 1.0, "name": ""}),
    (Circle | Square, Square(1), {"side": 1.0, "name": ""}),
    (Circle | Square | None, None, None),
    (Cat | Dog, Dog(name="rex"), {"kind": "dog", "name": "rex"}),
    (Cat | Dog, Cat(name="tom"), {"kind": "cat", "name": "tom"}),
    (Tagged | OtherTagged, OtherTagged(1), {"kind": "other", "value": 1}),
    (Tagged | OtherTagged, Tagged(1), {"kind": "tagged", "value": 1}),
    (Movie | Cut, {"inches": 5}, {"inches": 5}),
    (Point | list[int], [1], [1]),
    (Point | list[int], Point(1), {"x": 1, "y": 0, "path": []}),
    (list[Circle | Square], [Circle(1), Square(2)], [{"radius": 1.0, "name": ""}, {"side": 2.0, "name": ""}]),
    (Corner | int, Corner.ORIGIN, [0, 0]),
]


@pytest.mark.parametrize(("hint", "value", "stored"), FITTING)
def test_value_goes_to_the_option_that_fits_and_back(hint: Any, value: Any, stored: Any) -> None:
    schema = schema_of(hint)
    tree = schema.store(value)
    assert same(tree, freeze(stored))
    back = schema.load(tree, None)
    assert back == value
    assert isinstance(back, type(value))
    assert same(schema.store(back), tree)


def test_options_are_told_in_the_order_in_which_they_are_declared() -> None:
    assert [schema_of(hint).expected for hint in (float | bytes, bytes | float, float | bytes)] == [
        "float or bytes",
        "bytes or float",
        "float or bytes",
    ]


@pytest.mark.parametrize(
    ("hint", "value", "reason", "path"),
    [
        (int | None, "x", "expected int or None, got str 'x'", []),
        (int | str, True, "expected int or str, got bool True", []),
        (int | None, INT_MAX + 1, "an integer beyond 64 bits; store it as text or bytes", []),
        (Literal["a"] | None, "b", "expected 'a' or None, got str 'b'", []),
        (Note | None, Note(5), "expected str, got int 5", ["title"]),
        (list[int] | int, ["x"], "expected int, got str 'x'", [0]),
        (Circle | Square, Note("a"), "expected Circle or Square, got Note(title='a', done=False, tags=[])", []),
        (Movie | Cut, {"title": 5}, "expected str, got int 5", ["title"]),
        (float | Literal[0], False, "expected float or 0, got bool False", []),
    ],
)
def test_value_that_fits_no_option_is_refused(hint: Any, value: Any, reason: str, path: list[str | int]) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).store(value)
    assert (caught.value.reason, caught.value.steps[::-1]) == (reason, path)


@pytest.mark.parametrize(
    ("hint", "tree", "reason", "path"),
    [
        (int | None, "x", "expected int or None, got str 'x'", []),
        (int | None, [], "expected int or None, got FrozenList of 0 items", []),
        (Literal["a"] | None, "b", "expected 'a' or None, got str 'b'", []),
        (Note | None, {"title": 5}, "expected str, got int 5", ["title"]),
        (Note | None, {}, "field 'title' is missing", []),
        (Circle | Square, {"name": "x"}, "expected Circle or Square, got FrozenDict of 1 item", []),
        (Cat | Dog, {"kind": "cow"}, "expected Cat or Dog, got FrozenDict of 1 item", []),
        (Cat | Dog, {"kind": ["cat"]}, "expected Cat or Dog, got FrozenDict of 1 item", []),
        (list[int] | int, ["x"], "expected int, got str 'x'", [0]),
    ],
)
def test_stored_value_that_fits_no_option_is_found(hint: Any, tree: Any, reason: str, path: list[str | int]) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).load(freeze(tree), None)
    assert (caught.value.reason, caught.value.steps[::-1]) == (reason, path)


def test_stored_int_is_a_float_where_there_is_no_int() -> None:
    assert same(schema_of(float | None).load(3, None), 3.0)  # type: ignore[arg-type]


def test_value_stored_as_the_first_option_that_takes_it_is_its_plain_form() -> None:
    assert same(schema_of(float | None).store(3), 3.0)
    assert same(schema_of(float | Literal[0]).store(0), 0)
    assert same(schema_of(float | Literal[0]).store(1), 1.0)
    assert type(schema_of(str | int).store(Level.LOW)) is int


def test_wide_containers_are_told_by_what_they_are() -> None:
    schema = schema_of(list[int] | dict[str, int])
    numbers, names = freeze(list(range(600))), freeze({str(n): n for n in range(600)})
    assert schema.load(numbers, None) == list(range(600))
    assert schema.load(names, None) == {str(n): n for n in range(600)}
    assert schema.store(numbers) is numbers


def test_link_is_met_where_no_option_is_a_handle() -> None:
    with pytest.raises(LinkFound):
        schema_of(Note | None).load(LinkRecord(path=("a",)).to_value(), None)
    with pytest.raises(LinkFound) as caught:
        schema_of(Note | None).load(freeze({"title": LinkRecord(path=("a",)).to_value()}), None)
    assert caught.value.steps == ["title"]


def test_frozen_twin_is_stored_as_the_option_it_is_an_instance_of() -> None:
    schema = schema_of(Circle | Square)
    tree = schema.store(Square(1))
    assert same(schema.store(schema.load(tree, None)), tree)


def test_union_of_trees_with_any_is_any() -> None:
    assert schema_of(Union[int, Any]) is ANY
    assert schema_of(int | object) is ANY
    assert schema_of(Union[list[dict[str, str]], Any]) is ANY


# --- parts ------------------------------------------------------------------------------------------------------


def test_part_of_a_union_is_the_part_of_the_only_option_that_has_it() -> None:
    schema = schema_of(Circle | Square | None)
    assert schema.child("radius") is schema_of(float)
    assert schema.child("name") is schema_of(str)
    assert schema.child("other") is None
    assert not schema.field_default("name")
    either = schema_of(list[int] | dict[str, str])
    assert either.child(0) is schema_of(int)
    assert either.child("a") is schema_of(str)


def test_part_that_several_options_have_is_a_union_of_them() -> None:
    kind = schema_of(Cat | Dog).child("kind")
    assert kind is not None
    assert kind.expected == "'cat' or 'dog' or 'hound'"
    assert kind.store("hound") == "hound"
    assert kind.load("cat", None) == "cat"


@dataclass
class Loose:
    kind: Literal["loose"]
    content: Any


@dataclass
class Tight:
    kind: Literal["tight"]
    content: int


def test_part_that_may_be_anything_in_one_option_may_be_anything() -> None:
    assert schema_of(Loose | Tight).child("content") is ANY


# --- what cannot be declared ------------------------------------------------------------------------------------


@dataclass
class Plain:
    value: int


@dataclass
class More:
    value: int
    other: int = 0


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (str | UUID, "str and UUID cannot be distinguished once stored; declare one of them"),
        (date | datetime, "date and datetime cannot be distinguished"),
        (str | Decimal, "str and Decimal cannot be distinguished"),
        (Size | str, "Size and str cannot be distinguished"),
        (Level | int, "Level and int cannot be distinguished"),
        (Colour | date, "Colour and date cannot be distinguished"),
        (Size | Literal["small"], "Size and 'small' cannot be distinguished"),
        (list[int] | list[str], r"list\[int\] and list\[str\] cannot be distinguished once stored; use one list"),
        (tuple[int, int] | list[int], "use one list, of a union"),
        (Corner | list[int], "cannot be distinguished"),
        (dict[str, int] | dict[str, str], "cannot be distinguished"),
        (dict[str, int] | Note, "cannot be distinguished"),
        (Note | dict[str, int], "cannot be distinguished"),
        (
            Plain | More,
            "Plain and More cannot be distinguished once stored; give each a field with a Literal of its own",
        ),
        (Union[date, Any], "date and Any cannot be distinguished"),
        (Union[list[date], Any], r"list\[date\] and Any cannot be distinguished"),
        (Union[dict[int, int], Any], r"dict\[int, int\] and Any cannot be distinguished"),
        (list[Plain | More | None], "or a msgspec tag"),
    ],
)
def test_options_that_what_is_stored_cannot_tell_apart_cannot_be_declared(hint: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        schema_of(hint)
