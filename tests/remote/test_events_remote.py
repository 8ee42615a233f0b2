"""Events of a server's space: when a right is missing, when the server is away, and what is left at the end."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest
from click.testing import CliRunner

import headwater as hw
from headwater.cli.main import main
from headwater.errors import (
    AccessError,
    EventFailedError,
    EventTimeoutError,
    OfflineError,
    RejectedError,
    UserCodeError,
)
from headwater.host.remote import link as links
from headwater.host.space import Space
from tests.remote.world import SPACE, Behind, behind, state_is
from tests.serving.running import settle_in, token_for, until


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is away is not waited for."""
    monkeypatch.setattr(links, "PATIENCE_S", 0.2)


class Item(hw.Doc):
    title: str


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


class Todo:
    """A list of documents, one counter, and a handler for each of what can become of an event."""

    def __init__(self) -> None:
        self.app = app = hw.App("todo")
        self.board = app.doc("board", Board)
        self.count = app.cell("count", 3)
        self.shown: list[int] = []
        self.calls: list[str] = []
        self.wrong: list[UserCodeError] = []

        @app.computed
        def twice() -> int:
            return self.count.value * 2

        @app.sink
        def show() -> None:
            self.shown.append(twice())

        @app.handler
        def add(title: str) -> int:
            self.calls.append(title)
            self.board.items.append(Item(title=title))
            return len(self.board.items)

        @app.handler
        def increment() -> int:
            self.calls.append("increment")
            self.count.value += 1
            return self.count.value

        @app.handler
        def read(doc: str) -> str:
            self.calls.append(doc)
            found = str(self.space.doc(doc, Item).title)
            self.count.value += 1
            return found

        @app.handler
        def fail(number: int) -> None:
            self.calls.append("fail")
            raise ValueError(f"{number} is odd")

        self.add, self.increment, self.read, self.fail = add, increment, read, fail

    def open(self, url: str, token: str | None, **options: object) -> Space:
        """As ann."""
        self.space = self.app.open(url, token=token, on_error=self.wrong.append, **options)  # type: ignore[arg-type]
        return self.space

    @property
    def titles(self) -> list[str]:
        return [item.title for item in self.board.items]


def commits(at: Behind) -> int:
    """How many the server has."""
    assert at.server.house is not None
    return at.server.house.rooms[SPACE].storage.call(lambda engine: engine.head)


def item_of(at: Behind, title: str) -> str:
    """A document that somebody else has made, which nothing links to."""
    other = hw.App("other")
    with other.open(at.straight, actor="bob") as space, space.transaction():
        item = Item(title=title)
    return hw.id_of(item)


# --- a right that is missing ----------------------------------------------------------------------------------


def test_an_event_of_who_may_only_read_fails_once_and_is_taken_back_once(at: Behind) -> None:
    todo = Todo()
    with todo.open(at.straight, token_for(at.server, SPACE, "read")) as space:
        before = commits(at)
        ticket = todo.increment.send()
        with pytest.raises(EventFailedError, match="the right to write it is missing") as failed:
            ticket.result(timeout="10s")
        assert isinstance(failed.value.__cause__, AccessError)
        space.wait("300ms")
        # As it was, as the handler had it, and as it is.
        assert todo.shown == [6, 8, 6]
        assert todo.calls == ["increment"]
        assert ticket.state == "failed"
        assert commits(at) == before
        assert space.connection.pending == 0


def test_that_it_could_not_be_kept_for_want_of_a_right_is_said_instead_of_where_it_is(at: Behind) -> None:
    todo = Todo()
    with todo.open(at.straight, token_for(at.server, SPACE, "read")):
        with pytest.raises(EventFailedError) as failed:
            todo.increment.send().result(timeout="10s")
        told = [str(error) for error in todo.wrong]
        assert len(told) == 1
        for text in (str(failed.value), *told):
            assert "could not be kept either: who may only read space 'shop' keeps nothing there" in text
            assert "headwater events" not in text


def test_who_may_only_read_leaves_events_that_wait_to_others(at: Behind) -> None:
    sender = hw.App("todo")
    with sender.open(at.straight, token=at.token, actor="ann"):
        pass
    todo = Todo()
    with todo.open(at.straight, at.token, actor="ann") as space:
        with space.transaction():
            space.send("todo.increment", [])
        space.scheduler.events.close()
    reader = Todo()
    with reader.open(at.straight, token_for(at.server, SPACE, "read")) as space:
        space.wait("100ms")
        assert reader.calls == []
        assert reader.wrong == []
