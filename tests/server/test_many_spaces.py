"""Many spaces at one server: how many are open, which are closed for others, and what an idle one keeps."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import OfflineError
from headwater.server import server_limits
from headwater.server.server import Server, Serving
from headwater.server.spaces import served_spaces
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.engine import Engine
from tests.server.running import settle_in, until


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def program() -> tuple[hw.App, hw.Cell[int]]:
    app = hw.App("shop")
    return app, app.cell("count", 0)


def add(server: Server, space: str) -> int:
    """Open a space, count, and leave it."""
    app, count = program()
    with app.open(f"{server.url}/{space}") as opened:
        count.value += 1
        opened.sync()
        return count.value


def channels(server: Server) -> list[str]:
    assert server.spaces is not None
    return sorted(server.spaces.channels)


def test_spaces_have_no_thread_of_their_own(tmp_path: Path) -> None:
    with Server(Serving(store=tmp_path / "store", port=0)) as server:
        apps = [program() for _ in range(30)]
        opened = [app.open(f"{server.url}/s{number}") for number, (app, _) in enumerate(apps)]
        for space, (_, count) in zip(opened, apps, strict=True):
            with space:
                count.value = 1
                space.sync()
        names = [thread.name for thread in threading.enumerate()]
        deciding = [name for name in names if name.startswith("headwater-decide")]
        assert 1 <= len(deciding) <= served_spaces.DECIDERS
        assert not [name for name in names if name.startswith("headwater-s") and name[11:].isdigit()]
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("headwater-decide")]


def test_at_the_limit_the_space_that_was_unused_for_longest_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served_spaces, "SPARE_S", 0.0)
    with Server(Serving(store=tmp_path / "store", port=0, spaces_max=3)) as server:
        for space in ("a", "b", "c", "a"):
            add(server, space)
        assert channels(server) == ["a", "b", "c"]
        app, count = program()
        with app.open(f"{server.url}/d"):
            count.value = 5
            assert channels(server) == ["a", "c", "d"]
            add(server, "e")
            assert channels(server) == ["a", "d", "e"]
            # Everything is where it was.
            assert add(server, "b") == 2
            assert add(server, "a") == 3
            assert "d" in channels(server)


def test_at_the_limit_a_space_in_use_is_not_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_spaces, "SPARE_S", 0.0)
    monkeypatch.setattr("headwater.client.server_link.CONNECT_S", 4.0)
    with Server(Serving(store=tmp_path / "store", port=0, spaces_max=1)) as server:
        app, count = program()
        with app.open(f"{server.url}/a") as space:
            count.value = 1
            space.sync()
            with pytest.raises(
                OfflineError, match="1 spaces are open and in use; try again later, or raise --spaces-max"
            ):
                add(server, "b")
            count.value = 2
            space.sync()
        assert add(server, "b") == 1
    assert server_limits.SPACES_MAX == 2_000


def test_idle_space_releases_memory_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_spaces, "IDLE_S", 0.2)
    shrunk: list[Engine] = []
    inner = SqliteBackend.shrink

    def shrink(self: SqliteBackend) -> None:
        inner(self)
        shrunk.append(self)  # type: ignore[arg-type]  # counted only

    monkeypatch.setattr(SqliteBackend, "shrink", shrink)
    with Server(Serving(store=tmp_path / "store", port=0)) as server:
        app, count = program()
        with app.open(f"{server.url}/a") as space:
            count.value = 1
            space.sync()
            until(lambda: len(shrunk) == 1, "it has released memory")
            assert server.spaces is not None
            storage = server.spaces.channels["a"].storage
            assert storage.call(lambda engine: (len(engine.documents.tail.entries), engine.states.count)) == (0, 0)
            count.value = 2
            space.sync()
            # Once for each time that it was used.
            until(lambda: len(shrunk) == 2, "it has released memory again")
            other, seen = program()
            with other.open(f"{server.url}/a"):
                assert seen.value == 2
