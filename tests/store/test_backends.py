"""What every backend promises, asked of each: rows in, the same rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import CorruptError, UsageError
from headwater.store.backend import (
    PURGED,
    SESSIONS_DROPPED,
    Backend,
    BranchRow,
    Fold,
    HeadRow,
    Horizon,
    LogRow,
    ObservationRow,
    ReplayRow,
    SnapshotRow,
)
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.testing import Disk, DiskVFS, SimClock
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, LocalSeq, Millis, Seq, SessionId
from tests.support.halves import examples
from tests.support.postgres import new_name, open_backend

Reopen = Callable[[], Backend]
DRAFT = BranchId("draft")
A, B = DocKey("space/a"), DocKey("space/b")


def make(kind: str, folder: Path) -> Backend:
    if kind == "postgres":
        return open_backend(new_name())
    return MemoryBackend() if kind == "memory" else SqliteBackend(str(folder / "space.db"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = make(request.param, tmp_path)
    yield made
    made.close()


def row(seq: int, body: bytes = b"body") -> LogRow:
    return LogRow(Seq(seq), body, sha256(b"%d" % seq).digest())


def rows(first: int, last: int) -> list[LogRow]:
    return [row(seq, b"%d" % seq) for seq in range(first, last + 1)]


def branch_row(name: BranchId, parent: BranchId | None = None, fork_seq: int = 0) -> BranchRow:
    return BranchRow(name, parent, Seq(fork_seq), Millis(5))


def head(doc: DocKey, seq: int, *, live: bool = True) -> HeadRow:
    return HeadRow(doc, Seq(seq), live, 10, 20)


def fold(through: int, **parts: object) -> Fold:
    return Fold(Seq(through), branches=[branch_row(MAIN), branch_row(DRAFT, MAIN, 1)], **parts)  # type: ignore[arg-type]


def test_tables_of_workflows_are_those_of_a_new_file(backend: Backend, tmp_path: Path) -> None:
    file = SqliteBackend(str(tmp_path / "new.db"))
    query = "select type, name, sql from sqlite_schema where tbl_name like 'flow%' order by type, name"
    assert backend.tables.execute(query) == file.tables.execute(query)
    file.close()


def test_new_backend_is_empty(backend: Backend) -> None:
    assert backend.last() is None
    assert backend.row(Seq(1)) is None
    assert list(backend.log(NEVER, Seq(100))) == []
    assert (backend.folded(), backend.horizon().seq) == (0, 0)
    assert backend.branches() == []
    assert backend.head(MAIN, A) is None
    assert backend.heads(MAIN, "", DocKey(""), 10) == []
    assert backend.revisions(MAIN, A, NEVER, Seq(9)) == []
    assert (backend.snapshot(MAIN, A, Seq(9)), backend.snapshots(MAIN, A)) == (None, [])
    assert (backend.replayed(SessionId("s"), LocalSeq(1)), backend.last_local(SessionId("s"))) == (None, 0)
    assert backend.meta("space") is None
    assert backend.integrity() == []


def test_log_comes_back_in_order_and_by_place(backend: Backend) -> None:
    backend.append(rows(1, 3), None)
    backend.append(rows(4, 700), None)
    assert list(backend.log(NEVER, Seq(700))) == rows(1, 700)
    assert list(backend.log(Seq(2), Seq(5))) == rows(3, 5)
    assert list(backend.log(Seq(5), Seq(5))) == []
    assert backend.last() == row(700, b"700")
    assert (backend.row(Seq(3)), backend.row(Seq(701))) == (row(3, b"3"), None)


def test_bodies_of_any_bytes_come_back(backend: Backend) -> None:
    bodies = [b"", b"\0", bytes(range(256)), b"x" * 100_000]
    backend.append([row(number, body) for number, body in enumerate(bodies, 1)], None)
    assert [r.body for r in backend.log(NEVER, Seq(9))] == bodies


def test_fold_is_remembered_with_the_rows_it_came_with(backend: Backend) -> None:
    backend.append(rows(1, 2), None)
    backend.append(
        rows(3, 3),
        fold(
            2,
            revisions=[(MAIN, A, [Seq(1), Seq(2)]), (DRAFT, B, [Seq(2)])],
            heads=[(MAIN, head(A, 2)), (DRAFT, head(B, 2, live=False))],
            snapshots=[(MAIN, SnapshotRow(A, Seq(2), b"whole")), (DRAFT, SnapshotRow(B, Seq(2), None))],
            replays=[ReplayRow(SessionId("s"), LocalSeq(1), LocalSeq(2), Seq(1))],
        ),
    )
    assert (backend.folded(), backend.last()) == (2, row(3, b"3"))
    assert backend.branches() == [branch_row(MAIN), branch_row(DRAFT, MAIN, 1)]
    assert (backend.head(MAIN, A), backend.head(DRAFT, A)) == (head(A, 2), None)
    assert backend.head(DRAFT, B) == head(B, 2, live=False)
    assert backend.revisions(MAIN, A, NEVER, Seq(9)) == [2, 1]
    assert backend.snapshot(MAIN, A, Seq(2)) == SnapshotRow(A, Seq(2), b"whole")
    assert backend.snapshot(DRAFT, B, Seq(9)) == SnapshotRow(B, Seq(2), None)
    assert backend.replayed(SessionId("s"), LocalSeq(2)) == 2


def test_later_fold_moves_heads_and_adds_the_rest(backend: Backend) -> None:
    backend.append(rows(1, 5), fold(1, revisions=[(MAIN, A, [Seq(1)])], heads=[(MAIN, head(A, 1))]))
    merged = BranchRow(MAIN, None, NEVER, Millis(5), ((DRAFT, Seq(3), Seq(4)),))
    more = Fold(Seq(5), branches=[merged, branch_row(DRAFT, MAIN, 1)])
    more.revisions, more.heads = [(MAIN, A, [Seq(5)])], [(MAIN, head(A, 5, live=False))]
    backend.append((), more)
    assert backend.folded() == 5
    assert backend.head(MAIN, A) == head(A, 5, live=False)
    assert backend.revisions(MAIN, A, NEVER, Seq(9)) == [5, 1]
    assert backend.revisions(MAIN, A, Seq(1), Seq(5)) == [5]
    assert backend.revisions(MAIN, A, NEVER, Seq(4)) == [1]
    assert backend.branches()[0] == merged


def test_documents_of_any_branch_are_not_among_those_that_were_never_written(backend: Backend) -> None:
    never = DocKey("space/\u00e9'\"\\")
    backend.append(rows(1, 2), fold(2, heads=[(MAIN, head(A, 1)), (DRAFT, head(B, 2, live=False))]))
    assert backend.never_written([never, A, B]) == [never]
    assert backend.never_written([]) == []


def test_newest_snapshot_at_or_before_a_place_is_found(backend: Backend) -> None:
    snapshots = [SnapshotRow(A, Seq(seq), b"%d" % seq) for seq in (2, 5, 9)]
    for snapshot in snapshots:
        backend.append((), fold(9, snapshots=[(MAIN, snapshot)]))
    expected = {1: None, 2: 2, 4: 2, 5: 5, 8: 5, 9: 9, 100: 9}
    found = {seq: backend.snapshot(MAIN, A, Seq(seq)) for seq in expected}
    assert {seq: row and row.seq for seq, row in found.items()} == expected
    assert backend.snapshots(MAIN, A) == snapshots


def test_heads_come_in_key_order_by_pages_and_prefix(backend: Backend) -> None:
    docs = [DocKey(f"space/{name}") for name in ("b", "a", "ab", "c", "aa", "é", "z\U0010ffff")]
    backend.append(rows(1, 1), fold(1, heads=[(MAIN, head(doc, 1)) for doc in docs]))
    everything = sorted(docs)
    assert [h.doc for h in backend.heads(MAIN, "", DocKey(""), 100)] == everything
    assert [h.doc for h in backend.heads(MAIN, "", everything[1], 2)] == everything[2:4]
    assert [h.doc for h in backend.heads(MAIN, "space/a", DocKey(""), 100)] == everything[:3]
    assert [h.doc for h in backend.heads(MAIN, "space/a", everything[0], 1)] == everything[1:2]
    assert backend.heads(DRAFT, "", DocKey(""), 100) == []


def test_the_versions_of_all_documents_have_truth_values(backend: Backend) -> None:
    # The compiled form of the core refuses a number in place of one.
    backend.append(rows(1, 1), fold(1, heads=[(MAIN, head(A, 1))]))
    assert [(doc, seq, live is True) for doc, seq, live in backend.head_seqs(MAIN)] == [(A, 1, True)]


LONG = "a" * 959
"""A beginning of keys that are too long for an index of PostgreSQL."""

SHORT_KEYS = st.text(st.sampled_from("abz%_'\U0010ffff\ud7ff\ue000\0é"), max_size=4)
KEYS = SHORT_KEYS | SHORT_KEYS.map(LONG.__add__)


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(keys=st.sets(KEYS, max_size=12), prefix=KEYS, after=KEYS, limit=st.integers(1, 5))
def test_backends_agree_on_every_page_of_heads(keys: set[str], prefix: str, after: str, limit: int) -> None:
    wanted = [key for key in sorted(keys) if key > after and key.startswith(prefix)][:limit]
    vfs = DiskVFS("heads", Disk())
    backends: list[Backend] = [MemoryBackend(), SqliteBackend("/space.db", vfs="heads"), open_backend(new_name())]
    for backend in backends:
        backend.append((), fold(1, heads=[(MAIN, head(DocKey(key), 1)) for key in sorted(keys)]))
        assert [h.doc for h in backend.heads(MAIN, prefix, DocKey(after), limit)] == wanted
        backend.close()
    vfs.unregister()


def test_runs_of_a_session_are_found_by_every_number_in_them(backend: Backend) -> None:
    s, t = SessionId("s"), SessionId("t")
    runs = [
        ReplayRow(s, LocalSeq(1), LocalSeq(3), Seq(10)),
        ReplayRow(t, LocalSeq(1), LocalSeq(1), Seq(13)),
        ReplayRow(s, LocalSeq(5), LocalSeq(6), Seq(14)),
    ]
    backend.append((), fold(20, replays=runs))
    found = [backend.replayed(s, LocalSeq(number)) for number in range(8)]
    assert found == [None, 10, 11, 12, None, 14, 15, None]
    assert (backend.last_local(s), backend.last_local(t), backend.last_local(SessionId("u"))) == (6, 1, 0)


def test_facts_about_the_space_are_kept(backend: Backend) -> None:
    backend.set_meta("space", "notes")
    backend.set_meta("space", "Notes ü")
    assert backend.meta("space") == "Notes ü"


def test_dropped_log_is_gone_and_snapshots_stand_in_for_it(backend: Backend) -> None:
    seqs = (2, 5, 9)
    backend.append(
        rows(1, 9),
        fold(
            9,
            revisions=[(MAIN, A, [Seq(seq) for seq in seqs])],
            heads=[(MAIN, head(A, 9))],
            snapshots=[(MAIN, SnapshotRow(A, Seq(seq), b"%d" % seq)) for seq in seqs],
        ),
    )
    backend.drop_log(Horizon(Seq(6), b"c" * 32))
    assert (backend.horizon().seq, backend.horizon().chain) == (6, b"c" * 32)
    assert list(backend.log(NEVER, Seq(99))) == rows(7, 9)
    assert backend.revisions(MAIN, A, NEVER, Seq(99)) == [9]
    assert [snapshot.seq for snapshot in backend.snapshots(MAIN, A)] == [5, 9]
    assert backend.last() == row(9, b"9")
    backend.compact()
    assert list(backend.log(NEVER, Seq(99))) == rows(7, 9)


def test_dropped_documents_were_never_written_on_their_branches(backend: Backend) -> None:
    seqs = [Seq(1), Seq(2)]
    backend.append(
        rows(1, 3),
        fold(
            3,
            revisions=[(MAIN, A, seqs), (DRAFT, A, [Seq(3)]), (MAIN, B, seqs)],
            heads=[(MAIN, head(A, 2, live=False)), (DRAFT, head(A, 3)), (MAIN, head(B, 2, live=False))],
            snapshots=[(MAIN, SnapshotRow(A, Seq(2), None)), (MAIN, SnapshotRow(B, Seq(1), b"b"))],
            observations=[(MAIN, ObservationRow(B, Seq(2), b"seen"))],
        ),
    )
    backend.drop_log(Horizon(Seq(2), b"c" * 32), [(MAIN, A), (MAIN, B)])
    assert (backend.head(MAIN, A), backend.head(MAIN, B)) == (None, None)
    assert backend.head(DRAFT, A) == head(A, 3)
    assert backend.revisions(DRAFT, A, NEVER, Seq(9)) == [3]
    assert backend.heads(MAIN, "", DocKey(""), 9) == []
    assert backend.snapshots(MAIN, A) == backend.snapshots(MAIN, B) == []
    assert backend.observations(MAIN) == []
    assert backend.never_written([A, B]) == [B]
    assert backend.meta(PURGED) == "2"
    # As new ones.
    backend.append(rows(4, 4), fold(4, revisions=[(MAIN, B, [Seq(4)])], heads=[(MAIN, head(B, 4))]))
    assert backend.revisions(MAIN, B, NEVER, Seq(9), Seq(4)) == [4]
    backend.drop_log(Horizon(Seq(3), b"c" * 32))
    assert backend.meta(PURGED) == "2"


def test_dropped_sessions_keep_their_newest_commit(backend: Backend) -> None:
    def replays(name: str, *runs: tuple[int, int, int]) -> list[ReplayRow]:
        made = [(LocalSeq(first), LocalSeq(last), Seq(seq)) for first, last, seq in runs]
        return [ReplayRow(SessionId(name), *each) for each in made]

    old, one, young, live = (SessionId(name) for name in ("old", "one", "young", "live"))
    runs = replays("old", (1, 2, 1), (5, 7, 3)) + replays("one", (1, 1, 6)) + replays("live", (1, 2, 7))
    backend.append(rows(1, 10), fold(10, replays=[*runs, *replays("young", (1, 2, 9))]))
    assert backend.drop_sessions(Seq(8), [live]) == 1
    assert [backend.replayed(old, LocalSeq(number)) for number in (1, 2, 5, 6, 7)] == [None, None, None, None, 5]
    assert [backend.last_local(each) for each in (old, one, young, live)] == [7, 1, 2, 2]
    assert (backend.replayed(live, LocalSeq(1)), backend.replayed(young, LocalSeq(1))) == (7, 9)
    assert backend.meta(SESSIONS_DROPPED) == "8"
    assert backend.drop_sessions(Seq(8), [live]) == 0


def test_closing_twice_does_no_harm(backend: Backend) -> None:
    backend.close()
    backend.close()


# --- files ---


def everything(backend: Backend) -> list[object]:
    """All that the test below has put in."""
    return [
        list(backend.log(NEVER, Seq(99))),
        backend.folded(),
        backend.branches(),
        backend.heads(MAIN, "", DocKey(""), 99),
        backend.revisions(MAIN, A, NEVER, Seq(99)),
        backend.snapshots(MAIN, A),
        backend.replayed(SessionId("s"), LocalSeq(1)),
        backend.meta("space"),
    ]


def full(backend: Backend) -> None:
    backend.append(
        rows(1, 3),
        fold(
            3,
            revisions=[(MAIN, A, [Seq(1)])],
            heads=[(MAIN, head(A, 1))],
            snapshots=[(MAIN, SnapshotRow(A, Seq(1), b"x"))],
            replays=[ReplayRow(SessionId("s"), LocalSeq(1), LocalSeq(3), Seq(1))],
        ),
    )
    backend.set_meta("space", "notes")


def test_file_holds_everything_after_reopening(tmp_path: Path) -> None:
    path = str(tmp_path / "space.db")
    first = SqliteBackend(path)
    full(first)
    before = everything(first)
    first.close()
    second = SqliteBackend(path)
    assert everything(second) == before
    second.close()


def test_backup_of_an_open_space_holds_everything(tmp_path: Path) -> None:
    backend = SqliteBackend(str(tmp_path / "space.db"))
    full(backend)
    seen: list[tuple[int, int]] = []
    backend.backup(str(tmp_path / "copy.db"), lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1] > 0
    copy = SqliteBackend(str(tmp_path / "copy.db"))
    assert everything(copy) == everything(backend)
    copy.close()
    backend.close()


def test_what_is_written_between_two_pieces_of_a_copy_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.store.backends.sqlite_file._COPY_PAGES", 1)
    backend = SqliteBackend(str(tmp_path / "space.db"))
    full(backend)
    pieces = 0
    for done, total in backend.copying(str(tmp_path / "copy.db")):
        pieces += 1
        if done < total and pieces < 10:
            # Also a page that was copied already.
            backend.set_meta("space", f"renamed after {pieces}")
    assert pieces > 10
    copy = SqliteBackend(str(tmp_path / "copy.db"))
    assert copy.meta("space") == "renamed after 9"
    assert everything(copy) == everything(backend)
    copy.close()
    backend.close()


def test_a_copy_that_is_given_up_leaves_the_space_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.store.backends.sqlite_file._COPY_PAGES", 1)
    backend = SqliteBackend(str(tmp_path / "space.db"))
    full(backend)
    before = everything(backend)
    pieces = backend.copying(str(tmp_path / "copy.db"))
    next(pieces)
    pieces.close()
    assert everything(backend) == before
    # And one that nobody has given up is no reason not to close.
    unfinished = backend.copying(str(tmp_path / "other.db"))
    next(unfinished)
    backend.close()
    unfinished.close()


def test_space_in_memory_has_no_file_to_back_up(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="export"):
        MemoryBackend().backup(str(tmp_path / "copy.db"), lambda _done, _total: None)


def test_failed_append_leaves_nothing(tmp_path: Path) -> None:
    backend = SqliteBackend(str(tmp_path / "space.db"))
    backend.append(rows(1, 3), None)
    with pytest.raises(Exception, match=r"(?i)unique|constraint|corrupt|damaged"):
        backend.append(rows(3, 6), fold(6, heads=[(MAIN, head(A, 1))]))
    assert list(backend.log(NEVER, Seq(99))) == rows(1, 3)
    assert backend.head(MAIN, A) is None
    backend.append(rows(4, 4), None)
    backend.close()


@pytest.mark.parametrize(
    "sql",
    [
        "update log set body = x'00' where seq = 2",
        "update log set sum = sum + 1 where seq = 2",
    ],
)
def test_row_that_does_not_match_its_checksum_is_refused_when_read(tmp_path: Path, sql: str) -> None:
    path = str(tmp_path / "space.db")
    backend = SqliteBackend(path)
    backend.append(rows(1, 3), None)
    backend.close()
    with apsw.Connection(path) as db:
        db.execute(sql)
    db.close()
    damaged = SqliteBackend(path)
    assert damaged.row(Seq(1)) == row(1, b"1")
    with pytest.raises(CorruptError, match="commit 2 does not match its checksum"):
        damaged.row(Seq(2))
    with pytest.raises(CorruptError):
        list(damaged.log(NEVER, Seq(3)))
    damaged.close()


def test_snapshot_that_does_not_match_its_checksum_is_refused_when_read(tmp_path: Path) -> None:
    path = str(tmp_path / "space.db")
    backend = SqliteBackend(path)
    full(backend)
    backend.close()
    with apsw.Connection(path) as db:
        db.execute("update snapshot set body = x'00'")
    db.close()
    damaged = SqliteBackend(path)
    with pytest.raises(CorruptError, match="snapshot"):
        damaged.snapshot(MAIN, A, Seq(9))
    damaged.close()


@pytest.mark.parametrize("table", ["log", "head", "revision", "meta", "branch", "replay"])
def test_missing_table_is_damage_told_in_our_words(tmp_path: Path, table: str) -> None:
    path = str(tmp_path / "space.db")
    backend = SqliteBackend(path)
    full(backend)
    backend.close()
    with apsw.Connection(path) as db:
        db.execute(f"drop table {table}")
    db.close()
    with pytest.raises(CorruptError, match="damaged"):
        use_everything(path)


def use_everything(path: str) -> None:
    backend = SqliteBackend(path)
    try:
        engine = Engine(backend, SimClock())
        engine.states.get(MAIN, A)
        engine._sessions.get(SessionId("s"))
        if not verify(engine).ok:
            raise CorruptError("damaged")
    finally:
        backend.close()


def test_settings_that_keep_commits_safe_are_in_force(tmp_path: Path) -> None:
    backend = SqliteBackend(str(tmp_path / "space.db"))
    pragmas = {name: backend._db.pragma(name) for name in ("journal_mode", "synchronous", "locking_mode", "mmap_size")}
    assert pragmas == {"journal_mode": "wal", "synchronous": 2, "locking_mode": "exclusive", "mmap_size": 0}
    assert not (tmp_path / "space.db-shm").exists(), "the index of the log is in memory: one connection"
    backend.close()


def test_old_sqlite_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from headwater.errors import UnsafeLibraryError

    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(UnsafeLibraryError, match=r"3\.51\.2"):
        SqliteBackend(str(tmp_path / "space.db"))
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.3")
    SqliteBackend(str(tmp_path / "space.db")).close()
