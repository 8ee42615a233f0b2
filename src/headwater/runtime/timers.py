"""Timers of an open space, on the steady clock and on the wall clock.

Only the passes of the space check them, and ask when the next one is due. So an idle space is woken when a timer is
due, and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias


class Timer:
    """A call at a time, unless cancelled."""

    __slots__ = ("fn", "is_cancelled")

    def __init__(self, fn: Callable[[], None]) -> None:
        self.fn = fn
        self.is_cancelled = False

    def cancel(self) -> None:
        """Cancel the call. Idempotent."""
        self.is_cancelled = True


_Heap: TypeAlias = list[tuple[float, int, Timer]]


class Timers:
    """The timers of one space. The caller holds its lock."""

    def __init__(self, now: Callable[[], float], wall: Callable[[], float]) -> None:
        self.now = now
        self.wall = wall
        self._waits: _Heap = []
        self._dates: _Heap = []
        # Equal times: first set, first called.
        self._number = count()

    def wait(self, ms: float, fn: Callable[[], None]) -> Timer:
        """Call after a delay, on the monotonic clock."""
        return self._put(self._waits, self.now() + ms, fn)

    def at(self, wall_ms: float, fn: Callable[[], None]) -> Timer:
        """Call at a time of the wall clock, which may be set."""
        return self._put(self._dates, wall_ms, fn)

    def by(self, wall_ms: float, fn: Callable[[], None]) -> Timer:
        """Call at a time of the wall clock, or after as long on the steady clock: the wall clock may be set back."""
        timer = self.at(wall_ms, fn)
        heappush(self._waits, (self.now() + wall_ms - self.wall(), next(self._number), timer))
        return timer

    def _put(self, heap: _Heap, at_ms: float, fn: Callable[[], None]) -> Timer:
        timer = Timer(fn)
        heappush(heap, (at_ms, next(self._number), timer))
        return timer

    def due_in(self) -> float | None:
        """Milliseconds until the next one; 0 if it is due, None if there is none."""
        found: list[float] = []
        for heap, clock in ((self._waits, self.now), (self._dates, self.wall)):
            while heap and heap[0][2].is_cancelled:
                heappop(heap)
            if heap:
                found.append(max(heap[0][0] - clock(), 0.0))
        return min(found, default=None)

    def fire(self) -> None:
        """Call what is due. Timers set meanwhile wait for the next call."""
        for heap, clock in ((self._waits, self.now), (self._dates, self.wall)):
            if not heap:
                continue
            due: list[Timer] = []
            until = clock()
            while heap and heap[0][0] <= until:
                due.append(heappop(heap)[2])
            for timer in due:
                if not timer.is_cancelled:
                    # It may wait by the other clock, too.
                    timer.is_cancelled = True
                    timer.fn()

    def clear(self) -> None:
        """Cancel all."""
        self._waits.clear()
        self._dates.clear()

    def __len__(self) -> int:
        return len({id(timer) for _, _, timer in [*self._waits, *self._dates] if not timer.is_cancelled})
