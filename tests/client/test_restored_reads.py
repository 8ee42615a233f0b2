"""Functions that are restored at a client: they are notified of changes of what they have read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.client import initial_fetch
from tests.client.world import Behind, behind, settled
from tests.server.running import settle_in, until


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


class Item(hw.Doc):
    title: str


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


class Todo:
    """A function over linked documents."""

    def __init__(self) -> None:
        self.app = app = hw.App("todo")
        board = self.board = app.doc("board", Board)
        self.seen: list[str] = []
        seen = self.seen

        @app.computed
        def last() -> str:
            return "".join(item.title for item in board.items)

        @app.sink
        def show() -> None:
            seen.append(last())


class Editor:
    """The same documents, and no function."""

    def __init__(self) -> None:
        self.app = hw.App("todo")
        self.board = self.app.doc("board", Board)


def test_function_is_notified_of_a_document_that_did_not_come_with_the_opening(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    todo = Todo()
    with todo.app.open(at.url, token=at.token) as space:
        with space.transaction():
            for number in range(5):
                todo.board.items.append(Item(title=str(number)))
        space.settle()
    assert todo.seen[-1] == "01234"
    monkeypatch.setattr(initial_fetch, "PREFETCH_MAX", 1)
    todo, editor = Todo(), Editor()
    with todo.app.open(at.url, token=at.token) as space, editor.app.open(at.straight, actor="bob") as beside:
        assert todo.seen == ["01234"]
        editor.board.items[0].title = "other"
        beside.sync()
        until(lambda: settled(space) and "other" in todo.seen[-1], "it is notified")
