"""Ways to hold things up, so that a test says what happens when, and never waits for time to pass."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from headwater.host.storage import storage_of
from headwater.runtime.opening import Opening

SAFETY_S = 120
"""No test waits this long unless it fails."""


@contextmanager
def disk_held(space: Opening) -> Iterator[None]:
    """Nothing is decided meanwhile, as if the disk were busy, and no document is loaded that was not read before."""
    held, release = threading.Event(), threading.Event()

    def hold() -> None:
        with storage_of(space._lease)._lock:
            held.set()
            assert release.wait(SAFETY_S)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(SAFETY_S)
    try:
        yield
    finally:
        release.set()
        thread.join(SAFETY_S)


def in_thread(work: Callable[[], object]) -> None:
    """In a thread with no opening around it; what it raises is raised here."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result(SAFETY_S)
