"""When a cron fires, found the slow way: by looking at every minute. Shares no code with what it judges.

It does what the source of Debian's cron does. `reached` is the latest time its clock on the wall has shown. At each
minute of real time a job with a star looks at what the clock shows now; any other looks at every minute between
`reached` and now, none of which it has seen yet. So a gap is made up for at its end, and what the clock shows for the
second time is nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache

MINUTE = timedelta(minutes=1)
RANGES = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


def numbers(field: str, low: int, high: int) -> set[int]:
    found = set[int]()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, dash, last = span.partition("-")
        begin, end = (low, high) if span == "*" else (int(first), int(last) if dash else int(first))
        if step and not dash and span != "*":
            end = high
        found.update(range(begin, end + 1, int(step or 1)))
    return found


class Naive:
    """A cron of stars, numbers, ranges, lists and steps."""

    def __init__(self, text: str) -> None:
        fields = text.split()
        self.minutes, self.hours, self.days, self.months, weekdays = (
            numbers(field, *limits) for field, limits in zip(fields, RANGES, strict=True)
        )
        self.weekdays = {day % 7 for day in weekdays}
        self.either = fields[2][0] != "*" and fields[4][0] != "*"
        self.has_star = fields[0][0] == "*" or fields[1][0] == "*"

    def matches(self, shown: datetime) -> bool:
        if shown.minute not in self.minutes or shown.hour not in self.hours or shown.month not in self.months:
            return False
        right = (shown.day in self.days, shown.isoweekday() % 7 in self.weekdays)
        return any(right) if self.either else all(right)

    def fires(self, zone: tzinfo, begin: datetime, end: datetime) -> Iterator[datetime]:
        """In order, after begin and up to end, both whole minutes in UTC."""
        (_, reached), *minutes = walk(zone, begin, end)
        for at, shown in minutes:
            unseen = (
                [shown] if self.has_star else [reached + n * MINUTE for n in range(1, (shown - reached) // MINUTE + 1)]
            )
            if any(map(self.matches, unseen)):
                yield at
            reached = max(reached, shown)


@lru_cache(maxsize=20)
def walk(zone: tzinfo, begin: datetime, end: datetime) -> list[tuple[datetime, datetime]]:
    """Every minute from begin to end, and what the clock on the wall shows then."""
    world = [begin + n * MINUTE for n in range((end - begin) // MINUTE + 1)]
    return [(at, at.astimezone(zone).replace(tzinfo=None, fold=0)) for at in world]


def to_ms(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def from_ms(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
