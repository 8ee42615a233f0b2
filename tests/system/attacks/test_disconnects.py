"""Connections by the ten thousand, and what is left of them: nothing."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.store.commit import Committed, SetDoc
from headwater.sync.frames import Pull
from tests.system.attacks.raw import BINARY, ClosedError, Raw, connect, knock, upgrade_lines, ws_frame
from tests.system.attacks.served import Served, doc


def eventually(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.005)


def is_served(served: Served) -> bool:
    with served.enter(served.space()) as other:
        return isinstance(other.write(1, SetDoc(doc("a"), 1)), Committed)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  # only how many


@pytest.mark.slow
def test_ten_thousand_connections_leave_nothing_behind(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    token = served.token(space, "read")
    served.enter(space, "read").quit()
    loop = served.spaces._loop

    def tasks() -> int:
        return asyncio.run_coroutine_threadsafe(_tasks(), loop).result(30)

    channel = served.spaces.channels[space]
    eventually(lambda: not channel.connections)
    before = descriptors(), tasks()
    authenticator = served.server.authenticator
    assert authenticator is not None
    upgrade = "\r\n".join([*upgrade_lines(served.port, token=token), "", ""]).encode()
    said = [b"", b"GET / HT", b"\x16\x03\x01 nonsense\r\n\r\n", upgrade, upgrade + ws_frame(BINARY, b"\x81")]
    for _ in range(100):
        Raw.into(served.port, token, space).quit()
        lines = [connect(served.port) for _ in range(99)]
        for number, line in enumerate(lines):
            line.sendall(said[number % len(said)])
        for line in lines:
            line.close()
    eventually(lambda: not channel.connections and not authenticator.connections)
    eventually(lambda: descriptors() <= before[0] + 2 and tasks() <= before[1] + 2)
    gc.collect()
    assert not authenticator._of_grant
    assert not served.spaces._turns
    assert is_served(served)


def test_client_that_ends_its_side_and_reads_nothing_does_not_stay(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = served.space()
    with served.enter(space) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), bytes(8 << 20))), Committed)
    channel = served.spaces.channels[space]
    eventually(lambda: not channel.connections)
    # From here on, so that the large document is stored at any pace.
    monkeypatch.setattr("headwater.server.spaces.server_socket.PING_S", 0.2)
    with served.enter(space) as raw:
        client = next(iter(channel.connections.values()))
        raw.say(Pull(2, (doc("a"),)))
        # Or cut off before, on a busy machine: it answers no pings.
        eventually(lambda: bool(client._is_full) or not channel.connections)  # type: ignore[attr-defined]  # a client
        raw.line.shutdown(socket.SHUT_WR)
        eventually(lambda: not channel.connections)


async def _tasks() -> int:
    return len(asyncio.all_tasks())


def test_a_server_has_as_many_places_as_descriptors_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever cannot be let in is told: with no descriptor left nobody could be."""
    monkeypatch.setattr("headwater.server.authenticator.getrlimit", lambda _what: (20, 20))
    with Served.running(tmp_path) as served:
        space = served.space()
        inside = [served.enter(space) for _ in range(15)]
        try:
            assert knock(served.port, served.token(space)) == 503
            inside.pop().quit()
            eventually(lambda: knock(served.port, served.token(space)) == 101)
        finally:
            for each in inside:
                each.quit()


def test_spaces_that_are_not_there_leave_nothing_behind(served: Served) -> None:
    token = served.token("*", "read")
    for number in range(200):
        with pytest.raises(ClosedError):
            Raw.into(served.port, token, f"none {number}")
    gc.collect()
    assert not [name for name in served.spaces._turns if name.startswith("none")]
    assert not [name for name in served.spaces.channels if name.startswith("none")]
