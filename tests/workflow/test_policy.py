"""How often something is tried again and when; and when a consumer may be woken."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import DeclarationError
from headwater.workflow.retry_policy import DEFAULT, Retry, clamp_wake
from headwater.workflow.workflow_limits import BACKOFF_MAX_MS, BACKOFF_MS, TRIES, WAKE_MAX_MS, WAKE_MIN_MS


def test_without_words_it_is_five_retries_from_ten_seconds_to_ten_minutes() -> None:
    assert (DEFAULT.tries, DEFAULT.backoff_ms, DEFAULT.max_ms, DEFAULT.on, DEFAULT.jitter) == (
        5,
        10_000,
        600_000,
        (),
        0,
    )
    assert (TRIES, BACKOFF_MS, BACKOFF_MAX_MS) == (5, 10_000, 600_000)
    assert [DEFAULT.delay_ms(failures) for failures in range(1, 9)] == [
        10_000,
        20_000,
        40_000,
        80_000,
        160_000,
        320_000,
        600_000,
        600_000,
    ]


def test_durations_are_said_as_everywhere() -> None:
    retry = Retry(3, backoff="30s", max=timedelta(minutes=1), on=OSError)
    assert (retry.tries, retry.backoff_ms, retry.max_ms, retry.on) == (3, 30_000, 60_000, (OSError,))
    assert [retry.delay_ms(failures) for failures in (1, 2, 3)] == [30_000, 60_000, 60_000]
    assert repr(retry) == "hw.Retry(3, backoff='30s', max='1m', jitter=0.0)"


def test_several_kinds_of_errors_can_be_named() -> None:
    assert Retry(on=(OSError, KeyError)).on == (OSError, KeyError)


def test_no_retry_at_all_is_a_policy() -> None:
    assert Retry(0).tries == 0


@given(failures=st.integers(-5, 10**9), chance=st.floats(0, 1), jitter=st.floats(0, 1))
def test_a_wait_is_never_longer_than_said_and_never_negative(failures: int, chance: float, jitter: float) -> None:
    retry = Retry(jitter=jitter)
    wait = retry.delay_ms(failures, chance)
    assert 0 <= wait <= BACKOFF_MAX_MS
    assert wait <= retry.delay_ms(failures + 1, chance)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"tries": -1}, "a number of retries"),
        ({"tries": 2.5}, "a number of retries"),
        ({"tries": True}, "a number of retries"),
        ({"on": "OSError"}, "classes of exceptions"),
        ({"on": (OSError, 3)}, "classes of exceptions"),
        ({"on": int}, "classes of exceptions"),
        ({"jitter": 1.5}, "a part from 0 to 1"),
        ({"jitter": -0.1}, "a part from 0 to 1"),
        ({"jitter": "half"}, "a part from 0 to 1"),
        ({"jitter": float("nan")}, "a part from 0 to 1"),
        ({"backoff": "soon"}, "backoff"),
        ({"max": "-5s"}, "max"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(given: dict[str, object], said: str) -> None:
    with pytest.raises(DeclarationError, match=said):
        Retry(**given)  # type: ignore[arg-type]  # mistakes, on purpose


@given(now=st.integers(0, 10**14), asked=st.integers(-(10**15), 10**15))
def test_a_time_to_wake_is_between_half_a_minute_and_a_day(now: int, asked: int) -> None:
    """W12."""
    found = clamp_wake(asked, now)
    assert now + WAKE_MIN_MS <= found <= now + WAKE_MAX_MS
    if now + WAKE_MIN_MS <= asked <= now + WAKE_MAX_MS:
        assert found == asked
    assert clamp_wake(found, now) == found
