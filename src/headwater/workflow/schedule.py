"""Schedules of producers: intervals and cron.

An interval counts from a given time. A cron names times of a local clock, so the two nights on which the clock changes
need rules. They are those of Debian's cron:

- A cron with fixed minutes and hours ("30 2 * * *") fires once on each of these nights: right after the gap if the time
  is skipped, and the first time if it occurs twice.
- A cron with a star for either ("*/15 * * * *", "0 * * * *") fires whenever the clock shows such a time. It keeps its
  pace through both passes of a repeated hour, and catches up nothing after a gap.

The next fire depends only on the time it is computed from. So missed fires become one, and a clock that is set in
either direction leaves no trace.
"""

from __future__ import annotations

import re
from copy import copy
from datetime import UTC, datetime, timedelta, tzinfo
from difflib import get_close_matches
from functools import lru_cache
from typing import Final, TypeAlias, assert_never
from zoneinfo import ZoneInfo, available_timezones

import msgspec
from cronsim import CronSim, CronSimError

from headwater.errors import DeclarationError, UsageError
from headwater.values.duration import Duration, to_ms
from headwater.workflow.wording.schedule_text import ago_in_words, cron_in_words, due_in_words, interval_in_words

__all__ = ["Cron", "Every", "Schedule", "ago_in_words", "due_in_words", "in_words", "make_schedule", "next_after"]

EVERY_MIN_MS: Final = 1000
"""The shortest interval. For anything faster, publish to the topic instead of polling."""

EVERY_MAX_MS: Final = 3660 * 86_400_000
"""The longest interval, ten years. A longer one is a mistake, and could exceed the integers of the database."""


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Fires this long after the last run."""

    ms: int


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """Fires at these times of a clock in this zone, by its IANA name."""

    text: str
    zone: str


Schedule: TypeAlias = Every | Cron


# -- declared ----------------------------------------------------------------------------------------------


def make_schedule(where: str, *, every: Duration | None, cron: str | None, zone: str | None) -> Schedule | None:
    """The declared schedule, or None without one. `where` names its owner in messages. Raises DeclarationError."""
    if every is not None and cron is not None:
        message = f"{where}: has both every={every!r} and cron={cron!r}; keep one of them"
        raise DeclarationError(message, where=where, every=every, cron=cron)
    if zone is not None and cron is None:
        message = f'{where}: zone={zone!r} is of use only with a cron; add cron="0 9 * * *", or leave the zone out'
        raise DeclarationError(message, where=where, zone=zone)
    if every is not None:
        return Every(_to_interval(where, every))
    if cron is None:
        return None
    for name, given in (("cron", cron), ("zone", "UTC" if zone is None else zone)):
        found: object = given
        if not isinstance(found, str):
            message = f'{where}: {name}={found!r} is no text; write cron="0 9 * * *", zone="Europe/Berlin"'
            raise DeclarationError(message, where=where, **{name: found})
    # One space between the fields, so that equal crons compare equal.
    checked = Cron(" ".join(cron.split()), "UTC" if zone is None else zone)
    try:
        _parse(checked.text)
        _find_zone(checked.zone)
    except DeclarationError as error:
        raise DeclarationError(f"{where}: {error.message}", where=where, **error.facts) from None
    return checked


def _to_interval(where: str, every: Duration) -> int:
    try:
        ms = round(to_ms(every, f"{where}: every="))
    except UsageError as error:
        raise DeclarationError(error.message, where=where, every=every) from None
    if ms < EVERY_MIN_MS:
        message = f'{where}: every={every!r} is too often; write "1s" or more, or publish to the topic as things happen'
        raise DeclarationError(message, where=where, every=every)
    if ms > EVERY_MAX_MS:
        message = f'{where}: every={every!r} is too seldom; write "3660d" or less, or a cron'
        raise DeclarationError(message, where=where, every=every)
    return ms


# -- the next fire -----------------------------------------------------------------------------------------


def next_after(schedule: Schedule, now_ms: int) -> int:
    """The first fire after now, exclusive; both in ms since 1970 UTC."""
    match schedule:
        case Every():
            return now_ms + schedule.ms
        case Cron():
            return _next_of_cron(schedule, now_ms)
        case _:
            assert_never(schedule)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
_MINUTE: Final = timedelta(minutes=1)


def _next_of_cron(cron: Cron, now_ms: int) -> int:
    """The next fire of a cron. Only this function converts between local and UTC time.

    The search runs over local times, which never jump, and converts each match to UTC. A library that searches in UTC
    has to handle the jumps, and fails at jumps of half an hour.
    """
    zone = _find_zone(cron.zone)
    search = copy(_parse(cron.text))
    is_fixed = _is_fixed(cron.text)
    # A cron has whole seconds: search from the next one.
    now = _EPOCH + (now_ms // 1000) * _SECOND
    local = now.astimezone(zone)
    shown_now = local.replace(tzinfo=None)
    # In the first pass of a repeated hour, local times will occur again: search these, too.
    search.dt = shown_now - (local.replace(fold=1).astimezone(UTC) - now)
    found: datetime | None = None
    while True:
        shown = next(search)
        for at in _fires(shown, zone, is_fixed=is_fixed):
            if at > now and (found is None or at < found):
                found = at
        if found is not None and shown > shown_now:
            return (found - _EPOCH) // _SECOND * 1000


def _fires(shown: datetime, zone: tzinfo, *, is_fixed: bool) -> list[datetime]:
    """The UTC times of a matching local time."""
    moments = _moments(shown, zone)
    if not is_fixed:
        return moments
    while not moments:
        shown += _MINUTE
        moments = _moments(shown, zone)
    return moments[:1]


def _moments(shown: datetime, zone: tzinfo) -> list[datetime]:
    """The UTC times at which the clock shows a local time: one; none if it is skipped; two if the clock is set back."""
    found: list[datetime] = []
    for fold in (0, 1):
        at = shown.replace(tzinfo=zone, fold=fold).astimezone(UTC)
        if at not in found and at.astimezone(zone).replace(tzinfo=None) == shown:
            found.append(at)
    return found


# -- cron expressions --------------------------------------------------------------------------------------

_FIELDS: Final = (
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31, L for the last"),
    ("month", "1-12 or JAN-DEC"),
    ("weekday", "0-7 or SUN-SAT, both 0 and 7 are Sunday"),
)

_FORM: Final = 'write "minute hour day month weekday", as in "0 9 * * 1-5" for 9:00 on weekdays'

_NICKNAMES: Final = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}

_RANGE_OF_ONE: Final = re.compile(r"\b(\w+)-\1/\d+", re.ASCII)

# Where the search for a first fire begins. Any day will do: within 50 years every date there is comes on every weekday.
_START: Final = datetime(2000, 1, 1)  # noqa: DTZ001  # what a wall shows has no zone


def _is_fixed(text: str) -> bool:
    """Both minutes and hours are fixed: Debian's rule, which reads the text and not its meaning."""
    minute, hour, *_ = text.split()
    return not minute.startswith("*") and not hour.startswith("*")


@lru_cache(maxsize=1000)  # parsing takes about half as long as a search
def _parse(text: str) -> CronSim:
    """The parsed cron. Copy it before a search, which changes it. Raises DeclarationError."""
    if (fault := _find_fault(text)) is not None:
        raise DeclarationError(f'cron="{text}": {fault}', cron=text)
    return CronSim(text, _START)


def _find_fault(text: str) -> str | None:
    """What is wrong with a cron, and what to write instead. None if it is valid."""
    fields = text.split()
    if text.lower() in _NICKNAMES:
        return f'write "{_NICKNAMES[text.lower()]}"'
    if len(fields) != len(_FIELDS):
        return f"should have {len(_FIELDS)} fields and has {len(fields)}; {_FORM}"
    for place, (name, allowed) in enumerate(_FIELDS):
        alone = [field if here == place else "*" for here, field in enumerate(fields)]
        if not _can_fire(" ".join(alone)):
            return f'"{fields[place]}" is no {name} ({allowed}); {_FORM}'
    # The library reads 5-5/2 as 5/2, which is 5, 7, 9 and so on.
    if (single := _RANGE_OF_ONE.search(text)) is not None:
        return f'"{single[0]}" is a range of one with a step; write "{single[1]}"'
    return None if _can_fire(text) else "would never fire, there is no such day; look at its day, month and weekday"


def _can_fire(text: str) -> bool:
    try:
        return next(CronSim(text, _START), None) is not None
    except (CronSimError, ValueError):  # ValueError: more digits than Python makes a number of
        return False


# -- zones -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def _find_zone(name: str) -> tzinfo:
    """The zone with this IANA name. Raises DeclarationError."""
    if name == "UTC":
        return UTC  # needs no database of zones
    if name.lower() in {"local", "localtime"}:
        message = (
            f'zone="{name}" would be another one on every machine; name the place whose clock is meant, '
            'as in zone="Europe/Berlin"'
        )
        raise DeclarationError(message, zone=name)
    try:
        if name.startswith(("posix", "right/")):  # there on some machines only, and "right" counts leap seconds
            raise KeyError(name)
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise DeclarationError(f"zone={name!r} is no time zone; write {_suggest_zone(name)}", zone=name) from None


def _suggest_zone(name: str) -> str:
    known = {zone.lower(): zone for zone in sorted(available_timezones())}
    near = get_close_matches(name.lower(), known, n=1)
    return f'zone="{known[near[0]]}"' if near else 'an IANA name, as in zone="Europe/Berlin"'


# -- in words ----------------------------------------------------------------------------------------------


def in_words(schedule: Schedule | None) -> str:
    """A schedule for people who do not read cron. The zone is named if the text has a time of day or a day."""
    match schedule:
        case None:
            return "only when asked"
        case Every():
            return interval_in_words(schedule.ms)
        case Cron():
            said = cron_in_words(_parse(schedule.text))
            if said is None:
                return f'cron "{schedule.text}" ({schedule.zone})'
            return f"{said.text} ({schedule.zone})" if said.names_a_time else said.text
        case _:
            assert_never(schedule)
