"""Sameness, shape and the edits of single containers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.tree import (
    ABSENT,
    Step,
    array_of,
    child,
    depth_of,
    freeze,
    get,
    is_array,
    is_container,
    is_link,
    is_map,
    map_of,
    put_index,
    put_key,
    same,
    same_shape,
)
from headwater.values.value_limits import CHUNKED_FROM
from tests.values import oracle
from tests.values.oracle import canon, look, paths_of, shape, thaw
from tests.values.strategies import keys, maybes, paths, relatives, scalars, values
from tests.values.widths import at_both_widths

if TYPE_CHECKING:
    from headwater.values.tree import Maybe, Path, Value


# --- sameness -------------------------------------------------------------------------------------------------


@at_both_widths
@given(maybes, maybes)
def test_same_is_what_the_slow_rule_says_of_any_two(a: Maybe, b: Maybe) -> None:
    assert same(a, b) == (canon(thaw(a)) == canon(thaw(b)))


@at_both_widths
@given(st.data(), values)
def test_same_is_what_the_slow_rule_says_of_two_that_are_nearly_equal(data: st.DataObject, a: Value) -> None:
    b = data.draw(relatives(a))
    assert same(a, b) == same(b, a) == (canon(thaw(a)) == canon(thaw(b)))


@at_both_widths
@given(values)
def test_copy_made_part_by_part_is_the_same(value: Value) -> None:
    assert same(value, freeze(thaw(value)))


@pytest.mark.parametrize(
    "different",
    [[0, 0.0, -0.0, False, "0", b"0", None, ""], [1, 1.0, True, "1", b"1"], [[], {}, "", b"", None], [2**53, 2.0**53]],
)
def test_equal_looking_values_of_different_types_are_not_the_same(different: list[object]) -> None:
    for i, a in enumerate(different):
        for j, b in enumerate(different):
            assert same(freeze(a), freeze(b)) == (i == j)
            assert same(freeze({"x": [a]}), freeze({"x": [b]})) == (i == j)


def test_absent_is_the_same_as_nothing_but_itself() -> None:
    assert same(ABSENT, ABSENT)
    assert not same(ABSENT, None)
    assert not ABSENT
    assert repr(ABSENT) == "ABSENT"


def test_width_of_a_container_does_not_count() -> None:
    items: dict[str, Value] = {f"{n:04}": 0 for n in range(300)}
    row: list[Value] = [0] * 300
    assert same(FrozenDict(items), ChunkedMap.of(items))
    assert same(ChunkedMap.of(items), FrozenDict(items))
    assert same(FrozenList(row), ChunkedList.of(row))
    assert same_shape(FrozenDict(items), ChunkedMap.of(items))
    assert same_shape(ChunkedList.of(row), FrozenList(row))
    assert not same(FrozenDict(items), ChunkedMap.of({**items, "0000": 0.0}))
    assert not same(ChunkedMap.of(items), ChunkedMap.of({**items, "0000": 0.0}))
    assert not same(FrozenList(row), ChunkedList.of([-0.0, *row[1:]]))
    assert not same(ChunkedList.of(row), ChunkedList.of([False, *row[1:]]))


@at_both_widths
@given(maybes, maybes)
def test_shape_is_what_the_slow_rule_says(a: Maybe, b: Maybe) -> None:
    assert same_shape(a, b) == (shape(thaw(a)) == shape(thaw(b)))


@at_both_widths
@given(st.data(), values)
def test_shape_of_a_map_changes_with_its_keys_alone(data: st.DataObject, a: Value) -> None:
    b = data.draw(relatives(a))
    assert same_shape(a, b) == (shape(thaw(a)) == shape(thaw(b)))


# --- places ---------------------------------------------------------------------------------------------------


@at_both_widths
@given(maybes, paths)
def test_get_finds_what_a_plain_walk_finds(value: Maybe, path: Path) -> None:
    plain = thaw(value)
    for place in [path, *paths_of(plain)]:
        assert canon(thaw(get(value, place))) == canon(look(plain, place))


@at_both_widths
@given(maybes)
def test_kinds_are_told_apart(value: Maybe) -> None:
    plain = thaw(value)
    assert is_map(value) == isinstance(plain, dict)
    assert is_array(value) == isinstance(plain, list)
    assert is_link(value) == oracle.is_link(plain)
    assert is_container(value) == oracle.is_container(plain)


def test_nothing_stands_below_a_link() -> None:
    link = freeze({"/": {"link@1": {"id": "x"}}})
    assert is_link(link)
    assert not is_container(link)
    assert child(link, "/") is ABSENT
    assert get(freeze({"a": {"/": {"link@1": {}}}}), ("a", "/", "link@1")) is ABSENT


def test_malformed_link_is_a_leaf_too() -> None:
    assert child(freeze({"/": {"link@1": 5}}), "/") is ABSENT


def test_map_with_more_than_the_tag_is_no_link() -> None:
    assert child(freeze({"/": {"link@1": {}}, "a": 1}), "a") == 1


@pytest.mark.parametrize(
    "step",
    [
        *[-1, 2, True, False, "0", "1"],
        pytest.param(1.0, marks=pytest.mark.pure("compiled functions check types themselves")),
    ],
)
def test_array_has_no_such_element(step: Step) -> None:
    for array in (freeze([0, 1]), ChunkedList.of([0, 1])):
        assert child(array, step) is ABSENT


@pytest.mark.parametrize("step", [1, True, 0])
def test_map_has_no_element(step: Step) -> None:
    for items in (freeze({"1": 1, "0": 0}), ChunkedMap.of({"0": 0, "1": 1})):
        assert child(items, step) is ABSENT


def plain_depth(plain: object) -> int:
    if isinstance(plain, dict | list):
        parts = plain.values() if isinstance(plain, dict) else plain
        return 1 + max(map(plain_depth, parts), default=0)
    return 0


@at_both_widths
@given(values)
def test_depth_counts_containers_in_one_another(value: Value) -> None:
    assert depth_of(value) == plain_depth(thaw(value))
    assert depth_of(ABSENT) == 0


# --- editing --------------------------------------------------------------------------------------------------


@at_both_widths
@given(st.dictionaries(keys, scalars, max_size=9), keys, scalars)
def test_put_key_keeps_keys_sorted_and_the_old_map_as_it_was(items: dict[str, Value], key: str, value: Value) -> None:
    before = map_of(items)
    after = put_key(before, key, value)
    assert list(after) == sorted({*items, key})
    assert after[key] is value
    assert all(after[other] is items[other] for other in items if other != key)
    assert before == items


@at_both_widths
@given(st.lists(scalars, min_size=1, max_size=9), st.data(), scalars)
def test_put_index_leaves_the_old_array_as_it_was(items: list[Value], data: st.DataObject, value: Value) -> None:
    index = data.draw(st.integers(0, len(items) - 1))
    before = array_of(items)
    after = put_index(before, index, value)
    assert [*after] == [*items[:index], value, *items[index + 1 :]]
    assert [*before] == items


def test_map_of_sorts_and_widens() -> None:
    made = map_of({f"{n}": n for n in reversed(range(CHUNKED_FROM + 1))})
    assert type(made) is ChunkedMap
    assert list(made) == sorted(made)
    assert type(map_of(dict.fromkeys([*made][1:], 0))) is FrozenDict
    assert type(array_of([0] * (CHUNKED_FROM + 1))) is ChunkedList
    assert type(array_of([0] * CHUNKED_FROM)) is FrozenList
