"""Attacks 1 to 6: a page in somebody's browser, which can send requests to this machine but not what a program can."""

from __future__ import annotations

import pytest

from headwater.sync.frames import SUBPROTOCOL
from tests.system.attacks.raw import ask, knock, upgrade_lines
from tests.system.attacks.served import Served

PAGES = ["/healthz", "/readyz", "/metrics", "/spaces/home/backup", "/nothing"]


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.test",
        "null",
        "https://127.0.0.1.evil.test",
        "file://",
        "http://127.0.0.1:1",
        "http://127.0.0.1@evil.test",
        "",
    ],
)
def test_a_page_of_another_place_is_refused_before_the_upgrade(served: Served, origin: str) -> None:
    assert knock(served.port, served.token("*"), origin=origin) == 403


def test_a_page_of_the_server_itself_still_needs_a_token(served: Served) -> None:
    origin = f"http://127.0.0.1:{served.port}"
    assert knock(served.port, origin=origin) == 401
    assert knock(served.port, served.token("*"), origin=origin) == 101


def test_a_program_without_a_token_is_refused_before_the_upgrade(served: Served) -> None:
    for given in (None, "", "hw_", "hw_" + "A" * 43):
        assert knock(served.port, given) == 401


def test_a_token_is_taken_from_nowhere_but_its_header(served: Served) -> None:
    token = served.token("*")
    for more in (f"Cookie: token={token}", f"Sec-WebSocket-Protocol: {token}", f"X-Token: {token}"):
        lines = upgrade_lines(served.port, more=[more])
        assert ask(served.port, lines).status == 401


@pytest.mark.parametrize("host", ["evil.test", "evil.test:{port}", "localhost.evil.test:{port}", "10.0.0.1:{port}"])
def test_a_name_that_is_not_the_servers_is_refused_on_every_route(served: Served, host: str) -> None:
    host = host.format(port=served.port)
    assert knock(served.port, served.token("*"), host=host) == 421
    for page in PAGES:
        assert ask(served.port, [f"GET {page} HTTP/1.1", f"Host: {host}"]).status == 421, page


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1.evil.test",
        "[::1]%lo",
        "[::1%25lo]:{port}",
        "127.0.0.1:{port}@evil.test",
        "evil.test@127.0.0.1:{port}",
        "127.0.0.1:{port}/../x",
        "127.0.0.1:99999",
        "127.0.0.1:port",
        "[::1",
        "2130706433",
        "127.1",
        "",
    ],
)
def test_a_host_that_is_none_is_refused(served: Served, host: str) -> None:
    host = host.format(port=served.port)
    lines = [each for each in upgrade_lines(served.port, token=served.token("*")) if not each.startswith("Host:")]
    assert ask(served.port, [*lines, f"Host: {host}"]).status in (400, 421)
    assert ask(served.port, ["GET /healthz HTTP/1.1", f"Host: {host}"]).status in (400, 421)


@pytest.mark.parametrize("name", ["Host: evil.test", "Host: 127.0.0.1", "host: localhost"])
def test_two_hosts_are_one_too_many(served: Served, name: str) -> None:
    assert ask(served.port, upgrade_lines(served.port, token=served.token("*"), more=[name])).status == 400
    assert ask(served.port, ["GET /healthz HTTP/1.1", "Host: 127.0.0.1", name]).status == 400
    assert ask(served.port, ["GET /healthz HTTP/1.1"]).status == 400


@pytest.mark.parametrize("name", ["Origin: http://evil.test", "Authorization: Bearer x"])
def test_what_may_be_there_once_is_refused_when_it_is_there_twice(served: Served, name: str) -> None:
    origin = f"http://127.0.0.1:{served.port}"
    lines = upgrade_lines(served.port, token=served.token("*"), origin=origin, more=[name])
    assert ask(served.port, lines).status == 400


def test_what_was_offered_in_several_headers_was_offered(served: Served) -> None:
    lines = [each for each in upgrade_lines(served.port, token=served.token("*")) if SUBPROTOCOL not in each]
    offers = ["Sec-WebSocket-Protocol: chat", f"Sec-WebSocket-Protocol: other, {SUBPROTOCOL}"]
    assert ask(served.port, [*lines, *offers]).status == 101
    assert ask(served.port, lines).status == 400


POST = "/spaces/home/topics/orders/placed"


def test_a_form_of_another_page_changes_nothing(served: Served) -> None:
    body = b'{"a":1}'
    start = [f"POST {POST} HTTP/1.1", f"Host: 127.0.0.1:{served.port}", f"Content-Length: {len(body)}"]
    plain = [*start, "Content-Type: text/plain"]
    # A page can send this without asking first; what it cannot do is to leave out where it comes from, or add a token.
    assert ask(served.port, [*plain, "Origin: http://evil.test"], body).status == 403
    assert ask(served.port, [*plain, "Origin: null"], body).status == 403
    assert ask(served.port, plain, body).status == 401
    assert ask(served.port, [*plain, "Cookie: token=hw_x"], body).status == 401


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"])
def test_what_changes_something_is_done_by_no_other_method(served: Served, method: str) -> None:
    token = served.token("*")
    lines = [f"{method} {POST} HTTP/1.1", f"Host: 127.0.0.1:{served.port}", f"Authorization: Bearer {token}"]
    assert ask(served.port, lines).status == 405


@pytest.mark.parametrize("page", PAGES[:3])
def test_pages_that_only_tell_take_no_orders(served: Served, page: str) -> None:
    lines = [f"POST {page} HTTP/1.1", f"Host: 127.0.0.1:{served.port}", "Content-Length: 0"]
    assert ask(served.port, lines).status == 405


@pytest.mark.parametrize("origin", ["http://evil.test", "http://127.0.0.1:1"])
def test_no_page_is_told_that_it_may_read_answers(served: Served, origin: str) -> None:
    for method in ("GET", "OPTIONS"):
        asked = [f"{method} /healthz HTTP/1.1", f"Host: 127.0.0.1:{served.port}", f"Origin: {origin}"]
        found = ask(served.port, asked)
        assert found.status == 403
        assert not [name for name in found.headers if name.startswith("access-control")]
