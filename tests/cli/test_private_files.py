"""Files of spaces are for one user: made so whatever the mask of the process is, and told of where they are not."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import open_space
from tests.cli.conftest import Run
from tests.server.running import ServeProcess, settle_in, until


@contextmanager
def mask(bits: int) -> Iterator[None]:
    before = os.umask(bits)
    try:
        yield
    finally:
        os.umask(before)


def mode(path: Path | str) -> int:
    return Path(path).stat().st_mode & 0o777


@pytest.mark.parametrize("bits", [0, 0o022, 0o077])
def test_a_space_and_what_lies_beside_it_are_for_one_user(bits: int) -> None:
    app = hw.App("app")
    count = app.cell("count", 0)
    with mask(bits):
        with app.open("one.db") as space:
            count.value = 1
            space.sync()
            found = {path.name: mode(path) for path in Path().glob("one.db*") if path.is_file()}
            assert {"one.db", "one.db-wal"} <= found.keys()
            assert set(found.values()) == {0o600}
        with app.open("many/", space="home"):
            count.value = 1
        assert mode("many") == 0o700
        assert [mode(path) for path in Path("many").glob("*.db")] == [0o600]


def test_a_mask_that_forbids_everything_does_not_lock_its_owner_out() -> None:
    with mask(0o777), open_space("one.db") as storage:
        assert storage.name == "one"
    assert mode("one.db") == 0o600


def test_permissions_that_were_given_on_purpose_are_kept() -> None:
    with open_space("one.db"):
        pass
    Path("one.db").chmod(0o660)
    with open_space("one.db"):
        assert mode("one.db") == 0o660
    assert mode("one.db") == 0o660


def test_copies_and_exports_are_for_one_user(run: Run, shop: str) -> None:
    with mask(0):
        run("backup", "copy.db", "--url", shop)
        run("export", "-o", "documents.jsonl", "--url", shop)
        run("export", "--history", "-o", "history.jsonl", "--url", shop)
        run("restore", "copy.db", "--url", "again.db")
        run("import", "history.jsonl", "--url", "imported.db")
        run("import", "documents.jsonl", "--url", "read.db")
        Path("history.jsonl").chmod(0o644)
        run("export", "--history", "-o", "history.jsonl", "--force", "--url", shop)
    names = ("copy.db", "documents.jsonl", "history.jsonl", "again.db", "imported.db", "read.db")
    assert {name: mode(name) for name in names} == dict.fromkeys(names, 0o600)


def private_check(run: Run, url: str) -> tuple[str, str]:
    found = {each["check"]: each for each in json.loads(run("doctor", "--json", "--url", url).stdout)["checks"]}
    return found["private"]["state"], found["private"]["found"]


def test_doctor_tells_of_files_that_others_can_use(run: Run, shop: str) -> None:
    assert private_check(run, shop)[0] == "ok"
    Path(shop).chmod(0o640)
    state, words = private_check(run, shop)
    assert state == "warning"
    assert "shop.db (0640)" in words
    assert "chmod go=" in words


def test_doctor_tells_of_a_folder_of_spaces_that_others_can_use(run: Run) -> None:
    with open_space("many/", "home"):
        pass
    assert private_check(run, "many/")[0] == "ok"
    Path("many").chmod(0o755)
    state, words = private_check(run, "many/")
    assert state == "warning"
    assert "many (0755)" in words


@pytest.mark.slow
@pytest.mark.parametrize("log", ["text", "json", "off"])
def test_a_server_tells_of_files_that_others_can_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str) -> None:
    settle_in(tmp_path, monkeypatch)
    store = tmp_path / "spaces"
    with open_space(f"{store}{os.sep}", "home"):
        pass
    with ServeProcess(store, "--log", log) as server:
        server.end(signal.SIGTERM)
        assert server.wait() == 0
        assert not [line for line in server.lines if "others on this machine" in line]
    for path in store.glob("*.db"):
        path.chmod(0o644)
    with ServeProcess(store, "--log", log) as server:
        until(lambda: any("others on this machine" in line for line in server.lines), "it is said")
        [line] = [line for line in server.lines if "others on this machine" in line]
        assert "(0644), whatever tokens say" in line
        assert f"chmod -R go= {store}" in line
        server.end(signal.SIGTERM)
        assert server.wait() == 0
