"""A commit that fits into no frame is given up by the client: the server would hang up, over and over."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

import headwater as hw
from headwater.client import server_link
from headwater.client.remote_storage import RemoteStorage
from headwater.errors import RejectedError
from headwater.sync.frame_limits import FRAME_BYTES_MAX
from tests.server.running import served, until

FRAME_MAX = 100_000


def test_commit_that_fits_into_no_frame_is_taken_back_and_the_connection_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_link, "FRAME_BYTES_MAX", FRAME_MAX)
    app = hw.App("large")
    text, count = app.cell("text", ""), app.cell("count", 0)
    with served(tmp_path / "data") as server, app.open(f"{server.url}/large") as space:
        with space.transaction():
            text.value = "x" * FRAME_MAX
            count.value = 1
        with pytest.raises(RejectedError, match="bytes"):
            space.sync()
        assert (text.value, count.value) == ("", 0)
        count.value = 2
        space.sync()
        assert (space.connection.state, space.connection.pending, space.connection.tries) == ("live", 0, 1)


def test_connection_that_ends_in_the_middle_of_a_frame_leaves_nothing_that_fails_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    app = hw.App("short")
    count = app.cell("count", 0)
    with (
        caplog.at_level(logging.ERROR, "asyncio"),
        served(tmp_path / "data") as server,
        app.open(f"{server.url}/short") as space,
    ):
        storage = space._opening._lease.storage
        assert isinstance(storage, RemoteStorage)
        connection = storage.link
        assert connection._socket is not None
        # The server hangs up at its beginning; most of it still waits here to be sent.
        connection._loop.call_soon_threadsafe(connection._socket.send, bytes(FRAME_BYTES_MAX + 1))
        until(lambda: space.connection.tries == 2 and bool(space.connection), "it comes back")
        count.value = 2
        space.sync()
        # So long the end of a connection is waited for.
        space.wait("1.2s")
    assert caplog.records == []
