"""Ids that derive from causes never repeat over openings: embedded, at a server, offline, after a kill."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import apsw
import pytest

import headwater as hw
from headwater.client.client_folder import FORMAT
from headwater.errors import MigrationError, OfflineError
from headwater.host.plain_space import Space
from tests.client.world import Behind, behind, state_is, storage_of
from tests.server.running import settle_in, until
from tests.support.halves import seeds


class Task(hw.Doc):
    title: str


class Board:
    """A program whose handler makes documents. Each opening has objects of its own, as a new process has."""

    def __init__(self) -> None:
        self.app = hw.App("board")
        board = self.app.doc("board", Tasks)
        self.board = board
        # What was made, in the order of the handler's runs.
        self.made: list[tuple[str, str]] = []

        @self.app.handler
        def add(title: str) -> str:
            task = Task(title=title)
            board.tasks.append(task)
            self.made.append((title, hw.id_of(task)))
            return title

        @self.app.handler
        def add_two(title: str) -> None:
            # Events that a handler sends have ids that derive from its own event.
            add.send(f"{title}.a")
            add.send(f"{title}.b")

        self.add, self.add_two = add, add_two

    @property
    def titles(self) -> list[str]:
        return sorted(task.title for task in self.board.tasks)


class Tasks(hw.Doc):
    tasks: hw.List[Task] = hw.List()


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


def work(board: Board, space: Space, turn: int, rng: random.Random) -> set[str]:
    """Send some events; the titles that have to be there at last."""
    expected: set[str] = set()
    for number in range(rng.randint(1, 3)):
        title = f"{turn}.{number}"
        match rng.randrange(3):
            case 0:
                board.add.send(title)
                expected.add(title)
            case 1:
                with space.transaction():
                    board.add.send(title)
                expected.add(title)
            case _:
                board.add_two.send(title)
                expected |= {f"{title}.a", f"{title}.b"}
    space.settle()
    return expected


def check(made: list[tuple[str, str]], titles: list[str], expected: set[str]) -> None:
    ids: dict[str, str] = {}
    for title, address in made:
        # A handling that was done again has the same id; another event never has.
        assert ids.setdefault(address, title) == title, f"{address} was made for {ids[address]} and for {title}"
    assert titles == sorted(expected)


def test_an_offline_opening_makes_documents_of_its_own(at: Behind, tmp_path: Path) -> None:
    first = Board()
    with first.app.open(at.url, token=at.token, actor="ann", local=tmp_path / "kept"):
        first.add.send("milk").result(timeout="60s")
    at.go_away()
    second = Board()
    with second.app.open(at.url, token=at.token, actor="ann", local=tmp_path / "kept") as space:
        second.add.send("salt")
        space.settle()
        assert second.titles == ["milk", "salt"]
    at.come_back()
    third = Board()
    with third.app.open(at.url, token=at.token, actor="ann", local=tmp_path / "kept") as space:
        until(lambda: third.titles == ["milk", "salt"], "what was made offline is stored")
        assert space.connection.refused == 0


@pytest.mark.parametrize("seed", seeds(6))
def test_no_id_repeats_over_openings_of_a_folder(at: Behind, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    folder = tmp_path / "kept"
    expected: set[str] = set()
    made: list[tuple[str, str]] = []
    for turn in range(6):
        if turn and rng.random() < 0.5:
            at.go_away()
        else:
            at.come_back()
        board = Board()
        space = board.app.open(at.url, token=at.token, actor="ann", local=folder)
        if rng.random() < 0.3:
            at.go_away()
        expected |= work(board, space, turn, rng)
        kept = storage_of(space)._folder
        assert kept is not None
        kept.flush()
        copy = tmp_path / f"kept{turn}"
        if rng.random() < 0.4:
            # As a kill leaves it: what is on disk now, and nothing of what the program does later.
            shutil.copytree(folder, copy)
            at.go_away()
            folder, closed = copy, folder
            del closed
        with suppress(OfflineError):
            space.close()
        made += board.made
    at.come_back()
    last = Board()
    with last.app.open(at.url, token=at.token, actor="ann", local=folder) as space:
        state_is(space, "live")
        until(lambda: set(last.titles) >= expected, f"{last.titles} are {sorted(expected)}")
        space.sync()
        made += last.made
        check(made, last.titles, expected)
        assert space.connection.refused == 0


@pytest.mark.parametrize("seed", seeds(6))
def test_no_id_repeats_over_openings_of_a_file(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    path = tmp_path / "board.db"
    expected: set[str] = set()
    made: list[tuple[str, str]] = []
    for turn in range(5):
        board = Board()
        space = board.app.open(str(path))
        expected |= work(board, space, turn, rng)
        space.sync()
        copy = tmp_path / f"copy{turn}.db"
        is_killed = rng.random() < 0.5
        if is_killed:
            for suffix in ("", "-wal"):
                if Path(f"{path}{suffix}").exists():
                    shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
        space.close()
        path = copy if is_killed else path
        made += board.made
    last = Board()
    with last.app.open(str(path)) as space:
        space.settle()
        made += last.made
        check(made, last.titles, expected)


def formats(folder: Path) -> list[int]:
    found = []
    for path in folder.glob("*.replica"):
        db = apsw.Connection(str(path))
        found.append(db.execute("pragma user_version").get)
        db.close()
    return found


def set_format(folder: Path, number: int) -> None:
    [path] = folder.glob("*.replica")
    db = apsw.Connection(str(path))
    db.execute(f"pragma user_version = {number}")
    db.close()


def test_offline_work_in_a_folder_of_format_1_is_sent(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    first = Board()
    with first.app.open(at.url, token=at.token, actor="ann", local=folder):
        first.add.send("milk").result(timeout="60s")
        at.go_away()
        first.add.send("salt")
    # The tables of format 1 are the same.
    set_format(folder, 1)
    second = Board()
    with second.app.open(at.url, token=at.token, actor="ann", local=folder):
        assert second.titles == ["milk", "salt"]
        second.add.send("bread")
    assert formats(folder) == [FORMAT]
    at.come_back()
    third = Board()
    with third.app.open(at.url, token=at.token, actor="ann", local=folder):
        until(lambda: third.titles == ["bread", "milk", "salt"], "everything is stored")


def test_a_folder_of_a_newer_format_is_kept_as_it_is(at: Behind, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    board = Board()
    with board.app.open(at.url, token=at.token, actor="ann", local=folder):
        pass
    set_format(folder, FORMAT + 1)
    [path] = folder.glob("*.replica")
    before = path.read_bytes()
    with pytest.raises(MigrationError, match="use the newer version that wrote it"):
        Board().app.open(at.url, token=at.token, actor="ann", local=folder)
    assert path.read_bytes() == before
