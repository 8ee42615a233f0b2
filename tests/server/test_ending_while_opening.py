"""A space that is being opened when the server ends does not stay open in the process."""

from __future__ import annotations

import threading
from contextlib import suppress
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import HeadwaterError
from headwater.host.deciding_threads import DecidingThreads
from headwater.host.space_files import open_space
from headwater.host.storage import Storage
from headwater.server.server import Server, Serving
from headwater.server.spaces import served_spaces
from tests.server.running import DEADLINE_S, settle_in


def test_a_space_that_is_being_opened_when_the_server_ends_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    is_opening, may_open = threading.Event(), threading.Event()

    def slow(url: str, space: str, *, create: bool, threads: DecidingThreads) -> Storage:
        is_opening.set()
        assert may_open.wait(DEADLINE_S)
        return open_space(url, space, create=create, threads=threads)

    def come() -> None:
        with suppress(HeadwaterError):
            hw.App("late").open(f"{server.url}/main").close()

    monkeypatch.setattr(served_spaces, "open_space", slow)
    server = Server(Serving(store=tmp_path / "spaces", port=0)).start()
    client = threading.Thread(target=come)
    client.start()
    assert is_opening.wait(DEADLINE_S)
    ending = threading.Thread(target=server.stop)
    ending.start()
    # A server that does not wait for the opening has ended by then.
    ending.join(2.0)
    may_open.set()
    ending.join(DEADLINE_S)
    client.join(DEADLINE_S)
    with open_space(f"{tmp_path / 'spaces'}/", "main", create=True) as storage:
        assert storage.call(lambda engine: engine.head) == 0
