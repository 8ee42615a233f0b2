"""What a client does while its server is away, and what becomes of it when the server is back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.client import server_link as links
from headwater.errors import OfflineError
from headwater.sync.client_session import ClientSession
from tests.client.test_events_remote import Todo, item_of
from tests.client.world import Behind, behind, settled, state_is
from tests.server.running import settle_in, until


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


def test_function_whose_earlier_result_is_not_here_runs_again_when_the_server_is_back(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, seen, told = hw.App("far"), list[int](), list[Exception]()
    count, is_shown = app.cell("count", 3), app.cell("shown", default=False)

    @app.computed
    def twice() -> int:
        return count.value * 2

    @app.sink
    def show() -> None:
        seen.append(twice() if is_shown.value else 0)

    # As if not all documents of the app had fitted into the first answer.
    monkeypatch.setattr(ClientSession, "covers", lambda *_: False)
    with app.open(at.url, token=at.token, on_error=told.append) as space:
        assert count.value == 3
        at.go_away()
        state_is(space, "offline")
        with monkeypatch.context() as patience:
            patience.setattr(links, "PATIENCE_S", 0.2)
            is_shown.value = True
            space.settle()
        assert seen == [0]
        assert [type(each.__cause__) for each in told] == [OfflineError]
        at.come_back()
        until(lambda: settled(space) and seen == [0, 6], "it has run")


def test_event_of_an_earlier_opening_is_not_handled_if_the_transaction_that_sent_it_is_rejected(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(links, "PATIENCE_S", 0.2)
    far, kept = item_of(at, "far"), tmp_path / "kept"
    todo = Todo()
    with todo.open(at.url, at.token, actor="ann", local=kept) as space:
        at.go_away()
        state_is(space, "offline")
        with space.transaction():
            todo.count.value += 10
            todo.read.send(far)
        with space.transaction():
            todo.add.send("beside")
    other = Todo()
    with other.open(at.straight, at.token, actor="bob"):
        other.count.value = 5
    todo = Todo()
    with todo.open(at.url, at.token, actor="ann", local=kept) as space:
        assert space.scheduler.events.waiting == 2
        at.come_back()
        until(lambda: settled(space) and not space.scheduler.events.waiting, "they have ended")
        space.sync()
        assert len(todo.wrong) == 1
    other = Todo()
    with other.open(at.straight, at.token, actor="bob"):
        # The other event has a transaction that was accepted.
        assert (other.count.value, other.titles) == (5, ["beside"])
