"""A thread that writes one group of commits to the disk while its storage decides the next."""

from __future__ import annotations

from collections.abc import Callable

from headwater.machine import Thread, ThreadQueue, machine
from headwater.store.backend import Backend


class DiskWrite:
    """One write and its result."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        # Locked until the thread has begun, and until the write has ended.
        self._begun = machine().lock()
        self._begun.acquire()
        self._ended = machine().lock()
        self._ended.acquire()
        self.is_sent = False
        self.is_ended = False
        self.error: BaseException | None = None
        self.thread_id: int | None = None

    def perform(self, thread_id: int) -> None:
        """Write, in this thread. The second call after an interrupted `DiskWriter.start` does nothing."""
        if self.thread_id is not None:
            return
        self.thread_id = thread_id
        self._begun.release()
        try:
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
    """The thread, started with the first write. It performs one write at a time."""

    def __init__(self, name: str, backend: Backend) -> None:
        self._name = name
        self._thread: Thread | None = None
        self._thread_id = machine().thread_id
        self._queue: ThreadQueue[DiskWrite | None] = machine().queue()
        self._newest: DiskWrite | None = None
        backend.before_access(self.settle)

    def start(self, work: Callable[[], None]) -> DiskWrite:
        """Begin a write. The one before has ended."""
        if self._thread is None:
            thread = machine().thread(self._run, name=self._name)
            thread.start()
            self._thread = thread
        write = self._newest = DiskWrite(work)
        # An interrupt between any two steps: `settle` sends it again, and only the first counts.
        self._queue.put(write)
        write.is_sent = True
        write.wait_begun()
        return write

    def settle(self) -> None:
        """Return when nothing is being written. The thread itself may call it."""
        write = self._newest
        if write is None or write.is_ended or write.thread_id == self._thread_id():
            return
        if not write.is_sent:
            self._queue.put(write)
        write.wait_ended()

    def _run(self) -> None:
        while (write := self._queue.get()) is not None:
            write.perform(self._thread_id())

    def close(self) -> None:
        """End the thread. Nothing is being written."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
