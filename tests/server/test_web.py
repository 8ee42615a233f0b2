"""The pages of a server: whether it lives, whether it is ready, and that nobody else's page may ask."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import apsw
import httpx
import pytest
from starlette.requests import Request

from headwater.errors import HeadwaterError, UnsafeLibraryError
from headwater.server import authenticator
from headwater.server.pages.health_page import Health
from headwater.server.server import Server, Serving
from headwater.server.server_limits import GUESSES_BURST
from tests.server.running import client as client_of
from tests.server.running import pages, settle_in, token_for, until, write


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


# --- health ---------------------------------------------------------------------------------------------------


def test_a_server_that_runs_lives_and_is_ready(server: Server) -> None:
    with pages(server) as client:
        assert client.get("/healthz").text == "ok\n"
        assert client.get("/readyz").text == "ready\n"


def test_server_with_an_sqlite_that_it_would_refuse_does_not_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Said at the start: else it would call itself ready, and refuse every space."""
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(UnsafeLibraryError, match=r"3\.51\.2"):
        Server(Serving(store=tmp_path / "data", port=0))
    assert not (tmp_path / "data").exists()


def test_one_that_starts_is_not_ready_yet(server: Server) -> None:
    assert server.spaces is not None
    health = Health(server.spaces)
    nothing = Request({"type": "http"})
    assert asyncio.run(health.healthz(nothing)).status_code == 200
    answer = asyncio.run(health.readyz(nothing))
    assert (answer.status_code, answer.body) == (503, b"starting\n")


def test_one_that_ends_lives_but_takes_no_more(server: Server) -> None:
    assert server.spaces is not None
    with pages(server) as client:
        server.spaces.closing = True
        assert client.get("/healthz").status_code == 200
        answer = client.get("/readyz")
        assert (answer.status_code, answer.text) == (503, "ending\n")


def test_one_whose_folder_is_gone_is_not_ready(server: Server, store: Path) -> None:
    store.rename(store.with_name("elsewhere"))
    with pages(server) as client:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert answer.text.startswith("the folder of the spaces was removed while the server runs")
        assert str(store) not in answer.text
        assert client.get("/healthz").status_code == 200
        store.with_name("elsewhere").rename(store)
        until(lambda: client.get("/readyz").status_code == 200, "it is ready again")


def test_one_with_another_folder_in_its_place_opens_nothing_there(server: Server, store: Path) -> None:
    store.rename(store.with_name("elsewhere"))
    with pytest.raises(HeadwaterError), client_of(server.url, "new"):
        pass
    assert not store.exists()
    store.mkdir(mode=0o700)
    with pages(server) as client:
        assert client.get("/readyz").status_code == 503
    with pytest.raises(HeadwaterError), client_of(server.url, "new"):
        pass
    assert not list(store.iterdir())


def test_one_whose_open_space_has_lost_its_file_is_not_ready(server: Server) -> None:
    assert server.spaces is not None
    with client_of(server.url, "lost") as replica, pages(server) as client:
        write(replica, "a", 1)
        path = server.spaces.place("lost").path
        assert path is not None
        path.unlink()
        until(lambda: client.get("/readyz").status_code == 503, "it is not ready")
        assert client.get("/readyz").text.startswith("the file of 1 open spaces was removed")


def test_looking_at_the_disk_leaves_nothing_there(server: Server, store: Path) -> None:
    before = sorted(path.name for path in store.iterdir())
    with pages(server) as client:
        assert client.get("/readyz").status_code == 200
    assert sorted(path.name for path in store.iterdir()) == before


# --- who asks -------------------------------------------------------------------------------------------------

PAGES = ["/healthz", "/readyz", "/metrics", "/spaces/home/backup", "/spaces/home/topics/a/b", "/nothing"]


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_shown_under_a_name_that_others_made_up(page: str, server: Server) -> None:
    with pages(server, token_for(server, "*", "own"), Host="evil.example") as client:
        assert client.get(page).status_code == 421
        assert client.post(page).status_code == 421


@pytest.mark.parametrize("page", PAGES)
def test_no_page_is_shown_to_pages_of_others(page: str, server: Server) -> None:
    with pages(server, token_for(server, "*", "own"), Origin="https://evil.example") as client:
        assert client.get(page).status_code == 403
        assert client.post(page, json={}).status_code == 403


def test_two_hosts_are_none(server: Server) -> None:
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as asking:
        asking.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n")
        assert asking.recv(4096).split(b" ", 2)[1] == b"400"


def test_what_is_not_there_is_not_found_and_what_is_there_is_asked_for_in_its_way(server: Server) -> None:
    with pages(server) as client:
        assert client.get("/").status_code == 404
        assert client.get("/healthz/").status_code == 404
        assert client.post("/healthz").status_code == 405
        assert client.get("/spaces/home/topics/a/b").status_code == 405


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer nonsense", "Basic abc", "Bearer hw_" + "a" * 40])
def test_without_a_token_there_is_nothing_to_be_learned(given: str, server: Server) -> None:
    token = token_for(server, "home", "own")
    with pages(server, token) as client:
        assert client.get("/spaces/home/backup").status_code == 404
    with pages(server, None, **({"Authorization": given} if given else {})) as client:
        for space in ("home", "nowhere", "%2e%2e", "a" * 300):
            answer = client.get(f"/spaces/{space}/backup")
            assert answer.status_code == 401
            assert answer.headers["www-authenticate"] == "Bearer"


def test_guesses_are_not_looked_at_after_a_while(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(authenticator, "GUESSES_PER_S", 0.0)
    right = token_for(server, "home", "own")
    with pages(server, "wrong") as client:
        answers = [client.get("/spaces/home/backup").status_code for _ in range(GUESSES_BURST + 5)]
    assert answers == [401] * (GUESSES_BURST + 1) + [429] * 4
    # All users of this machine have one address: whoever has a token is heard all the same.
    with pages(server, right) as client:
        assert client.get("/spaces/home/backup").status_code == 404


def test_a_space_that_may_not_be_seen_is_like_one_that_is_not_there(server: Server, store: Path) -> None:
    token = token_for(server, "mine", "own")
    other = token_for(server, "*", "own")
    with pages(server, other) as client:
        unknown = client.get("/spaces/nowhere/backup")
    with pages(server, token) as client:
        forbidden = client.get("/spaces/home/backup")
    assert unknown.status_code == forbidden.status_code == 404
    assert unknown.json()["error"] == forbidden.json()["error"]
    assert not list(store.glob("*.db"))


def test_a_page_that_another_place_serves_cannot_read_anything(server: Server) -> None:
    """No header allows it."""
    url = f"http://127.0.0.1:{server.port}/healthz"
    answer = httpx.options(url, trust_env=False, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]
