"""Termination of a process by signals: the first one is a request, the second one ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, Final, Self, TypeAlias, TypeVar

from headwater.host.process_lifetime import LOOK_S, hear
from headwater.machine import ThreadQueue, machine

T = TypeVar("T")

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
_Handler: TypeAlias = Callable[[int, FrameType | None], Any] | int | signal.Handlers | None


class Termination:
    """The first signal asks the process to end, the second one ends it at once.

    Work that is then half done is on disk as it is: the next start resumes it, as after a crash.
    """

    def __init__(self, ended: int) -> None:
        """`ended`: the exit code of a process that a second signal ends."""
        self._ended = ended
        # Not an Event: a signal handler may interrupt its wait. This queue is safe in signal handlers.
        self._rung: ThreadQueue[None] = machine().queue()
        self._wakers: list[Callable[[], object]] = [lambda: self._rung.put(None)]
        self.is_near = False
        self._before: dict[int, _Handler] = {}

    def __enter__(self) -> Self:
        if machine().is_main_thread():
            self._before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        return self

    def __exit__(self, *_error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)

    def request(self) -> None:
        """Ask the process to end, as the first signal does. Thread-safe."""
        if not self.is_near:
            self._announce()

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_near:
            self._end_now()
        self._announce()

    def _announce(self) -> None:
        self.is_near = True
        for wake in self._wakers:
            # The loop may have ended.
            with suppress(RuntimeError):
                wake()

    def _end_now(self) -> None:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        # Without waiting for threads.
        os._exit(self._ended)

    def on_near(self, wake: Callable[[], object]) -> None:
        """Call a function when the process is to end, in a signal handler."""
        self._wakers.append(wake)

    def wake(self) -> None:
        """End a wait; from any thread."""
        self._rung.put(None)

    def wait(self, timeout: float | None) -> bool:
        """Block until `wake`, or for `timeout` seconds. False: the process is to end."""
        hear(self._rung, timeout, lambda: self.is_near)
        return not self.is_near


async def awake(work: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine in a loop that wakes at intervals.

    A signal just before the loop begins to wait does not end that wait: its handler is called when the loop wakes for
    another reason. In plain code `hear` does the same.
    """
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work)
        while not task.done():
            await asyncio.wait([task], timeout=LOOK_S)
    return task.result()
