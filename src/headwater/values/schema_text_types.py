"""Types that are stored as text: dates and times, durations, UUIDs, decimals.

Python's own isoformat is used, not msgspec's, which rounds offsets from UTC to minutes and so moves old local times.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final, cast
from uuid import UUID

import msgspec

from headwater.values.intake import RefusedError
from headwater.values.schema import short
from headwater.values.schema_scalars import TextSchema


def _duration_text(value: timedelta) -> str:
    plain = timedelta(days=value.days, seconds=value.seconds, microseconds=value.microseconds)
    return cast("str", msgspec.to_builtins(plain))


def _duration_of(text: str) -> timedelta:
    try:
        return msgspec.convert(text, timedelta)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None


def _decimal_text(value: Decimal) -> str:
    if not value.is_finite():
        raise RefusedError(f"{short(value)} is not a number; use None")
    return Decimal.__str__(value)


def instant_text(micros: int) -> str:
    """The stored text of an instant, in UTC: microseconds since 1970."""
    return (_EPOCH + timedelta(microseconds=micros)).isoformat()


def elapsed_text(micros: int) -> str:
    """The stored text of a duration in microseconds."""
    return _duration_text(timedelta(microseconds=micros))


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

TEXTS: Final = (
    TextSchema(datetime, datetime.isoformat, datetime.fromisoformat),
    TextSchema(date, date.isoformat, date.fromisoformat, but=datetime),
    TextSchema(time, time.isoformat, time.fromisoformat),
    TextSchema(timedelta, _duration_text, _duration_of),
    TextSchema(UUID, UUID.__str__, UUID),
    TextSchema(Decimal, _decimal_text, Decimal),
)
