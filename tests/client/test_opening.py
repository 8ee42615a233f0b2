"""Opening a space of a server: what is not there, and who is told so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import AccessError, NotFoundError
from headwater.server.server import Server
from tests.server.running import served, settle_in, token_for

app = hw.App("opening")


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    settle_in(tmp_path, monkeypatch)
    (tmp_path / "store").mkdir(mode=0o700)
    return tmp_path / "store"


@pytest.fixture
def server(store: Path) -> Iterator[Server]:
    with served(store) as found:
        yield found


def test_who_owns_a_space_is_told_that_it_is_not_there(server: Server) -> None:
    for token in (None, token_for(server, "new", "own"), token_for(server, "*", "own")):
        with pytest.raises(NotFoundError, match=r"there is no space 'new' at this server$") as caught:
            app.open(f"{server.url}/new", token=token, create=False)
        assert caught.value.code == "HW106"
    app.open(f"{server.url}/new").close()
    app.open(f"{server.url}/new", create=False).close()


def test_a_server_that_makes_no_spaces_says_so(store: Path) -> None:
    with (
        served(store, create=False) as server,
        pytest.raises(NotFoundError, match=r"no space 'new' at this server, and it makes no new ones$"),
    ):
        app.open(f"{server.url}/new")


@pytest.mark.parametrize("can", ["read", "write"])
def test_others_cannot_tell_it_from_one_that_they_may_not_use(server: Server, can: str) -> None:
    app.open(f"{server.url}/theirs").close()
    told = []
    for space, token in (("new", token_for(server, "*", can)), ("theirs", token_for(server, "mine", "own"))):
        with pytest.raises(AccessError) as caught:
            app.open(f"{server.url}/{space}", token=token, create=False)
        told.append(caught.value.message)
    assert told[0] == told[1]
