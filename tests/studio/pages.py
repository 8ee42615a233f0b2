"""A page of the Studio without a browser: its frames over a socket of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from ssl import SSLContext
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from headwater.server.server import Server, Serving
from headwater.studio.page_frames import SUBPROTOCOL
from headwater.studio.served_pages import SOCKET, studio_pages

WAIT_S = 60.0
"""For what the server does: only reached if it does not."""


class PageClient:
    """One tab."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket
        self.number = 0
        self.welcome: dict[str, Any] = {}

    def send(self, **frame: object) -> None:
        self.socket.send(json.dumps(frame))

    def frame(self) -> dict[str, Any]:
        """The next frame of the server."""
        found: dict[str, Any] = json.loads(self.socket.recv(WAIT_S))
        return found

    def enter(self, **shown: str) -> dict[str, Any]:
        """Show a token, a code or a secret; the answer, whatever it is."""
        self.send(t="hello", **shown)
        self.welcome = self.frame()
        return self.welcome

    def _answer(self, **frame: object) -> dict[str, Any]:
        self.number += 1
        self.send(n=self.number, **frame)
        while (found := self.frame()).get("n") != self.number or found["t"] == "delta":
            pass
        return found

    def ask(self, type: str, **fields: object) -> Any:  # noqa: A002  # as in the frame
        """The record that answers a question, or the frame `trouble`; nothing if the last one stays."""
        found = self._answer(t="ask", q={"type": type, **fields})
        return found.get("record", {}) if found["t"] == "answer" else found

    def do(self, type: str, **fields: object) -> Any:  # noqa: A002  # as in the frame
        """The report of a deed, or the frame `trouble`."""
        found = self._answer(t="do", deed={"type": type, **fields})
        return found["record"] if found["t"] == "done" else found

    def intent(self, type: str, **fields: object) -> Any:  # noqa: A002  # as in the frame
        """What a deed is about to do."""
        return self.ask("intent", deed={"type": type, **fields})

    def watch(self, type: str, **fields: object) -> dict[str, Any]:  # noqa: A002  # as in the frame
        """The first answer to a watched question."""
        return self._answer(t="watch", q={"type": type, **fields})

    def delta(self) -> dict[str, Any]:
        """The next delta, which is painted at once."""
        while (found := self.frame())["t"] != "delta":
            pass
        self.send(t="ok", n=found["n"])
        return found

    def delta_unpainted(self) -> dict[str, Any]:
        """The next delta, which is not painted."""
        while (found := self.frame())["t"] != "delta":
            pass
        return found

    def code(self) -> int:
        """The code with which the server closes the connection; what it says before is passed over."""
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                self.socket.recv(WAIT_S)
        assert closed.value.rcvd is not None, "it broke off"
        return closed.value.rcvd.code


@contextmanager
def studio_served(store: Path, *, hosts: tuple[str, ...] = ()) -> Iterator[Server]:
    """`headwater serve --studio`, in a thread."""
    options = Serving(store=store, port=0, hosts=hosts, more_pages=studio_pages(), page_sockets=(SOCKET,))
    with Server(options) as server:
        yield server


@contextmanager
def page_of(url: str, *, ssl: SSLContext | None = None, **shown: str) -> Iterator[PageClient]:
    """A tab of the Studio at a URL (http or ws). With a token, code or session it has entered."""
    place = url.partition("://")[2].partition("/")[0]
    secure = "" if ssl is None else "s"
    with connect(
        f"ws{secure}://{place}{SOCKET}",
        origin=Origin(f"http{secure}://{place}"),
        subprotocols=[Subprotocol(SUBPROTOCOL)],
        proxy=None,
        max_size=None,
        ssl=ssl,
    ) as socket:
        page = PageClient(socket)
        if shown:
            assert page.enter(**shown)["t"] == "welcome", page.welcome
        yield page
