"""The simulated file system answers as the real one does, and loses what a real one may lose."""

from __future__ import annotations

import errno
import os
import random
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import headwater as hw
from headwater.machine import Files, Machine, use
from headwater.testing import Disk
from headwater.testing.simulation.sim_files import SimFiles, seed_sqlite, unseed_sqlite
from tests.support.halves import examples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headwater.machine import File

KEEPS = (0.0, 0.5, 1.0)


# --- As the real one ---

paths = st.sampled_from(
    [
        "/a",
        "/b",
        "/d",
        "/d/a",
        "/d/e",
        "/d/e/a",
        "/a/x",
        "/none/x",
        "/d/",
        "/a/",
        "/./a",
        "/d/../a",
        "/none/../a",
    ]
)
flags = st.builds(
    lambda access, parts: sum(parts, access),
    st.sampled_from([os.O_RDONLY, os.O_WRONLY, os.O_RDWR]),
    st.sets(st.sampled_from([os.O_CREAT, os.O_EXCL, os.O_TRUNC, os.O_APPEND, os.O_NOFOLLOW])),
)
numbers = st.integers(0, 3)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), paths, flags, st.sampled_from([0o600, 0o644, 0o666, 0o700])),
        st.tuples(st.just("list"), paths, st.just(os.O_RDONLY | os.O_DIRECTORY)),
        st.tuples(st.just("read"), numbers, st.integers(-1, 20)),
        st.tuples(st.just("read_at"), numbers, st.integers(-1, 20), st.integers(-1, 20)),
        st.tuples(st.just("write"), numbers, st.binary(max_size=12)),
        st.tuples(st.just("truncate"), numbers, st.integers(-1, 20)),
        st.tuples(st.just("sync"), numbers),
        st.tuples(st.just("fstat"), numbers),
        st.tuples(st.just("fchmod"), numbers, st.sampled_from([0o600, 0o640])),
        st.tuples(st.just("try_lock"), numbers),
        st.tuples(st.just("close"), numbers),
        st.tuples(st.just("mkdir"), paths, st.sampled_from([0o700, 0o777])),
        st.tuples(st.sampled_from(["unlink", "names", "stat", "lstat", "exists", "is_dir", "is_file", "load"]), paths),
        st.tuples(st.just("sync_folder"), paths),
        st.tuples(st.just("set_mode"), paths, st.sampled_from([0o600, 0o700])),
        st.tuples(st.sampled_from(["replace", "is_same"]), paths, paths),
    ),
    max_size=40,
)


class Twin:
    """One of the two file systems, with the files that are open on it."""

    def __init__(self, files: Files, root: str) -> None:
        self.files = files
        self.root = root
        self.open: list[File] = []

    def answer(self, step: tuple[object, ...]) -> object:
        try:
            return self._facts(self._do(*step))
        except OSError as error:
            return errno.errorcode[error.errno or 0]

    def _do(self, kind: str, *args: object) -> object:
        words: list[object] = [self.root + each if isinstance(each, str) else each for each in args]
        match kind:
            case "open" | "list":
                self.open.append(self.files.open(*words))  # type: ignore[arg-type]
                return None
            case "load":
                return self.files.read(*words)  # type: ignore[arg-type]
            case "read" | "read_at" | "write" | "truncate" | "sync" | "fstat" | "fchmod" | "try_lock" | "close":
                name = {"fstat": "stat", "fchmod": "set_mode"}.get(kind, kind)
                number = words[0]
                assert isinstance(number, int)
                if number >= len(self.open):
                    return None
                file = self.open.pop(number) if kind == "close" else self.open[number]
                method: Callable[..., object] = getattr(file, name)
                return method(*words[1:])
            case _:
                method = getattr(self.files, kind)
                return method(*words)

    @staticmethod
    def _facts(found: object) -> object:
        if isinstance(found, os.stat_result):
            is_file = stat.S_ISREG(found.st_mode)
            return found.st_mode, is_file and (found.st_size, found.st_nlink), found.st_uid, found.st_gid
        return found


@settings(max_examples=examples(200))
@given(steps=steps)
def test_every_sequence_of_operations_has_the_results_of_the_real_file_system(steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        mask = os.umask(0)
        os.umask(mask)
        sim = SimFiles(Disk(), mask=mask)
        sim.mkdir("/root")
        twins = Twin(Files(), folder), Twin(sim, "/root")
        for step in [("mkdir", "/d", 0o700), *steps]:
            real, simulated = (twin.answer(step) for twin in twins)
            assert simulated == real, step
        for file in twins[0].open:
            file.close()


def test_a_closed_file_is_a_bad_descriptor() -> None:
    file = SimFiles(Disk()).open("/a", os.O_CREAT | os.O_RDWR)
    file.close()
    for call in (lambda: file.read(1), lambda: file.write(b"x"), file.sync, file.stat, file.close, file.try_lock):
        with pytest.raises(OSError, match="Bad file descriptor"):
            call()


def test_a_name_that_is_too_long_is_refused() -> None:
    with pytest.raises(OSError, match="File name too long"):
        SimFiles(Disk()).exists("/" + "n" * 256)


def test_a_path_with_a_null_byte_is_refused_as_by_the_real_one() -> None:
    files = SimFiles(Disk())
    with pytest.raises(ValueError, match="null byte"):
        files.open("/a\0", os.O_RDONLY)
    assert not files.exists("/a\0")


def test_a_file_keeps_its_number_when_it_is_renamed_and_after_a_restart() -> None:
    disk = Disk()
    files = SimFiles(disk)
    with files.open("/a", os.O_CREAT | os.O_WRONLY, 0o640) as file:
        file.write(b"x")
        file.sync()
        number = file.stat().st_ino
    files.replace("/a", "/b")
    files.sync_folder("/")
    for keep in KEEPS:
        files = SimFiles(disk := disk.next_life(random.Random(1), keep))
        found = files.stat("/b")
        assert (found.st_ino, stat.S_IMODE(found.st_mode)) == (number, 0o640)
        with files.open("/c", os.O_CREAT | os.O_WRONLY) as other:
            assert other.stat().st_ino > number
        files.remove("/c")


def test_times_of_files_are_those_of_the_node() -> None:
    now = 5.25
    files = SimFiles(Disk(), clock=lambda: now)
    with files.open("/a", os.O_CREAT | os.O_WRONLY) as file:
        now = 7.5
        file.write(b"x")
    assert files.stat("/a").st_mtime == 7.5
    assert files.stat("/a").st_mtime_ns == 7_500_000_000


# --- SQLite's files ---


@pytest.fixture
def seeded() -> Iterator[None]:
    yield
    unseed_sqlite()


def connect(files: SimFiles, path: str) -> apsw.Connection:
    db = apsw.Connection(path, vfs=files.vfs)
    db.execute("pragma locking_mode = exclusive; pragma journal_mode = wal; pragma synchronous = full").fetchall()
    return db


def test_sqlite_and_plain_files_see_each_other() -> None:
    files = SimFiles(Disk())
    with pytest.raises(apsw.CantOpenError):
        connect(files, "/store/a.db")
    files.mkdir("/store")
    db = connect(files, "/store/a.db")
    db.execute("create table t (x)")
    assert files.names("/store") == ["a.db", "a.db-wal"]
    assert files.stat("/store/a.db-wal").st_size > 0
    db.close()
    files.replace("/store/a.db", "/store/b.db")
    db = connect(files, "/store/b.db")
    assert db.execute("select name from sqlite_schema").get == "t"
    db.close()


@pytest.mark.usefixtures("seeded")
def test_randomness_of_sqlite_follows_from_the_seed() -> None:
    def drawn(seed: int) -> list[str]:
        disk, lines = Disk(), list[str]()
        disk.note = lines.append
        seed_sqlite(seed)
        db = connect(SimFiles(disk), "/a.db")
        db.execute("create table t as select random() as x")
        db.close()
        return lines

    assert drawn(1) == drawn(1) != drawn(2)


@pytest.mark.usefixtures("seeded")
def test_a_file_of_sqlite_outside_of_the_nodes_is_refused() -> None:
    seed_sqlite(0)
    with pytest.raises(apsw.CantOpenError):
        apsw.Connection("/tmp/leak.db")  # noqa: S108  # never made


# --- Faults ---


def test_without_room_a_first_part_is_written() -> None:
    files = SimFiles(Disk())
    file = files.open("/a", os.O_CREAT | os.O_RDWR)
    file.write(b"123")
    files.disk.capacity_bytes = 5
    with pytest.raises(OSError, match="cannot grow") as raised:
        file.write(b"4567")
    assert raised.value.errno == errno.ENOSPC
    assert files.read("/a") == b"12345"
    assert file.read_at(9, 0) == b"12345"
    files.disk.capacity_bytes = None
    file.write(b"6")
    assert files.read("/a") == b"123456"


def test_removed_and_replaced_files_make_room() -> None:
    files = SimFiles(Disk())
    for name in ("/a", "/b"):
        with files.open(name, os.O_CREAT | os.O_WRONLY) as file:
            file.write(b"1234")
    assert files.disk.used_bytes == 8
    files.replace("/a", "/b")
    assert files.disk.used_bytes == 4
    files.unlink("/b")
    assert files.disk.used_bytes == 0


@pytest.mark.parametrize("kind", ["open", "write", "truncate", "sync", "read", "unlink", "rename", "mkdir"])
def test_as_many_accesses_fail_as_are_told_to(kind: str) -> None:
    files = SimFiles(Disk())
    file = files.open("/a", os.O_CREAT | os.O_RDWR)
    calls: dict[str, Callable[[], object]] = {
        "open": lambda: files.open("/a", os.O_RDONLY),
        "write": lambda: file.write(b"x"),
        "truncate": lambda: file.truncate(3),
        "sync": file.sync,
        "read": lambda: file.read(1),
        "unlink": lambda: files.unlink("/a"),
        "rename": lambda: files.replace("/a", "/b"),
        "mkdir": lambda: files.mkdir("/d"),
    }
    files.disk.failing = {kind: 2}  # type: ignore[dict-item]
    for _ in range(2):
        with pytest.raises(OSError, match="the disk fails") as raised:
            calls[kind]()
        assert raised.value.errno == errno.EIO
    calls[kind]()


def test_hooks_see_plain_files_and_those_of_sqlite() -> None:
    files, before, after = SimFiles(Disk()), list[tuple[str, str]](), list[tuple[str, str]]()
    files.disk.on_io = lambda kind, name: before.append((kind, name))
    files.disk.after_io = lambda kind, name: after.append((kind, name))
    with files.open("/a", os.O_CREAT | os.O_WRONLY) as file:
        file.write(b"x")
        file.sync()
    assert before == after == [("open", "/a"), ("write", "/a"), ("sync", "/a")]
    connect(files, "/b.db").execute("create table t (x)")
    assert ("sync", "/b.db-wal") in after


def test_a_lock_belongs_to_an_opening_and_ends_with_the_process() -> None:
    disk = Disk()
    files = SimFiles(disk)
    one, other = (files.open("/lock", os.O_CREAT | os.O_RDWR) for _ in range(2))
    assert one.try_lock()
    assert one.try_lock()
    assert not other.try_lock()
    one.close()
    assert other.try_lock()
    files = SimFiles(disk.next_life(random.Random(0), 1.0))
    assert files.open("/lock", os.O_RDWR).try_lock()


# --- Power losses ---


def test_a_replaced_file_is_the_old_one_or_the_new_one() -> None:
    found = set()
    for seed in range(60):
        disk = Disk({"/a": b"old"})
        files = SimFiles(disk)
        with files.open("/a.part", os.O_CREAT | os.O_EXCL | os.O_WRONLY) as file:
            file.write(b"new")
            file.sync()
        files.replace("/a.part", "/a")
        files = SimFiles(disk.next_life(random.Random(seed), 0.5))
        found.add((files.read("/a"), files.exists("/a.part")))
    assert found == {(b"old", False), (b"old", True), (b"new", False)}


def test_a_kill_of_the_process_alone_leaves_the_unsynced_unsynced() -> None:
    disk = Disk({"/a": b"old"})
    with SimFiles(disk).open("/a", os.O_WRONLY) as file:
        file.write(b"new")
    disk = disk.next_life(random.Random(0), 1.0)
    files = SimFiles(disk)
    assert files.read("/a") == b"new"
    with files.open("/b", os.O_CREAT | os.O_WRONLY) as file:
        file.write(b"x")
    disk = disk.next_life(random.Random(0), 0.0)
    assert disk.files() == {"/a": b"old"}


def test_a_power_failure_after_a_kill_brings_a_removed_file_back() -> None:
    disk = Disk({"/a": b"old"})
    files = SimFiles(disk)
    number = files.stat("/a").st_ino
    files.unlink("/a")
    disk = disk.next_life(random.Random(0), 1.0)
    assert disk.files() == {}
    disk = disk.next_life(random.Random(0), 0.0)
    assert SimFiles(disk).stat("/a").st_ino == number


def test_a_dead_process_changes_nothing() -> None:
    disk = Disk({"/a": b"old"})
    file = SimFiles(disk).open("/a", os.O_WRONLY)
    other = disk.next_life(random.Random(0), 1.0)
    file.write(b"new")
    file.sync()
    assert other.files() == {"/a": b"old"}
    assert other.crash_image(len(other.operations), random.Random(0), 1.0) == {"/a": b"old"}


def test_a_full_disk_is_full_after_a_restart() -> None:
    disk = Disk({"/a": b"old"})
    disk.capacity_bytes = 3
    with (
        SimFiles(disk.next_life(random.Random(0), 0.0)).open("/a", os.O_WRONLY | os.O_APPEND) as file,
        pytest.raises(OSError, match="cannot grow"),
    ):
        file.write(b"x")


# --- The product ---


class OnDisk(Machine):
    """The real machine with a simulated disk."""

    def __init__(self, disk: Disk) -> None:
        super().__init__()
        self.files = SimFiles(disk, clock=self.time)


counting = hw.App("counting")
total = counting.cell("total", 0)


@pytest.mark.parametrize("url", ["/space.db", "/store/"])
def test_acknowledged_commits_of_a_space_survive_kills_at_every_point(url: str) -> None:
    disk = Disk()
    with use(OnDisk(disk)), counting.open(url) as space:
        for number in range(1, 6):
            total.value = number
            space.sync()
            disk.mark(number)
        disk.power_off()
    assert not Path(url).exists()
    rng = random.Random(3)
    for k in rng.sample(range(len(disk.operations) + 1), 30):
        acknowledged = [operation.label for operation in disk.operations[:k] if hasattr(operation, "label")]
        for keep in KEEPS:
            image = disk.crash_image(k, rng, keep)
            again = Disk(image)
            again.folders.update(disk.folders)
            with use(OnDisk(again)), counting.open(url):
                assert total.value in {len(acknowledged), len(acknowledged) + 1}
