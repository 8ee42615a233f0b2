"""The vectors over real sockets: a server answers what must be refused as they say, and goes on serving others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Subprotocol

from headwater.access.rights import EVERY_SPACE, WORDS
from headwater.server.server import Server, Serving
from headwater.store.commit import SetDoc
from headwater.sync.frames import SUBPROTOCOL, Hello, Open, Ping, Transact, encode_frame
from headwater.values.ids import DocKey
from tests.sync.protocol.examples import PLACE
from tests.sync.protocol.exchange import SPACE
from tests.sync.protocol.vectors import FILE

STORED: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
# The server of the vectors has lower limits than a real one.
DENIED = [each for each in STORED["denied"] if each["name"] != "more watches than are allowed"]
REFUSED = [each for each in STORED["refused"] if each["from"] == "client"]


PING = encode_frame(Ping(7))


class Client:
    """As somebody else would write it: MessagePack in, MessagePack out."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    def send(self, data: bytes) -> None:
        self.socket.send(data)

    def hear(self) -> dict[str, Any]:
        data = self.socket.recv(timeout=30)
        assert isinstance(data, bytes)
        found: dict[str, Any] = msgspec.msgpack.decode(data)
        return found

    def bring_to(self, state: str, space: str = SPACE) -> None:
        if state != "new":
            self.send(encode_frame(Hello((1,))))
            assert self.hear()["t"] == "welcome"
        if state == "open":
            self.send(encode_frame(Open(space)))
            assert self.hear()["t"] == "opened"

    def closed_with(self) -> int:
        with pytest.raises(ConnectionClosed) as caught:
            self.socket.recv(timeout=30)
        assert caught.value.rcvd is not None
        return caught.value.rcvd.code


class World:
    """A server whose space is at PLACE."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._tokens = {
            can: server.access.create(space=EVERY_SPACE, can=right, actor="ann")[0] for can, right in WORDS.items()
        }
        with self.client() as client:
            client.bring_to("open")
            for number in range(1, PLACE + 1):
                client.send(encode_frame(Transact(number, (SetDoc(DocKey("space/seats.log"), number),))))
            while client.hear()["seq"] < PLACE:
                pass

    @contextmanager
    def client(self, can: str = "own") -> Iterator[Client]:
        headers = {"Authorization": f"Bearer {self._tokens[can]}"}
        with connect(
            f"{self._server.url}/", subprotocols=[Subprotocol(SUBPROTOCOL)], additional_headers=headers
        ) as socket:
            yield Client(socket)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder: Path = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        run = folder / "run"
        run.mkdir(mode=0o700)
        patch.setenv("XDG_RUNTIME_DIR", str(run))
        with Server(Serving(store=folder / "data", port=0)) as server:
            yield World(server)


def test_number_that_comes_back_with_another_commit_fails_and_the_connection_goes_on(world: World) -> None:
    with world.client() as client:
        client.bring_to("open", "another")
        first, other = (encode_frame(Transact(1, (SetDoc(DocKey("space/seats.mine"), n),))) for n in (1, 2))
        client.send(first)
        (accepted,) = client.hear()["news"]
        assert accepted["verdict"]["type"] == "committed"
        client.send(other)
        (failed,) = client.hear()["news"]
        assert (failed["t"], failed["number"], failed["code"]) == ("f", 1, "HW401")
        client.send(first)
        assert client.hear()["news"] == [accepted]


@pytest.mark.parametrize("vector", REFUSED, ids=[each["name"] for each in REFUSED])
def test_server_refuses_it_and_hangs_up(world: World, vector: dict[str, Any]) -> None:
    with world.client() as client, world.client() as bystander:
        bystander.bring_to("open")
        client.bring_to(vector["state"])
        client.send(bytes.fromhex(vector["hex"]))
        assert client.hear() | {"message": ""} == vector["answer"]
        assert client.closed_with() == vector["close"]
        bystander.send(PING)
        assert bystander.hear() == {"t": "pong", "number": 7}


@pytest.mark.parametrize("vector", DENIED, ids=[each["name"] for each in DENIED])
def test_server_denies_it_and_goes_on(world: World, vector: dict[str, Any]) -> None:
    with world.client(vector["can"]) as client:
        client.bring_to("open")
        client.send(bytes.fromhex(vector["hex"]))
        assert client.hear() | {"message": ""} == vector["answer"]
        client.send(PING)
        assert client.hear() == {"t": "pong", "number": 7}
