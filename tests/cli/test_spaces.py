"""Spaces as a whole: listed with what identifies them, renamed, copied, given a new id."""

import json
import shutil
from pathlib import Path

import apsw
import pytest

from headwater.host.space_files import file_name, open_space
from headwater.values.space_ids import is_space_id
from tests.cli.conftest import Run, Terminal
from tests.cli.processes import holding


def rows(run: Run, *args: object) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(run("spaces", "ls", *args, "--json").stdout)
    return found


# --- ls -------------------------------------------------------------------------------------------------------


def test_ls_shows_name_id_lineage_and_size(run: Run, tmp_path: Path, shop: str) -> None:
    [found] = rows(run)
    assert is_space_id(str(found["id"]))
    size = (tmp_path / shop).stat().st_size
    expected = {"space": "shop", "bytes": size, "state": None, "process": None, "path": "shop.db"}
    assert found | expected == found
    assert len(bytes.fromhex(str(found["lineage"]))) == 8
    fields = run("spaces").stdout.rstrip("\n").split("\t")
    assert fields == ["shop", found["id"], found["lineage"], str(size), "", "shop.db"]


def test_ls_of_a_folder_of_one_file_and_of_nothing(run: Run, tmp_path: Path) -> None:
    for name in ("one", "two"):
        run("set", "notes", "1", "--url", "data/", "--space", name)
    assert {row["space"] for row in rows(run, "data")} == {"one", "two"}
    [found] = rows(run, f"data/{file_name('one')}")
    assert found["space"] == "one"
    (tmp_path / "empty").mkdir()
    assert rows(run, "empty") == []
    assert "there is no folder" in run("spaces", "ls", "nowhere", exit=3).stderr


def test_ls_writes_to_no_file(run: Run, tmp_path: Path, shop: str) -> None:
    before = (tmp_path / shop).read_bytes()
    rows(run)
    assert (tmp_path / shop).read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == [shop]


@pytest.mark.usefixtures("shop")
def test_ls_shows_a_space_that_a_process_has_open(run: Run) -> None:
    [closed] = rows(run)
    with holding("shop.db") as pid:
        [found] = rows(run)
    assert found == closed | {"state": f"open in process {pid}", "process": pid}


def test_ls_shows_the_newest_id_of_a_file_that_was_not_closed(run: Run, tmp_path: Path) -> None:
    run("set", "notes", "1", "--url", "shop.db")
    made = run("spaces", "new-id", "shop.db").stdout.strip()
    # As after a kill: the new id is only in the write-ahead log.
    storage = open_space("shop.db", create=False)
    storage.call(lambda engine: engine.backend.set_meta("space_id", "7k3q9d4m2x8v1n6p0c5r"))
    (tmp_path / "killed").mkdir()
    for name in ("shop.db", "shop.db-wal"):
        shutil.copyfile(tmp_path / name, tmp_path / "killed" / name)
    storage.call(lambda engine: engine.backend.set_meta("space_id", made))
    storage.close()
    [found] = rows(run, "killed")
    assert found["id"] == "7k3q9d4m2x8v1n6p0c5r"


def test_ls_shows_what_is_no_space_without_an_id(run: Run, tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"hello, I am text\n" * 1000)
    db = apsw.Connection(str(tmp_path / "y.db"))
    db.execute("create table t(x)")
    db.close()
    assert [(row["space"], row["id"]) for row in rows(run)] == [(None, None), (None, None)]


@pytest.mark.usefixtures("shop")
def test_ls_on_a_terminal_shows_sizes_for_people(terminal: Terminal) -> None:
    shown = terminal(120, "spaces")
    assert "KiB" in shown or "KB" in shown or "MB" in shown
    assert "shop" in shown


# --- rename ---------------------------------------------------------------------------------------------------


def test_rename_of_a_file_changes_the_name_and_nothing_else(run: Run, shop: str) -> None:
    [before] = rows(run)
    found = json.loads(run("spaces", "rename", "store", "--url", shop, "--json").stdout)
    assert found == {"space": "store", "before": "shop", "id": before["id"], "path": shop}
    assert rows(run) == [before | {"space": "store"}]
    assert run("get", "notes/title", "--url", shop).stdout == '"tea"\n'


def test_rename_in_a_folder_renames_the_file(run: Run, tmp_path: Path) -> None:
    run("set", "notes", "1", "--url", "data/", "--space", "one")
    assert run("spaces", "rename", "two", "--url", "data/", "--space", "one").stdout == f"data/{file_name('two')}\n"
    assert [path.name for path in (tmp_path / "data").iterdir()] == [file_name("two")]
    assert run("get", "notes", "--url", "data/", "--space", "two").stdout == "1\n"
    assert run("get", "notes", "--url", "data/", "--space", "one", exit=3).stderr


def test_an_interrupted_rename_is_completed_by_another_one(run: Run, tmp_path: Path) -> None:
    run("set", "notes", "1", "--url", "data/", "--space", "one")
    old = tmp_path / "data" / file_name("one")
    with open_space(str(old), create=False) as storage:
        storage.call(lambda engine: engine.backend.set_meta("space", "two"))
    run("spaces", "rename", "two", "--url", "data/", "--space", "one")
    run("spaces", "rename", "two", "--url", "data/", "--space", "one")
    assert run("get", "notes", "--url", "data/", "--space", "two").stdout == "1\n"


def test_rename_to_a_name_that_is_taken_or_no_name_is_refused(run: Run) -> None:
    for name in ("one", "two"):
        run("set", "notes", f'"{name}"', "--url", "data/", "--space", name)
    taken = run("spaces", "rename", "two", "--url", "data/", "--space", "one", exit=4).stderr
    assert "there is a space 'two' already" in taken
    assert run("spaces", "rename", "a\nb", "--url", "data/", "--space", "one", exit=2).stderr
    assert "memory: ends with this command" in run("spaces", "rename", "x", "--url", "memory:", exit=2).stderr
    assert run("get", "notes", "--url", "data/", "--space", "one").stdout == '"one"\n'


@pytest.mark.usefixtures("shop")
def test_rename_of_a_space_that_is_open_is_refused(run: Run) -> None:
    with holding("shop.db"):
        assert "is open in process" in run("spaces", "rename", "store", "--url", "shop.db", exit=4).stderr


# --- copy -----------------------------------------------------------------------------------------------------


def test_copy_has_the_same_past_and_another_id(run: Run, tmp_path: Path, shop: str) -> None:
    found = json.loads(run("copy", shop, "new.db", "--json").stdout)
    old, new = sorted(rows(run), key=lambda row: row["path"] == "new.db")
    assert new["id"] == found["id"] != old["id"]
    assert new["lineage"] == found["lineage"] != old["lineage"]
    assert (found["space"], found["seq"], found["dropped"]) == ("shop", 4, 0)
    assert found["bytes"] == (tmp_path / "new.db").stat().st_size
    body = run("export", "--history", "--url", shop).stdout.splitlines()[1:-1]
    assert run("export", "--history", "--url", "new.db").stdout.splitlines()[1:-1] == body
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.db", "shop.db"]


def test_copy_into_a_folder_with_a_name(run: Run, shop: str) -> None:
    run("copy", shop, "data/", "--name", "second")
    assert run("get", "notes/title", "--url", "data/", "--space", "second").stdout == '"tea"\n'
    run("copy", "data/", "again.db", "--space", "second")
    assert run("get", "notes/title", "--url", "again.db").stdout == '"tea"\n'


def test_copy_replaces_a_space_only_by_force(run: Run, shop: str) -> None:
    run("set", "other", "1", "--url", "new.db")
    assert "new.db exists; --force replaces it" in run("copy", shop, "new.db", exit=4).stderr
    assert run("get", "other", "--url", "new.db").stdout == "1\n"
    run("copy", shop, "new.db", "--force")
    assert run("get", "notes/title", "--url", "new.db").stdout == '"tea"\n'
    assert "is the space itself" in run("copy", shop, shop, "--force", exit=2).stderr


def test_copy_to_a_place_that_cannot_be(run: Run, shop: str) -> None:
    assert run("copy", "no.db", "new.db", exit=3).stderr
    assert run("copy", shop, "no/new.db", exit=3).stderr
    assert "is a server's" in run("copy", shop, "ws://127.0.0.1:1/x", exit=2).stderr
    assert "memory:" in run("copy", shop, "memory:", exit=2).stderr


def test_a_damaged_space_is_not_copied(run: Run, tmp_path: Path, shop: str) -> None:
    db = apsw.Connection(str(tmp_path / shop))
    db.execute("update log set body = cast(replace(body, 'milk', 'silk') as blob) where seq = 1")
    db.close()
    assert "HW205" in run("copy", shop, "new.db", exit=1).stderr
    assert not (tmp_path / "new.db").exists()
