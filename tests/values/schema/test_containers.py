"""Lists, tuples and dicts: what needs no change is not copied."""

from __future__ import annotations

import copy
import pickle
from collections import UserDict
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Dict, List, Literal, NewType, Tuple  # noqa: UP035  # people write them
from uuid import UUID

import pytest

from headwater.errors import AddressError, FrozenError
from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.hints import schema_of
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import ANY, LinkFound, to_flat
from headwater.values.schema_containers import ReadDict, ReadList
from headwater.values.tree import freeze, same
from headwater.values.value_limits import INT_MAX, KEY_BYTES_MAX

LONG = 600
LINK = LinkRecord(path=("a",)).to_value()

UserId = NewType("UserId", str)


class Size(Enum):
    SMALL = 1
    LARGE = 2


FITTING: list[tuple[Any, Any, Any, Any]] = [
    (list[int], [1, 2], [1, 2], [1, 2]),
    (list[int], (1, 2), [1, 2], [1, 2]),
    (list[int], [], [], []),
    (List[int], [1], [1], [1]),  # noqa: UP006
    (Sequence[str], ["é"], ["é"], ["é"]),
    (list[float], [1, 2.5], [1.0, 2.5], [1.0, 2.5]),
    (list[float], [1e308, 1e308], [1e308, 1e308], [1e308, 1e308]),
    (list[bool], [True], [True], [True]),
    (list[date], [date(2024, 1, 2)], ["2024-01-02"], [date(2024, 1, 2)]),
    (list[list[int]], [[1], []], [[1], []], [[1], []]),
    (list, [1, "a", [None]], [1, "a", [None]], [1, "a", [None]]),
    (List, [1], [1], [1]),  # noqa: UP006
    (Sequence, [1], [1], [1]),
    (tuple[int, ...], (1, 2), [1, 2], (1, 2)),
    (tuple[int, ...], [1, 2], [1, 2], (1, 2)),
    (tuple[date, ...], (date(2024, 1, 2),), ["2024-01-02"], (date(2024, 1, 2),)),
    (tuple[int, str], (1, "a"), [1, "a"], (1, "a")),
    (Tuple[int, str], (1, "a"), [1, "a"], (1, "a")),  # noqa: UP006
    (tuple[()], (), [], ()),
    (tuple, (1, "a"), [1, "a"], (1, "a")),
    (dict[str, int], {"b": 1, "a": 2}, {"a": 2, "b": 1}, {"a": 2, "b": 1}),
    (Dict[str, int], {"a": 2}, {"a": 2}, {"a": 2}),  # noqa: UP006
    (Mapping[str, date], {"a": date(2024, 1, 2)}, {"a": "2024-01-02"}, {"a": date(2024, 1, 2)}),
    (dict[str, int], UserDict({"a": 1}), {"a": 1}, {"a": 1}),
    (dict[UserId, int], {"a": 1}, {"a": 1}, {"a": 1}),
    (dict, {"a": [1]}, {"a": [1]}, {"a": [1]}),
    (Dict, {"a": [1]}, {"a": [1]}, {"a": [1]}),  # noqa: UP006
    (Mapping, {"a": 1}, {"a": 1}, {"a": 1}),
    (dict[Any, int], {"a": 1}, {"a": 1}, {"a": 1}),
    (dict[int, str], {10: "x", -9: "y"}, {"-9": "y", "10": "x"}, {-9: "y", 10: "x"}),
    (dict[int, Any], {1: [1]}, {"1": [1]}, {1: [1]}),
    (dict[date, int], {date(2024, 1, 2): 1}, {"2024-01-02": 1}, {date(2024, 1, 2): 1}),
    (dict[UUID, int], {UUID(int=1): 1}, {str(UUID(int=1)): 1}, {UUID(int=1): 1}),
    (dict[Size, int], {Size.LARGE: 1}, {"2": 1}, {Size.LARGE: 1}),
    (dict[Literal["a", "b"], int], {"a": 1}, {"a": 1}, {"a": 1}),
    (dict[Literal[1, 2], int], {1: 1}, {"1": 1}, {1: 1}),
]


@pytest.mark.parametrize(("hint", "value", "stored", "loaded"), FITTING)
def test_container_goes_both_ways(hint: Any, value: Any, stored: Any, loaded: Any) -> None:
    schema = schema_of(hint)
    tree = schema.store(value)
    assert same(tree, freeze(stored))
    back = schema.load(tree, None)
    assert back == loaded
    assert isinstance(back, type(loaded))


NOT_A_VALUE = "set is not a value: None, bool, int, float, str, bytes, list or dict is expected; make it a list first"

REFUSED: list[tuple[Any, Any, str, list[str | int]]] = [
    (list[int], "12", "expected list[int], got str '12'", []),
    (list[int], {1}, "expected list[int], got set {1}", []),
    (list[int], [1, True], "expected int, got bool True", [1]),
    (list[int], [INT_MAX, INT_MAX + 1], "an integer beyond 64 bits; store it as text or bytes", [1]),
    (list[str], ["a", "\ud800"], "the text holds a lone surrogate (U+D800 at 0), which UTF-8 cannot carry", [1]),
    (list[float], [1.0, float("inf")], "inf is not a number that JSON has; use None or text", [1]),
    (list[list[int]], [[], [1, "x"]], "expected int, got str 'x'", [1, 1]),
    (list, [1, {2}], NOT_A_VALUE, [1]),
    (tuple[int, str], (1,), "expected tuple[int, str], got tuple of 1 item", []),
    (tuple[int, str], "ab", "expected tuple[int, str], got str 'ab'", []),
    (tuple[int, str], (1, 2), "expected str, got int 2", [1]),
    (dict[str, int], [1], "expected dict[str, int], got list of 1 item", []),
    (dict[str, int], {"a": {"b": 1}}, "expected int, got dict of 1 item", ["a"]),
    (dict[str, int], {1: 1}, "expected str as key, got int 1", []),
    (dict[int, int], {"1": 1}, "expected int, got str '1'", []),
    (dict[int, int], {True: 1}, "expected int, got bool True", []),
    (dict[str, Any], {"a": [{1: 2}]}, "the key 1 is int; keys are text", ["a", 0]),
    (
        dict[str, dict[str, int]],
        {"/": {"link@1": 1}},
        "a dict of this very shape would be read as a link; use another key",
        [],
    ),
]


@pytest.mark.parametrize(("hint", "value", "reason", "path"), REFUSED)
def test_misfit_is_refused_with_its_place(hint: Any, value: Any, reason: str, path: list[str | int]) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).store(value)
    assert caught.value.reason == reason
    assert caught.value.steps[::-1] == path


def test_key_beyond_the_limit_is_a_matter_of_limits() -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(dict[str, int]).store({"x" * (KEY_BYTES_MAX + 1): 1})
    assert caught.value.limit


@pytest.mark.parametrize(
    ("hint", "tree", "reason", "path"),
    [
        (list[int], {}, "expected list[int], got FrozenDict of 0 items", []),
        (list[int], [1, "x"], "expected int, got str 'x'", [1]),
        (tuple[int, ...], [1, "x"], "expected int, got str 'x'", [1]),
        (tuple[int, str], [1], "expected tuple[int, str], got FrozenList of 1 item", []),
        (tuple[int, str], [1, 1], "expected str, got int 1", [1]),
        (tuple[int, str], 5, "expected tuple[int, str], got int 5", []),
        (dict[str, int], [], "expected dict[str, int], got FrozenList of 0 items", []),
        (dict[str, int], {"a": "x"}, "expected int, got str 'x'", ["a"]),
        (dict[int, int], {"a": 1}, "expected int as key, got str 'a'", ["a"]),
        (dict[int, int], {"07": 1}, "expected int as key, got str '07'", ["07"]),
        (dict[date, int], {"20240102": 1}, "expected date as key, got str '20240102'", ["20240102"]),
        (dict[date, int], {"x": 1}, "expected date, got str 'x'", ["x"]),
        (dict[Size, int], {"3": 1}, "expected Size as key, got str '3'", ["3"]),
    ],
)
def test_stored_misfit_is_found_with_its_place(hint: Any, tree: Any, reason: str, path: list[str | int]) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).load(freeze(tree), None)
    assert caught.value.reason == reason
    assert caught.value.steps[::-1] == path


@pytest.mark.parametrize(
    ("hint", "tree", "path"),
    [
        (list[int], LINK, []),
        (list[int], [1, LINK], [1]),
        (tuple[int, str], LINK, []),
        (tuple[int, str], [1, LINK], [1]),
        (dict[str, int], LINK, []),
        (dict[str, dict[str, Any]], {"a": LINK}, ["a"]),
    ],
)
def test_link_is_met_with_its_place(hint: Any, tree: Any, path: list[str | int]) -> None:
    with pytest.raises(LinkFound) as caught:
        schema_of(hint).load(freeze(tree), None)
    assert caught.value.steps[::-1] == path


def test_any_loads_links_as_they_are() -> None:
    tree = freeze({"a": LINK})
    assert schema_of(Any).load(tree, None) is tree
    assert schema_of(dict[str, Any]).load(tree, None) is tree


# --- nothing is copied without need ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "plain"),
    [
        (list[int], [1, 2]),
        (list[int | None], [1, None]),
        (list[int | float], [1, 2.0]),
        (list[list[str]], [["a"], []]),
        (list[Literal["a"]], ["a"]),
        (list, [1, {"a": [b""]}]),
        (dict[str, str], {"a": "b"}),
        (dict[str, list[bool]], {"a": [True]}),
        (dict[str, Any], {"a": {"b": [1]}}),
        (Any, {"a": {"b": [1]}}),
    ],
)
def test_tree_that_already_is_the_value_loads_as_itself(hint: Any, plain: Any) -> None:
    tree = freeze(plain)
    assert schema_of(hint).load(tree, None) is tree


@pytest.mark.parametrize(
    ("hint", "plain"),
    [
        (list[int], [1, 2]),
        (list[str], ["é"]),
        (list[list[int]], [[1], [2]]),
        (list[int], list(range(LONG))),
        (list[str], ["é"] * LONG),
        (list[list[int]], [[1]] * LONG),
        (dict[str, int], {"a": 1}),
        (dict[str, int], {str(n): n for n in range(LONG)}),
        (dict[str, list[int]], {"a": [1]}),
        (list, [1, [2]]),
        (dict, {"a": [2]}),
    ],
)
def test_tree_is_stored_as_itself(hint: Any, plain: Any) -> None:
    tree = freeze(plain)
    assert schema_of(hint).store(tree) is tree


def test_list_of_scalars_is_stored_and_loaded_without_asking_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = schema_of(list[int])
    calls: list[object] = []
    kind = type(schema.child(0))
    monkeypatch.setattr(kind, "store", lambda _, value: calls.append(value))
    monkeypatch.setattr(kind, "load", lambda _, value, __: calls.append(value))
    tree = schema.store(list(range(100_000)))
    assert schema.load(tree, None) == list(range(100_000))
    assert calls == []


@pytest.mark.parametrize("hint", [list[int], list[list[int] | int], list, Any])
def test_wide_list_loads_as_a_real_list_once(hint: Any) -> None:
    tree = freeze(list(range(LONG)))
    schema = schema_of(hint)
    loaded = schema.load(tree, None)
    assert type(loaded) is FrozenList
    assert loaded == list(range(LONG))
    assert schema.load(tree, None) is loaded


@pytest.mark.parametrize("hint", [dict[str, int], dict[str, list[int] | int], dict, Any])
def test_wide_map_loads_as_a_real_dict_once(hint: Any) -> None:
    tree = freeze({f"{n:03}": n for n in range(LONG)})
    schema = schema_of(hint)
    loaded = schema.load(tree, None)
    assert type(loaded) is FrozenDict
    assert loaded == {f"{n:03}": n for n in range(LONG)}
    assert schema.load(tree, None) is loaded


def test_what_a_wide_container_keeps_is_made_for_one_schema() -> None:
    tree = freeze({str(n): n for n in range(LONG)})
    keyed = schema_of(dict[int, int]).load(tree, None)
    assert keyed == {n: n for n in range(LONG)}
    assert schema_of(dict[str, int]).load(tree, None) == {str(n): n for n in range(LONG)}
    assert schema_of(dict[int, int]).load(tree, None) == keyed
    row = schema_of(tuple[int, ...]).load(freeze(list(range(LONG))), None)
    assert row == tuple(range(LONG))


def test_wide_containers_below_others_load_as_real_ones() -> None:
    plain = {"a": [[1], list(range(LONG)), 3], "b": {"c": {f"{n:03}": [n] for n in range(LONG)}}, "d": [[]]}
    tree = freeze(plain)
    assert isinstance(tree, FrozenDict)
    loaded: Any = schema_of(Any).load(tree, None)
    assert loaded == plain
    assert type(loaded["a"][1]) is FrozenList
    assert type(loaded["b"]["c"]) is FrozenDict
    assert loaded["d"] is tree["d"]
    assert schema_of(dict[str, Any]).load(tree, None) == plain
    inner = freeze({"x": list(range(LONG))})
    typed: Any = schema_of(dict[str, list[int]]).load(inner, None)
    assert type(typed["x"]) is FrozenList


def test_wide_containers_in_wide_ones_load_as_real_ones() -> None:
    plain = [list(range(LONG)) for _ in range(LONG)]
    tree = freeze(plain)
    loaded: Any = ANY.load(tree, None)
    assert type(loaded) is FrozenList
    assert type(loaded[0]) is FrozenList
    assert to_flat(tree) is loaded


def test_long_list_that_was_read_is_stored_as_a_wide_one_again() -> None:
    numbers, names = freeze(list(range(LONG))), freeze({f"{n:03}": n for n in range(LONG)})
    for schema in map(schema_of, (list[int], list[int | str], list, Any)):
        assert type(schema.store(schema.load(numbers, None))) is ChunkedList
    for schema in map(schema_of, (dict[str, int], dict, Any)):
        assert type(schema.store(schema.load(names, None))) is ChunkedMap


# --- what is read cannot be changed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("hint", "value"),
    [(list[int], [1]), (list[date], [date(2024, 1, 2)]), (list[Decimal], [Decimal(1)])],
)
def test_list_that_was_read_refuses_changes(hint: Any, value: Any) -> None:
    schema = schema_of(hint)
    loaded: Any = schema.load(schema.store(value), None)
    assert isinstance(loaded, list)
    with pytest.raises(FrozenError):
        loaded.append(1)
    assert copy.copy(loaded) is loaded
    assert pickle.loads(pickle.dumps(loaded)) == loaded  # noqa: S301


@pytest.mark.parametrize(("hint", "value"), [(dict[str, int], {"a": 1}), (dict[int, int], {1: 1})])
def test_dict_that_was_read_refuses_changes(hint: Any, value: Any) -> None:
    schema = schema_of(hint)
    loaded: Any = schema.load(schema.store(value), None)
    assert isinstance(loaded, dict)
    with pytest.raises(FrozenError):
        loaded["a"] = 1
    assert copy.deepcopy(loaded) is loaded
    assert pickle.loads(pickle.dumps(loaded)) == loaded  # noqa: S301


def test_what_was_read_does_not_pass_for_a_tree_where_it_is_none() -> None:
    """A frozen list is taken into the tree unlooked at; so a list of dates must not be one."""
    dates = schema_of(list[date]).load(freeze(["2024-01-02"]), None)
    assert type(dates) is ReadList
    with pytest.raises(AddressError, match="date is not a value"):
        freeze(dates)
    numbers = schema_of(dict[int, int]).load(freeze({"1": 1}), None)
    assert type(numbers) is ReadDict
    with pytest.raises(AddressError, match="the key 1 is int"):
        freeze(numbers)
    assert schema_of(list[date]).store(dates) == ["2024-01-02"]
    assert schema_of(dict[int, int]).store(numbers) == {"1": 1}


# --- parts ------------------------------------------------------------------------------------------------------


def test_parts_of_containers_are_found_by_step() -> None:
    items = schema_of(list[int])
    assert items.child(0) is items.child(7) is schema_of(int)
    assert items.child(-1) is None
    assert items.child("0") is None
    pair = schema_of(tuple[int, str])
    assert pair.child(1) is schema_of(str)
    assert pair.child(2) is None
    assert pair.child("1") is None
    named = schema_of(dict[str, int])
    assert named.child("x") is schema_of(int)
    assert named.child(0) is None
    numbered = schema_of(dict[int, int])
    assert numbered.child("5") is schema_of(int)
    assert numbered.child("five") is None
    assert schema_of(Any).child("x") is schema_of(Any).child(3) is ANY


def test_keys_of_dicts_go_both_ways() -> None:
    assert schema_of(dict[int, int]).store_key(5) == "5"
    assert schema_of(dict[int, int]).load_key("5") == 5
    assert schema_of(dict[str, int]).store_key("a") == "a"
    assert schema_of(dict[str, int]).load_key("a") == "a"
    with pytest.raises(RefusedError):
        schema_of(dict[str, int]).store_key(5)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (list[int], "list[int]"),
        (list, "list"),
        (tuple[int, ...], "tuple[int, ...]"),
        (tuple[int, str], "tuple[int, str]"),
        (tuple[()], "tuple[()]"),
        (dict[str, list[Any]], "dict[str, list[Any]]"),
        (dict[int, int], "dict[int, int]"),
        (dict, "dict"),
        (Literal["a", "b"], "'a' or 'b'"),
        (int | None, "int or None"),
    ],
)
def test_type_is_named_in_messages(hint: Any, expected: str) -> None:
    assert schema_of(hint).expected == expected
    assert expected in repr(schema_of(hint))


def test_links_may_stand_where_anything_may() -> None:
    assert schema_of(Any).may_hold_links
    assert schema_of(dict[str, list[Any]]).may_hold_links
    assert not schema_of(dict[str, list[int]]).may_hold_links
