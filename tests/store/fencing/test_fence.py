"""The fence: what another owner has taken over is refused as a whole, and a lost answer is found out about."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from headwater.errors import FencedError, PoisonedError
from headwater.host.postgres.database_connection import DatabaseConnection
from headwater.store.backend import Fold, HeadRow, LogRow, ObservationRow, SnapshotRow
from headwater.store.backends.postgres.database_link import DatabaseLink, UnansweredError
from headwater.store.backends.postgres.database_schema import OF_A_SPACE
from headwater.store.backends.postgres.fence import find_space, take
from headwater.store.backends.postgres.postgres_backend import PostgresBackend
from headwater.values.ids import MAIN, NEVER, DocKey, Seq
from tests.support.halves import examples
from tests.support.postgres import database, new_name, open_backend, take_space

A = DocKey("space/a")


def rows(first: int, last: int, writer: str = "w") -> list[LogRow]:
    return [LogRow(Seq(seq), f"{writer} {seq}".encode(), b"c" * 32) for seq in range(first, last + 1)]


def whole_fold(seq: int) -> Fold:
    fold = Fold(Seq(seq), revisions=[(MAIN, A, [Seq(seq)])], heads=[(MAIN, HeadRow(A, Seq(seq), True, 1, 1))])
    fold.snapshots = [(MAIN, SnapshotRow(A, Seq(seq), b"x"))]
    fold.observations = [(MAIN, ObservationRow(A, Seq(seq), b"seen"))]
    return fold


class CutLink:
    """A link whose answers are lost when the test says so: before the statement is executed, or after."""

    def __init__(self, link: DatabaseLink) -> None:
        self.link = link
        self.cuts: list[str] = []
        self.restored = 0
        self.is_dead = False

    @property
    def where(self) -> str:
        return self.link.where

    def run(self, statement: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        cut = self.cuts.pop(0) if self.cuts else ""
        if cut == "before":
            raise UnansweredError
        if cut == "interrupt before":
            raise KeyboardInterrupt
        found = self.link.run(statement, values)
        if cut == "after":
            raise UnansweredError
        if cut == "interrupt after":
            raise KeyboardInterrupt
        return found

    def restore(self) -> None:
        if self.is_dead:
            raise PoisonedError("it does not answer")
        self.restored += 1

    def disown(self) -> None:
        self.link.disown()

    def close(self) -> None:
        self.link.close()


@pytest.fixture
def cut() -> Iterator[tuple[CutLink, PostgresBackend]]:
    connection = DatabaseConnection(database(), is_relaxed=True)
    link = CutLink(connection)
    backend = PostgresBackend(link, *take_space(connection, new_name(), 1))
    yield link, backend
    backend.close()


def test_a_group_of_an_owner_that_was_taken_over_from_writes_to_no_table() -> None:
    name = new_name()
    old = open_backend(name, 1)
    old.append(rows(1, 3), None)
    new = open_backend(name, 2)
    with pytest.raises(FencedError, match="another program owns this space"):
        old.append(rows(4, 6, "late"), whole_fold(6), [(MAIN, ObservationRow(A, Seq(6), b"late"))])
    with pytest.raises(FencedError):
        old.row(Seq(1))
    assert list(new.log(NEVER, Seq(99))) == rows(1, 3)
    assert (new.head(MAIN, A), new.snapshots(MAIN, A), new.observations(MAIN), new.branches()) == (None, [], [], [])
    new.append(rows(4, 4), None)
    assert [row.seq for row in new.log(NEVER, Seq(99))] == [1, 2, 3, 4]
    old.close()
    new.close()


def test_of_two_that_take_over_at_once_one_gets_the_space() -> None:
    name = new_name()
    open_backend(name, 1).close()
    connection = DatabaseConnection(database())
    seen = find_space(connection, name)
    assert seen is not None
    assert [take(connection, seen, owner) is not None for owner in (2, 3)] == [True, False]
    connection.close()


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_group_whose_answer_is_lost_is_written_once(cut: tuple[CutLink, PostgresBackend], when: str) -> None:
    link, backend = cut
    backend.append(rows(1, 3), None)
    link.cuts = [when]
    backend.append(rows(4, 6), whole_fold(6))
    assert link.restored == 1
    assert list(backend.log(NEVER, Seq(99))) == rows(1, 6)
    assert backend.revisions(MAIN, A, NEVER, Seq(99)) == [6]
    backend.append(rows(7, 7), None)


def test_answers_that_are_lost_again_and_again_lose_and_double_nothing(cut: tuple[CutLink, PostgresBackend]) -> None:
    link, backend = cut
    link.cuts = ["after", "after", "before", "after", "before"]
    backend.append(rows(1, 2), None)
    link.cuts = ["before", "after", "after"]
    backend.append(rows(3, 4), None)
    assert list(backend.log(NEVER, Seq(99))) == rows(1, 4)


@pytest.mark.property
def test_whatever_is_lost_the_log_has_every_group_once() -> None:
    chance = random.Random(7)
    for _ in range(examples(25)):
        connection = DatabaseConnection(database(), is_relaxed=True)
        link = CutLink(connection)
        backend = PostgresBackend(link, *take_space(connection, new_name(), 1))
        head = 0
        for _ in range(12):
            size = chance.randrange(1, 4)
            link.cuts = chance.choices(["", "before", "after", "interrupt before", "interrupt after"], k=3)
            try:
                backend.append(rows(head + 1, head + size), None)
            except KeyboardInterrupt:
                link.cuts = []
                last = backend.last()
                assert (0 if last is None else last.seq) in (head, head + size)
                head = 0 if last is None else last.seq
            else:
                head += size
            link.cuts = []
        assert list(backend.log(NEVER, Seq(99))) == rows(1, head)
        backend.close()


def test_an_owner_that_lost_its_connection_and_was_taken_over_from_is_refused(
    cut: tuple[CutLink, PostgresBackend],
) -> None:
    link, backend = cut
    backend.append(rows(1, 1), None)
    [[name]] = link.link.run("select name from hw_space where id = %b", [backend._link._space])
    other = open_backend(str(name), 2)
    link.cuts = ["before"]
    # It may have been stored before the other one came.
    with pytest.raises(PoisonedError, match="before it was known whether"):
        backend.append(rows(2, 2), None)
    assert list(other.log(NEVER, Seq(99))) == rows(1, 1)
    other.close()


def test_a_database_that_stays_away_ends_the_opening(cut: tuple[CutLink, PostgresBackend]) -> None:
    link, backend = cut
    link.is_dead, link.cuts = True, ["after"]
    with pytest.raises(PoisonedError, match="does not answer"):
        backend.append(rows(1, 1), None)
    link.is_dead = False
    # Whether it was stored is not known: nothing goes on here.
    with pytest.raises(PoisonedError, match="does not answer"):
        backend.append(rows(2, 2), None)


def test_a_database_that_has_lost_confirmed_groups_is_found_out(cut: tuple[CutLink, PostgresBackend]) -> None:
    link, backend = cut
    backend.append(rows(1, 1), None)
    backend.append(rows(2, 2), None)
    space = backend._link._space
    link.link.run("update hw_space set groups = groups - 1 where id = %b", [space])
    link.link.run("delete from hw_log where space = %b and seq = 2", [space])
    link.cuts = ["before"]
    with pytest.raises(PoisonedError, match="was put back"):
        backend.append(rows(3, 3), None)


def test_an_owner_that_closes_leaves_the_space_free() -> None:
    name = new_name()
    open_backend(name, 1).close()
    connection = DatabaseConnection(database())
    seen = find_space(connection, name)
    assert seen is not None
    assert seen.owner is None
    connection.close()


@pytest.mark.parametrize("table", OF_A_SPACE)
def test_no_statement_but_a_group_writes_to_a_table_of_spaces(table: str) -> None:
    from pathlib import Path

    import headwater.store.backends.postgres as package

    folder = Path(str(package.__file__)).parent
    for path in [*folder.glob("*.py"), *(folder.parents[2] / "host" / "postgres").glob("*.py")]:
        for line in path.read_text().splitlines():
            for verb in ("insert into", "update", "delete from"):
                if f"{verb} {table} " in line.lower():
                    assert "own" in path.read_text(), path
                    assert path.name in {"folds.py", "statements.py", "working_copy.py"}, (path, line)
