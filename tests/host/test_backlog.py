"""How much may wait for the disk: an opening, which has to see all of it, waits no longer than for that."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import headwater as hw
from headwater.host.storage import Storage

BOUND = 2_000


def test_a_writer_that_is_faster_than_the_disk_is_held_up_before_an_opening_would_wait_long(tmp_path: Path) -> None:
    url = str(tmp_path / "a.db")
    apps = [hw.App("a"), hw.App("a")]
    mine, other = (app.cell("n", 0) for app in apps)
    waiting: list[int] = []
    with apps[0].open(url) as space:
        storage = space._lease.storage
        assert isinstance(storage, Storage)

        def write() -> None:
            for number in range(1, 3 * BOUND + 1):
                mine.value = number
                waiting.append(len(storage._waiting))

        # Here from now on: the first look at a document waits for its turn.
        mine.value = 0
        space.sync()
        with storage._lock:
            # Nothing is written meanwhile, as if the disk took its time.
            writer = threading.Thread(target=write)
            writer.start()
            limit = time.monotonic() + 60
            while len(storage._waiting) <= BOUND and writer.is_alive() and time.monotonic() < limit:
                writer.join(0.01)
            assert len(storage._waiting) == BOUND + 1
        writer.join(60)
        assert not writer.is_alive()
        assert max(waiting) <= BOUND + 1
        with apps[1].open(url):
            assert other.value == 3 * BOUND, "what was written before is there"
