"""What is read from a document cannot be changed in place, by any method that a dict or a list has."""

from __future__ import annotations

import copy
import json
import pickle
from bisect import insort
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from headwater.errors import FrozenError, UsageError
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.tree import freeze, same
from tests.values.oracle import thaw
from tests.values.strategies import values
from tests.values.widths import at_both_widths

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.values.tree import Value

BY_OBJECT = set(dir(object))
DICT_READERS = {
    *("__class_getitem__", "__contains__", "__getitem__", "__iter__", "__len__", "__or__", "__reversed__", "__ror__"),
    *("copy", "fromkeys", "get", "items", "keys", "values"),
}
LIST_READERS = {
    *("__add__", "__class_getitem__", "__contains__", "__getitem__", "__iter__", "__len__", "__mul__", "__reversed__"),
    *("__rmul__", "copy", "count", "index"),
}


def writers(kind: type, readers: set[str]) -> list[str]:
    """Every method of a built-in type that is not known to leave it alone. A new one of a later Python is one."""
    return sorted(set(dir(kind)) - readers - BY_OBJECT)


def test_known_writers_are_among_those_tried() -> None:
    assert {"update", "__ior__", "setdefault"} <= set(writers(dict, DICT_READERS))
    assert {"sort", "__imul__", "__delitem__"} <= set(writers(list, LIST_READERS))


def attempt(method: Callable[..., object]) -> None:
    """Call with as many arguments as it takes to be let in."""
    for count in range(3):
        try:
            method(*["a", 1][:count])
        except FrozenError:
            raise
        except TypeError:
            continue


@pytest.mark.parametrize("name", writers(dict, DICT_READERS))
def test_map_refuses_every_writer(name: str) -> None:
    value = freeze({"a": 1})
    with pytest.raises(FrozenError, match=r"Write through the cell: .* a copy made with dict"):
        attempt(getattr(value, name))
    assert value == {"a": 1}


@pytest.mark.parametrize("name", writers(list, LIST_READERS))
def test_array_refuses_every_writer(name: str) -> None:
    value = freeze([2, 1])
    with pytest.raises(FrozenError, match=r"Write through the cell: .* a copy made with list"):
        attempt(getattr(value, name))
    assert value == [2, 1]


def test_statements_that_write_are_refused() -> None:
    mapping: Any = freeze({"a": 1})
    array: Any = freeze([1])
    with pytest.raises(FrozenError):
        mapping["b"] = 1
    with pytest.raises(FrozenError):
        del mapping["a"]
    with pytest.raises(FrozenError):
        mapping |= {"b": 1}
    with pytest.raises(FrozenError):
        array += [2]
    with pytest.raises(FrozenError):
        array *= 2
    with pytest.raises(FrozenError):
        array[:] = []
    with pytest.raises(FrozenError):
        insort(array, 0)
    with pytest.raises(AttributeError):
        mapping.note = 1
    assert mapping == {"a": 1}
    assert array == [1]


def test_refusal_is_a_type_error_as_for_a_tuple() -> None:
    with pytest.raises(TypeError):
        freeze([1]).append(2)  # type: ignore[union-attr]
    with pytest.raises(UsageError) as refused:
        freeze({}).update(a=1)  # type: ignore[union-attr]
    assert refused.value.facts == {"kind": "dict", "verb": "update"}


def test_what_is_made_from_a_frozen_value_is_free() -> None:
    mapping, array = FrozenDict({"a": 1}), FrozenList([1])
    for made in (mapping | {"b": 2}, {"b": 2} | mapping, mapping.copy(), dict(mapping), {**mapping}):
        assert type(made) is dict
    for row in (array + [2], [2] + array, array * 2, 2 * array, array[:], array.copy(), list(array), [*array]):  # noqa: RUF005
        assert type(row) is list


@given(values)
def test_copies_are_the_value_itself(value: Value) -> None:
    assert copy.copy(value) is value
    assert copy.deepcopy(value) is value
    assert copy.deepcopy({"a": [value]})["a"][0] is value


@at_both_widths
@given(values)
def test_pickle_brings_back_the_same_frozen_value(value: Value) -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        again = pickle.loads(pickle.dumps(value, protocol))  # noqa: S301  # made here
        assert type(again) is type(value)
        assert same(again, value)


def test_frozen_containers_are_real_dicts_and_lists() -> None:
    value = freeze({"b": [1, {"c": None}], "a": True})
    assert isinstance(value, dict)
    assert isinstance(value["b"], list)
    assert json.dumps(value) == '{"a": true, "b": [1, {"c": null}]}'
    assert value == {"b": [1, {"c": None}], "a": True}
    assert repr(value) == "{'a': True, 'b': [1, {'c': None}]}"
    match value:
        case {"b": [1, {"c": None}]}:
            pass
        case _:
            pytest.fail("a frozen value matches the patterns of a plain one")
    with pytest.raises(TypeError, match="unhashable"):
        hash(value)


@given(values)
def test_thawing_gives_a_value_that_can_be_changed(value: Value) -> None:
    plain = thaw(value)
    if isinstance(plain, dict):
        plain["new"] = 1
        assert plain != value
