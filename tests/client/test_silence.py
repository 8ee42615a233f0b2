"""A connection on which nothing is heard: when the server is asked whether it is there, and when it is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.server import ServerProtocol
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

import headwater as hw
from headwater.client import client_socket as sockets
from headwater.client.client_socket import IDLE_S, PONG_S, QUIET_S, ClientSocket
from headwater.sync.frames import SUBPROTOCOL
from headwater.testing.sim_loop import simulate
from tests.client.world import Behind, Counter, behind, state_is
from tests.server.running import settle_in, until


class Wire(asyncio.Transport):
    """A line to a server that says no more than WebSocket asks of it; or, if it is told so, nothing at all."""

    def __init__(self, *, greets: bool = True) -> None:
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._server = ServerProtocol(subprotocols=[Subprotocol(SUBPROTOCOL)])
        self.is_stopped = not greets
        self.is_due = False
        self.unsent = 0
        # When it was asked whether it is there, and when it was given up.
        self.pings: list[float] = []
        self.given_up: float | None = None
        self.socket = ClientSocket(
            parse_uri("ws://127.0.0.1:1/"),
            "",
            up=lambda: None,
            hear=lambda _: None,
            is_answer_due=lambda: self.is_due,
        )
        self.socket.connection_made(self)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._server.receive_data(bytes(data))
        for event in self._server.events_received():
            if isinstance(event, Request):
                self._server.send_response(self._server.accept(event))
            elif isinstance(event, Frame) and event.opcode is Opcode.PING:
                self.pings.append(self._loop.time())
        if not self.is_stopped:
            for each in self._server.data_to_send():
                self._loop.call_soon(self.socket.data_received, each)

    def say(self) -> None:
        """Something."""
        self._server.send_binary(b"news")
        for each in self._server.data_to_send():
            self.socket.data_received(each)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.given_up is not None

    def abort(self) -> None:
        self.given_up = self._loop.time()
        self._loop.call_soon(self.socket.connection_lost, None)


def play(scene: Callable[[Wire], Awaitable[None]], *, greets: bool = True) -> Wire:
    """With time that passes when nothing else is left to do."""

    async def main() -> Wire:
        wire = Wire(greets=greets)
        await scene(wire)
        return wire

    return simulate(main())


def test_a_server_that_owes_an_answer_is_asked_after_four_seconds_and_given_up_after_four_more() -> None:
    async def scene(wire: Wire) -> None:
        await asyncio.sleep(0)
        wire.is_due = wire.is_stopped = True
        await wire.socket.done

    wire = play(scene)
    assert wire.pings == [pytest.approx(QUIET_S)]
    assert wire.given_up == pytest.approx(QUIET_S + PONG_S)
    assert QUIET_S + PONG_S == 8.0
    assert wire.socket.silence_s == pytest.approx(8.0)


def test_a_server_that_owes_nothing_is_asked_every_fifteen_seconds_and_stays_if_it_answers() -> None:
    async def scene(_wire: Wire) -> None:
        await asyncio.sleep(4 * IDLE_S + 1)

    wire = play(scene)
    # Each answer is the beginning of a silence.
    assert wire.pings == [pytest.approx(each * IDLE_S) for each in (1, 2, 3, 4)]
    assert wire.given_up is None


def test_an_idle_server_that_has_stopped_is_given_up_as_well() -> None:
    async def scene(wire: Wire) -> None:
        await asyncio.sleep(0)
        wire.is_stopped = True
        await wire.socket.done

    assert play(scene).given_up == pytest.approx(IDLE_S + PONG_S)


def test_what_is_written_in_the_middle_of_a_silence_has_its_answer_waited_for_from_then() -> None:
    async def scene(wire: Wire) -> None:
        await asyncio.sleep(10)
        wire.is_due = wire.is_stopped = True
        await wire.socket.done

    wire = play(scene)
    assert len(wire.pings) == 1
    assert wire.given_up is not None
    assert 10 + PONG_S <= wire.given_up <= 10 + QUIET_S + PONG_S


def test_whoever_says_anything_is_not_asked() -> None:
    async def scene(wire: Wire) -> None:
        wire.is_due = True
        for _ in range(20):
            await asyncio.sleep(QUIET_S - 1)
            wire.say()

    wire = play(scene)
    assert wire.pings == []
    assert wire.given_up is None


def test_a_question_behind_much_that_goes_out_slowly_is_waited_for_as_long_as_it_goes_out() -> None:
    async def scene(wire: Wire) -> None:
        await asyncio.sleep(0)
        wire.is_due = wire.is_stopped = True
        wire.unsent = 100
        for _ in range(10):
            await asyncio.sleep(PONG_S - 1)
            wire.unsent -= 10
        assert wire.given_up is None
        await wire.socket.done

    wire = play(scene)
    assert wire.given_up is not None
    assert wire.given_up <= 10 * (PONG_S - 1) + 2 * PONG_S


def test_who_takes_a_connection_and_does_not_even_greet_is_given_up() -> None:
    async def scene(wire: Wire) -> None:
        await wire.socket.done

    wire = play(scene, greets=False)
    assert wire.pings == []
    assert wire.given_up == pytest.approx(QUIET_S + PONG_S)


# -- as programs see it -----------------------------------------------------------------------------------------


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


def test_a_silent_server_is_offline_for_the_program_until_it_speaks_again(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "QUIET_S", 0.2)
    monkeypatch.setattr(sockets, "PONG_S", 0.2)
    counter = Counter()
    with counter.open(at) as space:
        told: list[hw.Connection] = []
        space.on_connection(told.append)
        at.proxy.freeze(True)
        counter.count.value = 1
        assert space.connection
        state_is(space, "offline")
        assert not space.connection
        assert "nothing was heard" in told[0].trouble
        assert (told[0].state, told[0].pending) == ("offline", 1)
        at.proxy.freeze(False)
        state_is(space, "live")
        space.sync()
        until(lambda: told[-1].state == "live", "it is told")
    other = Counter()
    with other.app.open(at.straight, actor="bob"):
        assert other.count.value == 1
