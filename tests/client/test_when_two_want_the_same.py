"""What the guide says of two who want the same: what merges, what is taken back, and what goes with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

import headwater as hw
from tests.server.running import served, settle_in, until


class Item(hw.Doc):
    title: str = ""
    done: bool = False


class Board(hw.Doc):
    names: hw.List[str]
    votes: hw.Map[str, int]
    title: str = ""


class Program:
    """The app as one program has it."""

    def __init__(self) -> None:
        self.app = app = hw.App("both")
        self.board = app.doc("board", Board)
        self.item = app.doc("item", Item)
        self.stock = app.cell("stock", 10)
        self.tags = app.cell("tags", ["x"])
        self.count = app.cell("count", 0)
        self.lines: hw.Cell[list[str]] = app.cell("lines", [])

        @app.handler
        def take() -> None:
            self.stock.increment(-1)

        self.take = take


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settle_in(tmp_path, monkeypatch)
    (tmp_path / "store").mkdir(mode=0o700)
    return tmp_path / "store"


@dataclass
class Outcome:
    """How it stands then, and how many of the commits made meanwhile were taken back."""

    names: list[str]
    votes: dict[str, int]
    title: str
    done: bool
    values: tuple[int, list[str], int, list[str]]
    refused: int


def meet(store: Path, mine: Callable[[Program, hw.Space], object], theirs: Callable[[Program], object]) -> Outcome:
    """One program writes while the server is away, and what somebody else writes comes first."""
    one, other = Program(), Program()
    folder = f"{store}{os.sep}"
    with other.app.open(folder, space="home"):
        other.board.names.extend(["a", "b"])
        other.board.votes["x"] = 0
        other.item.title = "?"
    with served(store) as first:
        port = first.port
        space = one.app.open(f"{first.url}/home", on_error=lambda _error: None)
    until(lambda: not space.connection, "the server is lost")
    mine(one, space)
    with other.app.open(folder, space="home"):
        theirs(other)
    with served(store, port=port):
        until(lambda: space.connection.state == "live" and not space.connection.pending, "everything is decided")
        space.settle()
        refused = space.stats.rejected
        with suppress(hw.errors.ConflictError):
            space.close()
    with other.app.open(folder, space="home"):
        board = other.board
        values = (other.stock.value, list(other.tags.value), other.count.value, list(other.lines.value))
        return Outcome(list(board.names), dict(board.votes), board.title, other.item.done, values, refused)


def test_increments_and_appends_merge(store: Path) -> None:
    def edit(program: Program, *_space: hw.Space) -> None:
        program.count.increment()
        program.lines.append("new")

    found = meet(store, edit, edit)
    assert (found.values[2:], found.refused) == ((2, ["new", "new"]), 0)


def test_the_first_edits_of_a_cell_whose_default_is_not_empty_do_not(store: Path) -> None:
    def edit(program: Program, *_space: hw.Space) -> None:
        program.stock.increment()
        program.tags.append("new")

    found = meet(store, edit, edit)
    assert (found.values[:2], found.refused) == ((11, ["x", "new"]), 2)


def test_in_a_handler_they_do_for_it_runs_again(store: Path) -> None:
    found = meet(store, lambda program, _space: program.take.send(), lambda program: program.stock.increment(-1))
    assert found.values[0] == 8


def test_what_has_read_a_document_goes_with_what_was_written_there_before_and_is_taken_back(store: Path) -> None:
    def mine(program: Program, space: hw.Space) -> None:
        # Refused: somebody else has taken it away before.
        with space.transaction():
            del program.board.names[program.board.names.index("a")]
        # Has read the same document, though another field.
        with space.transaction():
            program.board.title = f"{program.board.votes['x']} votes"
        # Writes there, and has read nothing.
        program.board.votes["y"] = 1
        # Another document.
        with space.transaction():
            program.item.done = not program.item.done

    found = meet(store, mine, lambda program: program.board.names.remove("a"))
    assert (found.names, found.refused) == (["b"], 2)
    assert (found.title, found.votes, found.done) == ("", {"x": 0, "y": 1}, True)
