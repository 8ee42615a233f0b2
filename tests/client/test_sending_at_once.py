"""Which thread sends a commit, and whom a frame of the server wakes: counted, since each hand-over costs time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.client.server_link import ServerLink
from headwater.host.plain_space import Space
from headwater.machine import Machine, machine
from headwater.server.server import Server
from headwater.server.spaces.server_socket import ServerSocket
from tests.client.world import storage_of
from tests.server.running import served, settle_in, until


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    settle_in(tmp_path, monkeypatch)
    with served(tmp_path / "store") as running:
        yield running


class Till:
    """A program with one cell."""

    def __init__(self, server: Server) -> None:
        self.app = hw.App("till")
        self.count = self.app.cell("count", 0)
        self._url = f"{server.url}/shop"

    def open(self) -> Space:
        return self.app.open(self._url)


def link_of(space: Space) -> ServerLink:
    return storage_of(space).link


def at_rest(space: Space) -> None:
    """Everything is decided, and the thread of the connection has ended its step."""
    space.sync()
    with link_of(space)._turn:
        pass


def count_wakes(monkeypatch: pytest.MonkeyPatch, link: ServerLink) -> list[object]:
    """What the thread of the connection is asked to do."""
    asked: list[object] = []
    soon = link._soon

    def counted(do: Callable[[], object]) -> None:
        asked.append(do)
        soon(do)

    monkeypatch.setattr(link, "_soon", counted)
    return asked


def test_a_commit_is_sent_by_the_thread_that_makes_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    till = Till(server)
    with till.open() as space:
        till.count.value = 1
        at_rest(space)
        wakes = count_wakes(monkeypatch, link_of(space))
        for number in range(2, 7):
            till.count.value = number
            at_rest(space)
        assert wakes == []
        assert space.stats.rejected == 0


def test_commits_that_follow_before_a_verdict_are_gathered(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    till = Till(server)
    with till.open() as space:
        till.count.value = 1
        at_rest(space)
        link = link_of(space)
        wakes = count_wakes(monkeypatch, link)
        with link._turn:
            # The thread of the connection is busy: it sends all of them when it is free, and is asked once.
            for number in range(2, 51):
                till.count.value = number
        space.sync()
        assert len(wakes) == 1
        assert till.count.value == 50


def test_an_input_of_functions_is_left_to_the_thread_that_sends_it_with_their_results(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    till = Till(server)

    @till.app.computed
    def double() -> int:
        return till.count.value * 2

    @till.app.sink
    def show() -> None:
        double()

    with till.open() as space:
        till.count.value = 1
        at_rest(space)
        link = link_of(space)
        wakes = count_wakes(monkeypatch, link)
        with link._turn:
            till.count.value = 2
        at_rest(space)
        assert len(wakes) == 1
        till.count.value = 3
        at_rest(space)
        assert len(wakes) >= 2
        assert double() == 6


def test_a_commit_does_not_pass_one_that_is_queued(server: Server) -> None:
    till = Till(server)
    with till.open() as space:
        at_rest(space)
        link = link_of(space)
        with link._turn:
            till.count.value = 1
        till.count.value = 2
        space.sync()
        assert till.count.value == 2
        assert space.stats.rejected == 0


def test_what_the_system_does_not_take_at_once_is_sent_by_the_loop(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    send_now = Machine.send_now

    def some(self: Machine, transport: asyncio.Transport, data: bytes) -> int:
        taken.append(send_now(self, transport, data[: len(data) // 2]) if len(taken) % 2 else 0)
        return taken[-1]

    monkeypatch.setattr(Machine, "send_now", some)
    till = Till(server)
    with till.open() as space:
        for number in range(1, 9):
            till.count.value = number
            at_rest(space)
        assert len(taken) >= 8
        assert space.connection.tries == 1
    other = Till(server)
    with other.open():
        assert other.count.value == 8


def test_a_commit_whose_sending_was_interrupted_is_sent_again(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    till = Till(server)
    with till.open() as space:
        at_rest(space)

        def interrupted(_self: Machine, _transport: asyncio.Transport, _data: bytes) -> int:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(Machine, "send_now", interrupted)
            with pytest.raises(KeyboardInterrupt):
                till.count.value = 1
        until(lambda: link_of(space).tries == 2, "the connection was made again")
        space.sync()
        till.count.value = 5
        space.sync()
    other = Till(server)
    with other.open():
        assert other.count.value == 5


def test_a_connection_without_a_socket_of_the_system_is_left_to_its_loop() -> None:
    assert machine().send_now(asyncio.Transport(), b"data") == 0
    assert machine().send_now(asyncio.Transport({"socket": object(), "sslcontext": object()}), b"data") == 0


def test_a_broken_connection_is_noticed_by_its_loop() -> None:
    class Gone:
        def fileno(self) -> int:
            return reading

    reading, writing = os.pipe()
    try:
        # Not open for writing: the system refuses it.
        assert machine().send_now(asyncio.Transport({"socket": Gone()}), b"data") == len(b"data")
    finally:
        os.close(reading)
        os.close(writing)


def test_commits_of_others_wake_no_caller_that_waits(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, others = Till(server), Till(server)
    with mine.open() as space, others.open() as other:
        at_rest(space)
        told: list[None] = []
        link = link_of(space)
        tell = link.told

        def counted() -> None:
            told.append(None)
            tell()

        monkeypatch.setattr(link, "told", counted)
        for number in range(1, 11):
            others.count.value = number
            other.sync()
        until(lambda: link.session.seq >= link_of(other).session.seq, "all of it has come")
        with link._turn:
            assert told == []
        mine.count.value = 20
        space.sync()
        assert len(told) == 1


def test_news_take_no_other_turn_of_the_servers_loop(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, others = Till(server), Till(server)
    with mine.open() as space, others.open() as other:
        at_rest(space)
        at_rest(other)
        later: list[None] = []
        flush = ServerSocket._flush_soon

        def counted(self: ServerSocket) -> None:
            later.append(None)
            flush(self)

        monkeypatch.setattr(ServerSocket, "_flush_soon", counted)
        for number in range(1, 11):
            mine.count.value = number
            space.sync()
        until(lambda: link_of(other).session.seq >= link_of(space).session.seq, "all of it has come")
        assert later == []
