"""Programs of the server's own user are let in as soon as it says that it serves, and those that came earlier, too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.access.local_token import LocalServer, find_local
from headwater.client import server_link as links
from headwater.errors import AccessError
from headwater.server.server import Server, Serving
from tests.server.running import served, settle_in


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def test_the_token_of_local_programs_is_there_when_the_server_says_that_it_serves(tmp_path: Path) -> None:
    server = Server(Serving(store=tmp_path / "spaces", port=0))
    found: list[LocalServer | None] = []

    def started() -> None:
        found.append(find_local("127.0.0.1", server.port))
        server.end()

    asyncio.run(server.serve(started))
    [local] = found
    assert local is not None
    assert local.port == server.port


@pytest.mark.parametrize("has_old", [False, True], ids=["none yet", "the one of an earlier server"])
def test_a_program_that_looked_for_the_token_too_early_looks_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_old: bool
) -> None:
    looks: list[LocalServer | None] = []

    def find(host: str, port: int) -> LocalServer | None:
        found = find_local(host, port)
        assert found is not None
        old = LocalServer("hw_" + "a" * 43, found.host, port, found.url, found.pid) if has_old else None
        looks.append(found if looks else old)
        return looks[-1]

    monkeypatch.setattr(links, "find_local", find)
    app = hw.App("early")
    cell = app.cell("count", 0)
    with served(tmp_path / "spaces") as server, app.open(f"{server.url}/early") as space:
        cell.increment()
        space.sync()
    assert len(looks) > 1


def test_a_program_without_any_token_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(links, "find_local", lambda _host, _port: None)
    with served(tmp_path / "spaces") as server, pytest.raises(AccessError, match="a token is needed"):
        hw.App("late").open(f"{server.url}/late")
