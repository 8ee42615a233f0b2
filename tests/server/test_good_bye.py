"""How a connection ends when the client says so: at once, and not when the server's patience is over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.sync_load import Line, framed
from bench.sync_speech import HeadwaterSpeech
from headwater.server.server import Server, Serving
from headwater.server.spaces.server_socket import ServerSocket
from headwater.sync.frames import Bye, encode_frame

CLOSE = bytes((0x88, 0x82, 0, 0, 0, 0, 0x03, 0xE8))
"""The frame that ends a WebSocket, code 1000."""


@pytest.fixture
def url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    tmp_path.chmod(0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    # Nobody is cut off: what does not end by itself does not end.
    monkeypatch.setattr(ServerSocket, "_abort", lambda _self: None)
    with Server(Serving(store=tmp_path / "store", port=0)) as server:
        yield f"{server.url}/room"


@pytest.mark.parametrize(
    "last_words",
    [[CLOSE], [framed(encode_frame(Bye())), CLOSE], [framed(encode_frame(Bye())) + CLOSE]],
    ids=["close", "bye, then close", "bye and close in one piece"],
)
def test_a_client_that_says_good_bye_is_hung_up_on_at_once(url: str, last_words: list[bytes]) -> None:
    speech = HeadwaterSpeech()
    line = Line(url, speech)
    speech.greet(line, url, watch=False)
    line.sock.settimeout(10)
    heard = b""
    for words in last_words:
        line.sock.sendall(words)
        heard += line.sock.recv(1000)
    while chunk := line.sock.recv(1000):
        heard += chunk
    line.sock.close()
    assert heard[0] == 0x88, "a frame that says that it ends"
