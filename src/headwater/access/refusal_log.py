"""Refusals in the audit log, rate-limited: the first at once, then counts.

A thousand refusals a second must not push earlier events out of the log. So each kind of refusal has a line for each
address, then one with a count after ten seconds, after twenty, and so on up to an
hour; and all addresses together have a limit, above which they are counted as one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Final, Protocol

from headwater.access.audit_log import AuditLog
from headwater.errors import HeadwaterError

log: Final = logging.getLogger("headwater.server")

FIRST_S: Final = 10.0
"""Time until the next line, which has a count. Doubled each time."""
LAST_S: Final = 3600.0
"""The longest time between lines: 24 lines a day for a persistent client."""
LINES_BURST: Final = 1000
"""Lines of all addresses in a burst; then one per `LINE_S`. A log of a million lines then covers months."""
LINE_S: Final = 10.0
"""See LINES_BURST."""
KNOWN_MAX: Final = 10_000
"""Pairs of address and kind that are tracked: a megabyte or two."""
SEVERAL: Final = "several"
"""In place of an address."""


class LoopTimer(Protocol):
    """A scheduled call."""

    def cancel(self) -> None:
        """Cancel the call."""


class LoopTimers(Protocol):
    """The part of an event loop that is used here."""

    def time(self) -> float:
        """Monotonic time in seconds."""
        ...

    def call_later(self, delay: float, callback: Callable[[Hashable], object], argument: Hashable, /) -> LoopTimer:
        """Schedule a call."""
        ...


@dataclass(slots=True, eq=False)
class _Told:
    """Refusals of one kind and address since the last line."""

    event: str
    facts: dict[str, object]
    wait_s: float = FIRST_S
    more: int = 0


class RefusalLog:
    """The refusals of one server, in its event loop."""

    def __init__(self, audit: AuditLog, loop: LoopTimers) -> None:
        self._audit = audit
        self._loop = loop
        self._told: dict[Hashable, _Told] = {}
        self._timers: dict[Hashable, LoopTimer] = {}
        self._lines = float(LINES_BURST)
        self._at = loop.time()

    def tell(self, event: str, kind: Hashable, **facts: object) -> None:
        """Record one refusal."""
        known = self._told.get(kind)
        if known is None and not self._has_room():
            kind = SEVERAL
            facts = {"peer": SEVERAL, "why": "more than are listed one by one"}
            known = self._told.get(kind)
        if known is not None:
            known.more += 1
            return
        self._told[kind] = _Told(event, facts)
        self._timers[kind] = self._loop.call_later(FIRST_S, self._look, kind)
        self._write(event, facts)

    def finish(self) -> None:
        """Write a line with the count."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for told in self._told.values():
            if told.more:
                self._write(told.event, {**told.facts, "more": told.more})
        self._told.clear()

    def _look(self, kind: Hashable) -> None:
        told = self._told[kind]
        if not told.more:
            # No further refusals: the next one gets a line at once.
            del self._told[kind], self._timers[kind]
            return
        told.wait_s = min(told.wait_s * 2, LAST_S)
        self._timers[kind] = self._loop.call_later(told.wait_s, self._look, kind)
        self._write(told.event, {**told.facts, "more": told.more})
        told.more = 0

    def _has_room(self) -> bool:
        """Take one line of the common budget, if there is one left."""
        now = self._loop.time()
        self._lines = min(self._lines + (now - self._at) / LINE_S, LINES_BURST)
        self._at = now
        if self._lines < 1 or len(self._told) >= KNOWN_MAX:
            return False
        self._lines -= 1
        return True

    def _write(self, event: str, facts: dict[str, object]) -> None:
        write(self._audit, event, **facts)


def write(audit: AuditLog, event: str, **facts: object) -> None:
    """Write a line of the audit log. A failure is logged, and has no other effect."""
    try:
        audit.write(event, **facts)
    except (HeadwaterError, OSError) as error:
        log.error("the audit log cannot be written: %s", error)  # noqa: TRY400  # it says all there is to say
