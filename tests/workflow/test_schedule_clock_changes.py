"""The nights on which the clock on the wall is put forward or back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice
from zoneinfo import ZoneInfo

import pytest
from cronsim import CronSim
from hypothesis import given
from hypothesis import strategies as st

from headwater.workflow.schedule import Cron, next_after
from tests.workflow.cron_oracle import Naive, from_ms, to_ms
from tests.workflow.crons import crons

CHANGES = {
    "Berlin, forward": ("Europe/Berlin", datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
    "Berlin, back": ("Europe/Berlin", datetime(2026, 10, 25, 1, 0, tzinfo=UTC)),
    "New York, forward": ("America/New_York", datetime(2026, 3, 8, 7, 0, tzinfo=UTC)),
    "New York, back": ("America/New_York", datetime(2026, 11, 1, 6, 0, tzinfo=UTC)),
    "half an hour, forward": ("Australia/Lord_Howe", datetime(2026, 10, 3, 15, 30, tzinfo=UTC)),
    "half an hour, back": ("Australia/Lord_Howe", datetime(2026, 4, 4, 15, 0, tzinfo=UTC)),
    "two hours, forward": ("Antarctica/Troll", datetime(2026, 3, 29, 1, 0, tzinfo=UTC)),
    "two hours, back": ("Antarctica/Troll", datetime(2026, 10, 25, 1, 0, tzinfo=UTC)),
    "midnight is skipped": ("America/Havana", datetime(2026, 3, 8, 5, 0, tzinfo=UTC)),
    "midnight comes twice": ("America/Havana", datetime(2026, 11, 1, 5, 0, tzinfo=UTC)),
    "back into the day before": ("America/Sao_Paulo", datetime(2019, 2, 17, 2, 0, tzinfo=UTC)),
    "a whole day is skipped": ("Pacific/Apia", datetime(2011, 12, 30, 10, 0, tzinfo=UTC)),
}
WHOLE_HOURS = ["Berlin, forward", "Berlin, back", "New York, forward", "New York, back"]
AROUND = timedelta(hours=40)


def fires(cron: str, zone: str, after: str, until: str) -> list[str]:
    """As a clock there shows them, with its distance to UTC; both ends are given like that, too."""
    at, end = (to_ms(datetime.fromisoformat(text).astimezone(UTC)) for text in (after, until))
    found = list[str]()
    while (at := next_after(Cron(cron, zone), at)) <= end:
        found.append(from_ms(at).astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z"))
    return found


def fires_on(day: str, cron: str, zone: str) -> list[str]:
    """Those of one day there."""
    found = fires(cron, zone, f"{day}T00:00+14:00", f"{day}T23:59-12:00")
    return [at.split()[1] for at in found if at.split()[0] == day[-2:]]


@pytest.mark.parametrize(("zone", "change"), CHANGES.values(), ids=CHANGES)
def test_the_clock_is_put_forward_or_back_just_then(zone: str, change: datetime) -> None:
    """Were it not, for other data of zones than those these tests were made with, they would test nothing."""
    place = ZoneInfo(zone)
    before, after = ((change + n * timedelta(minutes=1)).astimezone(place) for n in (-1, 0))
    assert before.utcoffset() != after.utcoffset()


# -- a fixed time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("zone", "day", "skipped", "instead"),
    [
        ("Europe/Berlin", "2026-03-29", "30 2", "03:00+0200"),
        ("America/New_York", "2026-03-08", "30 2", "03:00-0400"),
        ("Australia/Lord_Howe", "2026-10-04", "15 2", "02:30+1100"),
        ("America/Havana", "2026-03-08", "0 0", "01:00-0400"),
    ],
)
def test_a_time_that_is_skipped_fires_once_and_right_after_the_gap(
    zone: str, day: str, skipped: str, instead: str
) -> None:
    assert fires_on(day, f"{skipped} * * *", zone) == [instead]


@pytest.mark.parametrize(
    ("zone", "day", "twice", "first"),
    [
        ("Europe/Berlin", "2026-10-25", "30 2", "02:30+0200"),
        ("America/New_York", "2026-11-01", "30 1", "01:30-0400"),
        ("Australia/Lord_Howe", "2026-04-05", "45 1", "01:45+1100"),
        ("America/Havana", "2026-11-01", "0 0", "00:00-0400"),
    ],
)
def test_a_time_that_comes_twice_fires_once_and_the_first_time(zone: str, day: str, twice: str, first: str) -> None:
    assert fires_on(day, f"{twice} * * *", zone) == [first]


def test_who_asks_between_the_two_times_is_not_sent_back() -> None:
    """The first 2:30 is over, the second is yet to come and is not a fire: the next is tomorrow's."""
    assert fires("30 2 * * *", "Europe/Berlin", "2026-10-25T02:31+02:00", "2026-10-26T12:00+01:00") == ["26 02:30+0100"]
    assert fires("30 2 * * *", "Europe/Berlin", "2026-10-25T02:10+01:00", "2026-10-26T12:00+01:00") == ["26 02:30+0100"]
    assert fires("30 2 * * *", "Europe/Berlin", "2026-10-25T02:45+01:00", "2026-10-26T12:00+01:00") == ["26 02:30+0100"]


def test_two_times_that_are_skipped_together_fire_together() -> None:
    assert fires("0,30 2,3 * * *", "Europe/Berlin", "2026-03-29T01:59+01:00", "2026-03-29T12:00+02:00") == [
        "29 03:00+0200",
        "29 03:30+0200",
    ]


def test_a_time_outside_the_change_is_not_touched_by_it() -> None:
    assert fires("0 9 * * *", "Europe/Berlin", "2026-03-28T00:00+01:00", "2026-03-30T12:00+02:00") == [
        "28 09:00+0100",
        "29 09:00+0200",
        "30 09:00+0200",
    ]


# -- a pace ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize(("cron", "ms"), [("0 * * * *", 3_600_000), ("*/15 * * * *", 900_000), ("* * * * *", 60_000)])
def test_a_pace_is_kept_through_both_nights(zone: str, cron: str, ms: int) -> None:
    """Neither two at once nor an hour without: in real time, fires are as far apart as on any other day."""
    for change in [change for place, change in CHANGES.values() if place == zone]:
        at = next_after(Cron(cron, zone), to_ms(change - AROUND))
        while at < to_ms(change + AROUND):
            following = next_after(Cron(cron, zone), at)
            assert following - at == ms
            at = following


def test_an_hourly_one_goes_by_the_wall_where_the_clock_moves_by_half_an_hour() -> None:
    """Nothing else can be done: after the change, full hours are at other times of the world."""
    assert fires("0 * * * *", "Australia/Lord_Howe", "2026-04-05T00:59+11:00", "2026-04-05T03:30+10:30") == [
        "05 01:00+1100",
        "05 02:00+1030",
        "05 03:00+1030",
    ]
    assert fires("40 * * * *", "Australia/Lord_Howe", "2026-10-04T00:50+10:30", "2026-10-04T04:00+11:00") == [
        "04 01:40+1030",
        "04 02:40+1100",
        "04 03:40+1100",
    ]


def test_every_half_hour_of_an_hour_that_comes_twice_fires_in_both() -> None:
    assert fires("*/30 2 * * *", "Europe/Berlin", "2026-10-25T00:00+02:00", "2026-10-25T12:00+01:00") == [
        "25 02:00+0200",
        "25 02:30+0200",
        "25 02:00+0100",
        "25 02:30+0100",
    ]


def test_every_half_hour_of_an_hour_that_is_skipped_is_skipped_with_it() -> None:
    assert fires("*/30 2 * * *", "Europe/Berlin", "2026-03-28T12:00+01:00", "2026-03-30T12:00+02:00") == [
        "30 02:00+0200",
        "30 02:30+0200",
    ]


# -- all of them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("zone", "change"), CHANGES.values(), ids=CHANGES)
@given(cron=crons(), data=st.data())
def test_every_fire_around_a_change_is_the_one_that_debian_finds_minute_by_minute(
    zone: str, change: datetime, cron: str, data: st.DataObject
) -> None:
    expected = [to_ms(at) for at in Naive(cron).fires(ZoneInfo(zone), change - AROUND, change + AROUND)]
    begin, end = to_ms(change - AROUND), to_ms(change + AROUND)
    now = data.draw(st.one_of(st.integers(begin, end - 1), st.integers(to_ms(change) - 7_200_000, end - 1)))
    remaining = [at for at in expected if at > now]
    for at in remaining[:100]:
        now = next_after(Cron(cron, zone), now)
        assert now == at
    if not remaining:
        assert next_after(Cron(cron, zone), now) > end


@pytest.mark.parametrize(("zone", "change"), [CHANGES[name] for name in WHOLE_HOURS], ids=WHOLE_HOURS)
@given(cron=crons())
def test_where_the_clock_moves_by_an_hour_the_library_alone_finds_the_same(
    zone: str, change: datetime, cron: str
) -> None:
    begin = (change - AROUND).astimezone(ZoneInfo(zone))
    now = to_ms(change - AROUND)
    for at in islice(CronSim(cron, begin), 60):
        now = next_after(Cron(cron, zone), now)
        assert from_ms(now) == at.astimezone(UTC)
