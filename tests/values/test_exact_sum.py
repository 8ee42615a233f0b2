"""Exact sums: of what is in them, in any order, and the same after they were stored."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.values.exact_sum import ExactSum, decode_sum
from headwater.values.sortkey import Elapsed
from headwater.values.tree import ABSENT

floats = st.floats(allow_nan=False, allow_infinity=False)
integers = st.integers(-(2**63), 2**63 - 1)
others: Any = st.sampled_from([None, "text", True, b"", ABSENT])
durations = st.builds(Elapsed, st.integers(-(2**80), 2**80))


def sum_of(values: list[Any]) -> ExactSum:
    found = ExactSum()
    for value in values:
        found.add(value)
    return found


@given(st.lists(floats, min_size=1))
def test_sum_of_floats_is_that_of_fsum(values: list[float]) -> None:
    try:
        expected = math.fsum(values)
    except OverflowError:
        # The exact sum may be finite where a part of it is not.
        return
    assert sum_of(values).answer() == expected


@given(st.lists(integers | others))
def test_sum_of_ints_leaves_other_values_out_and_counts_them(values: list[Any]) -> None:
    found = sum_of(values)
    assert (found.count, found.answer()) == (len(values), sum(each for each in values if type(each) is int))


@given(st.lists(floats | integers | others | durations), st.lists(floats | integers | durations), st.randoms())
def test_what_was_taken_out_leaves_no_trace(kept: list[Any], gone: list[Any], chance: Any) -> None:
    steps = [(value, 1) for value in kept + gone] + [(value, -1) for value in gone]
    chance.shuffle(steps)
    found = ExactSum()
    for value, sign in steps:
        found.add(value, sign)
    assert found.encode() == sum_of(kept).encode()
    assert found.is_empty is (not kept)


@given(st.lists(floats | integers | others | durations), st.lists(floats | integers | durations))
def test_sums_that_are_merged_are_the_sum_of_all(one: list[Any], other: list[Any]) -> None:
    found = sum_of(one)
    found.merge(sum_of(other))
    assert found.encode() == sum_of(one + other).encode()


@given(st.lists(floats | integers | others | durations))
def test_sum_comes_back_as_stored(values: list[Any]) -> None:
    found = sum_of(values)
    assert decode_sum(found.encode()).encode() == found.encode()
    assert decode_sum(found.encode()).answer() == found.answer()


@pytest.mark.parametrize("content", [b"", b"x", b"1,0", b"01", b"1,,2", b"1,2,3,4,5,6,7,8,9,a"])
def test_bytes_that_are_no_sum_are_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match=r"sum|literal"):
        decode_sum(content)


def test_infinite_and_undefined_values_have_the_sum_that_python_has() -> None:
    assert sum_of([math.inf, 1.0]).answer() == math.inf
    assert sum_of([-math.inf, 1]).answer() == -math.inf
    assert math.isnan(sum_of([math.inf, -math.inf]).answer())
    assert math.isnan(sum_of([math.nan]).answer())
    assert sum_of([1e308, 1e308]).answer() == math.inf
    assert sum_of([1e308, 1e308, -1e308]).answer() == 1e308
