"""The values of the phases of a consumer: events, a plan, and the outcome of its effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, Never, TypeAlias, TypeVar, cast, overload

from headwater.errors import LogicError, UsageError
from headwater.values.author_text import safe_repr
from headwater.values.duration import Duration, to_ms
from headwater.values.ids import Millis
from headwater.workflow.retry_policy import clamp_wake
from headwater.workflow.rows import EventRow
from headwater.workflow.workflow_limits import WAKE_MAX_MS

T_co = TypeVar("T_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)

Wake: TypeAlias = datetime | Duration
"""When to run again: a moment (a datetime with a zone, or ISO 8601), or a duration from now."""

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Event(Generic[T_co]):
    """One event of a topic, as a consumer gets it."""

    __slots__ = ("_data", "_made", "_open", "at", "attempt", "id", "number", "topic")

    def __init__(  # noqa: PLR0917  # one for each column
        self, number: int, message: str, topic: str, attempt: int, at: datetime, opened: Callable[[], T_co]
    ) -> None:
        self.number: int = number
        """The number of the event in its workflow."""
        self.id: str = message
        """The id that its publisher gave it."""
        self.topic: str = topic
        """The name of the topic."""
        self.attempt: int = attempt
        """The number of the attempt: 1, and one more each time that a run returned the event."""
        self.at: datetime = at
        """When the event was published."""
        self._open = opened
        self._made = False
        self._data: T_co | None = None

    @property
    def data(self) -> T_co:
        """The published value."""
        if not self._made:
            self._data, self._made = self._open(), True
        return cast("T_co", self._data)

    def __repr__(self) -> str:
        return f"<Event {self.id} of {self.topic}>"


class PendingEvents(Sequence[Event[T_co]]):
    """Queued events, oldest first. Each is made when it is accessed; all but the first are read then."""

    __slots__ = ("_made", "_make", "_more", "_rows")

    def __init__(
        self,
        rows: Sequence[EventRow],
        make: Callable[[EventRow], Event[T_co]],
        more: Callable[[], Sequence[EventRow]] | None = None,
    ) -> None:
        self._rows = list(rows)
        self._make = make
        # Reads the events that are not read yet, if any.
        self._more = more
        self._made: dict[int, Event[T_co]] = {}

    def __bool__(self) -> bool:
        return bool(self._rows)

    def __len__(self) -> int:
        if self._more is not None:
            more, self._more = self._more, None
            self._rows += more()
        return len(self._rows)

    def __iter__(self) -> Iterator[Event[T_co]]:
        index = 0
        while index < len(self._rows) or index < len(self):
            yield self._at(index)
            index += 1

    @overload
    def __getitem__(self, index: int) -> Event[T_co]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Event[T_co]]: ...
    def __getitem__(self, index: int | slice) -> Event[T_co] | list[Event[T_co]]:
        if isinstance(index, slice):
            return [self._at(each) for each in range(*index.indices(len(self)))]
        if 0 <= index < len(self._rows):
            return self._at(index)
        return self._at(range(len(self))[index])

    def _at(self, index: int) -> Event[T_co]:
        event = self._made.get(index)
        if event is None:
            event = self._made[index] = self._make(self._rows[index])
        return event

    def foreign_event(self, taken: Iterable[Event[Any]]) -> Event[Any] | None:
        """An event that is none of these, if any: its number may belong to another event here."""
        ours = {id(event) for event in self._made.values()}
        return next((event for event in taken if id(event) not in ours), None)

    def __repr__(self) -> str:
        return f"<{len(self)} pending events>"


class Plan(Generic[D_co]):
    """The decision of `prepare`.

    Args:
        data: The data for `mutate`.
        take: The events that the run consumes.
        title: What the run does, for people.
        ask: Whether a person is asked before `mutate`.
        wake: When to run again if no event comes before: a duration, or a moment.

    Raises:
        LogicError: HW502. `take` has something else than events, or `wake` cannot be read.

    Example:
        ```python
        import headwater as hw

        plan = hw.Plan({"to": "ann@example.com"}, title="Greet Ann", ask=True)
        print(plan.title)  # Greet Ann
        ```
    """

    __slots__ = ("ask", "data", "is_idle", "take", "title", "wake")

    def __init__(
        self,
        data: D_co,
        *,
        take: Sequence[Event[Any]] = (),
        title: str = "",
        ask: bool = False,
        wake: Wake | None = None,
    ) -> None:
        self.take: tuple[Event[Any], ...] = _events(take)
        self.data: D_co = data
        self.title: str = str(title or "")
        self.ask: bool = bool(ask)
        self.wake: Wake | None = check_wake(wake)
        self.is_idle: bool = False

    @classmethod
    def idle(cls, wake: Wake | None = None) -> Plan[Never]:
        """A plan that does nothing now: neither `mutate` nor `next` is called.

        Args:
            wake: When to run again if no event comes before: a duration, or a moment.

        Returns:
            The plan.
        """
        plan = Plan(cast("Never", None), wake=wake)
        plan.is_idle = True
        return plan

    def __repr__(self) -> str:
        return "<Plan: idle>" if self.is_idle else f"<Plan {self.title!r}: takes {len(self.take)}>"


def _events(take: object) -> tuple[Event[Any], ...]:
    """The events that a plan takes, each once. Raises LogicError."""
    if isinstance(take, Event) or not isinstance(take, Iterable):
        raise LogicError(f"hw.Plan(take=...) takes a list of events, not {take!r}; write take=[event], or take=pending")
    found: list[Event[Any]] = []
    known: set[int] = set()
    for event in cast("Iterable[object]", take):
        if not isinstance(event, Event):
            raise LogicError(f"hw.Plan(take=...) takes events that prepare was given, not {event!r}")
        if id(event) in known:
            raise LogicError(f"hw.Plan(take=...) takes {event!r} twice; take each event once")
        known.add(id(event))
        found.append(event)
    return tuple(found)


def check_wake(wake: Wake | None) -> Wake | None:
    """A wake time, checked. Raises LogicError: a wrong time would never wake."""
    if wake is None:
        return None
    try:
        _wake_at(wake, 0)
    except (ValueError, TypeError, UsageError):
        said = f"wake={safe_repr(wake)} is no time"
        if isinstance(wake, datetime):
            said = f"wake={wake!r} has no time zone; write datetime.now(UTC) + ..., or .replace(tzinfo=...)"
        raise LogicError(
            f'hw.Plan: {said}: a datetime with a zone, ISO 8601 text, a timedelta or text as "10m" is expected'
        ) from None
    return wake


def wake_ms(wake: Wake | None, now: int) -> Millis | None:
    """W12: as a stored time, within the limits of the host. A time in the past is as soon as possible."""
    return None if wake is None else Millis(clamp_wake(int(_wake_at(wake, now)), now))


def _wake_at(wake: object, now: int) -> float:
    """In milliseconds since 1970, bounded to a finite number. Raises ValueError, TypeError or UsageError."""
    found = wake
    if isinstance(found, str) and (text := found.strip()):
        if text.startswith("-"):
            # A duration in the past. No date begins so.
            return now - to_ms(text[1:], "wake")
        found = datetime.fromisoformat(text) if "-" in text or ":" in text else text
    if isinstance(found, datetime):
        if found.tzinfo is None:
            raise ValueError("it has no time zone")
        # Not `timestamp`, which fails far from now.
        return (found - _EPOCH) / timedelta(milliseconds=1)
    if isinstance(found, timedelta):
        return now + found / timedelta(milliseconds=1)
    if isinstance(found, int | float) and not isinstance(found, bool):
        # A number means seconds, of any size: it is bounded before it is multiplied.
        if found != found:  # noqa: PLR0124  # NaN
            raise ValueError("it is no number")
        span = min(abs(found), WAKE_MAX_MS) * 1000
        return now + span if found >= 0 else now - span
    return now + to_ms(cast("str", found), "wake")


def moment(ms: int) -> datetime:
    """As authors get times."""
    return datetime.fromtimestamp(ms / 1000, UTC)


# --- outcomes -------------------------------------------------------------------------------------------------


class _ByValue:
    """Two outcomes of one class are equal if what they hold is."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        held: tuple[str, ...] = getattr(type(self), "__match_args__", ())
        return all(getattr(self, name) == getattr(other, name) for name in held)

    def __hash__(self) -> int:
        # A result need not be hashable.
        return hash(type(self))


class Applied(_ByValue, Generic[R_co]):
    """The effect has happened.

    Args:
        result: The result that `mutate` has returned, or would have returned.

    Example:
        ```python
        import headwater as hw

        match hw.Applied(3):
            case hw.Applied(rows):
                print(rows)  # 3
        ```
    """

    __match_args__ = ("result",)
    __slots__ = ("result",)

    def __init__(self, result: R_co) -> None:
        self.result: R_co = result

    def __repr__(self) -> str:
        return f"Applied({self.result!r})"


class NotApplied(_ByValue):
    """The effect has not happened and will not happen. It may be repeated.

    Args:
        reason: Why, for people.
    """

    __match_args__ = ("reason",)
    __slots__ = ("reason",)
    result: None = None

    def __init__(self, reason: str = "") -> None:
        self.reason: str = reason

    def __repr__(self) -> str:
        return f"NotApplied({self.reason!r})"


class Unknown(_ByValue):
    """It is not known whether the effect has happened. `reconcile` is called again later.

    Args:
        reason: Why, for people.
    """

    __match_args__ = ("reason",)
    __slots__ = ("reason",)
    result: None = None

    def __init__(self, reason: str = "") -> None:
        self.reason: str = reason

    def __repr__(self) -> str:
        return f"Unknown({self.reason!r})"


class Skipped(_ByValue):
    """A person has decided that the effect is not done. Passed to `next`."""

    __slots__ = ()
    result: None = None

    def __repr__(self) -> str:
        return "Skipped()"


class Nothing(_ByValue):
    """The plan had nothing to call. Passed to `next`."""

    __slots__ = ()
    result: None = None

    def __repr__(self) -> str:
        return "Nothing()"


Answer: TypeAlias = Applied[R_co] | NotApplied | Unknown
"""The result of `reconcile`: `Applied`, `NotApplied` or `Unknown`."""

Outcome: TypeAlias = Applied[R_co] | Skipped | Nothing
"""The outcome that `next` takes: `Applied`, `Skipped` or `Nothing`."""
