"""The Studio of a space of a database."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from headwater.cli import dev_actions
from headwater.cli.target import Target
from headwater.host.postgres.database_url import parse_database_url
from headwater.studio.host import Login
from headwater.studio.local_host import FileHost
from tests.studio.locally import local_page
from tests.studio.shop import ignore, make_shop
from tests.studio.test_live import state_after, until
from tests.support.postgres import cluster, database

SECRET = "correct-horse"  # noqa: S105  # of no account
URL = f"postgresql://ann:{SECRET}@db.example/shop"


def test_the_password_of_a_database_is_on_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FileHost, "_checked_name", lambda _: "shop")
    host = FileHost(URL)
    assert host.title == host.url("shop") == parse_database_url(URL).shown
    assert SECRET not in host.title


def test_the_password_of_a_database_is_in_no_list_of_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    class Supervisor:
        def __init__(self, words: list[str]) -> None:
            commands.append(words)

        def run(self) -> int:
            return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADWATER_URL", URL)
    monkeypatch.setattr(dev_actions, "_Supervisor", Supervisor)
    options = {"concurrency": None, "force": False, "ingress": None, "port": None, "read_only": False}
    asked = {"no_browser": True, "no_studio": True, "is_program": False, "target": Target(None, None, "main", None)}
    dev_actions.dev(name="shop:app", **options, **asked)  # type: ignore[arg-type]  # one of each
    assert commands == [["shop:app"]]


def test_a_program_over_a_database_is_shown_live() -> None:
    database()
    url = cluster().url()
    made = make_shop()
    with made.app.open(url, on_error=ignore) as space:
        made.counted.value = 1
        space.sync()
        host = FileHost(url)
        until(lambda: host.state(Login(), "") == "live", "the socket is there")
        with local_page(host) as page:
            page.watch("document", address="shop.count")
            made.counted.value = 5
            while page.delta()["record"]["value"]["text"] != "5":
                pass
            found = page.ask("overview")
            assert "openings" in found, found["message"]
            assert found["openings"][0]["origin"] == "live", found["message"]
            page.watch("graph")
            space.close()
            state_after(page, "ended")
            assert json.dumps(page.ask("document", address="shop.count")["value"]["text"]) == '"5"'
