"""TLS: the connection goes to an address, and the certificate has to be that of the name."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.errors import HttpRefusedError, HttpUnreachableError
from headwater.http.http_headers import check_headers
from tests.http.rig import PUBLIC, Names, Server, answer, fetch, fetcher

PEM = Path(__file__).with_name("server.pem")
"""Key and certificate of `api.example` and 127.0.0.1, made for these tests, signed by itself."""


class Safe(Server):
    """A server for https, which notes the names that it is asked for in TLS."""

    def __init__(self) -> None:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(PEM)
        tls.sni_callback = lambda _connection, name, _context: self.names.append(name)
        self.names: list[str | None] = []
        super().__init__(tls)


@pytest.fixture
def safe() -> Iterator[Safe]:
    with Safe() as made:
        yield made


@pytest.fixture
def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cafile=PEM)


def test_the_certificate_is_checked_against_the_name_and_not_the_address(safe: Safe, trusting: ssl.SSLContext) -> None:
    safe["/"] = answer(b"x")
    names = Names(safe, api_example=[PUBLIC])
    assert fetch(fetcher(names, tls=trusting), "https://api.example/").body == b"x"
    assert names.connected == [(PUBLIC, 443)]
    assert safe.names == ["api.example"]
    assert safe.asked[0].headers["host"] == "api.example"


def test_a_certificate_for_another_name_is_refused(safe: Safe, trusting: ssl.SSLContext) -> None:
    safe["/"] = answer(b"x")
    with pytest.raises(HttpUnreachableError, match=r"certificate verify failed: Hostname mismatch"):
        fetch(fetcher(Names(safe, other_example=[PUBLIC]), tls=trusting), "https://other.example/")
    assert safe.asked == []


def test_one_address_with_two_names_is_checked_for_each(safe: Safe, trusting: ssl.SSLContext) -> None:
    """A pool of connections by address would take the first for the second."""
    safe["/"] = answer(b"x")
    one = fetcher(Names(safe, api_example=[PUBLIC], other_example=[PUBLIC]), tls=trusting)
    assert fetch(one, "https://api.example/").body == b"x"
    with pytest.raises(HttpUnreachableError, match="Hostname mismatch"):
        fetch(one, "https://other.example/")


def test_a_certificate_that_nobody_vouches_for_is_refused(safe: Safe) -> None:
    with pytest.raises(HttpUnreachableError, match="certificate verify failed"):
        fetch(fetcher(Names(safe, api_example=[PUBLIC])), "https://api.example/")
    assert safe.asked == []


def test_the_environment_names_no_authorities(safe: Safe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(PEM))
    with pytest.raises(HttpUnreachableError, match="certificate verify failed"):
        fetch(fetcher(Names(safe, api_example=[PUBLIC])), "https://api.example/")


def test_an_address_in_a_url_is_checked_as_an_address(safe: Safe, trusting: ssl.SSLContext) -> None:
    safe["/"] = answer(b"x")
    assert fetch(fetcher(tls=trusting), f"https://127.0.0.1:{safe.port}/").body == b"x"
    with pytest.raises(HttpUnreachableError, match="certificate verify failed"):
        fetch(fetcher(tls=trusting), f"https://localhost:{safe.port}/")


def test_a_server_that_knows_no_tls_is_told(server: Server) -> None:
    server.greets = b"HTTP/1.1 400 Bad Request\r\n\r\n"
    with pytest.raises(HttpUnreachableError, match=r"cannot be reached: 127\.0\.0\.1: .*SSL"):
        fetch(fetcher(), f"https://127.0.0.1:{server.port}/")


def test_a_server_that_never_agrees_on_tls_is_left_in_time(server: Server) -> None:
    with pytest.raises(HttpUnreachableError, match=r"took longer than 1 s, while connecting to 127\.0\.0\.1"):
        fetch(fetcher(timeout_ms=1000.0), f"https://127.0.0.1:{server.port}/")
    server.wait_until(lambda: server.hung_up == 1)


def test_secrets_go_along_when_the_same_host_is_made_safe(server: Server, safe: Safe, trusting: ssl.SSLContext) -> None:
    server["/"] = answer(b"", 301, location="https://api.example/")
    safe["/"] = answer(b"x")
    names = Names(server, api_example=[PUBLIC])
    names.leads_to["https"] = ("127.0.0.1", safe.port)
    fetch(fetcher(names, tls=trusting), "http://api.example/", check_headers({"X-Key": "k"}, ""))
    assert safe.asked[0].headers["x-key"] == "k"
    assert names.connected == [(PUBLIC, 80), (PUBLIC, 443)]


def test_a_redirect_that_leaves_https_is_refused(server: Server, safe: Safe, trusting: ssl.SSLContext) -> None:
    safe["/"] = answer(b"", 302, location=server.url())
    with pytest.raises(HttpRefusedError, match="can be read and changed on the way"):
        fetch(fetcher(tls=trusting), f"https://127.0.0.1:{safe.port}/")
    assert server.connections == 0
