"""A thread that writes one group of commits to the disk while its storage decides the next."""

from __future__ import annotations

from collections.abc import Callable

from headwater.machine import Thread, ThreadQueue, machine
from headwater.store.backend import Backend


class NotWrittenError(Exception):
    """A write was left out, because the one before it failed: its rows follow those."""


class DiskWrite:
    """One write and its result."""

    def __init__(self, work: Callable[[], None], before: DiskWrite | None, *, is_long: bool) -> None:
        self._work = work
        self._before = before
        # It takes longer than deciding a group.
        self.is_long = is_long
        # Locked until the thread has begun, and until the write has ended.
        self._begun = machine().lock()
        self._begun.acquire()
        self._ended = machine().lock()
        self._ended.acquire()
        self.is_sent = False
        self.is_begun = False
        self.is_ended = False
        self.error: BaseException | None = None

    def perform(self) -> None:
        """Write, in this thread. The second call after an interrupted `DiskWriter.start` does nothing."""
        if self.is_begun:
            return
        self.is_begun = True
        self._begun.release()
        before, self._before = self._before, None
        try:
            if before is not None and before.error is not None:
                raise NotWrittenError
            self._work()
        except BaseException as error:  # noqa: BLE001  # reported by `wait`
            self.error = error
        self.is_ended = True
        self._ended.release()

    def wait_begun(self) -> None:
        """Return when the thread has it. Without this wait it would get the interpreter milliseconds later."""
        self._begun.acquire()

    def wait_ended(self) -> None:
        """Return when it has ended. May be called again after an interrupt."""
        while not self.is_ended:
            self._ended.acquire()


class DiskWriter:
    """The thread, started with the first write. It performs one write at a time, in their order.

    After a failed one all later ones are left out, until `restart`.
    """

    def __init__(self, name: str, backend: Backend) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._thread_id = machine().thread_id
        self._queue: ThreadQueue[DiskWrite | None] = machine().queue()
        self._newest: DiskWrite | None = None
        # The id of the thread.
        self._performing: int | None = None
        backend.before_access(self.settle)

    @property
    def is_writing(self) -> bool:
        """Whether a write has not ended."""
        newest = self._newest
        return newest is not None and not newest.is_ended

    def start(self, work: Callable[[], None], *, is_long: bool = False) -> DiskWrite:
        """Begin a write, behind those that have not ended: the thread goes on with it without being woken."""
        if self._thread is None:
            thread = machine().thread(self._run, name=self._name)
            thread.start()
            self._thread = thread
        is_idle = not self.is_writing
        write = self._newest = DiskWrite(work, self._newest, is_long=is_long)
        # An interrupt between any two steps: `settle` sends it again, and only the first counts.
        self._queue.put(write)
        write.is_sent = True
        if is_idle:
            write.wait_begun()
        return write

    def settle(self) -> None:
        """Return when nothing is being written. The thread itself may call it."""
        write = self._newest
        if write is None or write.is_ended or self._performing == self._thread_id():
            return
        if not write.is_sent:
            self._queue.put(write)
        write.wait_ended()

    def restart(self) -> None:
        """Return when nothing is being written; later writes do not depend on what failed."""
        self.settle()
        self._newest = None

    def _run(self) -> None:
        self._performing = self._thread_id()
        while (write := self._queue.get()) is not None:
            write.perform()

    def close(self) -> None:
        """End the thread. Nothing is being written."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
