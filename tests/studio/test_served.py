"""headwater serve --studio: what people see and do on the page of a server, with the rights of their tokens."""

from __future__ import annotations

import errno
import itertools
import json
import logging
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import headwater as hw
from headwater.client.remote_replica import RemoteReplica
from headwater.host.space_files import open_space
from headwater.server.server import Server
from headwater.store.browsing import read
from headwater.store.commit import Committed, SetDoc
from headwater.studio.deeds import DEEDS
from headwater.sync.frames import EXTENSIONS, Hello, Look, LookAnswer, Open, SpaceOpened
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey
from tests.cli.test_serve import CERTIFICATE, KEY
from tests.server.running import ServeProcess, client, pages, settle_in, token_for, until, write
from tests.studio.pages import PageClient, page_of, studio_served
from tests.system.attacks.raw import ClosedError, Raw

EXAMPLES: dict[str, dict[str, Any]] = {
    "set": {"address": "note", "text": "2"},
    "delete": {"address": "note"},
    "restore": {"address": "note", "at": 1},
    "fork": {"name": "side"},
    "merge": {"into": "main"},
    "send": {"handler": "buy"},
    "event": {"act": "drop", "event": "event:a"},
    "resend": {"event": "event:a", "fields": "{}"},
    "run": {"act": "approve", "number": 1},
    "workflow": {"act": "pause", "workflow": "mail"},
    "input": {"act": "skip", "number": 1},
    "publish": {"workflow": "mail", "topic": "letters", "text": "{}"},
    "refetch": {"resource": "weather#1"},
    "record": {"on": True},
    "token": {"act": "create", "every": True, "rights": "own"},
    "session": {"id": "client:none"},
    "backup": {},
}
"""One of each deed."""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with studio_served(tmp_path / "spaces") as server:
        with client(server.url, "home") as replica:
            write(replica, "note", 1)
        yield server


def head(server: Server, space: str = "home") -> int:
    assert server.spaces is not None
    return server.spaces.channels[space].storage.call(lambda engine: engine.head)


def audit(server: Server, event: str) -> list[dict[str, Any]]:
    """The facts of the lines of a kind, oldest first."""
    lines = (server.options.store / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    return [line["facts"] for line in map(json.loads, lines) if line["event"] == event]


def write_own(replica: RemoteReplica, key: str, value: str) -> None:
    """A document of a user."""
    pending = replica.commit([SetDoc(DocKey(key), value)])
    replica.sync()
    assert isinstance(pending.verdict, Committed), pending


def values(page: PageClient, **fields: object) -> dict[str, str]:
    """Addresses and values of the documents that a page shows."""
    found = page.ask("documents", **fields)
    return {row["address"]: row["value"]["text"] for row in found["documents"]}


# --- rights ---------------------------------------------------------------------------------------------------


def test_there_is_an_example_of_each_deed() -> None:
    assert EXAMPLES.keys() == DEEDS.keys()


def test_who_may_read_sees_and_changes_nothing(server: Server) -> None:
    with page_of(server.url, token=token_for(server, "home", "read", "ann")) as page:
        assert (page.welcome["actor"], page.welcome["rights"], page.welcome["spaces"]) == ("ann", "read", ["home"])
        assert values(page) == {"note": "1"}
        before = head(server)
        for tag, fields in EXAMPLES.items():
            refused = page.do(tag, **fields)
            assert refused.get("t") == "trouble", tag
            assert refused["message"], tag
        assert head(server) == before
        assert len(server.access.ls()) == 1, "no token was made"
    told = audit(server, "studio deed")
    assert [each["deed"] for each in told] == list(EXAMPLES)
    assert all(each["why"] and each["actor"] == "ann" for each in told)


def test_who_may_write_sets_a_document_and_decides_nothing_else(server: Server) -> None:
    with page_of(server.url, token=token_for(server, "home", "write", "ann")) as page:
        report = page.do("set", address="note", text="7")
        assert report["seq"] == head(server)
        assert values(page) == {"note": "7"}
        for tag in ("run", "event", "fork", "merge", "backup", "token", "workflow", "input"):
            refused = page.do(tag, **EXAMPLES[tag])
            assert refused["t"] == "trouble", tag
            assert "token" in refused["message"] or "owner" in refused["message"], refused
    first = audit(server, "studio deed")[0]
    assert (first["deed"], "why" in first) == ("set", False)


def test_a_space_that_may_not_be_read_does_not_exist(server: Server) -> None:
    with client(server.url, "secret") as replica:
        write(replica, "plan", "x")
    with page_of(server.url, token=token_for(server, "home", "own", "ann")) as page:
        assert page.welcome["spaces"] == ["home"]
        missing, hidden = page.ask("documents", space="none"), page.ask("documents", space="secret")
        assert missing["message"].replace("none", "") == hidden["message"].replace("secret", "")
        assert {space["name"] for space in page.ask("server")["spaces"]} == {"home"}
        assert page.do("set", space="secret", address="plan", text="1")["t"] == "trouble"
        assert page.do("backup", space="secret")["t"] == "trouble"


def test_documents_of_other_users_do_not_exist_for_a_person(server: Server) -> None:
    with client(server.url, "home", actor="bob") as replica:
        write_own(replica, "user:bob/diary", "dear")
    with client(server.url, "home", actor="ann") as replica:
        write_own(replica, "user:ann/diary", "mine")
    with page_of(server.url, token=token_for(server, "home", "own", "ann")) as page:
        shown = [
            page.ask("documents"),
            page.ask("documents", prefix="user:"),
            page.ask("kinds"),
            page.ask("commits"),
            page.ask("query", prefix="user:", where=""),
            page.ask("difference", older=0),
            page.ask("search", text="diary"),
            page.ask("overview"),
            page.ask("document", address="user:bob!diary"),
            page.ask("history", address="user:bob!diary"),
            page.ask("difference", older=0, address="user:bob!diary"),
        ]
        text = json.dumps(shown)
        assert "dear" not in text
        assert "mine" in text
        assert "user:bob!diary" not in json.dumps(shown[:8])
        assert page.do("set", address="user:bob!diary", text='"changed"')["t"] == "trouble"
        assert page.do("delete", address="user:bob!diary")["t"] == "trouble"
        assert page.do("restore", address="user:bob!diary", at=2)["t"] == "trouble"
        assert page.do("set", address="user:ann!diary", text='"changed"')["seq"]
    with client(server.url, "home", actor="bob") as replica:
        write(replica, "other", 1)
        assert replica.read(DocKey("user:bob/diary")) == "dear"


def test_who_owns_one_space_does_not_manage_the_server(server: Server) -> None:
    with page_of(server.url, token=token_for(server, "home", "own", "ann")) as page:
        view = page.ask("server")
        assert (view["tokens"], view["metrics"], view["audit"]) == ([], {}, "")
        assert "own every space" in view["hidden"]
        assert page.ask("audit")["t"] == "trouble"
        assert page.do("token", act="create", space="home", rights="read")["t"] == "trouble"
        assert page.intent("token", act="create", every=True)["t"] == "trouble"


# --- the Server screen -----------------------------------------------------------------------------------------


def test_a_new_token_is_shown_once_and_works(server: Server) -> None:
    with page_of(server.url, token=token_for(server, "*", "own")) as page:
        intent = page.intent("token", act="create", space="home", rights="read", actor="eve", expires="30d")
        assert intent["sentence"] == "Create a token that can read the space home as eve; it expires after 30d"
        assert intent["command"] == "headwater token create --space home --can read --actor eve --expires 30d"
        report = page.do("token", act="create", space="home", rights="read", actor="eve", expires="30d")
        secret = report["secret"]
        shown = json.dumps([page.ask("server"), page.ask("audit")])
        assert secret not in shown
        assert [each["actor"] for each in page.ask("server")["tokens"]] == ["any", "eve"]
    assert secret not in (server.options.store / "audit.jsonl").read_text(encoding="utf-8")
    with page_of(server.url, token=secret) as page:
        assert (page.welcome["actor"], page.welcome["rights"]) == ("eve", "read")


def test_a_revoked_token_ends_its_pages_and_their_secrets(server: Server) -> None:
    token = token_for(server, "home", "own", "ann")
    grant = next(each for each in server.access.ls() if each.actor == "ann")
    with page_of(server.url, token=token) as theirs, page_of(server.url, token=token_for(server, "*", "own")) as page:
        secret = theirs.welcome["session"]
        intent = page.intent("token", act="revoke", id=grant.id)
        assert intent["asks"]
        assert grant.id in intent["sentence"]
        assert page.do("token", act="revoke", id=grant.id)["sentence"].startswith(f"token {grant.id} is revoked")
        assert theirs.code() == 4401
    with page_of(server.url) as again:
        assert again.enter(session=secret)["code"] == "HW403"
        assert again.code() == 4401


def test_a_login_is_ended_by_who_manages_the_server(server: Server) -> None:
    token = token_for(server, "home", "read", "ann")
    with page_of(server.url, token=token) as theirs, page_of(server.url, token=token_for(server, "*", "own")) as page:
        login = next(each for each in page.ask("server")["sessions"] if each["actor"] == "ann")
        assert "login" in page.intent("session", id=login["id"])["sentence"]
        assert "has ended" in page.do("session", id=login["id"])["sentence"]
        assert theirs.code() == 4401


def test_the_session_of_a_program_is_ended_and_it_connects_again(server: Server) -> None:
    with page_of(server.url, token=token_for(server, "*", "own")) as page, client(server.url, actor="eve") as replica:
        row = next(each for each in page.ask("server")["clients"] if each["actor"] == "eve")
        assert (row["space"], row["rights"]) == ("home", "own")
        assert "connects again" in page.do("session", id=row["id"])["sentence"]
        assert write(replica, "after", 1), "over its next connection"


def test_a_backup_is_downloaded_once(server: Server, tmp_path: Path) -> None:
    with page_of(server.url, token=token_for(server, "home", "own")) as page, pages(server) as browser:
        path = page.do("backup")["download"]
        assert browser.head(path).status_code == 405
        answer = browser.get(path)
        assert answer.headers["content-disposition"] == "attachment; filename*=UTF-8''home.db"
        assert browser.get(path).status_code == 404, "it worked once"
        assert browser.get("/studio/download/none").status_code == 404
    copy = tmp_path / "copy.db"
    copy.write_bytes(answer.content)
    with open_space(str(copy), create=False) as storage:
        assert storage.call(lambda engine: read(engine, doc_key("note"), MAIN).value) == 1
    assert audit(server, "backup")


def test_the_audit_log_is_paged_searched_and_verified(server: Server) -> None:
    with page_of(server.url, token=token_for(server, "*", "own")) as page:
        page.do("set", address="note", text="3")
        newest = page.ask("audit", limit=2)
        assert newest["verified"]
        assert newest["sentence"].startswith("The log is sound")
        assert newest["lines"][0]["act"] == "studio deed"
        older = page.ask("audit", limit=2, before=newest["next"])
        assert older["lines"][0]["number"] == newest["next"] - 1
        assert {line["act"] for line in page.ask("audit", event="granted")["lines"]} == {"granted"}
        assert [line["act"] for line in page.ask("audit", search="was written")["lines"]] == ["studio deed"]
        file = server.options.store / "audit.jsonl"
        file.write_bytes(file.read_bytes().replace(b"granted", b"granTed", 1))
        changed = page.ask("audit")
        assert not changed["verified"]
        assert "CHANGED" in changed["sentence"]


def test_a_deed_that_was_done_is_told_as_done_and_in_the_audit_log_when_there_is_room(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with page_of(server.url, token=token_for(server, "home", "write", "ann")) as page:
        assert page.ask("overview")
        log = server.access.audit
        with monkeypatch.context() as patch:
            patch.setattr(log, "_write", full)
            assert page.do("set", address="note", text="8")["seq"] == head(server)
        assert not audit(server, "studio deed")
        assert page.do("set", address="note", text="9")["seq"] == head(server)
    told = audit(server, "studio deed")
    assert [(each["deed"], each["space"], "why" in each) for each in told] == [("set", "home", False)] * 2


def test_every_login_is_in_the_audit_log(server: Server) -> None:
    with page_of(server.url, token=token_for(server, "home", "read", "ann")) as page:
        page.ask("documents")
        page.ask("documents")
    with page_of(server.url) as page:
        page.enter(token="hw_wrong")  # noqa: S106  # it is none
    assert [each["actor"] for each in audit(server, "studio login")] == ["ann"]
    assert [(each["actor"], each["space"]) for each in audit(server, "studio opened")] == [("ann", "home")]
    until(lambda: len(audit(server, "refused")) == 1, "the refusal is written")


# --- live -----------------------------------------------------------------------------------------------------


def test_a_commit_of_another_program_is_shown_at_once(server: Server) -> None:
    with page_of(server.url, token=token_for(server, "home", "read")) as page:
        assert page.watch("documents")["record"]["documents"][0]["value"]["text"] == "1"
        with client(server.url, "home") as replica:
            write(replica, "note", 5)
        assert page.delta()["record"]["documents"][0]["value"]["text"] == "5"


def _app() -> tuple[hw.App, Any]:
    app = hw.App("shop")
    count = app.cell("count", 1)

    @app.computed
    def double() -> int:
        return count.value * 2

    @app.sink
    def show() -> None:
        double()

    return app, count


def runs_of(graph: dict[str, Any], name: str) -> int:
    place = next(place for place, box in enumerate(graph["boxes"]) if box[1] == name)
    return next(int(state[2]) for state in graph["states"] if state[0] == place)


def test_an_owner_sees_the_functions_of_a_program_that_has_the_space_open(server: Server) -> None:
    app, count = _app()
    with page_of(server.url, token=token_for(server, "home", "own")) as page, app.open(f"{server.url}/home"):
        graph = page.watch("graph")["record"]
        assert graph["apps"][0]["origin"] == "live"
        assert runs_of(graph, "double") == 1
        count.value = 2
        change = page.delta()
        assert change["partial"], "states only: the structure is the same"
        page.send(t="unwatch", n=1)
        until(lambda: runs_of(page.ask("graph"), "double") == 2, "the run is shown")


def test_functions_are_not_live_for_who_does_not_own_the_space(server: Server) -> None:
    app, _ = _app()
    with page_of(server.url, token=token_for(server, "home", "write")) as page, app.open(f"{server.url}/home") as space:
        space.sync()
        assert all(each["origin"] != "live" for each in page.ask("graph").get("apps", []))


def test_a_program_may_refuse_to_be_looked_at(server: Server) -> None:
    app, _ = _app()
    token, url = token_for(server, "home", "own"), f"{server.url}/home"
    with page_of(server.url, token=token) as page, app.open(url, inspect="off") as space:
        space.sync()
        assert all(each["origin"] != "live" for each in page.ask("graph").get("apps", []))


def test_two_programs_of_one_app_are_told_apart(server: Server) -> None:
    first, second = _app()[0], _app()[0]
    token, url = token_for(server, "home", "own"), f"{server.url}/home"
    with page_of(server.url, token=token) as page, first.open(url), second.open(url):
        assert [each["label"] for each in page.ask("graph")["apps"]] == ["shop (1)", "shop (2)"]


NONSENSE = ("{", "[]", "\0", '{"v":4,"answer":[{"app":1}]}', '{"v":4,"answer":5}', '{"v":99,"refused":"no"}', "null")


def test_a_program_that_answers_nonsense_is_passed_over(server: Server) -> None:
    app, _ = _app()
    token = token_for(server, "home", "own")
    with Raw.upgrade(server.port, token) as raw, page_of(server.url, token=token) as page:
        raw.say(Hello((1,), can=EXTENSIONS))
        raw.say(Open("home", inspect=True))
        raw.expect(SpaceOpened)

        def answer() -> None:
            for place in itertools.count():
                # Until the connection is closed below.
                with suppress(ClosedError, OSError):
                    raw.say(LookAnswer(raw.expect(Look).number, NONSENSE[place % len(NONSENSE)]))
                    continue
                return

        answering = threading.Thread(target=answer)
        answering.start()
        with app.open(f"{server.url}/home"):
            for _ in NONSENSE:
                assert [each["origin"] for each in page.ask("graph")["apps"]] == ["live"], "the other one answers"
        raw.line.shutdown(socket.SHUT_RDWR)
        answering.join()


# --- as users run it --------------------------------------------------------------------------------------------


def test_a_socket_is_told_in_the_log_as_a_page_is(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    token = token_for(server, "home", "read", "ann")
    with caplog.at_level(logging.DEBUG, logger="headwater.server"):
        with page_of(server.url, token=token) as page:
            assert page.ask("overview")
        until(lambda: "page asked for" in caplog.messages, "it is told")
    assert token not in caplog.text


@pytest.mark.slow
def test_serve_says_where_the_studio_is_and_gives_no_link_to_a_log(tmp_path: Path) -> None:
    token = token_for_folder(tmp_path / "spaces")
    with ServeProcess(tmp_path / "spaces", "--studio") as process:
        where = process.url.replace("ws", "http", 1)
        until(lambda: f"the Studio is at {where}/studio/" in process.lines, "it says so")
        with page_of(process.url, token=token) as page:
            assert page.welcome["place"] == "server"
        process.end()
        assert process.wait() == 0
    assert not any("#c=" in line for line in process.lines)


@pytest.mark.slow
def test_there_is_no_studio_without_the_option(tmp_path: Path) -> None:
    with ServeProcess(tmp_path / "spaces") as process:
        answer = httpx.get(f"{process.url.replace('ws', 'http', 1)}/studio/", trust_env=False)
        assert answer.status_code == 404
        process.end()
        assert process.wait() == 0


def token_for_folder(store: Path) -> str:
    store.mkdir(mode=0o700)
    return token_for(store, "*", "own")


@pytest.mark.slow
def test_the_studio_of_a_server_with_a_certificate_is_at_https(tmp_path: Path) -> None:
    token = token_for_folder(tmp_path / "spaces")
    with ServeProcess(
        tmp_path / "spaces", "--studio", "--tls-cert", str(CERTIFICATE), "--tls-key", str(KEY)
    ) as process:
        where = process.url.replace("ws", "http", 1)
        assert where.startswith("https://")
        trusts = ssl.create_default_context(cafile=str(CERTIFICATE))
        answer = httpx.get(f"{where}/studio/", trust_env=False, verify=trusts)
        assert "script-src 'self'" in answer.headers["content-security-policy"]
        with page_of(where, ssl=trusts, token=token) as page:
            assert page.welcome["title"] == where
