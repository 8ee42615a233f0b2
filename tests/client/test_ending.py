"""The end of an opening, and of a program, while the server is not reached: nobody waits for it who cannot."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.client import client_socket as sockets
from headwater.client import server_link as links
from headwater.errors import HeadwaterError
from tests.client.world import Behind, Counter, Program, behind, state_is, storage_of
from tests.server.running import settle_in, until

NOT_CLOSED = """
import sys
import headwater as hw
url, token, folder = sys.argv[1:]
app = hw.App("counter")
count = app.cell("count", 0)
space = app.open(url, token=token, actor="ann", local=folder)
print("open", flush=True)
sys.stdin.readline()
while space.connection:
    pass
count.value = 1
print("ends", flush=True)
"""


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for the server waits for longer than any test runs."""
    monkeypatch.setattr(links, "PATIENCE_S", 600.0)
    monkeypatch.setattr(links, "STALL_S", 600.0)


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
@pytest.mark.parametrize("is_kept", [True, False])
def test_a_block_that_ends_with_an_error_does_not_wait_for_a_server_that_is_away(
    at: Behind, tmp_path: Path, caplog: pytest.LogCaptureFixture, error: type[BaseException], *, is_kept: bool
) -> None:
    counter = Counter()
    caplog.set_level(logging.WARNING, "headwater")
    with pytest.raises(error), counter.open(at, local=tmp_path / "local" if is_kept else None) as space:
        at.go_away()
        state_is(space, "offline")
        for _ in range(4):
            counter.count.value += 1
        raise error
    assert space.closed
    (line,) = [each.getMessage() for each in caplog.records]
    assert "4 commits were not sent" in line
    assert ("kept in" in line) is is_kept
    assert ("lost" in line) is not is_kept
    at.come_back()
    again = Counter()
    with again.open(at, local=tmp_path / "local" if is_kept else None):
        assert again.shown == [4 if is_kept else 0]


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("is_kept", [True, False])
def test_in_an_event_loop_it_is_the_same(
    at: Behind, tmp_path: Path, caplog: pytest.LogCaptureFixture, *, is_kept: bool
) -> None:
    caplog.set_level(logging.WARNING, "headwater")

    async def main() -> None:
        counter = Counter()
        local = tmp_path / "local" if is_kept else None
        async with counter.app.aopen(at.url, token=at.token, actor="ann", local=local) as space:
            await asyncio.to_thread(at.go_away)
            await asyncio.to_thread(until, lambda: not space.connection, "it is away")
            for _ in range(4):
                counter.count.value += 1
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(main())
    (line,) = [each.getMessage() for each in caplog.records]
    assert "4 commits were not sent" in line
    assert ("kept in" in line) is is_kept


@pytest.mark.usefixtures("patient")
def test_an_event_that_waits_for_the_server_holds_nobody_up(at: Behind) -> None:
    counter = Counter()
    with pytest.raises(KeyboardInterrupt), counter.open(at) as space:
        at.go_away()
        state_is(space, "offline")
        counter.add.send(1)
        raise KeyboardInterrupt
    assert space.closed


@pytest.mark.usefixtures("patient")
def test_a_server_that_turns_out_to_be_silent_is_waited_for_no_longer_than_that_takes(
    at: Behind, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sockets, "QUIET_S", 0.2)
    monkeypatch.setattr(sockets, "PONG_S", 0.2)
    counter = Counter()
    with pytest.raises(KeyboardInterrupt), counter.open(at):
        at.proxy.freeze(True)
        counter.count.value = 1
        raise KeyboardInterrupt
    assert "1 commit was not sent" in caplog.text
    at.proxy.freeze(False)


def test_what_was_written_before_an_error_is_sent_if_the_server_is_there(at: Behind) -> None:
    counter = Counter()
    with pytest.raises(KeyboardInterrupt), counter.open(at):
        counter.count.value = 3
        raise KeyboardInterrupt
    other = Counter()
    with other.app.open(at.straight, actor="bob"):
        assert other.count.value == 3


@pytest.mark.usefixtures("patient")
def test_a_connection_that_is_being_made_when_it_ends_is_not_waited_for(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter = Counter()
    space = counter.open(at)
    link = storage_of(space).link
    begun: list[object] = []

    async def for_ever(*_args: object, **_options: object) -> None:
        begun.append(None)
        await asyncio.Event().wait()

    monkeypatch.setattr(links, "CONNECT_S", 600.0)
    monkeypatch.setattr(links, "CLOSE_S", 600.0)
    monkeypatch.setattr(link._loop, "create_connection", for_ever)
    at.go_away()
    until(lambda: bool(begun), "it is tried again")
    space.close()
    assert not link._thread.is_alive()


def test_a_program_that_ends_without_closing_while_the_server_is_away_says_nothing_of_its_threads(
    at: Behind, tmp_path: Path
) -> None:
    # By a name that has to be looked up, and with a folder: both are left to threads, and none is started at the end.
    url = at.url.replace("127.0.0.1", "localhost")
    program = Program(NOT_CLOSED, url, at.token, str(tmp_path / "local"))
    assert program.line() == "open"
    at.go_away()
    program.say()
    assert program.line() == "ends"
    _, trouble = program._process.communicate(timeout=300)
    assert program._process.returncode == 0
    assert "Traceback" not in trouble


def test_the_first_error_is_the_one_that_is_raised(at: Behind) -> None:
    counter = Counter()
    with pytest.raises(ValueError, match="mine") as caught, counter.open(at) as space:
        at.go_away()
        state_is(space, "offline")
        counter.count.value = 1
        raise ValueError("mine")
    assert not isinstance(caught.value, HeadwaterError)
