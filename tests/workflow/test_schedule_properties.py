"""What holds of the next fire for every cron, every zone and every time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import example, given
from hypothesis import strategies as st

from headwater.errors import DeclarationError
from headwater.workflow.schedule import Cron, Every, Schedule, in_words, make_schedule, next_after
from tests.workflow.cron_oracle import Naive, from_ms, to_ms
from tests.workflow.crons import crons

ZONES = [
    *("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Havana", "Antarctica/Troll"),
    *("Asia/Kathmandu", "Africa/Casablanca", "America/St_Johns", "Pacific/Chatham", "Europe/Dublin"),
]
TIMES = st.integers(to_ms(datetime(1970, 1, 1, tzinfo=UTC)), to_ms(datetime(2100, 1, 1, tzinfo=UTC)))
SCHEDULES = st.one_of(st.builds(Cron, crons(), st.sampled_from(ZONES)), st.builds(Every, st.integers(1000, 10**9)))


@given(SCHEDULES, TIMES)
def test_a_fire_is_always_ahead(schedule: Schedule, now: int) -> None:
    assert next_after(schedule, now) > now


@given(SCHEDULES, TIMES, st.integers(0, 10**9))
def test_who_asks_later_is_never_told_an_earlier_time(schedule: Schedule, now: int, later: int) -> None:
    assert next_after(schedule, now) <= next_after(schedule, now + later)


@given(st.builds(Cron, crons(), st.sampled_from(ZONES)), TIMES, st.floats(0, 1))
def test_no_fire_is_passed_over(cron: Cron, now: int, share: float) -> None:
    """Whoever asks at any time before a fire is told that one, up to the last millisecond."""
    fire = next_after(cron, now)
    assert next_after(cron, fire - 1) == fire
    assert next_after(cron, now + int((fire - 1 - now) * share)) == fire


@given(st.builds(Cron, crons(), st.sampled_from(ZONES)), st.lists(TIMES, max_size=5), TIMES)
def test_what_was_asked_before_makes_no_difference(cron: Cron, others: list[int], now: int) -> None:
    """A clock may jump to and fro between two questions."""
    told = next_after(cron, now)
    for other in others:
        assert next_after(cron, other) > other
    assert next_after(cron, now) == told


@given(crons(), TIMES)
@example("0 0 1 1 *", to_ms(datetime(1999, 12, 31, tzinfo=UTC)))
@example("59 23 31 12 *", to_ms(datetime(1999, 12, 31, tzinfo=UTC)))
@example("0 0 29 2 *", to_ms(datetime(2028, 2, 27, tzinfo=UTC)))
def test_in_utc_the_fires_of_some_days_are_those_found_minute_by_minute(cron: str, now: int) -> None:
    begin = from_ms(now // 60_000 * 60_000)
    end = begin + timedelta(days=3)
    expected = [to_ms(at) for at in Naive(cron).fires(UTC, begin, end) if to_ms(at) > now]
    at = now
    for fire in expected[:200]:
        at = next_after(Cron(cron, "UTC"), at)
        assert at == fire
    if not expected:
        assert next_after(Cron(cron, "UTC"), now) > to_ms(end)


@given(st.text(alphabet="0123456789*/-,#LW MONJAFEBS@²٣", max_size=30) | st.text(max_size=20))
def test_whatever_is_written_is_refused_or_fires(text: str) -> None:
    try:
        made = make_schedule("it", every=None, cron=text, zone=None)
    except DeclarationError:
        return
    assert made is not None
    assert next_after(made, 0) > 0
    assert in_words(made)


@given(st.text(max_size=20) | st.sampled_from(["..", "Europe/../UTC", "Europe/", "a\0b", "zone.tab", "\udcff"]))
def test_whatever_is_given_for_a_zone_is_refused_or_tells_the_time(zone: str) -> None:
    try:
        made = make_schedule("it", every=None, cron="0 9 * * *", zone=zone)
    except DeclarationError:
        return
    assert made is not None
    assert next_after(made, 0) > 0
