"""The disk in memory behaves as SQLite's documents say a disk does, and its crash images can show a fault."""

from __future__ import annotations

import random
import sys
from collections import Counter
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Literal

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.testing import Disk, DiskVFS
from headwater.testing.disk_history import KEEPS, DirSyncOp, LinkOp, MarkOp, SyncOp, UnlinkOp, WriteOp

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from headwater.testing.disk import IoKind

DATABASE = "/space.db"
TRANSACTIONS = 30
ROWS_EACH = 6
SCHEMA = "create table rows (number, place, body, primary key (number, place))"
SAFE = ("journal_mode=wal", "synchronous=full")

Verdict = Literal["ok", "lost", "torn", "corrupt"]


@contextmanager
def connect(disk: Disk, *pragmas: str) -> Iterator[apsw.Connection]:
    """Open the database of a disk the way the product does, unless told otherwise."""
    vfs = DiskVFS("disk-model-test", disk)
    try:
        with closing(apsw.Connection(DATABASE, vfs="disk-model-test")) as connection:
            for pragma in ("locking_mode=exclusive", *pragmas):
                # To the end: SQLite leaves the last sync, and its error, to the step behind the only row.
                connection.execute(f"pragma {pragma}").fetchall()
            yield connection
    finally:
        vfs.unregister()


def commit_rows(connection: apsw.Connection, number: int) -> None:
    connection.execute("begin immediate")
    try:
        for row in range(ROWS_EACH):
            connection.execute("insert into rows values (?, ?, ?)", (number, row, "x" * 700))
        connection.execute("commit")
    finally:
        if connection.in_transaction:
            connection.execute("rollback")


def recorded_run(*pragmas: str, lying_fsync: bool = False) -> Disk:
    """Commit thirty transactions, mark each when it is acknowledged, and pull the plug."""
    disk = Disk(seed=7)
    disk.lying_fsync = lying_fsync
    with connect(disk, *pragmas, "wal_autocheckpoint=8") as connection:
        connection.execute(SCHEMA)
        for number in range(TRANSACTIONS):
            commit_rows(connection, number)
            disk.mark(number)
        disk.power_off()
    return disk


def judge(files: dict[str, bytes], acknowledged: Sequence[object]) -> Verdict:
    """Open what a crash left, let SQLite recover, and compare with what was promised."""
    try:
        with connect(Disk(files)) as connection:
            if connection.execute("pragma integrity_check").fetchall() != [("ok",)]:
                return "corrupt"
            if not connection.execute("select 1 from sqlite_schema").fetchall():
                return "lost" if acknowledged else "ok"
            counts = dict(connection.execute("select number, count(*) from rows group by 1"))
    except (apsw.CorruptError, apsw.NotADBError):
        return "corrupt"
    if set(counts.values()) - {ROWS_EACH} or set(counts) != set(range(len(counts))):
        return "torn"
    return "ok" if set(acknowledged) <= set(counts) else "lost"


def verdicts(disk: Disk, keeps: Sequence[float] = KEEPS) -> Counter[Verdict]:
    return Counter(judge(files, marks) for _, marks, files in disk.crash_images(random.Random(7), keeps))


# --- What SQLite promises ---


def test_wal_full_exclusive_survives_a_crash_at_every_point() -> None:
    disk = recorded_run(*SAFE)
    assert verdicts(disk) == {"ok": (len(disk.operations) + 1) * len(KEEPS)}
    assert len(disk.operations) > 500


def test_wal_normal_loses_acknowledged_commits_and_nothing_else() -> None:
    found = verdicts(recorded_run("journal_mode=wal", "synchronous=normal"))
    assert found["lost"] > 100
    assert set(found) == {"ok", "lost"}


def test_rollback_journal_needs_extra_because_full_leaves_its_deletion_unsynced() -> None:
    rollback = ("locking_mode=normal", "journal_mode=delete")
    assert verdicts(recorded_run(*rollback, "synchronous=full"), keeps=(0.0,))["lost"] > 0
    assert set(verdicts(recorded_run(*rollback, "synchronous=extra"))) == {"ok"}


def test_lying_fsync_loses_and_corrupts() -> None:
    disk = recorded_run(*SAFE, lying_fsync=True)
    assert not any(isinstance(operation, SyncOp | DirSyncOp) for operation in disk.operations)
    found = verdicts(disk)
    assert found["lost"] > 0
    assert found["corrupt"] > 0


def test_process_crash_alone_costs_nothing_even_without_syncs() -> None:
    assert set(verdicts(recorded_run("journal_mode=wal", "synchronous=off"), keeps=(1.0,))) == {"ok"}


def test_wal_is_refused_without_exclusive_locking() -> None:
    with connect(Disk(), "locking_mode=normal") as connection:
        assert connection.execute("pragma journal_mode=wal").get == "delete"


# --- Crash images ---


def test_part_of_the_images_is_drawn() -> None:
    disk = recorded_run(*SAFE)
    every = len(disk.operations) + 1
    drawn = [image.k for image in disk.crash_images(random.Random(3), keeps=(0.0,), part=0.1)]
    assert 0.03 * every < len(drawn) < 0.3 * every
    assert drawn == sorted(set(drawn))


def test_enumerated_images_equal_those_built_one_by_one() -> None:
    disk = recorded_run(*SAFE)
    rng, twin = random.Random(3), random.Random()
    images = disk.crash_images(rng, keeps=(0.5,))
    for k in range(len(disk.operations) + 1):
        twin.setstate(rng.getstate())
        marks = tuple(operation.label for operation in disk.operations[:k] if isinstance(operation, MarkOp))
        assert next(images) == (k, marks, disk.crash_image(k, twin, 0.5))
    assert next(images, None) is None


def test_images_are_taken_from_a_disk_that_started_from_an_image() -> None:
    first = recorded_run(*SAFE)
    second = Disk(first.crash_image(len(first.operations), random.Random(1)))
    with connect(second, *SAFE) as connection:
        commit_rows(connection, TRANSACTIONS)
        second.power_off()
    assert set(verdicts(second)) == {"ok"}
    assert judge(second.files(), range(TRANSACTIONS + 1)) == "ok"


def test_unsynced_write_is_torn_only_between_sectors() -> None:
    disk = Disk({"/f": bytes(2048)})
    disk.open("/f").xWrite(b"\xff" * 1000, 300)
    images = {disk.crash_image(1, random.Random(seed))["/f"] for seed in range(500)}
    # It touches three sectors: 212 bytes of the first, all 512 of the second, 276 of the third.
    pieces = ((300, 512), (512, 1024), (1024, 1300))
    assert len(images) == 2 ** len(pieces)
    for image in images:
        assert all(len(set(image[start:stop])) == 1 for start, stop in pieces)
        assert not any(image[:300] + image[1300:])


def test_new_name_is_lost_until_the_directory_is_synced() -> None:
    disk, rng = Disk(), random.Random(0)
    file = disk.open("/a")
    file.xWrite(b"data", 0)
    file.xSync(0)
    disk.sync_directory()
    assert disk.operations == [LinkOp("/a", 1), WriteOp(1, 0, b"data"), SyncOp(1), DirSyncOp()]
    assert [disk.crash_image(k, rng, keep=0.0) for k in range(5)] == [{}, {}, {}, {}, {"/a": b"data"}]
    assert disk.crash_image(1, rng, keep=1.0) == {"/a": b""}


def test_first_sync_of_an_opening_of_a_journal_also_syncs_the_directory() -> None:
    disk = Disk()
    journal = disk.open("/a-wal", is_journal=True)
    journal.xSync(0)
    journal.xSync(0)
    disk.open("/a-wal", is_journal=True).xSync(0)
    assert disk.operations == [LinkOp("/a-wal", 1), SyncOp(1), DirSyncOp(), SyncOp(1), SyncOp(1), DirSyncOp()]


def test_directory_changes_survive_as_a_prefix() -> None:
    disk = Disk({"/a": b"old"})
    disk.unlink("/a")
    disk.open("/b")
    disk.open("/a")
    assert disk.operations == [UnlinkOp("/a"), LinkOp("/b", 2), LinkOp("/a", 3)]
    images = [disk.crash_image(3, random.Random(seed)) for seed in range(50)]
    possible = [{"/a": b"old"}, {}, {"/b": b""}, {"/a": b"", "/b": b""}]
    assert all(image in possible for image in images)
    assert all(image in images for image in possible)


def test_unlinked_file_can_still_be_written_by_who_has_it_open() -> None:
    disk = Disk({"/a": b"old"})
    file = disk.open("/a")
    disk.unlink("/a")
    file.xWrite(b"new", 0)
    assert file.xRead(3, 0) == b"new"
    assert disk.files() == {}


file_steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 1500), st.binary(min_size=1, max_size=1200)),
        st.tuples(st.just("truncate"), st.integers(0, 2000), st.just(b"")),
        st.tuples(st.just("sync"), st.just(0), st.just(b"")),
    ),
    max_size=12,
)


@given(steps=file_steps, seed=st.integers(0, 1000))
def test_images_lie_between_the_last_sync_and_the_running_file(steps: list[tuple[str, int, bytes]], seed: int) -> None:
    disk, model, durable = Disk({"/f": b"begin"}), bytearray(b"begin"), b"begin"
    file = disk.open("/f")
    for kind, position, data in steps:
        if kind == "write":
            file.xWrite(data, position)
            model.extend(bytes(max(0, position - len(model))))
            model[position : position + len(data)] = data
        elif kind == "truncate":
            file.xTruncate(position)
            model = model[:position] + bytes(max(0, position - len(model)))
        else:
            file.xSync(0)
            durable = bytes(model)
    end, rng = len(disk.operations), random.Random(seed)
    assert file.xRead(10_000, 0) == model
    assert disk.files() == disk.crash_image(end, rng, keep=1.0) == {"/f": bytes(model)}
    assert disk.crash_image(end, rng, keep=0.0) == {"/f": durable}
    if durable == model and (not steps or steps[-1][0] == "sync"):
        assert disk.crash_image(end, rng, keep=0.5) == {"/f": durable}


def test_same_seed_records_the_same_operations() -> None:
    def operations() -> list[object]:
        disk = Disk(seed=11)
        vfs = DiskVFS("disk-model-test", disk, clock=lambda: 1_000_000.0, makedefault=True)
        apsw.randomness(0)
        try:
            with closing(apsw.Connection(DATABASE)) as connection:
                for pragma in ("locking_mode=exclusive", *SAFE):
                    connection.execute(f"pragma {pragma}").fetchall()
                connection.execute("create table t as select random() as x, datetime() as now")
                assert connection.execute("select now from t").get == "1970-01-12 13:46:40"
        finally:
            vfs.unregister()
            apsw.randomness(0)
        return list(disk.operations)

    first = operations()
    assert any(isinstance(operation, WriteOp) for operation in first)
    assert first == operations()


# --- Faults ---


def test_full_disk_refuses_writes_serves_reads_and_resumes_when_space_is_freed() -> None:
    disk = Disk()
    with connect(disk, *SAFE) as connection:
        connection.execute(SCHEMA)
        commit_rows(connection, 0)
        disk.capacity_bytes = sum(map(len, disk.files().values())) + 10_000
        for _ in range(3):
            with pytest.raises(apsw.FullError, match=r"cannot grow /space\.db-wal by"):
                commit_rows(connection, 1)
            assert connection.execute("select distinct number from rows").fetchall() == [(0,)]

        disk.capacity_bytes = None
        commit_rows(connection, 1)
        assert connection.execute("pragma integrity_check").get == "ok"
        disk.power_off()
    assert judge(disk.crash_image(len(disk.operations), random.Random(1), keep=0.0), range(2)) == "ok"


def test_failed_sync_raises_once_when_told_once_and_sqlite_accepts_the_next_commit() -> None:
    disk = Disk()
    with connect(disk, *SAFE) as connection:
        connection.execute(SCHEMA)
        disk.failing_syncs = {disk.sync_count + 1}
        with pytest.raises(apsw.IOError, match=r"cannot sync /space\.db-wal") as raised:
            commit_rows(connection, 0)
        assert extended_result(raised.value) == apsw.SQLITE_IOERR_FSYNC
        commit_rows(connection, 0)


def test_failed_syncs_go_on_when_told_so() -> None:
    disk = Disk()
    with connect(disk, *SAFE) as connection:
        connection.execute(SCHEMA)
        disk.failing_syncs = range(disk.sync_count + 1, sys.maxsize)
        for _ in range(3):
            with pytest.raises(apsw.IOError):
                commit_rows(connection, 0)
        disk.failing_syncs = ()


def test_pages_of_a_failed_sync_are_not_brought_back_by_a_later_one() -> None:
    disk = Disk({"/f": b"old old"})
    file = disk.open("/f")
    file.xWrite(b"new", 0)
    disk.failing_syncs = {1}
    with pytest.raises(apsw.IOError):
        file.xSync(0)
    file.xWrite(b"new", 4)
    file.xSync(0)
    assert file.xRead(7, 0) == b"new new"
    assert disk.crash_image(len(disk.operations), random.Random(0), keep=1.0) == {"/f": b"old new"}


def test_commit_has_happened_when_only_its_checkpoint_cannot_sync() -> None:
    """A caller must not read an error from COMMIT as "nothing was committed"."""
    disk = Disk()
    with connect(disk, *SAFE, "wal_autocheckpoint=1") as connection:
        connection.execute("create table t (x)")
        disk.on_io = fail_sync_of_database
        with pytest.raises(apsw.IOError, match="checkpoint"):
            connection.execute("insert into t values (1)")
        assert connection.execute("select x from t").get == 1
        disk.on_io = lambda _kind, _name: None
        disk.power_off()
    with connect(Disk(disk.crash_image(len(disk.operations), random.Random(0), keep=0.0))) as connection:
        assert connection.execute("select x from t").get == 1


def extended_result(error: apsw.Error) -> int:
    return int(error.extendedresult)  # type: ignore[attr-defined]  # documented, missing in the stubs


def fail_sync_of_database(kind: IoKind, name: str) -> None:
    if (kind, name) == ("sync", DATABASE):
        raise apsw.IOError("the checkpoint cannot sync")


def test_flipped_bit_is_read_back_flipped() -> None:
    disk = Disk()
    with connect(disk) as connection:
        connection.execute("create table t (x); insert into t values ('headwater')")
    disk.flip_bit(DATABASE, disk.files()[DATABASE].index(b"headwater"), bit=1)
    with connect(disk) as connection:
        assert connection.execute("select x from t").get == "jeadwater"
        assert connection.execute("pragma integrity_check").get == "ok"


def test_flipped_bit_in_the_structure_is_found_by_sqlite() -> None:
    disk = Disk()
    with connect(disk) as connection:
        connection.execute("create table t (x); insert into t values ('headwater')")
    disk.flip_bit(DATABASE, 4096, bit=3)
    with connect(disk) as connection, pytest.raises(apsw.CorruptError):
        connection.execute("select x from t").fetchall()


def test_hook_sees_every_access_and_can_cut_the_power_inside_one() -> None:
    disk, seen = Disk(), Counter[str]()

    def die_in_the_twentieth_write(kind: IoKind, _name: str) -> None:
        seen[kind] += 1
        if seen["write"] == 20:
            disk.power_off()

    disk.on_io = die_in_the_twentieth_write
    with connect(disk, *SAFE) as connection:
        connection.execute(SCHEMA)
        for number in range(3):
            commit_rows(connection, number)
    assert set(seen) >= {"open", "read", "write", "sync", "unlink"}
    assert sum(isinstance(operation, WriteOp) for operation in disk.operations) == 19


def test_temporary_files_make_no_crash_points() -> None:
    disk = Disk()
    with connect(disk, "temp_store=file", "cache_size=5") as connection:
        connection.execute("create table t (x)")
        before = len(disk.operations)
        connection.execute("create temp table u (x)")
        connection.execute(
            "with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000)"
            " insert into u select zeroblob(1000) from n"
        )
        disk.open(None).xSync(0)
        assert len(disk.operations) == before


def test_missing_file_is_not_made_without_leave() -> None:
    vfs = DiskVFS("disk-model-test", Disk())
    try:
        with pytest.raises(apsw.CantOpenError):
            apsw.Connection(DATABASE, vfs="disk-model-test", flags=apsw.SQLITE_OPEN_READONLY)
        with pytest.raises(apsw.IOError) as raised:
            vfs.xDelete("/nowhere", syncdir=False)
        assert extended_result(raised.value) == apsw.SQLITE_IOERR_DELETE_NOENT
    finally:
        vfs.unregister()
