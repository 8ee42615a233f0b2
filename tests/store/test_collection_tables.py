"""The tables of collections, asked of each backend: keys in order, and a feed that says what it does not know."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headwater.store.backend import Backend, EntryFold, Fold, IndexRow, ShiftRow
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.backends.sqlite_entries import TABLES
from headwater.values.ids import MAIN, NEVER, BranchId, Seq
from tests.support.limits import small_limits
from tests.support.postgres import new_name, open_backend

NAME = "order#state"
DRAFT = BranchId("draft")


def make(kind: str, folder: Path) -> Backend:
    if kind == "postgres":
        return open_backend(new_name())
    return MemoryBackend() if kind == "memory" else SqliteBackend(str(folder / "space.db"))


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backend]:
    made = make(request.param, tmp_path)
    yield made
    made.close()


def index_row(through: int, count: int = 0, branch: BranchId = MAIN) -> IndexRow:
    return IndexRow(branch, NAME, Seq(1), Seq(through), count, 7)


def entry_fold(row: IndexRow, removed: list[bytes], added: list[bytes], *, is_new: bool = False) -> Fold:
    return Fold(NEVER, entries=[EntryFold(row, removed, added, is_new)])


def test_new_backend_has_no_collections(backend: Backend) -> None:
    assert backend.index_rows() == []
    assert backend.features() == ""


def test_making_collections_is_idempotent_and_requires_the_feature(backend: Backend) -> None:
    backend.make_collections(Seq(4))
    backend.append((), Fold(NEVER, shifts=[ShiftRow(Seq(5), b"five")]))
    backend.make_collections(Seq(9))
    assert backend.features() == "collections=0.1"
    assert backend.shift_floor() == 4
    assert backend.shifts(Seq(4), Seq(5)) == [ShiftRow(Seq(5), b"five")]


def test_keys_come_back_in_order_in_both_directions(backend: Backend) -> None:
    backend.make_collections(NEVER)
    rng = random.Random(1)
    known: set[bytes] = set()
    for through in range(1, 12):
        added = {rng.randbytes(rng.randrange(1, 4)) for _ in range(30)} - known
        removed = set(rng.sample(sorted(known), min(len(known), 10)))
        known = (known - removed) | added
        row = index_row(through, len(known))
        backend.append((), entry_fold(row, sorted(removed), sorted(added)))
        assert backend.index_rows() == [row]
        assert backend.entry_count(MAIN, NAME) == backend.entry_sums(MAIN, NAME)[0] == len(known)
        for _ in range(10):
            lo, hi = sorted([rng.randbytes(2), rng.randbytes(2)])
            inside = sorted(key for key in known if lo <= key < hi)
            for limit in (1, 5, 1000):
                assert backend.entries(MAIN, NAME, lo, hi, limit, reverse=False) == inside[:limit]
                assert backend.entries(MAIN, NAME, lo, hi, limit, reverse=True) == inside[::-1][:limit]


def test_new_index_replaces_what_was_there_and_branches_are_apart(backend: Backend) -> None:
    backend.make_collections(NEVER)
    backend.append((), entry_fold(index_row(1, 2), [], [b"a", b"b"]))
    backend.append((), entry_fold(index_row(1, 1, DRAFT), [], [b"z"]))
    backend.append((), entry_fold(index_row(2, 1), [], [b"c"], is_new=True))
    assert backend.entries(MAIN, NAME, b"", b"\xff", 9, reverse=False) == [b"c"]
    assert backend.entries(DRAFT, NAME, b"", b"\xff", 9, reverse=False) == [b"z"]
    assert backend.entries(DRAFT, "order#other", b"", b"\xff", 9, reverse=False) == []


def test_shifts_come_back_or_are_said_to_be_unknown(backend: Backend) -> None:
    with small_limits(SHIFTS_KEPT=4, SHIFTS_SLACK=1):
        backend.make_collections(Seq(2))
        rows = [ShiftRow(Seq(seq), b"%d" % seq) for seq in (3, 4, 7, 9, 10, 12)]
        backend.append((), Fold(NEVER, shifts=rows[:3]))
        backend.append((), Fold(NEVER, shifts=rows[3:]))
        assert backend.shifts(Seq(2), Seq(20)) == rows
        assert backend.shifts(Seq(4), Seq(9)) == rows[2:4]
        assert backend.shifts(Seq(5), Seq(6)) == []
        assert backend.shifts(Seq(1), Seq(20)) is None
        # No more than asked for is deleted, and none while there are few.
        backend.append((), Fold(NEVER, shift_floor=Seq(3)))
        assert backend.shift_floor() == 3
        backend.append((), Fold(NEVER, shifts=[ShiftRow(Seq(13), b"13")], shift_floor=Seq(13)))
        assert backend.shift_floor() == 7
        assert backend.shifts(Seq(7), Seq(20)) == [*rows[3:], ShiftRow(Seq(13), b"13")]
        assert backend.shifts(Seq(6), Seq(20)) is None


def test_new_feed_replaces_all_shifts(backend: Backend) -> None:
    backend.make_collections(Seq(2))
    rows = [ShiftRow(Seq(seq), b"%d" % seq) for seq in (3, 4, 7, 9)]
    backend.append((), Fold(NEVER, shifts=rows))
    backend.append((), Fold(NEVER, shifts=rows[1:3], is_new_feed=True))
    assert backend.shifts(Seq(2), Seq(20)) == rows[1:3]
    backend.append((), Fold(NEVER, shifts=rows[3:]))
    assert backend.shifts(Seq(2), Seq(20)) == rows[1:]
    backend.append((), Fold(NEVER, is_new_feed=True))
    assert backend.shifts(Seq(2), Seq(20)) == []


def test_tables_survive_a_reopening_and_are_only_in_files_with_collections(tmp_path: Path) -> None:
    path = str(tmp_path / "space.db")
    SqliteBackend(path).close()
    with apsw.Connection(path) as db:
        there = {name for (name,) in db.execute("select name from sqlite_schema")}
    db.close()
    assert not there & TABLES.keys()
    backend = SqliteBackend(path)
    backend.make_collections(Seq(1))
    backend.append((), entry_fold(index_row(1, 1), [], [b"a"]))
    backend.close()
    backend = SqliteBackend(path)
    assert backend.index_rows() == [index_row(1, 1)]
    assert backend.entries(MAIN, NAME, b"", b"\xff", 9, reverse=False) == [b"a"]
    backend.backup(str(tmp_path / "copy.db"), lambda _done, _total: None)
    backend.close()
    copied = SqliteBackend(str(tmp_path / "copy.db"))
    assert copied.entries(MAIN, NAME, b"", b"\xff", 9, reverse=False) == [b"a"]
    copied.close()
