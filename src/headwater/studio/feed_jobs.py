"""What the thread of a feed has to do: questions and deeds in their order, and looks for changes.

Work without a waiting tab leaves at once, and looks that are due at the same time are one. So it holds no more than
its tabs may wait for, however long an answer takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from headwater.machine import Future, machine

T = TypeVar("T")

_LOOK: Final = object()
_WORK: Final = object()
_STOP: Final = object()


class Job:
    """One question or deed."""

    def __init__(self, future: Future[Any], work: Callable[[], object]) -> None:
        self._future = future
        self._work = work

    def carry_out(self) -> bool:
        """Do it, and give the result or the error to the tab that waits. Returns whether one does."""
        if not self._future.set_running_or_notify_cancel():
            return False
        try:
            self._future.set_result(self._work())
        except Exception as error:  # noqa: BLE001  # given to the tab that has asked
            self._future.set_exception(error)
        return True


class FeedJobs:
    """See the module. `next` is for the thread of the feed, the rest for any."""

    def __init__(self) -> None:
        self._signals = machine().queue()
        self._lock = machine().lock()
        self._waiting: dict[Future[Any], Job] = {}
        # Whether a signal of this kind is on its way: one is enough.
        self._is_work_signalled = False
        self._is_look_signalled = False
        self._is_stopping = False

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, work: Callable[[], T]) -> Future[T]:
        """Do this when its turn has come. It is dropped if the future is cancelled."""
        future: Future[T] = machine().future()
        with self._lock:
            self._waiting[future] = Job(future, work)
            self._signal_work()
        future.add_done_callback(self._drop)
        return future

    def _drop(self, future: Future[Any]) -> None:
        with self._lock:
            self._waiting.pop(future, None)

    def _signal_work(self) -> None:
        if not self._is_work_signalled:
            self._is_work_signalled = True
            self._signals.put(_WORK)

    def look(self) -> None:
        """A look for changes is due."""
        with self._lock:
            if not self._is_look_signalled:
                self._is_look_signalled = True
                self._signals.put(_LOOK)

    def stop(self) -> None:
        """End after what waits already."""
        self._signals.put(_STOP)

    def next(self, pause_s: float | None) -> Job | str:
        """The next job; "look" if a look is due, or nothing comes for so long; "stop" at the end."""
        if not self._is_stopping:
            try:
                signal = self._signals.get(timeout=pause_s)
            except Exception as error:  # the queue's own Empty, which has no name outside of its module
                if type(error).__name__ != "Empty":
                    raise
                signal = _LOOK
            self._is_stopping = signal is _STOP
            if signal is _LOOK:
                with self._lock:
                    self._is_look_signalled = False
                return "look"
        with self._lock:
            job = self._waiting.pop(next(iter(self._waiting))) if self._waiting else None
            self._is_work_signalled = False
            if self._waiting:
                # Behind a look that was due meanwhile.
                self._signal_work()
        if job is not None:
            return job
        return "stop" if self._is_stopping else "nothing"
