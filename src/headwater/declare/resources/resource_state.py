"""The states of a resource that a reader gets: pending, ready or failed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Generic, TypeAlias, TypeVar

from headwater.errors import ResourceError, UsageError
from headwater.values.author_text import text_of

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Pending:
    """`case hw.Pending():` requested, and there is no result yet. A reader runs again when there is one."""


@dataclass(frozen=True, slots=True)
class ResultAge:
    """When a result came, and how long it is fresh."""

    at_ms: float
    fresh_ms: float | None
    wall: Callable[[], float]
    # Records a read of the time: a newer result notifies, also if its value is the same.
    note: Callable[[], None]


@dataclass(frozen=True, slots=True, eq=False, repr=False, match_args=False)
class Ready(Generic[R_co]):
    """`case hw.Ready(value):` the result. Made by hand, as in a test, it is equal to one with the same value."""

    __match_args__ = ("value",)

    value: R_co
    _age: ResultAge | None = None

    def _known_age(self) -> ResultAge:
        if self._age is None:
            raise UsageError("this hw.Ready was made by hand: it has a value, and no time at which it came")
        return self._age

    @property
    def at(self) -> datetime:
        """When it came, as wall time. A reader of this runs again when a newer result comes."""
        age = self._known_age()
        age.note()
        return datetime.fromtimestamp(age.at_ms / 1000, UTC)

    @property
    def age(self) -> timedelta:
        """How old it is now. Grows without notifying readers: read `hw.clock` as well to run again."""
        age = self._known_age()
        age.note()
        return timedelta(milliseconds=max(age.wall() - age.at_ms, 0.0))

    @property
    def is_stale(self) -> bool:
        """It is older than `fresh_for`: a newer one was requested, and has not come."""
        age = self._known_age()
        age.note()
        return age.fresh_ms is not None and age.wall() - age.at_ms >= age.fresh_ms

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ready) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash((Ready, self.value))

    def __repr__(self) -> str:
        return f"Ready({self.value!r})"


@dataclass(frozen=True, slots=True, eq=False)
class Failed(Generic[R_co]):
    """`case hw.Failed(error, last):` the request failed. `last` is the last good result, or None."""

    error: ResourceError
    last: R_co | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failed) and (text_of(self.error), self.last) == (text_of(other.error), other.last)

    def __hash__(self) -> int:
        return hash((Failed, text_of(self.error), self.last))


State: TypeAlias = Pending | Ready[R] | Failed[R]
"""One of the three."""
