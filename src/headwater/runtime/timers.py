"""Timers of an open space, on the steady clock and on the wall clock.

Nobody looks at them but the passes of the space, which ask when the next is due. So an idle space is woken when
something is due and not before.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import TypeAlias


class Timer:
    """Something that is to be done once. Cancelled, it is not."""

    __slots__ = ("fn", "is_cancelled")

    def __init__(self, fn: Callable[[], None]) -> None:
        self.fn = fn
        self.is_cancelled = False

    def cancel(self) -> None:
        """Once more, or too late, is no harm."""
        self.is_cancelled = True


_Heap: TypeAlias = list[tuple[float, int, Timer]]


class Timers:
    """Those of one space. Whoever uses them has its turn."""

    def __init__(self, now: Callable[[], float], wall: Callable[[], float]) -> None:
        self.now = now
        self.wall = wall
        self._waits: _Heap = []
        self._dates: _Heap = []
        # Of two that are due at the same time, the one that was set first is the first.
        self._number = count()

    def wait(self, ms: float, fn: Callable[[], None]) -> Timer:
        """So much later: how long that is, nobody can change."""
        return self._put(self._waits, self.now() + ms, fn)

    def at(self, wall_ms: float, fn: Callable[[], None]) -> Timer:
        """When it is so late: whoever sets the clock changes when that is."""
        return self._put(self._dates, wall_ms, fn)

    def _put(self, heap: _Heap, at_ms: float, fn: Callable[[], None]) -> Timer:
        timer = Timer(fn)
        heappush(heap, (at_ms, next(self._number), timer))
        return timer

    def due_in(self) -> float | None:
        """Milliseconds until the next one; 0 if its time has come, None if there is none."""
        found: list[float] = []
        for heap, clock in ((self._waits, self.now), (self._dates, self.wall)):
            while heap and heap[0][2].is_cancelled:
                heappop(heap)
            if heap:
                found.append(max(heap[0][0] - clock(), 0.0))
        return min(found, default=None)

    def fire(self) -> None:
        """Do what is due. What is set meanwhile waits for the next time, so that this has an end."""
        for heap, clock in ((self._waits, self.now), (self._dates, self.wall)):
            if not heap:
                continue
            due: list[Timer] = []
            until = clock()
            while heap and heap[0][0] <= until:
                due.append(heappop(heap)[2])
            for timer in due:
                if not timer.is_cancelled:
                    timer.fn()

    def clear(self) -> None:
        """Nothing is done any more."""
        self._waits.clear()
        self._dates.clear()

    def __len__(self) -> int:
        return sum(not timer.is_cancelled for _, _, timer in [*self._waits, *self._dates])
