"""How much may wait for the disk: an opening, which has to see all of it, waits no longer than for that."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

import headwater as hw
from headwater.host import storage
from headwater.host.storage import Storage, storage_of
from headwater.store.commit import Commit, SetDoc, Submission
from headwater.values.address import doc_key
from headwater.values.ids import LocalSeq, SessionId

BOUND = 2_000


def test_a_writer_that_is_faster_than_the_disk_is_held_up_before_an_opening_would_wait_long(tmp_path: Path) -> None:
    url = str(tmp_path / "a.db")
    apps = [hw.App("a"), hw.App("a")]
    mine, other = (app.cell("n", 0) for app in apps)
    waiting: list[int] = []
    with apps[0].open(url) as space:
        held = space._opening._lease.storage
        assert isinstance(held, Storage)

        def write() -> None:
            for number in range(1, 3 * BOUND + 1):
                mine.value = number
                waiting.append(len(held._waiting))

        # Here from now on: the first look at a document waits for its turn.
        mine.value = 0
        space.sync()
        with held._lock:
            # Nothing is written meanwhile, as if the disk took its time.
            writer = threading.Thread(target=write)
            writer.start()
            limit = time.monotonic() + 60
            while len(held._waiting) <= BOUND and writer.is_alive() and time.monotonic() < limit:
                writer.join(0.01)
            assert len(held._waiting) == BOUND + 1
        writer.join(60)
        assert not writer.is_alive()
        assert max(waiting) <= BOUND + 1
        with apps[1].open(url):
            assert other.value == 3 * BOUND, "what was written before is there"


def test_a_server_that_submits_never_waits_for_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its event loop submits: it stops reading from its clients instead."""
    app = hw.App("a")
    with app.open(tmp_path / "a.db") as space:
        local = storage_of(space._opening._lease)
        space.sync()

        def waited() -> None:
            raise AssertionError("the event loop would wait for the disk")

        monkeypatch.setattr(storage, "WAITING_MAX", 0)
        with local._lock:
            monkeypatch.setattr(local, "wait", waited)
            session = SessionId("client")
            for number in (1, 2):
                commit = Commit(session, LocalSeq(number), (SetDoc(doc_key("a"), number),))
                local.submit(Submission(commit, is_resent=True), helps=False)
            assert len(local._waiting) == 2
        monkeypatch.undo()
        local.wait()
