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
    """A resource was requested and has no result yet. A reader runs again when there is one.

    Example:
        ```python
        import headwater as hw

        match hw.Pending():
            case hw.Pending():
                print("loading")
        ```
    """


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
    """A resource has a result. Two are equal if their values are.

    Args:
        value: The result.

    Example:
        ```python
        import headwater as hw

        match hw.Ready(21.5):
            case hw.Ready(degrees):
                print(degrees)  # 21.5
        ```
    """

    __match_args__ = ("value",)

    value: R_co
    """The result."""
    _age: ResultAge | None = None

    def _known_age(self) -> ResultAge:
        if self._age is None:
            raise UsageError("this hw.Ready was made by hand: it has a value, and no time at which it came")
        return self._age

    @property
    def at(self) -> datetime:
        """When the result came, in UTC. A reader of this runs again when a newer result comes.

        Raises:
            UsageError: HW100. The object was made by hand, and has no time.
        """
        age = self._known_age()
        age.note()
        return datetime.fromtimestamp(age.at_ms / 1000, UTC)

    @property
    def age(self) -> timedelta:
        """How old the result is now. It grows without running readers again: read `hw.clock` too.

        Raises:
            UsageError: HW100. The object was made by hand, and has no time.
        """
        age = self._known_age()
        age.note()
        return timedelta(milliseconds=max(age.wall() - age.at_ms, 0.0))

    @property
    def is_stale(self) -> bool:
        """Whether the result is older than `fresh_for`: a newer one was requested and has not come.

        Raises:
            UsageError: HW100. The object was made by hand, and has no time.
        """
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
    """The last request of a resource has failed.

    Args:
        error: The error.
        last: The last good result, or None.

    Example:
        ```python
        import headwater as hw

        match hw.Failed(hw.ResourceError("no answer"), 21.5):
            case hw.Failed(error, last):
                print(error.message, last)  # no answer 21.5
        ```
    """

    error: ResourceError
    """The error, with the kind and the text of the exception as `facts`."""
    last: R_co | None = None
    """The last good result, or None."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failed) and (text_of(self.error), self.last) == (text_of(other.error), other.last)

    def __hash__(self) -> int:
        return hash((Failed, text_of(self.error), self.last))


State: TypeAlias = Pending | Ready[R] | Failed[R]
"""One of the three."""
