"""Schedules and times in words.

The text follows from the meaning of a cron, not its spelling: "*/20", "0,20,40" and "0-59/20" read the same. A cron
without a short and exact text has none, and the caller shows the cron.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

from cronsim import CronSim

from headwater.values.text import rough_span

NAMED_MAX: Final = 4
"""The longest list of times, days or months. A longer one is not readable."""

_NOW_MS: Final = 500
"""A distance that is below one second after rounding."""

_UNITS: Final = ((86_400_000, "day"), (3_600_000, "hour"), (60_000, "minute"), (1000, "second"))
_WEEKDAYS: Final = ("Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_WHICH: Final = {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth", CronSim.LAST: "last"}
_SPECIAL_DAYS: Final = {CronSim.LAST: "last day", CronSim.LAST_WEEKDAY: "last weekday"}


class ScheduleText(NamedTuple):
    """A schedule in words."""

    text: str
    # Only then does it matter in which zone.
    names_a_time: bool


def interval_in_words(ms: int) -> str:
    """In the largest unit that leaves no fraction."""
    for size, name in _UNITS:
        if ms == size:
            return f"every {name}"
        if ms % size == 0:
            return f"every {ms // size} {name}s"
    fraction = f"{ms % 1000:03}".rstrip("0")
    return f"every {ms // 1000}.{fraction} seconds"


# -- crons -------------------------------------------------------------------------------------------------


def cron_in_words(cron: CronSim) -> ScheduleText | None:
    """A cron in words, or None if there is no short text."""
    times = _times(sorted(cron.minutes), sorted(cron.hours))
    days = _days(cron)
    if times is None or days is None:
        return None
    if times.startswith("at "):
        if not days or days.startswith("in "):
            days = f"every day {days}".strip()
        return ScheduleText(f"{days} {times}", names_a_time=True)
    return ScheduleText(f"{times} {days}".strip(), names_a_time=bool(days) or ":" in times)


def _times(minutes: list[int], hours: list[int]) -> str | None:
    """The times of the day; begins with "at" if the text has to name days, too."""
    if len(hours) == 24:  # noqa: PLR2004  # all of a day
        return _every_hour(minutes)
    if len(minutes) * len(hours) <= NAMED_MAX:
        return f"at {_join([_clock(hour, minute) for hour in hours for minute in minutes])}"
    if len(minutes) == 1 and (hourly := _pace(hours, 24, "hour")) is not None:
        return hourly if minutes == [0] else f"{hourly} at :{minutes[0]:02}"
    pace = "every hour" if len(minutes) == 1 else _pace(minutes, 60, "minute")
    if pace is None or hours[-1] - hours[0] >= len(hours):
        return None
    return f"{pace} from {_clock(hours[0], minutes[0])} to {_clock(hours[-1], minutes[-1])}"


def _every_hour(minutes: list[int]) -> str | None:
    if minutes == [0]:
        return "every hour"
    if (pace := _pace(minutes, 60, "minute")) is not None:
        return pace
    if len(minutes) <= NAMED_MAX:
        return f"hourly at {_join([f':{minute:02}' for minute in minutes])}"
    return None


def _pace(numbers: list[int], whole: int, unit: str) -> str | None:
    """The pace, only if it is even: every 7 minutes does not divide an hour."""
    if len(numbers) == 1 or numbers != list(range(0, whole, whole // len(numbers))):
        return None
    step = whole // len(numbers)
    return f"every {unit}" if step == 1 else f"every {step} {unit}s"


def _days(cron: CronSim) -> str | None:
    """The days; empty for every day."""
    months = [_MONTHS[month - 1] for month in sorted(cron.months)]
    if NAMED_MAX < len(months) < len(_MONTHS):
        return None
    all_year = len(months) == len(_MONTHS)
    of_months = " of every month" if all_year else f" of {_join(months)}"
    in_months = "" if all_year else f" in {_join(months)}"
    any_date = cron.days.issuperset(range(1, 32))
    any_weekday = {day % 7 for day in cron.weekdays if isinstance(day, int)} == set(range(7))
    # Cron takes either where neither begins with a star, and both otherwise.
    if (any_date and any_weekday) or (not cron.day_and and (any_date or any_weekday)):
        return in_months.strip()
    if any_weekday:
        dates = _dates(cron.days)
        return dates and dates + of_months
    if not any_date:
        return None
    if (one := _one_of_month(cron.weekdays)) is not None:
        return one + of_months
    weekdays = _weekdays(cron.weekdays)
    return weekdays and weekdays + in_months


def _dates(days: AbstractSet[int]) -> str | None:
    if len(days) > NAMED_MAX:
        return None
    # The special ones are the end of a month; to the library they are numbers below zero.
    in_order = sorted(days, key=lambda day: (day < 0, day))
    return f"on the {_join([_SPECIAL_DAYS.get(day) or _ordinal(day) for day in in_order])}"


def _one_of_month(weekdays: AbstractSet[int | tuple[int, int]]) -> str | None:
    """A day such as the second Tuesday, or None."""
    match list(weekdays):
        case [(weekday, which)]:
            return f"on the {_WHICH[which]} {_WEEKDAYS[weekday % 7]}"
        case _:
            return None


def _weekdays(weekdays: AbstractSet[int | tuple[int, int]]) -> str | None:
    days = {day if isinstance(day, tuple) else day % 7 for day in weekdays}
    if days == {1, 2, 3, 4, 5}:
        return "on weekdays"
    if days == {6, 0}:
        return "on weekends"
    names = [f"{_WEEKDAYS[day]}s" for day in (1, 2, 3, 4, 5, 6, 0) if day in days]
    if len(names) == len(days) <= NAMED_MAX:
        return f"on {_join(names)}"
    return None


# -- distances ---------------------------------------------------------------------------------------------


def due_in_words(at_ms: int, now_ms: int) -> str:
    """The time until then: "in 3 min", or "now" if it has passed."""
    return "now" if at_ms - now_ms < _NOW_MS else f"in {rough_span(at_ms - now_ms)}"


def ago_in_words(at_ms: int, now_ms: int) -> str:
    """The time since then: "3 min ago", or "now" if it is in the future, as after a clock was set back."""
    return "now" if now_ms - at_ms < _NOW_MS else f"{rough_span(now_ms - at_ms)} ago"


# -- pieces ------------------------------------------------------------------------------------------------


def _clock(hour: int, minute: int) -> str:
    return f"{hour}:{minute:02}"


def _ordinal(day: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th") if day not in {11, 12, 13} else "th"
    return f"{day}{ending}"


def _join(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
