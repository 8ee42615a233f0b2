"""Room in the write-ahead log: commits do not make the file longer, and nothing else is different."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from headwater.errors import CorruptError
from headwater.store.backends import sqlite_file, sqlite_wal_room
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.backends.sqlite_file import Durability
from headwater.store.commit import Commit, SetDoc, Submission
from headwater.store.engine import Engine
from headwater.testing import Disk, DiskVFS, SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, LocalSeq, Seq, SessionId

FRAME = 24 + 4096


class Space:
    """A file on a disk in memory, written one commit at a time."""

    def __init__(self, disk: Disk, durability: Durability = "full") -> None:
        self.disk = disk
        name = f"room-{id(self)}"
        self.vfs = DiskVFS(name, disk)
        self.backend = SqliteBackend("/space.db", durability=durability, vfs=name)
        self.engine = Engine(self.backend, SimClock())

    def commit(self) -> None:
        number = int(self.engine.head) + 1
        operation = SetDoc(doc_key("n"), number)
        self.engine.admit([Submission(Commit(SessionId("s"), LocalSeq(number), (operation,)))])

    @property
    def log_size(self) -> int:
        return len(self.disk.files()["/space.db-wal"])

    def sizes(self, commits: int) -> list[int]:
        """The size of the log after each commit."""
        found = []
        for _ in range(commits):
            self.commit()
            found.append(self.log_size)
        return found

    def close(self) -> None:
        self.backend.close()
        self.vfs.unregister()


def test_most_commits_leave_the_size_of_the_log_as_it_is() -> None:
    space = Space(Disk())
    sizes = space.sizes(400)
    grown = sum(after != before for before, after in pairwise(sizes))
    assert space.backend._wal_pages > 400  # the log was not restarted: without room, each commit makes it longer
    assert grown < 30
    space.close()


def test_a_log_with_few_frames_gets_no_room() -> None:
    space = Space(Disk())
    while space.backend._wal_pages + 4 < sqlite_wal_room.FRAMES_MIN:
        space.commit()
    assert space.log_size == 32 + space.backend._wal_pages * FRAME
    space.close()


def test_a_space_that_does_not_sync_each_commit_gets_no_room() -> None:
    space = Space(Disk(), "normal")
    space.sizes(60)
    assert space.log_size == 32 + space.backend._wal_pages * FRAME
    space.close()


def test_the_room_is_at_most_a_megabyte() -> None:
    space = Space(Disk())
    space.sizes(600)
    assert space.log_size - space.backend._wal_pages * FRAME <= 32 + sqlite_wal_room.FRAMES_STEP * FRAME
    space.close()


def test_a_restarted_log_is_written_within_the_same_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_PAGES", 100)
    space = Space(Disk())
    space.sizes(120)
    assert len(set(space.sizes(200))) == 1
    space.close()


def test_a_log_that_was_made_empty_gets_room_again() -> None:
    space = Space(Disk())
    space.sizes(100)
    space.backend._read("pragma wal_checkpoint(truncate)")
    assert space.log_size == 0
    sizes = space.sizes(100)
    assert len(set(sizes[20:])) < 10
    space.close()


def test_a_full_disk_is_left_as_it_was_and_the_commits_that_fit_are_accepted() -> None:
    disk = Disk()
    space = Space(disk)
    while space.backend._wal_pages < sqlite_wal_room.FRAMES_MIN - 4:
        space.commit()
    disk.capacity_bytes = disk.used_bytes + 8 * FRAME  # for two or three commits, and not for the room
    while space.backend._wal_pages < sqlite_wal_room.FRAMES_MIN:
        space.commit()
    assert space.log_size == 32 + space.backend._wal_pages * FRAME
    head = space.engine.head
    disk.capacity_bytes = None
    space.commit()
    assert space.engine.head == head + 1
    space.close()


def test_a_process_that_died_leaves_a_log_with_room_that_the_next_one_reads() -> None:
    disk = Disk()
    space = Space(disk)
    space.sizes(100)
    files = disk.files()
    assert len(files["/space.db-wal"]) > 32 + space.backend._wal_pages * FRAME
    space.close()
    again = Space(Disk(files))
    assert again.engine.head == Seq(100)
    assert again.engine.documents.at(MAIN, doc_key("n"), Seq(100)).value == 100
    again.close()


def test_damage_of_a_log_with_room_is_still_found() -> None:
    disk = Disk()
    space = Space(disk)
    space.sizes(100)
    files = disk.files()
    space.close()
    damaged = bytearray(files["/space.db-wal"])
    damaged[32 + 30 * FRAME + 100] ^= 1
    files["/space.db-wal"] = bytes(damaged)
    with pytest.raises(CorruptError, match="committed, and cannot be read"):
        Space(Disk(files))


def test_a_real_file_gets_room_too(tmp_path: Path) -> None:
    backend = SqliteBackend(str(tmp_path / "space.db"))
    engine = Engine(backend, SimClock())
    for number in range(1, 60):
        engine.admit([Submission(Commit(SessionId("s"), LocalSeq(number), (SetDoc(doc_key("n"), number),)))])
    assert (tmp_path / "space.db-wal").stat().st_size > 32 + backend._wal_pages * FRAME
    backend.close()
