"""Who is let in: by the token, under the names that the server goes by, and not from pages of others."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import httpx
import pytest

import headwater as hw
from headwater.errors import UnavailableError, UsageError
from headwater.server.ingress import Ingress, serve_ingress
from tests.server.ingress.shop import Shop, key

PLACED = "/topics/orders/placed"
TEA = {"item": "tea"}
TOKEN = "s3cret-s3cret"  # noqa: S105  # of a test


def post(server: Ingress, **headers: str) -> httpx.Response:
    url = f"http://127.0.0.1:{server.port}{PLACED}"
    with httpx.Client(trust_env=False, timeout=30) as client:
        return client.post(url, json=TEA, headers=key("a") | headers)


@pytest.fixture
def guarded(space: hw.Space) -> Iterator[Ingress]:
    with serve_ingress(space, token=TOKEN) as server:
        yield server


# --- the token ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer s3cret", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}é"])
def test_without_the_token_nothing_is_taken(given: str, shop: Shop, guarded: Ingress) -> None:
    url = f"{guarded.url}{PLACED}"
    with httpx.Client(trust_env=False) as client:
        answer = client.post(url, json=TEA, headers={"Idempotency-Key": "a", b"Authorization": given.encode()})
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert TOKEN not in answer.text
    assert shop.waiting() == 0


def test_with_the_token_it_is(guarded: Ingress) -> None:
    assert post(guarded, Authorization=f"Bearer {TOKEN}").status_code == 202
    assert post(guarded, Authorization=f"bearer {TOKEN}").status_code == 202


def test_who_has_no_token_does_not_learn_what_there_is(guarded: Ingress) -> None:
    with httpx.Client(base_url=guarded.url, trust_env=False) as client:
        assert {client.post(path).status_code for path in ("/", PLACED, "/topics/nobody/nothing")} == {401}
        assert client.get(PLACED).status_code == 401


@pytest.mark.parametrize("bad", ["", "two words", "Schlüssel", "a\nb", 7])
def test_what_cannot_be_sent_is_no_token(bad: object, space: hw.Space) -> None:
    with pytest.raises(UsageError, match="printable ASCII") as caught:
        serve_ingress(space, token=bad)
    assert str(bad) == "" or str(bad) not in str(caught.value)


# --- names ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["localhost", "localhost:1", "LOCALHOST", "127.0.0.1", "[::1]:80"])
def test_this_machine_goes_by_these_names(name: str, server: Ingress) -> None:
    assert post(server, Host=name).status_code == 202


@pytest.mark.parametrize(
    "name", ["evil.example", "localhost.evil.example", "127.0.0.1.nip.io:80", "192.0.2.7", "[::2]"]
)
def test_under_a_name_that_others_made_up_nobody_is_let_in(name: str, shop: Shop, server: Ingress) -> None:
    """Such as a page whose address was pointed at this machine after it was loaded."""
    answer = post(server, Host=name)
    assert answer.status_code == 421
    assert shop.waiting() == 0


@pytest.mark.parametrize("name", ["", ":80", "[::1", "[x]:1"])
def test_what_is_no_name_is_refused(name: str, server: Ingress) -> None:
    assert post(server, Host=name).status_code == 400


def test_names_of_a_proxy_can_be_added(space: hw.Space) -> None:
    with serve_ingress(space, hosts=["hooks.example.org"]) as server:
        assert post(server, Host="hooks.example.org").status_code == 202
        assert post(server, Host="other.example.org").status_code == 421


def test_served_at_every_address_it_goes_by_each_of_them_and_by_no_name(space: hw.Space) -> None:
    with serve_ingress(space, "0.0.0.0", token=TOKEN) as server:  # noqa: S104  # that is the claim
        bearer = f"Bearer {TOKEN}"
        assert post(server, Host="192.0.2.7:80", Authorization=bearer).status_code == 202
        assert post(server, Host="evil.example", Authorization=bearer).status_code == 421
        assert post(server, Host="192.0.2.7").status_code == 401


# --- pages of others ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost", "http://localhost:1", "http://[", "x"]
)
def test_a_page_from_elsewhere_may_not_post(origin: str, shop: Shop, server: Ingress) -> None:
    answer = post(server, Host=f"localhost:{server.port}", Origin=origin)
    assert answer.status_code == 403
    assert shop.waiting() == 0


def test_a_page_of_the_same_place_may(server: Ingress) -> None:
    place = f"localhost:{server.port}"
    assert post(server, Host=place, Origin=f"http://{place}").status_code == 202
    # Behind a proxy that speaks TLS.
    assert post(server, Host=place, Origin=f"https://{place}").status_code == 202


def test_no_answer_allows_a_browser_to_ask_again(server: Ingress) -> None:
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        asked = client.options(PLACED, headers={"Access-Control-Request-Method": "POST"})
    assert asked.status_code == 405
    assert not [name for name in asked.headers if name.startswith("access-control")]


# --- where it is served ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])  # noqa: S104  # that they are refused is the claim
def test_without_a_token_only_this_machine_is_served(host: str, space: hw.Space) -> None:
    with pytest.raises(UsageError, match="give it a token"):
        serve_ingress(space, host)


def test_a_place_that_is_taken_is_told(space: hw.Space, server: Ingress) -> None:
    with pytest.raises(UnavailableError, match=f"cannot listen at 127.0.0.1:{server.port}"):
        serve_ingress(space, port=server.port)
    with pytest.raises(UnavailableError, match="cannot listen at nowhere"):
        serve_ingress(space, "nowhere.invalid", token=TOKEN)
    with pytest.raises(UsageError, match="from 0 to 65535"):
        serve_ingress(space, port=70_000)


def is_served(server: Ingress) -> bool:
    try:
        socket.create_connection(("127.0.0.1", server.port), timeout=5).close()
    except ConnectionRefusedError:
        return False
    return True


def test_stop_takes_no_more_and_once_more_is_no_harm(space: hw.Space) -> None:
    server = serve_ingress(space)
    assert is_served(server)
    assert "serving" in repr(server)
    server.stop()
    server.stop()
    assert not is_served(server)
    assert "stopped" in repr(server)


def test_a_post_whose_body_never_comes_does_not_keep_the_server_from_ending(
    space: hw.Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    from headwater.server import ingress

    monkeypatch.setattr(ingress, "STOP_S", 1.0)
    server = serve_ingress(space)
    head = f"POST {PLACED} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nIdempotency-Key: a\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as raw:
        raw.sendall(head.encode() + b"Content-Length: 20\r\nExpect: 100-continue\r\n\r\n")
        assert raw.recv(1000).startswith(b"HTTP/1.1 100 ")
        server.stop()
    assert not is_served(server)


def test_closing_the_space_ends_its_server(shop: Shop) -> None:
    with shop.app.open("memory:") as space:
        server = serve_ingress(space)
        assert is_served(server)
    assert not is_served(server)
