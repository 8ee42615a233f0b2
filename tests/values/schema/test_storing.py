"""Storing, as authors see it: the message names the place, what was expected, and what was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict

import pytest

from headwater.errors import AddressError, HeadwaterError, LimitError, SchemaError
from headwater.values.chunked import ChunkedList
from headwater.values.hints import freeze_with, schema_of
from headwater.values.intake import RefusedError
from headwater.values.schema import ANY, Schema
from headwater.values.tree import Value, freeze
from tests.values.schema.shapes import Node, Note


@dataclass
class Board:
    items: list[Note] = field(default_factory=list)
    extra: Any = None
    names: dict[str, int] = field(default_factory=dict)


def test_message_names_the_place_what_was_expected_and_what_was_found() -> None:
    board = Board([Note("a"), Note("b"), Note("c"), Note(5)])
    with pytest.raises(SchemaError) as caught:
        freeze_with(schema_of(Board), board, "cell 'board'")
    assert str(caught.value) == "HW108: cannot store items/3/title in cell 'board': expected str, got int 5"
    assert caught.value.facts == {
        "path": ("items", 3, "title"),
        "reason": "expected str, got int 5",
        "expected": "Board",
    }
    with pytest.raises(SchemaError) as caught:
        freeze_with(schema_of(Board), {"items": []}, "cell 'board'")
    assert caught.value.message == "cannot store cell 'board': expected Board, got dict of 1 item"


def cyclic() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def nested(levels: int) -> Any:
    tree: Any = []
    for _ in range(levels):
        tree = [tree]
    return tree


UNSTORABLE: list[Any] = [
    {1},
    print,
    float("nan"),
    "\ud800",
    2**70,
    {1: 2},
    "x" * (17 * 1024 * 1024),
    ["x" * (17 * 1024 * 1024)],
    cyclic(),
]


@pytest.mark.parametrize("value", UNSTORABLE, ids=range(len(UNSTORABLE)))
def test_any_refuses_exactly_as_the_tree_does(value: Any) -> None:
    with pytest.raises(HeadwaterError) as expected:
        freeze(value, "cell 'x'")
    with pytest.raises(HeadwaterError) as caught:
        freeze_with(ANY, value, "cell 'x'")
    assert type(caught.value) is type(expected.value)
    assert str(caught.value) == str(expected.value)
    assert caught.value.facts == expected.value.facts


@pytest.mark.parametrize("value", UNSTORABLE, ids=range(len(UNSTORABLE)))
def test_what_the_tree_refuses_below_a_type_is_a_matter_of_the_type_unless_it_is_one_of_limits(value: Any) -> None:
    with pytest.raises(HeadwaterError) as expected:
        freeze(value, "cell 'x'")
    with pytest.raises(HeadwaterError) as caught:
        freeze_with(schema_of(Board), Board(extra=value), "cell 'x'")
    assert type(caught.value) is (LimitError if isinstance(expected.value, LimitError) else SchemaError)
    assert caught.value.message.startswith("cannot store extra")


def test_long_list_that_was_read_is_wide_again() -> None:
    tree = freeze(list(range(600)))
    assert type(freeze_with(ANY, ANY.load(tree, None), "x")) is ChunkedList
    assert freeze_with(ANY, [1], "x") == [1]


@pytest.mark.parametrize(
    ("hint", "value"),
    [(str, "x" * (17 * 1024 * 1024)), (bytes, b"x" * (17 * 1024 * 1024)), (list[str], ["x" * (17 * 1024 * 1024)])],
    ids=["str", "bytes", "list"],
)
def test_value_that_is_too_large_is_a_matter_of_limits(hint: Any, value: Any) -> None:
    with pytest.raises(LimitError, match="larger than a document may be"):
        freeze_with(schema_of(hint), value, "cell 'x'")


def test_value_that_contains_itself_is_a_matter_of_limits() -> None:
    node = Node("a")
    makes: list[Callable[[], object]] = [
        lambda: node.children.append(node),
        lambda: node.by_name.update(a=node),
        lambda: setattr(node, "best", node),
    ]
    for make in makes:
        node.children, node.by_name, node.best = [], {}, None
        make()
        with pytest.raises(LimitError, match="does it contain itself"):
            freeze_with(schema_of(Node), node, "cell 'x'")


class Bottomless:
    """Stands for what the stack has no room for."""

    @classmethod
    def __headwater_schema__(cls, _args: object, _schema_of: object) -> Schema:
        return BottomlessSchema("Bottomless")


class BottomlessSchema(Schema):
    __slots__ = ()

    def store(self, value: object) -> Value:  # noqa: ARG002
        raise RecursionError

    def load(self, value: Value, binder: object) -> object:  # noqa: ARG002
        raise RecursionError


@dataclass
class Hole:
    a: Bottomless


class HoleDict(TypedDict):
    a: Bottomless


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (list[Bottomless], [1]),
        (tuple[Bottomless, ...], (1,)),
        (tuple[Bottomless], (1,)),
        (dict[str, Bottomless], {"a": 1}),
        (Hole, Hole(1)),
        (HoleDict, {"a": 1}),
        (Bottomless, 1),
    ],
)
def test_what_the_stack_has_no_room_for_is_a_matter_of_limits(hint: Any, value: Any) -> None:
    schema = schema_of(hint)
    with pytest.raises(LimitError, match="nested too deep to walk"):
        freeze_with(schema, value, "cell 'x'")
    if hint is not Bottomless:
        tree = [1] if isinstance(value, list | tuple) else {"a": 1}
        with pytest.raises(RefusedError) as caught:
            schema.load(freeze(tree), None)
        assert caught.value.limit


def test_value_that_is_nested_too_deep_is_a_matter_of_limits() -> None:
    with pytest.raises(LimitError, match="nested deeper than 512 levels"):
        freeze_with(schema_of(list[Any]), [nested(600)], "cell 'x'")
    just = freeze(nested(511))
    assert freeze_with(schema_of(list[Any]), just, "cell 'x'") == just
    with pytest.raises(LimitError, match="nested deeper than 512 levels"):
        freeze_with(schema_of(list[Any] | dict[str, list[Any]]), {"a": just}, "cell 'x'")


def test_scalars_of_a_type_are_stored_as_they_are() -> None:
    for hint, value in ((int, 5), (str, "a"), (None, None), (float, 1.5)):
        assert freeze_with(schema_of(hint), value, "cell 'x'") is value


def test_error_of_the_tree_is_not_one_of_schemas() -> None:
    with pytest.raises(AddressError):
        freeze_with(ANY, {1}, "cell 'x'")
