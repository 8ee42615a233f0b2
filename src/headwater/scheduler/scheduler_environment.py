"""What a scheduler is given: clocks, jitter, lock, error reports."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from headwater.errors import HeadwaterError
from headwater.scheduler.runs.function_errors import Report
from headwater.scheduler.runs.steps import Perform


@dataclass(slots=True, kw_only=True, frozen=True)
class EventServer:
    """The server of a space, as its events see it."""

    url: str
    away: Callable[[], str]
    """Why the server is not reached; empty if it is."""
    refusal: Callable[[], HeadwaterError | None]
    """Why a failed event cannot be stored there; None if it can."""


@dataclass(slots=True, kw_only=True)
class SchedulerEnvironment:
    """What a scheduler is given: clocks, randomness, and callbacks."""

    # A monotonic clock and the time since 1970, both in milliseconds.
    now: Callable[[], float]
    wall_ms: Callable[[], float]
    # Between 0 and 1.
    jitter: Callable[[], float]
    # Calls a function.
    perform: Perform
    # Called with errors; and with whether there is work.
    report: Report
    tick: Callable[[bool], None]
    # The lock of the scheduler, where several threads use it.
    lock: AbstractContextManager[object]
    space: str
    # The maximum of stored failed events.
    keep_failed: int
    # The space is at a server.
    server: EventServer | None = None
