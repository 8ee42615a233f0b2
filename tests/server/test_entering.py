"""A client that enters a space at the moment when it cannot be used any more comes again, and misses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.client.remote_replica import RemoteReplica
from headwater.server.server import Server
from headwater.server.spaces.channel import Channel
from headwater.values.address import doc_key
from headwater.values.ids import BranchId, SessionId
from tests.server.running import DEADLINE_S, client, settle_in, until, write


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def at_the_next_entry(monkeypatch: pytest.MonkeyPatch, do: Callable[[Channel], None]) -> list[Channel]:
    """After the space was opened for a client, and before the client is in it. Returns where it happened."""
    inner = Channel.last_of
    done: list[Channel] = []

    def last_of(self: Channel, branch: BranchId, session: SessionId) -> int:
        found = inner(self, branch, session)
        if not done:
            done.append(self)
            do(self)
        return found

    monkeypatch.setattr(Channel, "last_of", last_of)
    return done


def check_that_the_client_is_told_of_others(server: Server, done: list[Channel]) -> None:
    with client(server.url) as early:
        early.read(doc_key("a"))
        with client(server.url) as other:
            write(other, "a", 1)
            assert server.spaces is not None
            assert server.spaces.channels["home"] is not done[0]

            until(lambda: is_told(early), "the client is told")


def is_told(replica: RemoteReplica) -> bool:
    """Whether it has what the other client wrote."""
    replica.refresh()
    return replica.read(doc_key("a")) == 1


def test_a_client_does_not_enter_a_space_whose_disk_has_just_failed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(channel: Channel) -> None:
        is_done = threading.Event()

        def do() -> None:
            channel._break("the disk failed")
            is_done.set()

        channel._on_loop(do)
        assert is_done.wait(DEADLINE_S)

    done = at_the_next_entry(monkeypatch, fail)
    check_that_the_client_is_told_of_others(server, done)


def test_a_document_is_watched_when_its_answer_is_sent_and_not_later(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with client(server.url) as early:
        assert server.spaces is not None
        channel = server.spaces.channels["home"]
        threads = channel._threads

        class Answers:
            """What else is left to a thread is never done."""

            def submit(self, do: Callable[..., None], *args: object) -> None:
                if do == channel._look:
                    threads.submit(do, *args)

        monkeypatch.setattr(channel, "_threads", Answers())
        early.read(doc_key("a"))
        with client(server.url) as other:
            write(other, "a", 1)
            until(lambda: is_told(early), "the client is told")


def test_a_space_that_a_client_has_entered_since_is_not_closed(server: Server) -> None:
    with client(server.url) as early:
        assert server.spaces is not None
        channel = server.spaces.channels["home"]
        # The sweep found it empty before.
        asyncio.run_coroutine_threadsafe(server.spaces._close("home"), channel._loop).result(DEADLINE_S)
        assert server.spaces.channels["home"] is channel
        write(early, "a", 1)


def test_a_client_does_not_enter_a_space_that_was_just_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def close(channel: Channel) -> None:
        assert server.spaces is not None
        # As the sweep does with a space that was empty for long: a slow disk can make an entry take as long.
        asyncio.run_coroutine_threadsafe(server.spaces._let_go("home", channel), channel._loop).result(DEADLINE_S)

    done = at_the_next_entry(monkeypatch, close)
    check_that_the_client_is_told_of_others(server, done)
