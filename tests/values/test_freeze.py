"""What may come in: values are checked once, at the door, and a refusal names the place."""

from __future__ import annotations

import enum
import sys
from collections import OrderedDict, UserDict, namedtuple
from datetime import UTC, datetime
from itertools import permutations
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from headwater.errors import AddressError, LimitError
from headwater.values import codec, intake, tree
from headwater.values.diff import differences
from headwater.values.frozen import FrozenDict
from headwater.values.patch import Add, Append, Increment, Move, Replace, Splice
from headwater.values.patching import apply_patch
from headwater.values.tree import ABSENT, array_of, depth_of, freeze, get, is_array, is_map, same
from headwater.values.value_limits import (
    DEPTH_MAX,
    DOCUMENT_BYTES_MAX,
    INT_MAX,
    INT_MIN,
    KEY_BYTES_MAX,
)
from tests.values.oracle import canon, thaw
from tests.values.strategies import plain_values, values
from tests.values.widths import at_both_widths

if TYPE_CHECKING:
    from collections.abc import Callable

    from headwater.values.patch import PatchOp
    from headwater.values.tree import Maybe, Path, Value


def nested(depth: int, end: object = None) -> Any:
    """Lists in lists."""
    value: Any = end
    for _ in range(depth):
        value = [value]
    return value


@at_both_widths
@given(plain_values)
def test_frozen_value_is_the_plain_one_with_sorted_keys(plain: Any) -> None:
    frozen = freeze(plain)
    assert canon(thaw(frozen)) == canon(plain)
    check_frozen(frozen)


def check_frozen(value: Value) -> None:
    if is_map(value):
        assert list(value) == sorted(value)
        assert all(type(key) is str for key in value)
        for item in value.values():
            check_frozen(item)
    elif is_array(value):
        for item in value:
            check_frozen(item)
    else:
        assert type(value) in (bool, int, float, str, bytes, type(None))


@at_both_widths
@given(values)
def test_frozen_value_comes_back_as_itself(value: Value) -> None:
    assert freeze(value) is value
    again = freeze({"a": [value]})
    assert get(again, ("a", 0)) is value


def test_frozen_value_shares_nothing_with_what_it_was_made_from() -> None:
    inner = [1]
    outer = {"a": inner}
    frozen = freeze(outer)
    inner.append(2)
    outer["b"] = inner
    assert frozen == {"a": [1]}


# --- other types ----------------------------------------------------------------------------------------------


class Colour(enum.StrEnum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Loud(str):
    __slots__ = ()

    def __str__(self) -> str:
        return self.upper()


class Ratio(float):
    pass


Point = namedtuple("Point", ["x", "y"])  # noqa: PYI024  # the untyped kind is what comes from outside


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Loud("low"), "low"),
        (Ratio(0.5), 0.5),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"ab"), b"ab"),
        (Point(1, 2), [1, 2]),
        ((), []),
        (OrderedDict(b=1, a=2), {"a": 2, "b": 1}),
        (UserDict({"a": (1,)}), {"a": [1]}),
        (MappingProxyType({"a": 1}), {"a": 1}),
        ({Colour.RED: 1, Loud("x"): 2}, {"red": 1, "x": 2}),
    ],
)
def test_relatives_of_the_basic_types_are_stored_as_these(given: object, stored: object) -> None:
    frozen = freeze(given)
    assert canon(thaw(frozen)) == canon(stored)
    check_frozen(frozen)


# --- refusals -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "nan is not a number that JSON has"),
        (float("inf"), "inf is not a number that JSON has"),
        (float("-inf"), "-inf is not a number"),
        (Ratio("nan"), "nan is not a number"),
        (INT_MAX + 1, "beyond 64 bits"),
        (INT_MIN - 1, "beyond 64 bits"),
        pytest.param(1 << 20_000, "beyond 64 bits", id="more digits than Python prints"),
        ("a\ud800b", "lone surrogate (U+D800 at 1)"),
        ({1, 2}, "set is not a value: .*make it a list first"),
        (frozenset(), "make it a list first"),
        (print, "builtin_function_or_method is not a value"),
        (object(), "object is not a value"),
        (datetime(2020, 1, 1, tzinfo=UTC), "datetime is not a value"),
        (1j, "complex is not a value"),
        (range(3), "range is not a value"),
        ({1: 2}, "the key 1 is int; keys are text"),
        ({None: 2}, "the key None is NoneType; keys are text"),
        ({b"a": 2}, "the key b'a' is bytes; keys are text"),
        ({"\udfff": 2}, "lone surrogate"),
    ],
)
def test_refused_value_is_named_by_its_path(value: object, reason: str) -> None:
    pattern = reason.replace("(", r"\(").replace(")", r"\)").replace("+", r"\+")
    with pytest.raises(AddressError, match=f"cannot store the value: .*{pattern}"):
        freeze(value)
    with pytest.raises(AddressError, match=rf"cannot store a/1/b~1c in the cell: .*{pattern}") as refused:
        freeze({"a": [0, {"b/c": value}]}, "the cell")
    assert refused.value.facts["path"] == ("a", 1, "b/c")
    assert isinstance(refused.value.facts["reason"], str)
    str(refused.value).encode()  # it can be printed


def test_numbers_at_the_edges_are_taken() -> None:
    edges = [INT_MIN, INT_MAX, -0.0, sys.float_info.max, sys.float_info.min, 5e-324]
    assert repr(thaw(freeze(edges))) == repr(edges)


def test_list_that_contains_itself_is_refused() -> None:
    cyclic: list[object] = []
    cyclic.append(cyclic)
    with pytest.raises(LimitError, match=r"^HW102: cannot store 0/0/0/0/\.\.\./0/0/0 in the value: nested deeper") as r:
        freeze(cyclic)
    assert len(r.value.facts["path"]) == DEPTH_MAX  # type: ignore[arg-type]
    knot: dict[str, object] = {}
    knot["a"] = [knot] * 3
    with pytest.raises(LimitError, match="does it contain itself"):
        freeze(knot)


def test_nesting_is_taken_up_to_the_limit_and_no_further() -> None:
    assert depth_of(freeze(nested(DEPTH_MAX))) == DEPTH_MAX
    with pytest.raises(LimitError, match=f"deeper than {DEPTH_MAX} levels"):
        freeze(nested(DEPTH_MAX + 1))


@pytest.mark.parametrize("wrap", [lambda value: [value], lambda value: {"a": value}], ids=["lists", "maps"])
def test_part_counts_with_its_own_depth_frozen_or_not(wrap: Callable[[object], object]) -> None:
    part: Any = 1
    for _ in range(DEPTH_MAX - 1):
        part = wrap(part)
    for same_part in (part, freeze(part)):
        assert depth_of(freeze(wrap(same_part))) == DEPTH_MAX
        with pytest.raises(LimitError, match="deeper than"):
            freeze(wrap(wrap(same_part)))
        with pytest.raises(LimitError, match="deeper than"):
            freeze({"a": [same_part]})


def test_keys_are_sorted_in_whatever_order_they_come() -> None:
    for keys in permutations("abcd"):
        assert list(thaw(freeze(dict.fromkeys(keys, 0)))) == ["a", "b", "c", "d"]


@pytest.mark.pure("compiled calls take no room in the stack of Python")
def test_stack_that_is_nearly_full_is_told_as_such() -> None:
    def deep(frames: int) -> Value:
        return deep(frames - 1) if frames else freeze(nested(DEPTH_MAX))

    with pytest.raises(LimitError, match="the call stack is too deep here"):
        deep(sys.getrecursionlimit() - DEPTH_MAX)


def test_key_is_taken_up_to_the_limit_and_no_further() -> None:
    for key in ("k" * KEY_BYTES_MAX, "é" * (KEY_BYTES_MAX // 2), ""):
        assert freeze({key: 1}) == {key: 1}
    for key in ("k" * (KEY_BYTES_MAX + 1), "é" * (KEY_BYTES_MAX // 2 + 1), "😀" * KEY_BYTES_MAX):
        with pytest.raises(LimitError, match=f"a in the value: a key of more than {KEY_BYTES_MAX:,} bytes"):
            freeze({"a": {key: 1}})


# --- size -----------------------------------------------------------------------------------------------------


def test_text_and_bytes_are_taken_up_to_the_size_of_a_document() -> None:
    room = DOCUMENT_BYTES_MAX - 5  # the header of a long text or of long bytes
    for text in ("x" * room, "é" * (room // 2), b"x" * room):
        assert freeze(text) is text
    for value in ("x" * (room + 1), "é" * (room // 2 + 1), b"x" * (room + 1), ["x" * room]):
        with pytest.raises(LimitError, match=f"larger than a document may be .{DOCUMENT_BYTES_MAX:,} bytes"):
            freeze(value)


def test_place_of_what_is_too_large_alone_is_named() -> None:
    with pytest.raises(LimitError, match="cannot store blob in the value: larger than a document"):
        freeze({"blob": b"x" * (DOCUMENT_BYTES_MAX + 1), "a": 1})


@pytest.fixture
def small_documents(monkeypatch: pytest.MonkeyPatch) -> int:
    """Documents of 9,000 bytes at most, to come to the limit sooner."""
    for module in (tree, intake):
        monkeypatch.setattr(module, "DOCUMENT_BYTES_MAX", 9000)
    return 9000


def test_size_is_that_of_the_encoded_value_not_a_guess(small_documents: int) -> None:
    numbers: list[tuple[Any, int]] = [(0, 1), (-33, 2), (2**20, 5), (INT_MAX, 9), (0.5, 9)]
    texts: list[tuple[Any, int]] = [("", 1), ("é" * 9, 19), (b"", 2), (b"x" * 98, 100)]
    others: list[tuple[Any, int]] = [(None, 1), (True, 1), ([], 1), ({}, 1)]
    for item, size in numbers + texts + others:
        count = (small_documents - 3) // size  # three bytes are the header of the list
        assert len(codec.encode(freeze([item] * count))) <= small_documents
        with pytest.raises(LimitError, match="larger than a document may be"):
            freeze([item] * (count + 1))


def test_keys_count(small_documents: int) -> None:
    fits = {f"{n:097}": 0 for n in range(small_documents // 100 - 1)}
    assert len(codec.encode(freeze(fits))) > small_documents - 200
    with pytest.raises(LimitError, match="larger than a document may be"):
        freeze({f"{n:097}": 0 for n in range(small_documents // 100 + 1)})


def test_frozen_parts_count_with_their_full_size(small_documents: int) -> None:
    for item, size in ((INT_MAX, 9), ("😀", 5), (0.5, 9), (b"xx", 4), ({"é": 1}, 5)):
        part = freeze([item] * (small_documents // size // 2 - 3))
        assert freeze([part, part]) == [part, part]
        with pytest.raises(LimitError, match="larger than a document may be"):
            freeze({"a": part, "b": [part], "c": part})
        part = freeze({f"{n:03}": [item] for n in range(small_documents // (size + 5) // 2 - 3)})
        assert freeze([part, part]) == [part, part]
        with pytest.raises(LimitError, match="larger than a document may be"):
            freeze([part, {"b": part}, part])


# --- depth of documents that are edited -----------------------------------------------------------------------


def edit(root: Maybe, op: PatchOp) -> Maybe:
    return apply_patch(root, op)[0]


WRITTEN_DEPTH = 384
"""Of what one write brings in these tests; the path it is written at adds to it."""


def zeros(count: int, key: str = "a") -> Path:
    """A path that goes down through lists in a list under a key."""
    return (key, *[0] * count)


def one(value: Value) -> Any:
    return array_of([value])


@pytest.mark.parametrize("length", [2, 100, 127, 128, 129, 400])
def test_no_write_makes_a_document_deeper_than_the_limit(length: int) -> None:
    path = zeros(length - 1)
    base = edit(freeze({}), Add(path, "end"))
    for depth in {WRITTEN_DEPTH, min(DEPTH_MAX - length, WRITTEN_DEPTH), DEPTH_MAX - length + 1}:
        if depth > WRITTEN_DEPTH:
            continue
        value = freeze(nested(depth))
        for op in (Replace(path, value), Add(path, value), Splice(path[:-1], 0, 1, one(value))):
            if length + depth <= DEPTH_MAX:
                assert depth_of(edit(base, op)) == length + max(depth, 0)
            else:
                with pytest.raises(LimitError, match=f"deeper than {DEPTH_MAX} levels") as refused:
                    edit(base, op)
                assert refused.value.facts["path"] == op.path


@pytest.mark.parametrize("root", [ABSENT, freeze({}), freeze({"k": {"k": {}}})], ids=["absent", "empty", "begun"])
def test_path_that_is_made_counts_even_to_a_scalar(root: Maybe) -> None:
    longest = ("k",) * DEPTH_MAX
    fitting: list[PatchOp] = [Add(longest, 1), Increment(longest, 1)]
    for op in fitting:
        assert depth_of(edit(root, op)) == DEPTH_MAX
    beyond = (*longest, "k")
    too_deep: list[PatchOp] = [Add(beyond, 1), Increment(beyond, 1), Append(longest, one(1)), Add(longest, one(1))]
    for op in too_deep:
        with pytest.raises(LimitError, match=f"deeper than {DEPTH_MAX} levels"):
            edit(root, op)


def test_appended_elements_reach_the_limit_but_do_not_pass_it() -> None:
    most = freeze(nested(WRITTEN_DEPTH))
    for length in (126, 127, 128, 200):
        path = zeros(length - 1)
        base = edit(freeze({}), Add(path, freeze([])))
        if length + 1 + WRITTEN_DEPTH <= DEPTH_MAX:
            assert depth_of(edit(base, Append(path, one(most)))) == length + 1 + WRITTEN_DEPTH
        else:
            with pytest.raises(LimitError, match="cannot append to a/0/"):
                edit(base, Append(path, one(most)))


def test_moves_cannot_nest_a_document_ever_deeper() -> None:
    root = edit(freeze({}), Add(zeros(300), "end"))
    root = edit(root, Add(zeros(211, "b"), "end"))
    moved = edit(root, Move(("a",), zeros(211, "b")))
    assert depth_of(moved) == DEPTH_MAX
    root = edit(root, Replace(zeros(211, "b"), one("end")))
    with pytest.raises(LimitError, match="cannot move b/0/"):
        edit(root, Move(("a",), zeros(212, "b")))
    deep = edit(moved, Add(("c", "d"), 1))
    with pytest.raises(LimitError, match="cannot move c/d: the document would be nested deeper"):
        edit(deep, Move(("b",), ("c", "d")))
    # Level or up is always possible.
    assert depth_of(edit(moved, Move(("b",), ("c",)))) == DEPTH_MAX


def test_every_walk_fits_the_stack_at_the_deepest() -> None:
    value = freeze(nested(WRITTEN_DEPTH, 1))
    room = DEPTH_MAX - WRITTEN_DEPTH
    deepest = edit(freeze({}), Add(zeros(room - 1), value))
    other = edit(deepest, Replace(zeros(DEPTH_MAX - 1), 1.0))
    assert depth_of(deepest) == depth_of(other) == DEPTH_MAX
    assert isinstance(deepest, FrozenDict)
    assert isinstance(other, FrozenDict)
    again = codec.decode(codec.encode(deepest))
    assert same(again, deepest)
    assert not same(other, deepest)
    assert codec.from_json(codec.to_json(deepest)) == deepest
    assert [path for path, _, _ in differences(deepest, other)] == [zeros(DEPTH_MAX - 1)]
    assert list(differences(deepest, again)) == []
