"""How a schedule is told to people who do not read cron, and how far away a time is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.workflow.schedule import Cron, Every, ago_in_words, due_in_words, in_words

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


def test_nothing_is_only_when_asked() -> None:
    assert in_words(None) == "only when asked"


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (SECOND, "every second"),
        (5 * MINUTE, "every 5 minutes"),
        (90 * SECOND, "every 90 seconds"),
        (HOUR, "every hour"),
        (36 * HOUR, "every 36 hours"),
        (DAY, "every day"),
        (7 * DAY, "every 7 days"),
        (1500, "every 1.5 seconds"),
        (1_234_567, "every 1234.567 seconds"),
        (1010, "every 1.01 seconds"),
    ],
)
def test_an_interval_is_told_in_its_largest_whole_unit(ms: int, told: str) -> None:
    assert in_words(Every(ms)) == told


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("0,20,40 * * * *", "every 20 minutes"),
        ("0 * * * *", "every hour"),
        ("0 */2 * * *", "every 2 hours"),
    ],
)
def test_a_pace_is_told_without_a_zone(cron: str, told: str) -> None:
    assert in_words(Cron(cron, "Europe/Berlin")) == told


@pytest.mark.parametrize(
    ("cron", "told"),
    [
        # Times.
        ("0 9 * * *", "every day at 9:00"),
        ("5 0 * * *", "every day at 0:05"),
        ("30 8,12 * * *", "every day at 8:30 and 12:30"),
        ("0 */6 * * *", "every day at 0:00, 6:00, 12:00 and 18:00"),
        ("0,30 2 * * *", "every day at 2:00 and 2:30"),
        ("5 * * * *", "hourly at :05"),
        ("5/15 * * * *", "hourly at :05, :20, :35 and :50"),
        ("5 */2 * * *", "every 2 hours at :05"),
        ("0 9-17 * * *", "every hour from 9:00 to 17:00"),
        ("5 9-17 * * *", "every hour from 9:05 to 17:05"),
        ("*/10 9 * * *", "every 10 minutes from 9:00 to 9:50"),
        # Weekdays.
        ("0 9 * * 1-5", "on weekdays at 9:00"),
        ("0 9 * * MON-FRI", "on weekdays at 9:00"),
        ("0 9 * * 6,7", "on weekends at 9:00"),
        ("0 9 * * 0,6", "on weekends at 9:00"),
        ("0 9 * * MON", "on Mondays at 9:00"),
        ("0 9 * * 7,1,4", "on Mondays, Thursdays and Sundays at 9:00"),
        ("*/15 9-17 * * 1-5", "every 15 minutes from 9:00 to 17:45 on weekdays"),
        ("* * * * 1-5", "every minute on weekdays"),
        ("0 9 * * MON#1", "on the first Monday of every month at 9:00"),
        ("0 9 * * 7#3", "on the third Sunday of every month at 9:00"),
        ("0 9 * * 5L", "on the last Friday of every month at 9:00"),
        ("0 9 * 1,7 5L", "on the last Friday of January and July at 9:00"),
        # Dates.
        ("0 9 1 * *", "on the 1st of every month at 9:00"),
        ("0 9 2,15 * *", "on the 2nd and 15th of every month at 9:00"),
        ("0 0 11,12,13 * *", "on the 11th, 12th and 13th of every month at 0:00"),
        ("0 0 3,21,22,23 * *", "on the 3rd, 21st, 22nd and 23rd of every month at 0:00"),
        ("0 9 L * *", "on the last day of every month at 9:00"),
        ("0 9 15,L * *", "on the 15th and last day of every month at 9:00"),
        ("0 9 LW * *", "on the last weekday of every month at 9:00"),
        ("0 0 29 2 *", "on the 29th of February at 0:00"),
        ("*/15 * 1 * *", "every 15 minutes on the 1st of every month"),
        # Months.
        ("0 9 * DEC *", "every day in December at 9:00"),
        ("*/15 * * 1 *", "every 15 minutes in January"),
        ("0 9 * 1,7 1", "on Mondays in January and July at 9:00"),
        # A date or a weekday, one of which is always so.
        ("0 9 1-31 * 1", "every day at 9:00"),
        ("0 9 1 * 0-6", "every day at 9:00"),
        ("0 9 */1 * 1", "on Mondays at 9:00"),
    ],
)
def test_a_cron_that_names_a_time_or_a_day_is_told_with_its_zone(cron: str, told: str) -> None:
    assert in_words(Cron(cron, "Europe/Berlin")) == f"{told} (Europe/Berlin)"
    assert in_words(Cron(cron, "UTC")) == f"{told} (UTC)"


@pytest.mark.parametrize(
    "cron",
    [
        "*/7 * * * *",  # not even: 4 minutes from :56 to the hour
        "1,2,3,4,5 * * * *",
        "0 */5 * * *",
        "0 9,11,13,15,17 * * *",
        "1,2,3 1-5 * * *",
        "1,2,3 1,5,9 * * *",
        "0 9 * * 1-6",
        "0 9 * * 1#1,3",
        "0 9 * * 1#1,1#3",
        "0 9 1 * 1",
        "0 9 */2 * 1",
        "0 9 */2 * *",
        "0 9 * 1-5 *",
    ],
)
def test_what_words_would_not_make_shorter_is_shown_as_it_is(cron: str) -> None:
    assert in_words(Cron(cron, "Europe/Berlin")) == f'cron "{cron}" (Europe/Berlin)'


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (500, "1 s"),
        (20 * SECOND, "20 s"),
        (59_499, "59 s"),
        (59_500, "1 min"),
        (3 * MINUTE, "3 min"),
        (3 * MINUTE + 29_999, "3 min"),
        (59 * MINUTE + 29_999, "59 min"),
        (59 * MINUTE + 30_000, "1 h"),
        (90 * MINUTE, "1 h 30 min"),
        (5 * HOUR, "5 h"),
        (DAY - 31 * SECOND, "23 h 59 min"),
        (DAY, "1 d"),
        (60 * HOUR, "2 d 12 h"),
        (400 * DAY, "400 d"),
    ],
)
def test_a_distance_is_rounded_and_told_in_two_units_at_most(ms: int, told: str) -> None:
    assert due_in_words(DAY + ms, DAY) == f"in {told}"
    assert ago_in_words(DAY, DAY + ms) == f"{told} ago"


@pytest.mark.parametrize("ms", [0, 499, -1, -DAY])
def test_what_is_due_or_overdue_is_now(ms: int) -> None:
    assert due_in_words(DAY + ms, DAY) == "now"


@pytest.mark.parametrize("ms", [0, 499, -1, -DAY])
def test_what_has_just_been_is_now_and_so_is_what_a_clock_put_back_has_ahead(ms: int) -> None:
    assert ago_in_words(DAY, DAY + ms) == "now"


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_the_words_never_tell_of_zero_or_of_sixty(at: int, now: int) -> None:
    words = due_in_words(at, now).replace(",", "").split()
    counts = list(zip(map(int, words[1::2]), words[2::2], strict=True))
    assert words[0] == "now" or counts
    assert all(0 < count < {"s": 60, "min": 60, "h": 24}.get(unit, 10**9) for count, unit in counts)
