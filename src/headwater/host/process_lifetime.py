"""Keeps a program running until Ctrl-C or SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Final, Self, TypeAlias

from headwater.machine import Empty, ThreadQueue, machine

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


LOOK_S: Final = 2.0
"""A signal that comes just before a thread begins to wait is not heard by that thread until it wakes: so it does."""


def hear(rung: ThreadQueue[None], timeout: float | None, is_over: Callable[[], bool]) -> None:
    """Wait for a wake-up, for so many seconds, or for the end. Takes all wake-ups out of the queue."""
    end = None if timeout is None else machine().monotonic() + timeout
    while not is_over():
        left = LOOK_S if end is None else min(end - machine().monotonic(), LOOK_S)
        try:
            rung.get(timeout=max(left, 0.0))
        except Empty:
            if end is not None and machine().monotonic() >= end:
                break
        else:
            break
    while not rung.empty():
        rung.get()


class Stay:
    """`with Stay() as stay: while stay.wait(): ...`; `wake` ends a wait, too.

    The first signal ends the program in order: everything is closed. A second one does what it does
    elsewhere: Ctrl-C interrupts a function that never returns, SIGTERM ends the process at once.
    """

    def __init__(self) -> None:
        # Not an Event, nor anything with a lock that can be seen: a signal comes in the middle of any line of this
        # thread, also of one that holds the lock, and would wait for it for ever. This queue is made for that.
        self._rung: ThreadQueue[None] = machine().queue()
        self._ended = False
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> Self:
        # Signals are for the main thread. Another one stays as long as the process does.
        if machine().is_main_thread():
            self._before = {number: signal.signal(number, self._end) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number in _SIGNALS:
            self._restore(number)

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self._ended = True
        for number in _SIGNALS:
            self._restore(number)
        self._rung.put(None)

    def _restore(self, number: int) -> None:
        handler = self._before.pop(number, None)
        if handler is not None:  # else the handler was not set by Python, and Python cannot restore it
            signal.signal(number, handler)

    def wake(self) -> None:
        """End a wait; from any thread."""
        self._rung.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for a wake-up, or for so many seconds. Returns False when the program is to end."""
        hear(self._rung, timeout, lambda: self._ended)
        return not self._ended
