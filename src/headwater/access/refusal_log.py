"""Whom the server did not let do something, in its audit log: the first time at once, then how often.

Whoever knocks a thousand times a second must not push out of the log what happened before. So each kind of thing has a
line for each address, then one with a count after ten seconds, after twenty, and so on, at most one in an hour; and all
addresses together have a bound, beyond which they are counted as one.

Must never know: why.
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
"""Until it is said again, with a count. Twice as long each time."""
LAST_S: Final = 3600.0
"""That stays so: 24 lines a day of somebody who does not give up."""
LINES_BURST: Final = 1000
"""Lines of all addresses at once; then one each `LINE_S`. A log of a million lines then reaches back for months."""
LINE_S: Final = 10.0
"""See LINES_BURST."""
KNOWN_MAX: Final = 10_000
"""Addresses and kinds of which it is known when they were last told of: a megabyte or two."""
SEVERAL: Final = "several"
"""Instead of an address."""


class LoopTimer(Protocol):
    """Something that will be done."""

    def cancel(self) -> None:
        """It will not."""


class LoopTimers(Protocol):
    """As much of an event loop as is needed here."""

    def time(self) -> float:
        """In seconds, from somewhere."""
        ...

    def call_later(self, delay: float, callback: Callable[[Hashable], object], argument: Hashable, /) -> LoopTimer:
        """Call it then."""
        ...


@dataclass(slots=True, eq=False)
class _Told:
    """Of one kind and address, since it was last told of."""

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
        """It happened once."""
        known = self._told.get(kind)
        if known is None and not self._has_room():
            kind = SEVERAL
            facts = {"peer": SEVERAL, "why": "more than are told of one by one"}
            known = self._told.get(kind)
        if known is not None:
            known.more += 1
            return
        self._told[kind] = _Told(event, facts)
        self._timers[kind] = self._loop.call_later(FIRST_S, self._look, kind)
        self._write(event, facts)

    def finish(self) -> None:
        """Tell what was only counted."""
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
            # It has stopped: the next time is a first time again.
            del self._told[kind], self._timers[kind]
            return
        told.wait_s = min(told.wait_s * 2, LAST_S)
        self._timers[kind] = self._loop.call_later(told.wait_s, self._look, kind)
        self._write(told.event, {**told.facts, "more": told.more})
        told.more = 0

    def _has_room(self) -> bool:
        """Whether somebody new has a line; then it is taken."""
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
    """A line of the audit log. What cannot be written is logged, and stops nobody."""
    try:
        audit.write(event, **facts)
    except (HeadwaterError, OSError) as error:
        log.error("the audit log cannot be written: %s", error)  # noqa: TRY400  # it says all there is to say
