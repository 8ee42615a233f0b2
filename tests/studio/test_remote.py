"""headwater studio ws://HOST/SPACE: a page of this machine for a space of a server, with the rights of a token."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headwater.server.pages import inspect_page
from headwater.server.server import Server
from headwater.studio.local_host import FileHost
from headwater.studio.local_server import LocalStudioServer
from tests.server.running import client, served, settle_in, token_for, until, write
from tests.studio.pages import PageClient, page_of
from tests.studio.test_served import _app, audit, runs_of


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with served(tmp_path / "spaces") as server:
        with client(server.url, "home") as replica:
            write(replica, "note", 1)
        yield server


@contextmanager
def looking(server: Server, can: str) -> Iterator[PageClient]:
    """A page for a token with this right."""
    host = FileHost(f"{server.url}/home", token=token_for(server, "home", can, "ann"))
    with (
        LocalStudioServer(host, port=0) as local,
        page_of(local.address, code=local.link().partition("#c=")[2]) as page,
    ):
        yield page


def test_documents_are_shown_live_and_set(server: Server) -> None:
    with looking(server, "write") as page:
        assert page.watch("document", address="note")["record"]["value"]["text"] == "1"
        with client(server.url, "home") as replica:
            write(replica, "note", 2)
        assert page.delta()["record"]["value"]["text"] == "2"
        assert page.do("set", address="note", text="3")["sentence"].startswith("note was written")
        assert page.delta()["record"]["value"]["text"] == "3"


def test_who_may_read_changes_nothing(server: Server) -> None:
    with looking(server, "read") as page:
        assert page.do("set", address="note", text="3")["t"] == "trouble"
        assert page.ask("document", address="note")["value"]["text"] == "1"


def test_an_owner_sees_the_functions_of_programs_live(server: Server) -> None:
    app, count = _app()
    with looking(server, "own") as page, app.open(f"{server.url}/home"):
        graph = page.watch("graph")["record"]
        assert graph["apps"][0]["origin"] == "live"
        count.value = 2
        page.delta()
        page.send(t="unwatch", n=1)
        until(lambda: runs_of(page.ask("graph"), "double") == 2, "the run is shown")


def test_a_page_that_asks_again_and_again_does_not_fill_the_audit_log(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long it takes.
    monkeypatch.setattr(inspect_page, "AGAIN_S", 1e9)
    with looking(server, "read") as page:
        for _ in range(20):
            page.ask("overview")
        page.watch("documents")
        with client(server.url, "home") as replica:
            for value in range(5):
                write(replica, "note", value + 10)
        page.delta()
    told = [each["what"] for each in audit(server, "inspected") if each["actor"] == "ann"]
    assert told, "each kind of question is there"
    assert len(told) == len(set(told)), "and once in a minute"
