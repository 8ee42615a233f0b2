"""How often a program waits for the server: not for what it makes itself, and not for what came with the opening."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.client.server_link import ServerLink
from headwater.errors import SpaceHeldError
from headwater.server import folder_lock
from headwater.server.server import Server, Serving


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    with Server(Serving(store=tmp_path / "store", port=0)) as running:
        yield running


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of questions that somebody waited for."""
    found: list[str] = []
    ask = ServerLink.ask

    def counted(self: ServerLink, frame: object, *args: float) -> object:
        found.append(type(frame).__name__)
        return ask(self, frame, *args)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(ServerLink, "ask", counted)
    return found


class Item(hw.Doc):
    title: str


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


class Todo:
    """A list of documents, added to in the three ways there are."""

    def __init__(self) -> None:
        self.app = app = hw.App("todo")
        self.board = app.doc("board", Board)

        @app.handler
        def add(title: str) -> int:
            self.board.items.append(Item(title=title))
            return len(self.board.items)

        self.add = add


def test_what_a_program_makes_is_not_asked_for(server: Server, asked: list[str]) -> None:
    todo = Todo()
    with todo.app.open(f"{server.url}/todo") as space:
        todo.add.send("first").result(timeout="120s")
        asked.clear()
        with space.transaction():
            for number in range(50):
                todo.board.items.append(Item(title=str(number)))
        for number in range(10):
            todo.board.items.append(Item(title=str(number)))
        for number in range(10):
            todo.add.send(str(number)).result(timeout="120s")
        assert asked == []
        assert len(todo.board.items) == 71


def test_what_links_lead_to_comes_with_the_opening(server: Server, asked: list[str]) -> None:
    todo, other = Todo(), Todo()
    with todo.app.open(f"{server.url}/todo") as space, space.transaction():
        for number in range(50):
            todo.board.items.append(Item(title=str(number)))
    with other.app.open(f"{server.url}/todo"):
        asked.clear()
        assert [item.title for item in other.board.items] == list(map(str, range(50)))
        assert asked == []


def test_a_folder_has_one_server(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_lock, "WAIT_S", 0.1)
    with pytest.raises(SpaceHeldError, match=f"is served already, by process .* at {server.url}"):
        Server(Serving(store=server.options.store, port=0))
    # Also if the same command was given twice: that the port is taken says less.
    with pytest.raises(SpaceHeldError, match=f"is served already, by process .* at {server.url}"):
        Server(Serving(store=server.options.store, port=server.port))
    assert server.spaces is not None


def test_plain_code_in_an_event_loop_as_in_a_notebook_waits_for_what_is_not_here(server: Server) -> None:
    other = hw.App("other")
    kept = other.cell("kept", 0)
    with other.open(f"{server.url}/todo") as space:
        kept.value = 41
        space.sync()

    async def cell_of_a_notebook() -> object:
        with Todo().app.open(f"{server.url}/todo") as there:
            return there.cell("other.kept").value

    assert asyncio.run(cell_of_a_notebook()) == 41
