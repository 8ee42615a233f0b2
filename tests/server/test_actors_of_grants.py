"""As whom a grant acts: one actor, any actor if that was said, or no one, and then no user's documents are reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import headwater as hw
from headwater.access.rights import Right
from headwater.errors import AccessError, CorruptError, MigrationError, UsageError
from headwater.server.server import Server
from headwater.sync.frames import Pull
from headwater.values.address import doc_key, user_scope
from tests.client.world import storage_of
from tests.server.desk import Desk
from tests.server.running import settle_in, token_for

SECRET = doc_key("secret", user_scope("ann"))


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def keep_a_secret(server: Server) -> None:
    app = hw.App("home")
    secret = app.cell("secret", "", scope="user")
    with app.open(f"{server.url}/home", token=token_for(server, "home", "own", "ann")):
        secret.value = "SECRET"


@pytest.mark.parametrize("can", list(Right)[1:], ids=lambda right: right.word)
def test_a_token_without_an_actor_reaches_no_document_of_a_user(server: Server, can: Right) -> None:
    keep_a_secret(server)
    token, _ = server.access.create(space="home", can=can)
    with pytest.raises(AccessError, match="names no actor, so it cannot act as ann"):
        hw.App("home").open(f"{server.url}/home", token=token, actor="ann")
    with hw.App("home").open(f"{server.url}/home", token=token) as space:
        assert space.connection.actor == ""
        with pytest.raises(AccessError):
            storage_of(space).link.ask(Pull(0, (SECRET,)))
        with pytest.raises(AccessError):
            storage_of(space).link.ask(Pull(0, (), ("user:ann/",)))


def test_a_token_for_any_actor_has_to_be_asked_for(server: Server) -> None:
    keep_a_secret(server)
    token, grant = server.access.create(space="home", can=Right.READ, any_actor=True)
    assert grant.any_actor
    app = hw.App("home")
    secret = app.cell("secret", "", scope="user")
    with app.open(f"{server.url}/home", token=token, actor="ann"):
        assert secret.value == "SECRET"
    with app.open(f"{server.url}/home", token=token, actor="bob"):
        assert secret.value == ""
    with pytest.raises(UsageError, match="not both"):
        server.access.create(space="home", can=Right.READ, actor="ann", any_actor=True)


def test_programs_of_the_servers_own_user_act_as_they_say(server: Server) -> None:
    keep_a_secret(server)
    app = hw.App("home")
    secret = app.cell("secret", "", scope="user")
    with app.open(f"{server.url}/home", actor="ann"):
        assert secret.value == "SECRET"


def as_version_1(desk: Desk) -> None:
    stored = json.loads(desk.file.read_bytes())
    stored["version"] = 1
    for each in stored["grants"]:
        del each["any_actor"]
    desk.file.write_text(json.dumps(stored))
    desk.later()


def test_grants_of_version_1_without_an_actor_act_as_no_one(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    token, _ = desk.server.create(space="notes", can=Right.OWN, any_actor=True)
    for_ann, _ = desk.server.create(space="notes", can=Right.OWN, actor="ann")
    as_version_1(desk)
    found, ann = desk.server.with_token(token), desk.server.with_token(for_ann)
    assert found is not None
    assert (found.actor, found.any_actor, found.can) == (None, False, Right.OWN)
    assert ann is not None
    assert ann.actor == "ann"
    # The next write brings the file to version 2, with what it had.
    desk.command().create(space="other", can=Right.READ)
    stored = json.loads(desk.file.read_bytes())
    assert stored["version"] == 2
    assert [each["any_actor"] for each in stored["grants"]] == [False, False, False]
    desk.later()
    assert desk.server.with_token(token) == found


@pytest.mark.parametrize("field", ["work", "clears", "lowers"])
def test_a_restriction_of_a_later_version_lets_no_one_in(tmp_path: Path, field: str) -> None:
    desk = Desk(tmp_path)
    token, _ = desk.server.create(space="notes", can=Right.OWN)
    stored = json.loads(desk.file.read_bytes())
    stored["grants"][0][field] = []
    desk.file.write_text(json.dumps(stored))
    desk.later()
    assert desk.server.with_token(token) is None
    with pytest.raises(MigrationError, match=f"restricts grants by '{field}'"):
        desk.command()


@pytest.mark.parametrize("wrong", [{"any_actor": True, "actor": "ann"}, {"any_actor": "yes"}, {"other": 1}])
def test_a_grant_that_contradicts_itself_lets_no_one_in(tmp_path: Path, wrong: dict[str, object]) -> None:
    desk = Desk(tmp_path)
    desk.server.create(space="notes", can=Right.OWN)
    stored = json.loads(desk.file.read_bytes())
    stored["grants"][0].update(wrong)
    desk.file.write_text(json.dumps(stored))
    with pytest.raises(CorruptError, match="is damaged"):
        desk.command()


def test_version_1_knows_no_any_actor(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    desk.server.create(space="notes", can=Right.OWN, any_actor=True)
    stored = json.loads(desk.file.read_bytes())
    stored["version"] = 1
    desk.file.write_text(json.dumps(stored))
    with pytest.raises(CorruptError, match="is damaged"):
        desk.command()


# --- roles ----------------------------------------------------------------------------------------------------


def test_roles_are_stored_and_left_out_where_there_are_none(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    token, _ = desk.server.create(space="shop", can=Right.READ, actor="eve", roles=["courier", "clerk"])
    plain, _ = desk.server.create(space="shop", can=Right.READ)
    stored = json.loads(desk.file.read_bytes())
    assert stored["version"] == 2
    assert [each.get("roles") for each in stored["grants"]] == [["courier", "clerk"], None]
    # A program that does not know roles reads files without any.
    assert "roles" not in stored["grants"][1]
    found, other = desk.command().with_token(token), desk.command().with_token(plain)
    assert found is not None
    assert found.roles == ("courier", "clerk")
    assert other is not None
    assert other.roles == ()


def test_grants_of_version_1_have_no_roles(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    token, _ = desk.server.create(space="notes", can=Right.OWN)
    as_version_1(desk)
    found = desk.server.with_token(token)
    assert found is not None
    assert found.roles == ()


@pytest.mark.parametrize("roles", [["a b"], [""], [5], "clerk", None])
def test_damaged_roles_let_no_one_in(tmp_path: Path, roles: object) -> None:
    desk = Desk(tmp_path)
    desk.server.create(space="notes", can=Right.OWN)
    stored = json.loads(desk.file.read_bytes())
    stored["grants"][0]["roles"] = roles
    desk.file.write_text(json.dumps(stored))
    with pytest.raises(CorruptError, match="is damaged"):
        desk.command()


@pytest.mark.parametrize("roles", [["a", "a"], [f"r{number}" for number in range(17)], ["a b"]])
def test_roles_that_cannot_be_meant_are_refused(tmp_path: Path, roles: list[str]) -> None:
    desk = Desk(tmp_path)
    with pytest.raises(UsageError):
        desk.server.create(space="notes", can=Right.READ, roles=roles)
    assert desk.server.ls() == []
