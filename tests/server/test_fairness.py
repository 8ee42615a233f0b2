"""One space does not keep the others waiting: what is done in one turn of the server's loop is bounded."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from websockets.frames import Frame, Opcode

import headwater as hw
from headwater.machine import machine as real
from headwater.server.server import Server, Serving
from headwater.server.server_limits import FRAMES_TURN, PAUSE_S, SLICE_DOCS
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.server_socket import ServerSocket
from headwater.server.spaces.space_turns import SpaceTurns
from tests.server.running import settle_in


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


class Transport:
    """Of a client that has sent much at once."""

    def __init__(self) -> None:
        self.is_reading = True

    def pause_reading(self) -> None:
        self.is_reading = False

    def resume_reading(self) -> None:
        self.is_reading = True

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


class Receiving(ServerSocket):
    """Records the frames instead of passing them on."""

    def __init__(self, log: list[str]) -> None:
        super().__init__(None, SimpleNamespace(connections=set()), None)
        self.log = log
        self.transport = cast("asyncio.Transport", Transport())

    @property
    def is_reading(self) -> bool:
        return cast("Transport", self.transport).is_reading

    def _frame(self, frame: Frame) -> None:
        self.log.append(bytes(frame.data).decode())

    def get(self, *names: str) -> None:
        self._events.extend(Frame(Opcode.BINARY, name.encode()) for name in names)
        self._handle(FRAMES_TURN)


def test_frames_of_one_client_are_handled_in_turn_with_those_of_others() -> None:
    log: list[str] = []

    async def run() -> None:
        hot, other = Receiving(log), Receiving(log)
        loop = asyncio.get_running_loop()
        loop.call_soon(hot.get, *["hot"] * (3 * FRAMES_TURN))
        loop.call_soon(other.get, "other")
        await asyncio.sleep(0)
        # Nothing more is read until that is handled.
        assert (hot.is_reading, other.is_reading) == (False, True)
        for _ in range(5):
            await asyncio.sleep(0)
        assert hot.is_reading

    asyncio.run(run())
    assert log == [*["hot"] * FRAMES_TURN, "other", *["hot"] * 2 * FRAMES_TURN]


def test_frames_that_wait_are_handled_before_the_connection_ends() -> None:
    log: list[str] = []

    async def run() -> None:
        socket = Receiving(log)
        socket.get(*["a"] * (2 * FRAMES_TURN + 3))
        assert len(log) == FRAMES_TURN
        socket.hold()
        assert len(log) == 2 * FRAMES_TURN + 3
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not socket.is_reading

    asyncio.run(run())


def test_outcomes_of_one_space_are_sent_in_turn_with_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        storage = SimpleNamespace(name="", join=lambda _receiver: 0)
        made = {name: Channel(cast("Any", storage), loop, cast("Any", None)) for name in ("hot", "other")}
        names = {id(channel): name for name, channel in made.items()}
        monkeypatch.setattr(Channel, "_tell", lambda self, _decided: log.append(names[id(self)]))
        for _ in range(3):
            made["hot"].deliver([])
        made["other"].deliver([])
        assert made["hot"].has_news
        while any(channel.has_news for channel in made.values()):  # noqa: ASYNC110  # turns are counted
            await asyncio.sleep(0)

    asyncio.run(run())
    assert log == ["hot", "other", "hot", "hot"]


def test_large_answer_pauses_while_another_space_is_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 10 * SLICE_DOCS
    pauses: list[bool] = []
    inner = Channel._pause

    def pause(self: Channel) -> None:
        pauses.append(self._turns.others_used(self))
        self._turns.use("another space" if len(pauses) % 2 else self)
        inner(self)

    slept: list[float] = []

    def machine() -> object:
        return SimpleNamespace(sleep=slept.append) if pauses else real()

    app = hw.App("shop")
    cells = [app.cell(f"c{number}", 0) for number in range(count)]
    with Server(Serving(store=tmp_path / "store", port=0)) as server:
        with app.open(f"{server.url}/a") as space, space.transaction():
            for cell in cells:
                cell.value = 1
        monkeypatch.setattr(Channel, "_pause", pause)
        monkeypatch.setattr("headwater.server.spaces.channel.machine", machine)
        with app.open(f"{server.url}/a"):
            assert cells[-1].value == 1
    # Of the documents of the app, its declarations and the books of events.
    assert len(pauses) == (count + 3) // SLICE_DOCS
    assert slept == [PAUSE_S] * ((len(pauses) + 1) // 2)


def test_space_does_not_pause_for_itself() -> None:
    turns = SpaceTurns()
    mine, other, third = object(), object(), object()
    assert not turns.others_used(mine)
    turns.use(mine)
    assert not turns.others_used(mine)
    for used in (other, third, mine):
        turns.use(used)
    assert turns.others_used(mine)
    assert not turns.others_used(mine)
