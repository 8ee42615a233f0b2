"""Names of those who act: the same rule where a program is opened, where a grant is made, and at the server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.access.rights import Right
from headwater.errors import AccessError, NameRefusedError
from headwater.server.server import Server
from headwater.sync.frame_limits import ACTOR_MAX
from tests.server.running import client, served, settle_in

WORDS = r"is not a name for an actor: 1 to 200 printable characters are expected, without spaces at the ends"
WRONG = ["a" * (ACTOR_MAX + 1), "a" * 300, "a\nb", " ann", "ann ", "\u202eann", "a\0b"]
RIGHT = ["a" * ACTOR_MAX, "\U0001f642" * ACTOR_MAX, "ann bee/!:%", "é"]

app = hw.App("acting")
mine = app.cell("mine", 0, scope="user")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    settle_in(tmp_path, monkeypatch)
    (tmp_path / "store").mkdir(mode=0o700)
    with served(tmp_path / "store") as found:
        yield found


@pytest.mark.parametrize("actor", WRONG)
def test_what_is_no_name_is_refused_before_anybody_is_asked(actor: str) -> None:
    with pytest.raises(NameRefusedError, match=WORDS) as caught:
        app.open("ws://127.0.0.1:1/home", actor=actor)
    assert caught.value.code == "HW105"


@pytest.mark.parametrize("actor", WRONG)
def test_the_server_says_the_same_to_a_program_that_asks_all_the_same(server: Server, actor: str) -> None:
    with pytest.raises(NameRefusedError, match=WORDS), client(server.url, actor=actor):
        pass


@pytest.mark.parametrize("actor", [*WRONG, ""])
def test_no_grant_is_made_for_it(server: Server, actor: str) -> None:
    with pytest.raises(NameRefusedError, match=WORDS):
        server.access.create(space="home", can=Right.READ, actor=actor)


@pytest.mark.parametrize("actor", RIGHT)
def test_all_that_are_names_can_be_used(server: Server, actor: str) -> None:
    with app.open(f"{server.url}/home", actor=actor) as space:
        mine.value = 1
        space.sync()
        assert space.connection.actor == actor
    token, _ = server.access.create(space="home", can=Right.WRITE, actor=actor)
    with app.open(f"{server.url}/home", token=token):
        assert mine.value == 1


def test_somebody_elses_name_is_a_lack_of_rights(server: Server) -> None:
    token, _ = server.access.create(space="home", can=Right.OWN, actor="ann")
    with pytest.raises(AccessError, match=r"the token or key is ann's; it cannot act as bob"):
        app.open(f"{server.url}/home", token=token, actor="bob")
