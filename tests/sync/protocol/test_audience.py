"""A key is shown to the server that was meant: whoever passes on another server's challenge gets no signature."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve
from websockets.typing import Subprotocol

import headwater as hw
from headwater.access import keys
from headwater.access.rights import Right
from headwater.client.credentials import check_audience
from headwater.client.server_url import parse_server
from headwater.errors import RemoteProtocolError
from headwater.server.server import Server, Serving
from headwater.sync.frames import SUBPROTOCOL

SPOKEN = [Subprotocol(SUBPROTOCOL)]


@pytest.fixture
def honest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that knows ann's key."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    with Server(Serving(store=tmp_path / "data", port=0)) as server:
        private = keys.generate()
        keys.write_private_key(tmp_path / "ann.key", private)
        server.access.add_key(keys.public_of(private), space="desk", can=Right.OWN, actor="ann")
        yield server


def app() -> hw.App:
    made = hw.App("desk")
    made.cell("note", "")
    return made


def test_key_is_good_at_the_server_that_was_meant(honest: Server, tmp_path: Path) -> None:
    with app().open(f"{honest.url}/desk", key=tmp_path / "ann.key") as space:
        assert (space.connection.actor, space.connection.can) == ("ann", "own")


def test_server_that_passes_on_the_challenge_of_another_gets_no_signature(honest: Server, tmp_path: Path) -> None:
    passed_on: list[bytes] = []

    def relay(victim: ServerConnection) -> None:
        headers = {"Authorization": "Headwater-Key"}
        with connect(f"{honest.url}/", subprotocols=SPOKEN, additional_headers=headers) as there:
            there.send(victim.recv())
            victim.send(there.recv())
            try:
                answer = victim.recv(timeout=30)
            except ConnectionClosed:
                return
            assert isinstance(answer, bytes)
            passed_on.append(answer)

    with serve(relay, "127.0.0.1", 0, subprotocols=SPOKEN) as evil:
        thread = threading.Thread(target=evil.serve_forever)
        thread.start()
        port = evil.socket.getsockname()[1]
        with pytest.raises(RemoteProtocolError, match="calls itself"):
            app().open(f"ws://127.0.0.1:{port}/desk", key=tmp_path / "ann.key")
        evil.shutdown()
        thread.join(120)
    assert passed_on == []


@pytest.mark.parametrize(
    ("audience", "url"),
    [
        ("ws://127.0.0.1:8400", "ws://127.0.0.1:8400/desk"),
        ("ws://127.0.0.1:8400 wss://localhost", "ws://localhost:9000/desk"),
        ("ws://[::1]:8400", "ws://[::1]/desk"),
        ("ws://127.0.0.1:8400 wss://space.example.org", "wss://space.example.org:443/desk"),
        ("ws://127.0.0.1:8400 wss://a.example.org wss://b.example.org", "wss://B.example.org/desk"),
    ],
)
def test_server_is_meant_by_every_name_it_goes_by(audience: str, url: str) -> None:
    check_audience(audience, parse_server(url))


@pytest.mark.parametrize(
    ("audience", "url"),
    [
        ("ws://127.0.0.1:8400", "ws://127.0.0.1:8401/desk"),
        ("ws://127.0.0.1:8400", "ws://localhost:8400/desk"),
        ("ws://127.0.0.1:8400", "ws://evil.example.org:8400/desk"),
        ("ws://127.0.0.1:8400 wss://space.example.org", "wss://evil.example.org/desk"),
        ("", "ws://127.0.0.1:8400/desk"),
        ("ws://[", "ws://127.0.0.1:8400/desk"),
        ("ws://127.0.0.1:x", "ws://127.0.0.1:8400/desk"),
    ],
)
def test_server_that_is_called_otherwise_is_not_meant(audience: str, url: str) -> None:
    with pytest.raises(RemoteProtocolError):
        check_audience(audience, parse_server(url))
