"""What authors give and get in the phases of a consumer: events, a plan, and what became of it.

Must never know: where any of it is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, Never, TypeAlias, TypeVar, cast, overload

from headwater.errors import LogicError, UsageError
from headwater.host.report import log
from headwater.values.duration import Duration, to_ms
from headwater.values.ids import Millis
from headwater.workflow.limits import WAKE_MAX_MS
from headwater.workflow.model import EventRow
from headwater.workflow.policy import clamp_wake

T_co = TypeVar("T_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)
R_co = TypeVar("R_co", covariant=True)

Wake: TypeAlias = datetime | Duration
"""When to look again: a moment (a datetime with a zone, or ISO 8601), or how long from now."""


class Event(Generic[T_co]):
    """One event of a topic, as a consumer is shown it."""

    __slots__ = ("_data", "_made", "_open", "at", "attempt", "id", "number", "topic")

    def __init__(  # noqa: PLR0917  # one for each column
        self, number: int, message: str, topic: str, attempt: int, at: datetime, opened: Callable[[], T_co]
    ) -> None:
        self.number: int = number
        self.id: str = message
        """What its publisher calls it."""
        self.topic: str = topic
        self.attempt: int = attempt
        """1, and one more each time that a run gave it back."""
        self.at: datetime = at
        """When it was published."""
        self._open = opened
        self._made = False
        self._data: T_co | None = None

    @property
    def data(self) -> T_co:
        """What was published."""
        if not self._made:
            self._data, self._made = self._open(), True
        return cast("T_co", self._data)

    def __repr__(self) -> str:
        return f"<Event {self.id} of {self.topic}>"


class Pending(Sequence[Event[T_co]]):
    """Events that wait, oldest first: each is made when it is looked at, and all but the first are read then."""

    __slots__ = ("_made", "_make", "_more", "_rows")

    def __init__(
        self,
        rows: Sequence[EventRow],
        make: Callable[[EventRow], Event[T_co]],
        more: Callable[[], Sequence[EventRow]] | None = None,
    ) -> None:
        self._rows = list(rows)
        self._make = make
        # Reads those that are not read yet, if there are any.
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

    def stray(self, taken: Iterable[Event[Any]]) -> Event[Any] | None:
        """One of those that is none of these, if there is any: its number may mean something else here."""
        ours = {id(event) for event in self._made.values()}
        return next((event for event in taken if id(event) not in ours), None)

    def __repr__(self) -> str:
        return f"<{len(self)} pending events>"


class Plan(Generic[D_co]):
    """What `prepare` has decided: what is to be done, with which events, and what it is called for people.

    With `ask`, a person is asked before `mutate`. `wake` says when to look again if no event comes before.
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
        self.wake: Wake | None = wake
        self.is_idle: bool = False

    @classmethod
    def idle(cls, wake: Wake | None = None) -> Plan[Never]:
        """Nothing to do now: neither `mutate` nor `next` is called."""
        plan = Plan(cast("Never", None), wake=wake)
        plan.is_idle = True
        return plan

    def __repr__(self) -> str:
        return "<Plan: idle>" if self.is_idle else f"<Plan {self.title!r}: takes {len(self.take)}>"


def _events(take: object) -> tuple[Event[Any], ...]:
    """What a plan takes, each once. Raises LogicError."""
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


def wake_ms(wake: object, now: int, whose: str) -> Millis | None:
    """W12, D16: as a time that is kept, within what the host allows. What is no time is told, and left out."""
    if wake is None:
        return None
    try:
        if isinstance(wake, str) and ("-" in wake or ":" in wake):
            wake = datetime.fromisoformat(wake)
        if isinstance(wake, datetime):
            if wake.tzinfo is None:
                raise ValueError("it has no time zone")
            at = int(wake.timestamp() * 1000)
        else:
            # A number is seconds here: a plan is data, and what it names is not refused but left out.
            given = (
                timedelta(seconds=wake)
                if isinstance(wake, int | float) and wake is not True
                else cast("Duration", wake)
            )
            at = now + int(min(to_ms(given, "wake"), WAKE_MAX_MS * 2))
    except (ValueError, OverflowError, OSError, TypeError, UsageError) as error:
        log.warning("%s asked to be woken at %r, which is no time (%s); it is not woken", whose, wake, error)
        return None
    return Millis(clamp_wake(at, now))


def moment(ms: int) -> datetime:
    """As authors get times."""
    return datetime.fromtimestamp(ms / 1000, UTC)


# --- what became of it ----------------------------------------------------------------------------------------


class Applied(Generic[R_co]):
    """The effect is there. `reconcile` answers so, with what `mutate` would have returned."""

    __match_args__ = ("result",)
    __slots__ = ("result",)

    def __init__(self, result: R_co) -> None:
        self.result: R_co = result

    def __repr__(self) -> str:
        return f"Applied({self.result!r})"


class NotApplied:
    """The effect is surely not there, and will not be: it may be done anew."""

    __match_args__ = ("reason",)
    __slots__ = ("reason",)
    result: None = None

    def __init__(self, reason: str = "") -> None:
        self.reason: str = reason

    def __repr__(self) -> str:
        return f"NotApplied({self.reason!r})"


class Unknown:
    """It cannot be told yet: ask again later."""

    __match_args__ = ("reason",)
    __slots__ = ("reason",)
    result: None = None

    def __init__(self, reason: str = "") -> None:
        self.reason: str = reason

    def __repr__(self) -> str:
        return f"Unknown({self.reason!r})"


class Skipped:
    """A person has decided that it is not done: told to `next`."""

    __slots__ = ()
    result: None = None

    def __repr__(self) -> str:
        return "Skipped()"


class Nothing:
    """There was nothing to call: told to `next`."""

    __slots__ = ()
    result: None = None

    def __repr__(self) -> str:
        return "Nothing()"


Answer: TypeAlias = Applied[R_co] | NotApplied | Unknown
"""What `reconcile` says."""

Outcome: TypeAlias = Applied[R_co] | Skipped | Nothing
"""What `next` is told."""
