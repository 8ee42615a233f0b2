"""What authors may write, and when it fires next where no clock is put forward or back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import msgspec
import pytest

from headwater.errors import DeclarationError
from headwater.workflow.schedule import EVERY_MAX_MS, Cron, Every, Schedule, make_schedule, next_after
from tests.workflow.cron_oracle import from_ms, to_ms

NOON = to_ms(datetime(2026, 6, 3, 12, 0, tzinfo=UTC))  # a Wednesday


def declare(**given: Any) -> Schedule | None:
    return make_schedule("producer poll", **{"every": None, "cron": None, "zone": None, **given})


def refusal(**given: Any) -> str:
    with pytest.raises(DeclarationError) as caught:
        declare(**given)
    assert caught.value.facts["where"] == "producer poll"
    assert caught.value.message.startswith("producer poll: ")
    return caught.value.message.removeprefix("producer poll: ")


def fires(cron: str, after: str, count: int, zone: str = "UTC") -> list[str]:
    """The next ones, as a clock in that zone shows them."""
    place = ZoneInfo(zone)
    at = to_ms(datetime.fromisoformat(after).replace(tzinfo=place).astimezone(UTC))
    found = list[str]()
    for _ in range(count):
        at = next_after(Cron(cron, zone), at)
        found.append(from_ms(at).astimezone(place).strftime("%Y-%m-%d %H:%M"))
    return found


# -- what is written ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "made"),
    [
        ({}, None),
        ({"every": "5m"}, Every(300_000)),
        ({"every": "1s"}, Every(1000)),
        ({"every": "90s"}, Every(90_000)),
        ({"every": timedelta(hours=2)}, Every(7_200_000)),
        ({"every": "1500.4ms"}, Every(1500)),
        ({"every": "3660d"}, Every(EVERY_MAX_MS)),
        ({"cron": "0 9 * * 1-5"}, Cron("0 9 * * 1-5", "UTC")),
        ({"cron": "0 9 * * 1-5", "zone": "Europe/Berlin"}, Cron("0 9 * * 1-5", "Europe/Berlin")),
        ({"cron": " 0  9\t* * MON "}, Cron("0 9 * * MON", "UTC")),
    ],
)
def test_what_an_author_writes_becomes_a_schedule(given: dict[str, Any], made: Schedule | None) -> None:
    assert declare(**given) == made


@pytest.mark.parametrize("made", [Every(300_000), Cron("0 9 * * 1-5", "Europe/Berlin")])
def test_a_schedule_is_stored_and_read_back(made: Schedule) -> None:
    assert msgspec.json.decode(msgspec.json.encode(made), type=Every | Cron) == made


def test_an_interval_and_a_cron_together_are_refused() -> None:
    assert refusal(every="5m", cron="0 9 * * *") == "has both every='5m' and cron='0 9 * * *'; keep one of them"


@pytest.mark.parametrize("given", [{}, {"every": "5m"}])
def test_a_zone_without_a_cron_is_refused(given: dict[str, Any]) -> None:
    assert refusal(zone="Europe/Berlin", **given) == (
        "zone='Europe/Berlin' is of use only with a cron; add cron=\"0 9 * * *\", or leave the zone out"
    )


@pytest.mark.parametrize("every", ["999ms", "0s", 0, timedelta(0)])
def test_an_interval_below_a_second_is_refused(every: Any) -> None:
    assert refusal(every=every) == (
        f'every={every!r} is too often; write "1s" or more, or publish to the topic as things happen'
    )


@pytest.mark.parametrize("every", ["3661d", timedelta(days=1e6)])
def test_an_interval_of_more_than_ten_years_is_refused(every: Any) -> None:
    assert refusal(every=every) == f'every={every!r} is too seldom; write "3660d" or less, or a cron'


@pytest.mark.parametrize("every", ["soon", "-5m", True, [1], 1e30])
def test_what_is_no_duration_is_refused(every: Any) -> None:
    assert refusal(every=every).startswith(f'every=: {every!r} is no duration; write "250ms", "1.5s", "5m"')


@pytest.mark.parametrize(
    ("cron", "fault"),
    [
        ("60 * * * *", '"60" is no minute (0-59)'),
        ("*/0 * * * *", '"*/0" is no minute (0-59)'),
        ("0 24 * * *", '"24" is no hour (0-23)'),
        ("0 9-8 * * *", '"9-8" is no hour (0-23)'),
        ("0 9 0 * *", '"0" is no day of the month (1-31, L for the last)'),
        ("0 9 * 13 *", '"13" is no month (1-12 or JAN-DEC)'),
        ("0 9 * MAI *", '"MAI" is no month (1-12 or JAN-DEC)'),
        ("0 9 * * 8", '"8" is no weekday (0-7 or SUN-SAT, both 0 and 7 are Sunday)'),
        ("0 9 * * MON#6", '"MON#6" is no weekday (0-7 or SUN-SAT, both 0 and 7 are Sunday)'),
        ("", "should have 5 fields and has 0"),
        ("0 9 * *", "should have 5 fields and has 4"),
        ("*/5 * * * * *", "should have 5 fields and has 6"),
    ],
)
def test_a_bad_cron_is_refused_and_its_fault_named(cron: str, fault: str) -> None:
    form = 'write "minute hour day month weekday", as in "0 9 * * 1-5" for 9:00 on weekdays'
    assert refusal(cron=cron) == f'cron="{cron}": {fault}; {form}'


def test_more_digits_than_python_reads_are_refused() -> None:
    assert "is no minute" in refusal(cron=f"{'9' * 5000} * * * *")


@pytest.mark.parametrize("cron", ["0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 */30 * MON#3"])
def test_a_cron_that_never_fires_is_refused(cron: str) -> None:
    assert refusal(cron=cron) == (
        f'cron="{cron}": would never fire, there is no such day; look at its day, month and weekday'
    )


@pytest.mark.parametrize(
    ("cron", "found", "instead"),
    [("5-5/2 * * * *", "5-5/2", "5"), ("0 9 * * 1,MON-MON/1", "MON-MON/1", "MON")],
)
def test_a_range_of_one_with_a_step_is_refused(cron: str, found: str, instead: str) -> None:
    """Libraries differ on what it is."""
    assert refusal(cron=cron) == f'cron="{cron}": "{found}" is a range of one with a step; write "{instead}"'


def test_a_nickname_is_refused_and_its_cron_given() -> None:
    assert refusal(cron="@Daily") == 'cron="@Daily": write "0 0 * * *"'
    assert refusal(cron="@reboot").startswith('cron="@reboot": should have 5 fields and has 1; write "minute hour')


@pytest.mark.parametrize("given", [{"cron": 9}, {"cron": ["0 9 * * *"]}, {"cron": "0 9 * * *", "zone": [2]}])
def test_what_is_no_text_is_refused(given: dict[str, Any]) -> None:
    assert "is no text; write cron=" in refusal(**given)


@pytest.mark.parametrize("zone", ["local", "Local", "localtime"])
def test_the_zone_of_the_machine_is_refused(zone: str) -> None:
    assert refusal(cron="0 9 * * *", zone=zone) == (
        f'zone="{zone}" would be another one on every machine; name the place whose clock is meant, '
        'as in zone="Europe/Berlin"'
    )


@pytest.mark.parametrize(
    ("zone", "instead"),
    [
        ("europe/berlin", 'zone="Europe/Berlin"'),
        ("Europe/Berln", 'zone="Europe/Berlin"'),
        ("right/Europe/Berlin", 'zone="Europe/Berlin"'),
        ("+02:00", 'an IANA name, as in zone="Europe/Berlin"'),
        ("", 'an IANA name, as in zone="Europe/Berlin"'),
        ("/", 'an IANA name, as in zone="Europe/Berlin"'),
        ("x" * 5000, 'an IANA name, as in zone="Europe/Berlin"'),
    ],
)
def test_an_unknown_zone_is_refused_and_one_near_it_offered(zone: str, instead: str) -> None:
    assert refusal(cron="0 9 * * *", zone=zone) == f"zone={zone!r} is no time zone; write {instead}"


def test_a_folder_of_zones_is_no_zone() -> None:
    assert refusal(cron="0 9 * * *", zone="Europe").startswith("zone='Europe' is no time zone; write ")


def test_a_stored_schedule_whose_zone_is_not_known_here_says_so() -> None:
    with pytest.raises(DeclarationError, match="zone='Europe/Atlantis' is no time zone"):
        next_after(Cron("0 9 * * *", "Europe/Atlantis"), NOON)


# -- when it fires -----------------------------------------------------------------------------------------


def test_an_interval_counts_from_now() -> None:
    assert next_after(Every(300_000), NOON + 7) == NOON + 300_007


@pytest.mark.parametrize(("late", "next_late"), [(0, 60), (1, 60), (59_999, 60), (60_000, 120), (-1, 0)])
def test_a_fire_is_after_now_and_never_at_it(late: int, next_late: int) -> None:
    assert next_after(Cron("* * * * *", "UTC"), NOON + late) == NOON + next_late * 1000


def test_the_hour_is_that_of_the_zone() -> None:
    assert next_after(Cron("0 9 * * *", "UTC"), NOON) == to_ms(datetime(2026, 6, 4, 9, 0, tzinfo=UTC))
    assert next_after(Cron("0 9 * * *", "Europe/Berlin"), NOON) == to_ms(datetime(2026, 6, 4, 7, 0, tzinfo=UTC))
    assert next_after(Cron("0 9 * * *", "America/New_York"), NOON) == to_ms(datetime(2026, 6, 3, 13, 0, tzinfo=UTC))
    assert next_after(Cron("0 9 * * *", "Asia/Kathmandu"), NOON) == to_ms(datetime(2026, 6, 4, 3, 15, tzinfo=UTC))


def test_a_month_of_missed_fires_is_made_up_for_by_one() -> None:
    """Who was away for a month is due once, for the oldest; asked after that, the next is ahead of now."""
    daily = Cron("0 9 * * *", "Europe/Berlin")
    due = next_after(daily, NOON)
    back = NOON + 30 * 86_400_000
    assert due < back
    assert back < next_after(daily, back) <= back + 86_400_000


def test_a_clock_that_was_put_forward_or_back_leaves_nothing_behind() -> None:
    daily = Cron("0 9 * * *", "UTC")
    before = next_after(daily, NOON)
    ahead = next_after(daily, NOON + 365 * 86_400_000)
    assert ahead > NOON + 365 * 86_400_000
    assert next_after(daily, NOON) == before
    assert next_after(daily, NOON - 86_400_000) == before - 86_400_000


def test_times_before_1970_are_times() -> None:
    assert next_after(Cron("0 9 * * *", "UTC"), -1) == 9 * 3_600_000
    assert next_after(Cron("0 9 * * *", "UTC"), -86_400_000) == -15 * 3_600_000


def test_weekdays_leave_the_weekend_out() -> None:
    assert fires("0 9 * * 1-5", "2026-06-05 08:00", 3) == ["2026-06-05 09:00", "2026-06-08 09:00", "2026-06-09 09:00"]


@pytest.mark.parametrize("sunday", ["0", "7", "SUN", "sun"])
def test_sunday_has_four_names(sunday: str) -> None:
    assert fires(f"0 9 * * {sunday}", "2026-06-03", 2) == ["2026-06-07 09:00", "2026-06-14 09:00"]


def test_a_leap_day_is_waited_for() -> None:
    assert fires("0 0 29 2 *", "2026-01-01", 2, "Europe/Berlin") == ["2028-02-29 00:00", "2032-02-29 00:00"]


def test_a_leap_day_is_waited_for_over_a_century_without_one() -> None:
    assert fires("0 0 29 2 *", "2096-03-01", 1) == ["2104-02-29 00:00"]


def test_the_rarest_day_is_found() -> None:
    """A leap day that is a fifth Monday: every 28 years, and 40 where a century does without."""
    assert fires("0 0 */28 2 MON#5", "2026-01-01", 4) == [
        "2044-02-29 00:00",
        "2072-02-29 00:00",
        "2112-02-29 00:00",
        "2140-02-29 00:00",
    ]


def test_the_31st_passes_over_shorter_months() -> None:
    assert fires("0 0 31 * *", "2026-01-31", 3) == ["2026-03-31 00:00", "2026-05-31 00:00", "2026-07-31 00:00"]


def test_the_last_day_is_that_of_each_month() -> None:
    assert fires("0 18 L * *", "2028-01-15", 3) == ["2028-01-31 18:00", "2028-02-29 18:00", "2028-03-31 18:00"]


def test_the_last_weekday_and_the_last_friday_are_found() -> None:
    assert fires("0 18 LW * *", "2026-05-01", 2) == ["2026-05-29 18:00", "2026-06-30 18:00"]
    assert fires("0 18 * * FRI#1", "2026-05-02", 2) == ["2026-06-05 18:00", "2026-07-03 18:00"]
    assert fires("0 18 * * 5L", "2026-05-30", 2) == ["2026-06-26 18:00", "2026-07-31 18:00"]


def test_a_date_and_a_weekday_are_either_unless_one_has_a_star() -> None:
    assert fires("0 0 13 * 5", "2026-06-01", 3) == ["2026-06-05 00:00", "2026-06-12 00:00", "2026-06-13 00:00"]
    assert fires("0 0 */12 * 5", "2026-06-01", 2) == ["2026-09-25 00:00", "2026-11-13 00:00"]
