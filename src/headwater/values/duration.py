"""Durations: "250ms", "5m", or a timedelta. A bare number has no unit and is refused, except 0."""

from __future__ import annotations

import math
import re
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from headwater.errors import UsageError

Duration: TypeAlias = str | timedelta | Literal[0]
"""A duration as authors write it: "250ms", "1.5s", "5m", "2h", "1d", a timedelta, or 0."""

UNITS_MS: Final = {"ms": 1.0, "s": 1000.0, "m": 60_000.0, "h": 3_600_000.0, "d": 86_400_000.0}

_WHOLE_MAX: Final = 1000
"""From this number on, the next larger unit is used."""
_ROUNDED_MAX: Final = 100
"""The same for rounded numbers."""

_NUMBER_MAX: Final = 10**6
"""Numbers below are shown with a unit in the hint."""

_WRITTEN: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)", re.ASCII)


def to_ms(duration: Duration, what: str) -> float:
    """The duration in milliseconds. `what` names it in messages. Raises UsageError."""
    found: object = duration
    if isinstance(found, timedelta):
        ms = found.total_seconds() * 1000
    elif isinstance(found, str):
        match = _WRITTEN.fullmatch(found.strip())
        if match is None:
            raise _refused(duration, what)
        ms = float(match[1]) * UNITS_MS[match[2]]
    elif type(found) is int and found == 0:
        ms = 0.0
    else:
        raise _refused(duration, what)
    if not math.isfinite(ms) or ms < 0:
        raise _refused(duration, what)
    return ms


def written_ms(ms: float) -> str:
    """A duration as text: "250ms", "10m". Rounded if it is not whole in any unit."""
    if not math.isfinite(ms):
        return "for ever"
    for unit, size in reversed(UNITS_MS.items()):
        if ms >= size and ms % size == 0 and (ms < size * _WHOLE_MAX or unit == "d"):
            return f"{ms / size:.0f}{unit}"
    for unit, size in UNITS_MS.items():
        rounded = float(f"{ms / size:.3g}")
        if rounded < (_WHOLE_MAX if unit == "ms" else _ROUNDED_MAX):
            return f"{rounded:g}{unit}"
    return f"{ms / UNITS_MS['d']:.0f}d"


def _refused(duration: object, what: str) -> UsageError:
    hint = 'write "250ms", "1.5s", "5m", "2h" or "1d", or a timedelta that is not negative'
    if isinstance(duration, int | float) and not isinstance(duration, bool) and 0 < duration < _NUMBER_MAX:
        # A bare number does not say which unit was meant.
        hint = f'a number says no unit: write "{duration:g}ms" or "{duration:g}s", or a timedelta'
    message = f"{what}: {duration!r} is no duration; {hint}"
    return UsageError(message, duration=duration)
