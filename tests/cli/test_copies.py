"""Backup and restore: what is put in place was verified, what is there is not overwritten by mistake."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headwater.host.space_files import file_name
from tests.cli.conftest import Run
from tests.cli.processes import holding
from tests.cli.test_care import damage, scribble


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_backup_is_a_space_with_the_same_past(run: Run, tmp_path: Path, shop: str) -> None:
    found = json.loads(run("backup", "shop.bak", "--json").stdout)
    assert found == {"file": "shop.bak", "space": "shop", "seq": 4, "bytes": (tmp_path / "shop.bak").stat().st_size}
    assert names(tmp_path) == ["shop.bak", "shop.db"]
    log = run("export", "--history", "--url", shop).stdout
    assert run("export", "--history", "--url", "shop.bak").stdout == log
    (tmp_path / shop).unlink()
    assert run("restore", "shop.bak", "--url", shop).stdout == "shop.db\n"
    assert run("export", "--history", "--url", shop).stdout == log
    assert names(tmp_path) == ["shop.bak", "shop.db"]


def test_backup_replaces_a_file_only_by_force(run: Run, tmp_path: Path, shop: str) -> None:
    (tmp_path / "b").write_text("precious")
    assert run("backup", "b", exit=4).stderr == "refused: b exists; --force replaces it\n"
    assert (tmp_path / "b").read_text() == "precious"
    run("backup", "b", "--force")
    run("backup", "b", "--force")
    assert run("get", "notes/title", "--url", "b").stdout == '"tea"\n'
    assert "is the space itself" in run("backup", shop, "--force", "--url", shop, exit=2).stderr
    assert run("get", "notes/title", "--url", shop).stdout == '"tea"\n'


@pytest.mark.usefixtures("shop")
def test_backup_to_a_place_that_cannot_be(run: Run, tmp_path: Path) -> None:
    assert run("backup", "no/b", exit=3).stderr == "no: there is no such file or folder\n"
    assert "is a folder" in run("backup", str(tmp_path), "--force", exit=1).stderr
    assert "memory: ends with this command" in run("backup", "b", "--url", "memory:", exit=2).stderr
    assert names(tmp_path) == ["shop.db"]


def test_interrupted_backup_leaves_nothing(
    run: Run, tmp_path: Path, shop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_db: object, path: str) -> Iterator[tuple[int, int]]:
        Path(path).write_text("half")
        yield 1, 2
        raise KeyboardInterrupt

    monkeypatch.setattr("headwater.store.backends.sqlite_file.copying", interrupt)
    run("backup", "b", exit=130)
    assert names(tmp_path) == [shop]


# --- restore ----------------------------------------------------------------------------------------------


def test_restore_replaces_a_space_only_by_force(run: Run, shop: str) -> None:
    run("backup", "b")
    run("set", "notes/title", '"newer"', "--url", shop)
    assert run("restore", "b", "--url", shop, exit=4).stderr == "refused: shop.db exists; --force replaces it\n"
    assert run("get", "notes/title").stdout == '"newer"\n'
    assert json.loads(run("restore", "b", "--url", shop, "--force", "--json").stdout)["seq"] == 4
    assert run("get", "notes/title").stdout == '"tea"\n'


@pytest.mark.parametrize(
    "harm", [damage, scribble, lambda path: path.write_bytes(b""), lambda path: path.write_text("x")]
)
def test_damaged_backup_is_not_restored(run: Run, tmp_path: Path, shop: str, harm: object) -> None:
    assert callable(harm)
    run("backup", "b")
    harm(tmp_path / "b")
    before = (tmp_path / "b").read_bytes()
    result = run("restore", "b", "--url", shop, "--force", exit=3 if len(before) < 2 else 1)
    assert "nothing was restored: b " in result.stderr
    assert ".part" not in result.stderr
    assert run("get", "notes/title").stdout == '"tea"\n'
    assert (tmp_path / "b").read_bytes() == before
    assert names(tmp_path) == ["b", "shop.db"]


@pytest.mark.parametrize(
    "harm", [damage, scribble, lambda path: path.write_bytes(b""), lambda path: path.write_text("x")]
)
def test_damaged_space_is_replaced_with_all_that_belongs_to_it(
    run: Run, tmp_path: Path, shop: str, harm: object
) -> None:
    assert callable(harm)
    run("backup", "b")
    harm(tmp_path / shop)
    (tmp_path / "shop.db-wal").write_bytes(b"what a crash has left")
    run("restore", "b", "--url", shop, "--force")
    assert names(tmp_path) == ["b", "shop.db"]
    assert run("verify", "--url", shop).stdout.startswith("shop.db\tsound\t4")


def test_log_of_a_crashed_space_is_not_mixed_into_the_restored_one(run: Run, tmp_path: Path, shop: str) -> None:
    run("backup", "b")
    crash = (
        "import os, sys\n"
        "from headwater.core import SetDoc, doc_key, open_space\n"
        "space = open_space(sys.argv[1])\n"
        "replica = space.attach()\n"
        "replica.commit([SetDoc(doc_key('notes'), 'unwanted')])\n"
        "replica.sync()\n"
        "os._exit(0)\n"
    )
    subprocess.run([sys.executable, "-c", crash, shop], check=True)
    assert (tmp_path / "shop.db-wal").stat().st_size
    # A copy made with other means, log and all, is as good as a backup.
    for side in ("", "-wal"):
        shutil.copy(f"{shop}{side}", f"copied{side}")
    run("restore", "b", "--url", shop, "--force")
    assert run("get", "notes/title", "--url", shop).stdout == '"tea"\n'
    run("restore", "copied", "--url", "third.db")
    assert run("get", "notes", "--url", "third.db").stdout == '"unwanted"\n'


def test_space_that_is_open_elsewhere_is_not_replaced(run: Run, tmp_path: Path, shop: str) -> None:
    run("backup", "b")
    with holding(shop) as pid:
        text = run("restore", "b", "--url", shop, "--force", exit=4).stderr
        assert "SpaceHeldError HW202" in text
        assert f"process {pid}" in text
        assert f"process {pid}" in run("restore", shop, "--url", "new.db", exit=4).stderr
    assert names(tmp_path) == ["b", "shop.db"]
    assert run("verify").stdout.startswith("shop.db\tsound\t4")


def test_a_foreign_database_is_not_replaced_even_by_force(run: Run, tmp_path: Path, shop: str) -> None:
    db = apsw.Connection(str(tmp_path / "theirs.db"))
    db.execute("create table precious(a); insert into precious values (1)")
    db.close()
    run("backup", "b", "--url", shop)
    assert "MigrationError HW206" in run("restore", "b", "--url", "theirs.db", "--force", exit=1).stderr
    assert "MigrationError HW206" in run("backup", "theirs.db", "--url", shop, "--force", exit=1).stderr
    db = apsw.Connection(str(tmp_path / "theirs.db"))
    assert db.execute("select a from precious").get == 1
    db.close()


def test_restored_space_keeps_its_name_unless_given_another(run: Run, tmp_path: Path, shop: str) -> None:
    run("backup", "b", "--url", shop)
    assert run("restore", "b", "--url", "many/").stdout == f"many/{file_name('shop')}\n"
    run("restore", "b", "--url", "many/", "--space", "copy")
    assert run("restore", "b", "--url", "many/", exit=4).stderr.startswith("refused: ")
    for space in ("shop", "copy"):
        assert run("get", "notes/title", "--url", "many/", "--space", space).stdout == '"tea"\n'
    assert run("verify", "--url", "many").stdout.count("sound") == 2
    assert json.loads(run("restore", "b", "--url", "alone.db", "--json").stdout)["space"] == "shop"
    assert names(tmp_path / "many") == sorted([file_name("shop"), file_name("copy")])


def test_restore_needs_a_backup_and_a_place(run: Run, tmp_path: Path, shop: str) -> None:
    assert run("restore", "no", "--url", "x.db", exit=3).stderr == "no: there is no such file or folder\n"
    run("restore", str(tmp_path), "--url", "x.db", exit=3)
    assert "memory:" in run("restore", shop, "--url", "memory:", exit=2).stderr
    assert "is the backup itself" in run("restore", shop, exit=2).stderr
    assert run("restore", shop, "--url", "no/x.db", exit=3).stderr == "no: there is no such file or folder\n"
    assert names(tmp_path) == [shop]


def test_damaged_space_is_not_backed_up_unless_asked_to(run: Run, tmp_path: Path, shop: str) -> None:
    with apsw.Connection(str(tmp_path / shop)) as db:
        db.execute("update log set chain = zeroblob(32) where seq = 2")
    db.close()
    assert "the space is damaged: commit 2 is not the commit" in run("backup", "b", "--url", shop, exit=1).stderr
    assert names(tmp_path) == ["shop.db"]
    run("backup", "b", "--unverified", "--url", shop)
    assert names(tmp_path) == ["b", "shop.db"]
