"""A few threads that decide for many storages: a server has no thread for each space.

A storage with waiting commits is in the queue once. A thread takes the first storage, decides one group, and puts it at
the end if more waits. So a busy space gets one group in turn with each other one, and no two threads wait for the lock
of the same storage.
"""

from __future__ import annotations

import logging
from typing import Final, Protocol

from headwater.machine import Thread, ThreadQueue, machine

log: Final = logging.getLogger("headwater")


class Deciding(Protocol):
    """A storage, as these threads use it."""

    name: str

    def decide_next(self) -> bool:
        """Decide one group. Returns whether more commits wait."""
        ...


class DecidingThreads:
    """The threads. They are started when the first storage has something to decide."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._lock = machine().lock()
        # Storages in the queue or at a thread; and those at a thread that were rung since the thread took them.
        self._queued: set[Deciding] = set()
        self._again: set[Deciding] = set()
        self._taken: set[Deciding] = set()
        self._queue: ThreadQueue[Deciding | None] = machine().queue()
        self._threads: list[Thread] = []

    def ring(self, storage: Deciding) -> None:
        """A storage has something to decide."""
        with self._lock:
            if storage in self._taken:
                self._again.add(storage)
                return
            if storage in self._queued:
                return
            self._queued.add(storage)
            self._queue.put(storage)
            if len(self._threads) < min(self._size, len(self._queued) + len(self._taken)):
                thread = machine().thread(self._run, name=f"{self._name}-{len(self._threads)}")
                self._threads.append(thread)
                thread.start()

    def _run(self) -> None:
        while (storage := self._queue.get()) is not None:
            with self._lock:
                self._queued.discard(storage)
                self._taken.add(storage)
            more = False
            try:
                more = storage.decide_next()
            except Exception:
                # Of ours: the other spaces go on, and the next commit of this one tries again.
                log.exception("space %r: a group could not be decided", storage.name)
            with self._lock:
                self._taken.discard(storage)
                if more or storage in self._again:
                    self._again.discard(storage)
                    self._queued.add(storage)
                    self._queue.put(storage)
            # Not kept until the next one comes: it may be closed meanwhile.
            del storage

    def close(self) -> None:
        """End the threads, after all storages are closed."""
        with self._lock:
            threads = list(self._threads)
            for _ in threads:
                self._queue.put(None)
        for thread in threads:
            thread.join()
