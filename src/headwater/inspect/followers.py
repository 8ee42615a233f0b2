"""What a connection to the local socket follows: steps of the functions, or the end of the next pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import msgspec

from headwater.host.wake_pipe import WakePipe
from headwater.inspect.envelope import Response, TraceLine
from headwater.inspect.live_functions import since_1970
from headwater.inspect.opening_port import OpeningPort
from headwater.scheduler.trace import TRACE_KINDS, TraceRecord

RECORDS_MAX: Final = 10_000
"""Records that wait for one follower."""

PULSE: Final = "pulse"
"""What a peer follows to receive one line at the end of the next pass."""


class TraceFollower:
    """Records of the openings of one file that wait to be sent to one peer."""

    def __init__(self, kind: str, waker: WakePipe) -> None:
        self._kind = TRACE_KINDS.get(kind)
        self._waker = waker
        self._records: deque[tuple[OpeningPort, TraceRecord]] = deque(maxlen=RECORDS_MAX)
        self._recorded = 0
        self._sent = 0
        self._ends: dict[OpeningPort, Callable[[], None]] = {}
        # The openings of functions, by the id in records; renewed when one is not found.
        self._homes: dict[str, object] = {}

    def listen_to(self, openings: list[OpeningPort]) -> None:
        """Record the steps of these openings, and of no others."""
        for opening in openings:
            if opening not in self._ends:
                self._ends[opening] = opening.space.scheduler.on_trace(partial(self._record, opening))
        for opening in [opening for opening in self._ends if opening not in openings]:
            self._ends.pop(opening)()

    def stop(self) -> None:
        """Record nothing more."""
        self.listen_to([])

    def _record(self, opening: OpeningPort, record: TraceRecord) -> None:
        """Called during a pass: must not block or raise."""
        if (self._kind is None or type(record) is self._kind) and self._is_of(opening, record.node):
            self._records.append((opening, record))
            self._recorded += 1
            self._waker.wake()

    def _is_of(self, opening: OpeningPort, function: str) -> bool:
        """Whether a record is about the opening: apps that share a runtime share its trace.

        Records of no function, or of a removed one, are those of the first of these openings.
        """
        scheduler = opening.space.scheduler
        sharing = [each for each in tuple(self._ends) if each.space.scheduler is scheduler]
        if function not in self._homes:
            self._homes = {node.id: node.spec.home for node in tuple(scheduler.registry.nodes)}
            self._homes |= {each.id: each.spec.home for each in tuple(scheduler.streams.handlers.values())}
        home = self._homes.get(function)
        return home is opening.space if home is not None else opening in sharing[:1] or not sharing

    def lines(self, room: int) -> Iterator[bytes]:
        """The waiting records, within `room` bytes."""
        while self._records and room > 0:
            opening, record = self._records.popleft()
            self._sent += 1
            missed = self._recorded - self._sent - len(self._records)
            if missed > 0:
                self._sent += missed
                yield line_of(TraceLine(app=opening.app, missed=missed))
            line = line_of(TraceLine(app=opening.app, record=since_1970(opening, record)))
            room -= len(line)
            yield line


class PulseFollower:
    """Sends one line at the end of the next pass, then none until the peer asks again."""

    def __init__(self, waker: WakePipe) -> None:
        self._waker = waker
        self._rung = False
        self._ends: dict[OpeningPort, Callable[[], None]] = {}

    def listen_to(self, openings: list[OpeningPort]) -> None:
        """Wait for a pass of these openings. An opening that has come or gone counts as one."""
        if self._rung:
            return
        if not self._ends:
            self._ends = {opening: opening.space.scheduler.inspect.on_pass(self._ring) for opening in openings}
        elif list(self._ends) != openings:
            self._ring()

    def _ring(self) -> None:
        """Called at the end of a pass: must not block or raise. Ends itself."""
        if not self._rung:
            self._rung = True
            self._waker.wake()

    def lines(self, room: int) -> Iterator[bytes]:
        """The line, if a pass has ended."""
        if self._rung and self._ends and room > 0:
            for end in self._ends.values():
                end()
            self._ends = {}
            yield line_of(TraceLine(app=""))

    def stop(self) -> None:
        """Wait for nothing more."""
        self._rung = True
        for end in self._ends.values():
            end()
        self._ends = {}


def line_of(record: Response | TraceLine) -> bytes:
    """A record as a line."""
    return msgspec.json.encode(record) + b"\n"
