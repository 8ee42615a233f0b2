"""Under the power loss VFS a kill costs what was not synced; until then nobody in the process can tell."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import NamedTuple

import apsw
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import headwater
from headwater.testing.powerloss import PAGE_BYTES, PowerLossVFS, register

SOURCES = Path(headwater.__file__).parents[1]
WRITER = Path(__file__).with_name("acknowledging_writer.py")
KILLS = 8
OPEN_FLAGS = apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE


@pytest.fixture
def vfs() -> PowerLossVFS:
    return PowerLossVFS("powerloss-test")


def open_file(vfs: PowerLossVFS, path: Path) -> apsw.VFSFile:
    return vfs.xOpen(str(path), [OPEN_FLAGS, 0])


def connect(path: Path, *pragmas: str) -> apsw.Connection:
    connection = apsw.Connection(str(path), vfs=register())
    for pragma in pragmas:
        connection.execute(f"pragma {pragma}").fetchall()
    return connection


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCES)}


# --- Real kills ---


def count_kills_that_lose(path: Path, synchronous: str) -> int:
    """Kill the writer again and again on one database; each time compare what it told with what is there."""
    rng, losses = random.Random(5), 0
    for _ in range(KILLS):
        with subprocess.Popen(
            [sys.executable, str(WRITER), str(path), synchronous], stdout=subprocess.PIPE, env=environment()
        ) as writer:
            assert writer.stdout is not None
            for _ in range(rng.randint(5, 60)):
                acknowledged = int(writer.stdout.readline())
            writer.kill()
            # What it told between our last look and its death counts too.
            complete = [line for line in writer.stdout.read().splitlines(keepends=True) if line.endswith(b"\n")]
            acknowledged = int(complete[-1]) if complete else acknowledged
        with closing(apsw.Connection(str(path))) as connection:
            assert connection.execute("pragma integrity_check").get == "ok"
            tables = connection.execute("select count(*) from sqlite_schema").get
            survived = connection.execute("select coalesce(max(number), 0) from commits").get if tables else 0
        losses += survived < acknowledged
    return losses


@pytest.mark.slow
def test_killed_writer_with_full_sync_keeps_every_acknowledged_commit(tmp_path: Path) -> None:
    assert count_kills_that_lose(tmp_path / "space.db", "full") == 0


@pytest.mark.slow
def test_killed_writer_with_normal_sync_loses_acknowledged_commits(tmp_path: Path) -> None:
    assert count_kills_that_lose(tmp_path / "space.db", "normal") >= 1


def test_process_that_ends_in_good_order_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    program = """
import apsw, sys
from headwater.testing.powerloss import register
connection = apsw.Connection(sys.argv[1], vfs=register())
connection.execute("pragma synchronous=off")
connection.execute("create table t (x); insert into t values (42)")
connection.close()
assert not open(sys.argv[1], "rb").read(), "nothing was synced, so nothing should be in the file yet"
"""
    subprocess.run([sys.executable, "-c", program, str(path)], check=True, env=environment())
    with closing(apsw.Connection(str(path))) as connection:
        assert connection.execute("select x from t").get == 42


# --- The buffered file against a plain one ---


class Step(NamedTuple):
    kind: str
    position: int = 0
    data: bytes = b""


POSITIONS = st.one_of(st.integers(0, 4 * PAGE_BYTES), st.integers(0, 4).map(lambda page: page * PAGE_BYTES))
LENGTHS = st.one_of(st.integers(1, 3 * PAGE_BYTES), st.just(PAGE_BYTES))
STEPS = st.lists(
    st.one_of(
        st.builds(lambda at, byte, n: Step("write", at, bytes([byte]) * n), POSITIONS, st.integers(0, 3), LENGTHS),
        st.builds(lambda at, data: Step("write", at, data), POSITIONS, st.binary(min_size=1, max_size=40)),
        st.builds(lambda size: Step("truncate", size), POSITIONS),
        st.builds(lambda at, n: Step("read", at, bytes(n)), POSITIONS, LENGTHS),
        st.sampled_from([Step("sync"), Step("reopen"), Step("second")]),
    ),
    max_size=25,
)
NAMES = count()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(steps=[Step("write", data=b"1"), Step("sync"), Step("reopen")], begin=b"")  # SQLite calls it empty.
@given(steps=STEPS, begin=st.sampled_from([b"", b"\xee" * 5000, b"\xee" * PAGE_BYTES]))
def test_buffered_file_equals_a_plain_one_and_the_real_file_its_state_at_the_last_sync(
    tmp_path: Path, vfs: PowerLossVFS, steps: list[Step], begin: bytes
) -> None:
    path = tmp_path / f"file-{next(NAMES)}"
    path.write_bytes(begin)
    model, durable = bytearray(begin), begin
    files = [open_file(vfs, path)]
    for step in steps:
        file = files[-1]
        match step:
            case Step("write", at, data):
                file.xWrite(data, at)
                model.extend(bytes(max(0, at - len(model))))
                model[at : at + len(data)] = data
            case Step("truncate", size):
                file.xTruncate(size)
                del model[size:]
                model.extend(bytes(size - len(model)))
            case Step("read", at, data):
                assert file.xRead(len(data), at) == model[at : at + len(data)]
            case Step("sync"):
                file.xSync(apsw.SQLITE_SYNC_FULL)
                durable = bytes(model)
            case Step("reopen"):
                files.pop().xClose()
                files.append(open_file(vfs, path))
            case _:
                files.append(open_file(vfs, path))
        assert path.read_bytes() == durable
        for file in files:
            assert file.xFileSize() == len(model)
            assert file.xRead(len(model) + 10, 0) == model
    for file in files:
        file.xClose()
    vfs.hand_over()
    assert path.read_bytes() == model


def test_truncated_bytes_do_not_come_back_when_the_file_grows_again(tmp_path: Path, vfs: PowerLossVFS) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"\xee" * 3 * PAGE_BYTES)
    file = open_file(vfs, path)
    file.xTruncate(100)
    file.xWrite(b"new", PAGE_BYTES + 10)
    expected = b"\xee" * 100 + bytes(PAGE_BYTES - 90) + b"new"
    assert file.xRead(10_000, 0) == expected
    file.xSync(apsw.SQLITE_SYNC_NORMAL)
    file.xClose()
    assert path.read_bytes() == expected


@pytest.mark.parametrize("pages", [1, 15, 16, 17, 31, 32, 33, 64, 100])
def test_any_number_of_neighbouring_pages_can_be_synced(tmp_path: Path, vfs: PowerLossVFS, pages: int) -> None:
    content = random.Random(pages).randbytes(pages * PAGE_BYTES)
    file = open_file(vfs, tmp_path / "file")
    for start in range(0, len(content), 1000):
        file.xWrite(content[start : start + 1000], start)
    file.xSync(apsw.SQLITE_SYNC_NORMAL)
    file.xClose()
    assert (tmp_path / "file").read_bytes() == content


def test_deleted_file_starts_anew_even_if_its_writes_were_never_synced(tmp_path: Path, vfs: PowerLossVFS) -> None:
    path = tmp_path / "file"
    for by_sqlite in (False, True):
        file = open_file(vfs, path)
        assert file.xFileSize() == 0
        file.xWrite(b"old", 0)
        file.xClose()
        assert vfs.xAccess(str(path), apsw.SQLITE_ACCESS_EXISTS)
        if by_sqlite:
            vfs.xDelete(str(path), syncdir=False)
        else:
            path.unlink()
        assert not vfs.xAccess(str(path), apsw.SQLITE_ACCESS_EXISTS)
    path.write_bytes(b"theirs")
    file = open_file(vfs, path)
    assert file.xRead(100, 0) == b"theirs"
    file.xClose()


def test_replaced_file_does_not_inherit_unsynced_writes(tmp_path: Path, vfs: PowerLossVFS) -> None:
    path, backup = tmp_path / "file", tmp_path / "backup"
    file = open_file(vfs, path)
    file.xWrite(b"old", 0)
    file.xClose()
    backup.write_bytes(b"restored")
    backup.rename(path)
    file = open_file(vfs, path)
    assert file.xRead(100, 0) == b"restored"
    file.xClose()
    vfs.hand_over()
    assert path.read_bytes() == b"restored"


def test_file_changed_by_others_between_two_openings_is_read_afresh(tmp_path: Path, vfs: PowerLossVFS) -> None:
    path = tmp_path / "file"
    file = open_file(vfs, path)
    file.xWrite(b"mine", 0)
    file.xSync(apsw.SQLITE_SYNC_NORMAL)
    file.xClose()
    path.write_bytes(b"theirs, longer")
    file = open_file(vfs, path)
    assert file.xRead(100, 0) == b"theirs, longer"
    file.xClose()


# --- Under SQLite ---


def test_registering_twice_gives_the_same_name() -> None:
    assert register() == register() == "powerloss"
    assert apsw.vfs_names().count("powerloss") == 1


@pytest.mark.parametrize("journal", ["wal", "delete", "truncate", "persist"])
@pytest.mark.parametrize("synchronous", ["off", "normal", "full"])
@pytest.mark.parametrize("locking", ["exclusive", "normal"])
def test_database_reopened_in_the_process_is_whole(
    tmp_path: Path, journal: str, synchronous: str, locking: str
) -> None:
    path = tmp_path / "space.db"
    pragmas = (
        f"locking_mode={locking}",
        f"journal_mode={journal}",
        f"synchronous={synchronous}",
        "mmap_size=65536",
    )
    for generation in range(4):
        with closing(connect(path, *pragmas)) as connection:
            assert connection.execute("pragma journal_mode").get == journal
            connection.execute("create table if not exists t (generation, body)")
            for _ in range(30):
                connection.execute("insert into t values (?, zeroblob(3000))", (generation,))
            connection.execute("begin; delete from t; rollback; delete from t where rowid % 3 = 0")
            if generation == 1:
                connection.execute("vacuum")
            assert connection.execute("pragma integrity_check").get == "ok"
            assert connection.execute("select count(distinct generation) from t").get == generation + 1


def test_real_file_does_not_grow_by_chunks_behind_the_buffer(tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    with closing(connect(path, "synchronous=off")) as connection:
        chunk = ctypes.c_int(1 << 20)
        assert not connection.file_control("main", apsw.SQLITE_FCNTL_CHUNK_SIZE, ctypes.addressof(chunk))
        connection.execute("create table t (x)")
        assert path.stat().st_size == 0


def test_two_connections_of_one_process_share_what_is_not_yet_synced(tmp_path: Path) -> None:
    path = tmp_path / "space.db"
    with (
        closing(connect(path, "journal_mode=wal", "synchronous=off")) as writer,
        closing(connect(path)) as reader,
    ):
        writer.execute("create table t (x); insert into t values (1)")
        assert reader.execute("select x from t").get == 1


def test_sorting_spills_into_temporary_files(tmp_path: Path) -> None:
    with closing(connect(tmp_path / "space.db", "temp_store=file", "cache_size=5")) as connection:
        connection.execute("create temp table t (x)")
        connection.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 3000)"
            " insert into t select randomblob(1000) from n"
        )
        assert connection.execute("select count(*) from (select x from t order by x)").get == 3000
