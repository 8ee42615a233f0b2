"""A disk that fails is no verdict: clients keep what they have sent, and the server opens the file anew."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

import headwater as hw
from headwater.errors import HeadwaterError, PoisonedError, StoreFullError
from headwater.server.server import Server
from tests.server.running import settle_in, until


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.mark.parametrize("error", [StoreFullError("no room"), PoisonedError("the disk failed")], ids=["full", "failed"])
def test_what_could_not_be_written_is_written_when_the_disk_is_mended(server: Server, error: HeadwaterError) -> None:
    app = hw.App("home")
    log = app.cell("log", list[int]())
    lost: list[object] = []
    with app.open(f"{server.url}/home", on_error=lost.append) as space:
        log.append(0)
        space.sync()
        assert server.spaces is not None
        backend = server.spaces.channels["home"].storage.call(lambda engine: engine.backend)
        append = backend.append

        failed: list[object] = []

        def fail(*rows: object) -> None:
            failed.append(rows)
            raise error

        backend.append = fail  # type: ignore[method-assign, assignment]  # until it is mended
        for number in range(1, 6):
            log.append(number)
        ready = server.url.replace("ws:", "http:") + "/readyz"
        until(lambda: bool(failed), "the disk did not take it")
        if isinstance(error, StoreFullError):
            # After any other failure the file is opened anew, perhaps before this could be asked.
            until(lambda: httpx.get(ready).status_code == 503, "the server says that it cannot write")
        backend.append = append  # type: ignore[method-assign]  # as it was
        space.sync()
        assert log.value == [0, 1, 2, 3, 4, 5]
        assert lost == []
        until(lambda: httpx.get(ready).status_code == 200, "the server says that it can")
        stored = server.spaces.channels["home"].storage.call(lambda engine: engine.head)
    other = hw.App("home")
    seen = other.cell("log", list[int]())
    with other.open(f"{server.url}/home"):
        assert seen.value == [0, 1, 2, 3, 4, 5]
    assert stored >= 6
