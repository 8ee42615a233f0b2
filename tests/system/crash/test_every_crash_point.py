"""A recorded run of commits, cut off after every single disk operation: none acknowledged is lost, none is half."""

from __future__ import annotations

import random
from collections import Counter

import apsw
import pytest

from headwater.errors import CorruptError
from headwater.store import engine as engine_module
from headwater.store import verification
from headwater.store.backends import sqlite_file, sqlite_wal_room
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.backends.sqlite_file import Durability
from headwater.store.commit import Commit, PatchDoc, SetDoc, Submission
from headwater.store.engine import Engine
from headwater.testing import Disk, DiskVFS, SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, LocalSeq, SessionId
from headwater.values.patch import Increment
from headwater.values.tree import freeze

COMMITS = 30
LEFT, RIGHT = doc_key("left"), doc_key("right")


@pytest.fixture(autouse=True)
def _eventful_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds and checkpoints happen every few commits, so that the thirty contain many of both."""
    monkeypatch.setattr(engine_module, "FOLD_COMMITS", 7)
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_PAGES", 8)


def recorded_run(durability: Durability) -> Disk:
    """Thirty commits that each write two documents alike; a mark when each is acknowledged; then the plug."""
    disk = Disk(seed=7)
    vfs = DiskVFS("crash-run", disk)
    backend = SqliteBackend("/space.db", durability=durability, vfs="crash-run")
    engine = Engine(backend, SimClock())
    disk.mark(0)
    for number in range(1, COMMITS + 1):
        operations = (
            (SetDoc(LEFT, freeze({"n": 1, "pad": "x" * 900})), SetDoc(RIGHT, freeze({"n": 1})))
            if number == 1
            else (PatchDoc(LEFT, (Increment(("n",), 1),)), PatchDoc(RIGHT, (Increment(("n",), 1),)))
        )
        engine.admit([Submission(Commit(SessionId("s"), LocalSeq(number), operations))])
        disk.mark(number)
    disk.power_off()
    backend.close()
    vfs.unregister()
    return disk


def judge(files: dict[str, bytes], acknowledged: int | None) -> str:
    """What a process finds that opens the space after the power is back."""
    vfs = DiskVFS("crash-check", Disk(files))
    try:
        backend = SqliteBackend("/space.db", vfs="crash-check")
        try:
            engine = Engine(backend, SimClock())
            left, right = (engine.documents.at(MAIN, doc, engine.head) for doc in (LEFT, RIGHT))
            found = engine.head
            numbers = {value["n"] if isinstance(value, dict) else 0 for value in (left.value, right.value)}
            if numbers != {found}:
                return "torn"
            if found < (acknowledged or 0):
                return "lost"
            return "ok" if verification.verify(engine).ok else "corrupt"
        finally:
            backend.close()
    except (CorruptError, apsw.Error):
        return "corrupt"
    finally:
        vfs.unregister()


def verdicts(durability: Durability, keeps: tuple[float, ...]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _, marks, files in recorded_run(durability).crash_images(random.Random(11), keeps=keeps):
        last = marks[-1] if marks else None
        counts[judge(files, last if isinstance(last, int) else None)] += 1
    return counts


@pytest.mark.slow
def test_no_crash_point_loses_tears_or_corrupts_a_commit() -> None:
    counts = verdicts("full", (0.0, 0.3, 0.5, 0.5, 0.5, 0.7, 0.9, 1.0))
    assert set(counts) == {"ok"}
    assert counts["ok"] >= 2000


@pytest.mark.slow
def test_no_crash_point_loses_tears_or_corrupts_a_commit_in_a_log_with_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is long enough to get room several times, and restarts in between."""
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_PAGES", 40)
    for name, frames in (("FRAMES_MIN", 4), ("FRAMES_STEP", 12), ("FRAMES_AHEAD", 3)):
        monkeypatch.setattr(sqlite_wal_room, name, frames)
    counts = verdicts("full", (0.0, 0.3, 0.5, 0.7, 0.9, 1.0))
    assert set(counts) == {"ok"}
    assert counts["ok"] >= 1000


@pytest.mark.slow
def test_crash_points_do_show_lost_commits_when_syncs_are_skipped() -> None:
    """The test above can fail: with `normal` durability a commit is acknowledged before it is on disk."""
    counts = verdicts("normal", (0.0,))
    assert counts["lost"] > 10
    assert not counts["torn"]
