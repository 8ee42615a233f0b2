"""Events posted to topics of served spaces: with the right to write, each id once, on disk when it is answered."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from headwater.host.space_files import file_name
from headwater.server.server import Server
from headwater.server.spaces import served_spaces as house_module
from headwater.server.topic_intake import BODY_MAX
from tests.cli.processes import holding
from tests.server.ingress.shop import Shop, key
from tests.server.running import client, pages, served, settle_in, token_for, until, write

PLACED = "/spaces/home/topics/shop.orders/placed"
TEA = {"item": "tea"}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A folder with a space in which a shop was open once: its topics are deployed."""
    folder = tmp_path / "spaces"
    folder.mkdir()
    with Shop().app.open(f"{folder}{os.sep}", space="home"):
        pass
    return folder


@pytest.fixture
def server(store: Path) -> Iterator[Server]:
    with served(store) as server:
        yield server


@pytest.fixture
def poster(server: Server) -> Iterator[httpx.Client]:
    with pages(server, token_for(server, "home", "write")) as poster:
        yield poster


def sold_after(store: Path) -> list[tuple[str, str, int]]:
    """What the shop finds when it is opened again."""
    shop = Shop()
    with shop.app.open(f"{store}{os.sep}", space="home") as space:
        space.workflows.drain()
    return shop.sold


# --- what is taken --------------------------------------------------------------------------------------------


def test_what_was_posted_is_handled_by_the_program_that_opens_the_space_next(store: Path) -> None:
    with served(store) as server, pages(server, token_for(server, "home", "write")) as poster:
        answer = poster.post(PLACED, json=TEA, headers=key("a"))
        assert (answer.status_code, answer.json()) == (202, {"id": "a", "new": True})
        assert poster.post(
            "/spaces/home/topics/orders/placed", json={"item": "rice", "count": 2}, headers=key("b")
        ).json()
    assert sorted(sold_after(store)) == [("a", "tea", 1), ("b", "rice", 2)]


def test_an_id_that_was_posted_before_is_the_same_event(store: Path) -> None:
    with served(store) as server, pages(server, token_for(server, "home", "write")) as poster:
        news = [poster.post(PLACED, json=TEA, headers=key("a")).json()["new"] for _ in range(3)]
    assert news == [True, False, False]
    assert sold_after(store) == [("a", "tea", 1)]


def test_an_id_that_was_posted_with_another_payload_is_refused(poster: httpx.Client) -> None:
    assert poster.post(PLACED, json=TEA, headers=key("a")).status_code == 202
    again = poster.post(PLACED, json={"item": "salt"}, headers=key("a"))
    assert (again.status_code, again.json()["code"]) == (422, "HW165")


def test_it_is_on_disk_when_it_is_answered(store: Path) -> None:
    """Every answer waits for a group that was written."""
    with served(store) as server, pages(server, token_for(server, "home", "write")) as poster:
        assert server.spaces is not None
        for number in range(5):
            assert poster.post(PLACED, json=TEA, headers=key(str(number))).status_code == 202
            assert server.spaces.channels["home"].storage.groups == number + 1


def test_clients_of_the_space_go_on_meanwhile(server: Server, poster: httpx.Client) -> None:
    with client(server.url) as ann:
        for number in range(3):
            write(ann, "a", number)
            assert poster.post(PLACED, json=TEA, headers=key(str(number))).status_code == 202


def test_a_space_that_was_closed_is_opened_again(
    server: Server, poster: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    spaces = server.spaces
    assert spaces is not None
    assert poster.post(PLACED, json=TEA, headers=key("a")).json()["new"]
    with monkeypatch.context() as patch:
        # No longer than that: what is opened next would be closed before it is used, again and again.
        patch.setattr(house_module, "EMPTY_S", 0.0)
        spaces._loop.call_soon_threadsafe(spaces._close_empty)
        until(lambda: not spaces.channels, "the space is closed")
    assert not poster.post(PLACED, json=TEA, headers=key("a")).json()["new"]


# --- what is not ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/spaces/home/topics/shop.orders/palced", "did you mean placed?"),
        ("/spaces/home/topics/shop.order/placed", "did you mean shop.orders?"),
        ("/spaces/home/topics/nothing/at-all", "no workflow 'nothing'"),
    ],
)
def test_a_topic_that_nobody_has_deployed_is_not_found(path: str, words: str, poster: httpx.Client) -> None:
    answer = poster.post(path, json=TEA, headers=key("a"))
    assert answer.status_code == 404
    assert words in answer.json()["error"]


def test_posting_makes_no_space(server: Server, store: Path) -> None:
    with pages(server, token_for(server, "*", "own")) as poster:
        assert poster.post("/spaces/other/topics/shop.orders/placed", json=TEA, headers=key("a")).status_code == 404
    assert [path.name for path in store.glob("*.db")] == [file_name("home")]


def test_only_json_is_taken(poster: httpx.Client) -> None:
    """What a form of a web page can send without asking first is none."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""):
        headers = key("a") | ({"Content-Type": kind} if kind else {})
        assert poster.post(PLACED, content=b'{"item": "tea"}', headers=headers).status_code == 415
    assert poster.post(PLACED, content=b"{", headers=key("a") | {"Content-Type": "application/json"}).status_code == 400


def test_without_an_id_nothing_is_taken(poster: httpx.Client) -> None:
    assert poster.post(PLACED, json=TEA).status_code == 400


def test_what_is_too_large_is_not_taken(poster: httpx.Client) -> None:
    assert poster.post(PLACED, json={"item": "x" * BODY_MAX}, headers=key("a")).status_code == 413


def test_it_is_posted_not_got(poster: httpx.Client) -> None:
    answer = poster.get(PLACED)
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


def test_who_may_only_read_may_not_post(server: Server) -> None:
    with pages(server, token_for(server, "home", "read")) as reader:
        assert reader.post(PLACED, json=TEA, headers=key("a")).status_code == 403
    with pages(server, token_for(server, "other", "own")) as stranger:
        assert stranger.post(PLACED, json=TEA, headers=key("a")).status_code == 404
    with pages(server) as nobody:
        assert nobody.post(PLACED, json=TEA, headers=key("a")).status_code == 401


def test_a_token_that_was_revoked_posts_no_more(server: Server, poster: httpx.Client) -> None:
    assert poster.post(PLACED, json=TEA, headers=key("a")).status_code == 202
    [grant] = server.access.ls()
    server.access.revoke(grant.id)
    assert poster.post(PLACED, json=TEA, headers=key("b")).status_code == 401


def test_a_server_that_ends_takes_no_more(server: Server, poster: httpx.Client) -> None:
    assert server.spaces is not None
    server.spaces.closing = True
    answer = poster.post(PLACED, json=TEA, headers=key("a"))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


@pytest.mark.skipif(sys.platform != "linux", reason="who holds a file is asked of the kernel there")
def test_a_space_that_another_process_has_open_is_not_to_be_had(poster: httpx.Client, store: Path) -> None:
    with holding(str(store / file_name("home"))) as pid:
        answer = poster.post(PLACED, json=TEA, headers=key("a"))
    assert answer.status_code == 503
    assert f"another process ({pid})" in answer.json()["error"]
    assert str(store) not in answer.text
    assert poster.post(PLACED, json=TEA, headers=key("a")).status_code == 202


def test_answers_are_counted(server: Server, poster: httpx.Client) -> None:
    poster.post(PLACED, json=TEA, headers=key("a"))
    poster.post(PLACED, json=TEA, headers=key("a"))
    poster.post("/spaces/home/topics/nothing/at-all", json=TEA, headers=key("a"))
    assert server.authenticator is not None
    assert server.authenticator.traffic.posts == {202: 2, 404: 1}
