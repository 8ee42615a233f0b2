"""How long: every way to write it, and what is refused."""

from __future__ import annotations

import math
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import UsageError
from headwater.values.duration import UNITS_MS, to_ms, written_ms


@pytest.mark.parametrize(
    ("written", "ms"),
    [
        ("250ms", 250),
        ("1.5s", 1500),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("0s", 0),
        (" 10 s ", 10_000),
        ("0.5ms", 0.5),
        (0, 0),
        (timedelta(minutes=1, milliseconds=5), 60_005),
        (timedelta(0), 0),
    ],
)
def test_duration_is_read(written: Any, ms: float) -> None:
    assert to_ms(written, "it") == ms


@pytest.mark.parametrize(
    "written",
    [
        *("", "s", "5", "soon", "1.s", ".5s", "-1s", "+1s", "1e3s", "1s 5ms", "1 S", "\u0661s", "5 min", "infs"),
        *(-1, -0.001, math.inf, -math.inf, math.nan, True, False, None, b"1s", [1], 1j, timedelta(seconds=-1)),
    ],
)
def test_what_is_no_duration_is_refused_and_it_is_said_what_is(written: Any) -> None:
    with pytest.raises(UsageError, match=r'debounce=: .+ is no duration; write "250ms", "1.5s", "5m"') as caught:
        to_ms(written, "debounce=")
    assert caught.value.facts["duration"] is written


@pytest.mark.parametrize("number", [250, 1, 0.5, 1e-9])
def test_a_bare_number_is_refused_with_what_it_could_mean(number: float) -> None:
    told = rf'debounce=: {number!r} is no duration; a number says no unit: write "{number:g}ms" or "{number:g}s"'
    with pytest.raises(UsageError, match=told):
        to_ms(number, "debounce=")  # type: ignore[arg-type]


def test_text_that_is_too_long_to_be_a_number_is_refused() -> None:
    with pytest.raises(UsageError, match="is no duration"):
        to_ms(f"{'9' * 400}d", "it")


def test_number_that_is_too_large_is_refused() -> None:
    with pytest.raises(UsageError, match="is no duration"):
        to_ms(10**400, "it")  # type: ignore[arg-type]


@given(st.integers(0, 10**9), st.sampled_from(list(UNITS_MS)))
def test_every_whole_number_of_a_unit_is_read_exactly(count: int, unit: str) -> None:
    assert to_ms(f"{count}{unit}", "it") == count * UNITS_MS[unit]


@given(st.timedeltas(timedelta(0), timedelta(days=10_000)))
def test_timedelta_is_its_seconds(duration: timedelta) -> None:
    assert to_ms(duration, "it") == duration.total_seconds() * 1000


@pytest.mark.parametrize(
    ("ms", "written"),
    [
        (0, "0ms"),
        (0.5, "0.5ms"),
        (5.49897, "5.5ms"),
        (250, "250ms"),
        (999.7, "1s"),
        (1000, "1s"),
        (1500, "1.5s"),
        (1234.5, "1.23s"),
        (90_000, "90s"),
        (60_000, "1m"),
        (61_234, "61.2s"),
        (3_599_123, "60m"),
        (3_600_000, "1h"),
        (5_400_000, "90m"),
        (100_000_123, "27.8h"),
        (86_400_000, "1d"),
        (86_400_000 * 400, "400d"),
        (86_400_000 * 400 + 3, "400d"),
        (math.inf, "for ever"),
    ],
)
def test_duration_is_written_short(ms: float, written: str) -> None:
    assert written_ms(ms) == written


@given(st.sampled_from(sorted(UNITS_MS)), st.integers(1, 10_000))
def test_what_is_written_in_whole_units_is_read_as_the_same(unit: str, number: int) -> None:
    ms = number * UNITS_MS[unit]
    assert abs(to_ms(written_ms(ms), "it") - ms) <= ms / 100
