"""Care of spaces: verify, compact."""

import json
from pathlib import Path

import apsw
import pytest

from headwater.host.space_files import file_name
from tests.cli.conftest import Run
from tests.cli.processes import holding


def damage(path: Path) -> None:
    """Change what a commit says, as a tool that knows nothing of the hash chain would."""
    db = apsw.Connection(str(path))
    db.execute("update log set body = cast(replace(body, 'milk', 'silk') as blob) where seq = 1")
    db.close()


def scribble(path: Path) -> None:
    """Write over the middle of the file."""
    data = bytearray(path.read_bytes())
    data[4096 : len(data) // 2] = b"\xa5" * (len(data) // 2 - 4096)
    path.write_bytes(data)


# --- verify -----------------------------------------------------------------------------------------------


def test_sound_space_is_said_to_be_sound(run: Run, shop: str) -> None:
    assert run("verify").stdout == "shop.db\tsound\t4\t2\t\n"
    found = json.loads(run("verify", "--json").stdout)
    space = {"path": "shop.db", "space": "shop", "state": "sound", "commits": 4, "documents": 2, "rebuilt": []}
    space |= {"observations": 0, "findings": []}
    assert found == {"sound": True, "spaces": [space]}
    assert json.loads(run("verify", "--jsonl", "--url", shop).stdout) == space


@pytest.mark.parametrize("harm", [damage, scribble])
def test_damaged_space_is_a_finding(run: Run, tmp_path: Path, shop: str, harm: object) -> None:
    assert callable(harm)
    harm(tmp_path / shop)
    path, state, *_, findings = run("verify", exit=1).stdout.rstrip("\n").split("\t")
    assert (path, state) == (shop, "damaged")
    assert findings
    found = json.loads(run("verify", "--json", exit=1).stdout)
    assert found["sound"] is False
    assert found["spaces"][0]["findings"]


@pytest.mark.parametrize("content", [b"hello, I am text\n" * 1000, b"SQLite format 3\0" + b"\xa5" * 600, b"\0" * 5000])
def test_what_is_no_space_at_all_is_a_finding(run: Run, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.db").write_bytes(content)
    assert run("verify", exit=1).stdout.startswith("x.db\tdamaged\t0\t0\t")
    assert "HW205" in run("ls", exit=1).stderr
    assert (tmp_path / "x.db").read_bytes() == content


def test_another_database_is_a_finding(run: Run, tmp_path: Path) -> None:
    db = apsw.Connection(str(tmp_path / "x.db"))
    db.execute("create table a(b)")
    db.close()
    assert "not a Headwater space" in run("verify", exit=1).stdout
    assert "MigrationError HW206" in run("ls", exit=1).stderr


@pytest.fixture
def folder(run: Run, tmp_path: Path) -> Path:
    """Three spaces, one of them damaged."""
    for name in ("one", "two", "three"):
        run("set", "notes", '{"title": "milk"}', "--url", "many/", "--space", name)
    damage(tmp_path / "many" / file_name("two"))
    return tmp_path / "many"


def test_one_damaged_space_does_not_hide_the_others(run: Run, folder: Path) -> None:
    rows = [line.split("\t") for line in run("verify", "--url", "many/", exit=1).stdout.splitlines()]
    assert {row[0]: row[1] for row in rows} == {
        f"many/{file_name('one')}": "sound",
        f"many/{file_name('two')}": "damaged",
        f"many/{file_name('three')}": "sound",
    }
    (folder / file_name("two")).unlink()
    assert run("verify", "--url", "many").stdout.count("sound") == 2
    assert run("verify", "--url", "many", "--space", "one").stdout.count("\n") == 1
    assert run("get", "notes/title", "--url", "many", "--space", "one").stdout == '"milk"\n'


def test_swapped_files_are_found(run: Run, folder: Path) -> None:
    (folder / file_name("one")).replace(folder / file_name("two"))
    text = run("verify", "--url", "many/", exit=1).stdout
    assert f"the file of space 'one' should be called {file_name('one')}" in text


def test_held_space_is_not_a_finding_but_not_checked_either(run: Run, folder: Path) -> None:
    (folder / file_name("two")).unlink()
    with holding(str(folder / file_name("one"))) as pid:
        text = run("verify", "--url", "many/", exit=4).stdout
    assert f"process {pid}" in text
    assert text.count("\tsound\t") == 1
    assert text.count("\theld\t") == 1


def test_folder_without_spaces_is_not_found(run: Run, tmp_path: Path) -> None:
    assert "there are no spaces in" in run("verify", "--url", str(tmp_path), exit=3).stderr


# --- compact ----------------------------------------------------------------------------------------------


def test_compact_tells_how_much_was_freed(run: Run) -> None:
    for n in range(20):
        run("set", "big", json.dumps(str(n) * 20_000), "--url", "x.db")
    found = json.loads(run("compact", "--before", "20", "--json").stdout)
    assert found["freed"] > 300_000
    assert (found["commits_dropped"], found["first"]) == (20, 20)
    assert run("get", "big").stdout == json.dumps("19" * 20_000) + "\n"
    assert "HistoryError HW208" in run("get", "big", "--at", "3", exit=3).stderr
    assert run("verify").stdout.startswith("x.db\tsound")
    assert run("compact").stdout == "0\n"
    assert run("history", "big").stdout == ""


def test_compact_keeps_what_a_branch_stands_on(run: Run, shop: str) -> None:
    run("fork", "b", "--at", "2")
    result = run("compact", "--before", "4", "--json", "--url", shop)
    assert json.loads(result.stdout)["first"] == 2
    assert "kept from 2 on: a branch was forked there" in result.stderr
    assert run("get", "notes/title", "--branch", "b").stdout == '"tea"\n'


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(("before", "code"), [("99", 3), ("-1", 2), ("x", 2)])
def test_compact_before_a_place_that_is_not_there(run: Run, before: str, code: int) -> None:
    run("compact", "--before", before, exit=code)
    assert run("history", "notes").stdout.count("\n") == 3
