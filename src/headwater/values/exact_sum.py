"""Exact sums: numbers come and go in any order, and the sum is always that of a new sum of what is in it.

Floats are added as integers, scaled by the smallest float there is, and rounded once, when the sum is read.
"""

from __future__ import annotations

from math import inf, isfinite, isnan, nan
from typing import Final

from headwater.values.sortkey import Elapsed, InexactType, Ordered

SCALE_BITS: Final = 1074
"""Every finite float is a multiple of 2 to the power of minus this."""


_PARTS: Final = ("count", "ints", "scaled", "floats", "micros", "durations", "nans", "highs", "lows")


class ExactSum:
    """How many values there are, and the sum of the numbers, or of the durations; other values are left out of it."""

    __slots__ = ("count", "durations", "floats", "highs", "ints", "lows", "micros", "nans", "scaled")

    def __init__(self) -> None:
        self.count = 0
        self.ints = 0
        # Scaled; and how many floats there are, finite or not.
        self.scaled = 0
        self.floats = 0
        self.micros = 0
        self.durations = 0
        # Not a number, greater than all, less than all.
        self.nans = 0
        self.highs = 0
        self.lows = 0

    def add(self, value: Ordered | InexactType, sign: int = 1) -> None:
        """Add a value; with -1, take out a value that was added."""
        self.count += sign
        if type(value) is int:
            self.ints += sign * value
        elif type(value) is float:
            self.floats += sign
            if isfinite(value):
                self.scaled += sign * scaled(value)
            elif isnan(value):
                self.nans += sign
            elif value > 0:
                self.highs += sign
            else:
                self.lows += sign
        elif isinstance(value, Elapsed):
            self.micros += sign * value.micros
            self.durations += sign

    def merge(self, other: ExactSum) -> None:
        """Add all that another sum has."""
        self.count += other.count
        self.ints += other.ints
        self.scaled += other.scaled
        self.floats += other.floats
        self.micros += other.micros
        self.durations += other.durations
        self.nans += other.nans
        self.highs += other.highs
        self.lows += other.lows

    @property
    def is_empty(self) -> bool:
        """Whether nothing is in it: then it is equal to a new one."""
        return not any(self._parts())

    def answer(self) -> int | float | Elapsed:
        """The sum."""
        if self.durations:
            return Elapsed(self.micros)
        if not self.floats:
            return self.ints
        if self.nans or (self.highs and self.lows):
            return nan
        if self.highs or self.lows:
            return inf if self.highs else -inf
        total = self.scaled + (self.ints << SCALE_BITS)
        try:
            # The division of integers is rounded correctly.
            return total / (1 << SCALE_BITS)
        except OverflowError:
            return inf if total > 0 else -inf

    def encode(self) -> bytes:
        """The sum as bytes: equal sums have equal ones."""
        parts = list(self._parts())
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        return b",".join([b"%x" % each for each in parts])

    def _parts(self) -> tuple[int, ...]:
        return (
            self.count,
            self.ints,
            self.scaled,
            self.floats,
            self.micros,
            self.durations,
            self.nans,
            self.highs,
            self.lows,
        )


def decode_sum(content: bytes) -> ExactSum:
    """The inverse of `encode`. Raises ValueError for bytes that are none."""
    parts = [int(each, 16) for each in content.split(b",")]
    found = ExactSum()
    for name, part in zip(_PARTS, parts, strict=False):
        setattr(found, name, part)
    if found.encode() != content:
        raise ValueError(f"{content!r} is not an encoded sum")
    return found


def scaled(value: float) -> int:
    """A finite float as a multiple of the smallest one."""
    numerator, denominator = value.as_integer_ratio()
    return numerator << (SCALE_BITS + 1 - denominator.bit_length())
