"""One of given values: literals, enums, flags."""

# ruff: noqa: PYI061  # hints as people write them

from __future__ import annotations

from enum import Enum, Flag, IntEnum, IntFlag, StrEnum, auto
from typing import Any, Literal

import pytest

from headwater.errors import DeclarationError
from headwater.values.hints import schema_of
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import LinkFound
from headwater.values.tree import freeze, same


class Colour(Enum):
    RED = "red"
    GREEN = "green"
    CRIMSON = "red"  # noqa: PIE796  # an alias


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Name(StrEnum):
    ANN = "ann"


class Corner(Enum):
    ORIGIN = (0, 0)
    FAR = (9, 9)
    NONE = None


class Renamed(Enum):
    NEW = "new"

    @classmethod
    def _missing_(cls, value: object) -> Renamed | None:
        if value == "old":
            return cls.NEW
        if value == "strange":
            raise ValueError(value)
        return None


class Right(Flag):
    READ = auto()
    WRITE = auto()


class Bits(IntFlag):
    ONE = 1


class Unstorable(Enum):
    THING = frozenset({1})


FITTING: list[tuple[Any, Any, Any]] = [
    (Literal["a", "b"], "b", "b"),
    (Literal[1, True], 1, 1),
    (Literal[1, True], True, True),
    (Literal[None], None, None),
    (Literal[b"x"], b"x", b"x"),
    (Literal[Colour.RED, 3], Colour.RED, "red"),
    (Literal[Colour.RED, 3], 3, 3),
    (Colour, Colour.GREEN, "green"),
    (Colour, Colour.CRIMSON, "red"),
    (Level, Level.HIGH, 2),
    (Name, Name.ANN, "ann"),
    (Corner, Corner.FAR, freeze([9, 9])),
    (Corner, Corner.NONE, None),
    (Right, Right.READ | Right.WRITE, 3),
    (Right, Right(0), 0),
    (Bits, Bits(5), 5),
    (Right | None, Right.READ, 1),
    (Right | str, Right.READ, 1),
]


@pytest.mark.parametrize(("hint", "value", "stored"), FITTING)
def test_choice_is_stored_by_value_and_loads_as_itself(hint: Any, value: Any, stored: Any) -> None:
    schema = schema_of(hint)
    tree = schema.store(value)
    assert same(tree, stored)
    back = schema.load(tree, None)
    assert back == value
    assert type(back) is type(value)


@pytest.mark.parametrize(
    ("hint", "value", "reason"),
    [
        (Literal["a", "b"], "c", "expected 'a' or 'b', got str 'c'"),
        (Literal["a"], [], "expected 'a', got list of 0 items"),
        (Literal[1], True, "expected 1, got bool True"),
        (Literal[1], 1.0, "expected 1, got float 1.0"),
        (Literal["ann"], Name.ANN, "expected 'ann', got Name 'ann'"),
        (Literal[Colour.RED], "red", "expected Colour.RED, got str 'red'"),
        (Literal[Colour.RED], Colour.GREEN, "expected Colour.RED, got Colour <Colour.GREEN: 'green'>"),
        (Colour, "red", "expected Colour, got str 'red'"),
        (Level, 1, "expected Level, got int 1"),
        (Right, 1, "expected Right, got int 1"),
        (Bits, Bits(2**70), "an integer beyond 64 bits; store it as text or bytes"),
    ],
)
def test_other_value_is_refused(hint: Any, value: Any, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).store(value)
    assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("hint", "tree", "reason"),
    [
        (Literal[1], True, "expected 1, got bool True"),
        (Literal["a"], [], "expected 'a', got FrozenList of 0 items"),
        (Colour, "blue", "expected Colour, got str 'blue'"),
        (Corner, [9, 8], "expected Corner, got FrozenList of 2 items"),
        (Renamed, "strange", "expected Renamed, got str 'strange'"),
        (Renamed, "other", "expected Renamed, got str 'other'"),
        (Right, "x", "expected Right, got str 'x'"),
        (Right, 64, "expected Right, got int 64"),
    ],
)
def test_other_stored_value_is_found(hint: Any, tree: Any, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).load(freeze(tree), None)
    assert caught.value.reason == reason


class Loud(str):
    __slots__ = ()


def test_literal_takes_a_subclass_of_str_as_its_text() -> None:
    assert type(schema_of(Literal["a"]).store(Loud("a"))) is str


def test_enum_may_know_what_its_values_were_called() -> None:
    assert schema_of(Renamed).load("old", None) is Renamed.NEW


@pytest.mark.parametrize("hint", [Literal["a"], Colour, Corner, Right])
def test_link_is_met_where_a_choice_is_expected(hint: Any) -> None:
    with pytest.raises(LinkFound):
        schema_of(hint).load(LinkRecord(path=("a",)).to_value(), None)


def test_choices_that_would_be_stored_alike_cannot_be_declared() -> None:
    with pytest.raises(DeclarationError, match=r"'red' and <Colour\.RED: 'red'> would be stored alike"):
        schema_of(Literal["red", Colour.RED])


def test_enum_whose_values_are_no_trees_cannot_be_declared() -> None:
    with pytest.raises(DeclarationError, match=r"Unstorable.THING.* cannot be stored: frozenset is not a value"):
        schema_of(Unstorable)
