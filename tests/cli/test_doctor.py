"""Is this machine fit? What doctor looks at, and how it ends."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from headwater.host import machine_checks
from headwater.host.space_files import open_space
from headwater.store.expiring import EXPIRY_STOPPED
from tests.cli.conftest import Run
from tests.cli.processes import holding


@pytest.fixture(autouse=True)
def _private(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)


def found(run: Run, *args: str, exit: int = 0) -> dict[str, dict[str, str]]:  # noqa: A002
    answer: dict[str, Any] = json.loads(run("doctor", "--json", *args, exit=exit).stdout)
    assert answer["ok"] is (exit == 0)
    return {check["check"]: check for check in answer["checks"]}


def test_all_is_well_here(run: Run, tmp_path: Path) -> None:
    checks = found(run)
    assert {check["state"] for check in checks.values()} <= {"ok", "warning"}
    libraries = ["headwater", "core", "python", "apsw", "msgspec", "click", "rich", "sqlite"]
    assert list(checks) == [*libraries, "folder", "private", "file system", "free space", "write-ahead log"]
    assert checks["write-ahead log"]["state"] == "ok"
    assert list(tmp_path.iterdir()) == []


def test_lines_in_a_pipe(run: Run) -> None:
    rows = [line.split("\t") for line in run("doctor").stdout.splitlines()]
    assert all(len(row) == 3 for row in rows)
    assert ["click", "ok"] in [row[:2] for row in rows]


def test_space_that_was_named_is_looked_at(run: Run, shop: str) -> None:
    assert shop in found(run, "--url", shop)["file"]["found"]
    with holding(shop) as pid:
        assert f"open in process {pid}" in found(run, "--url", shop)["file"]["found"]
    assert "file" not in found(run, "--url", "memory:")


@pytest.mark.parametrize("url", ["missing.db", "missing/", "missing/x.db"])
def test_what_was_named_must_be_there(run: Run, tmp_path: Path, url: str) -> None:
    assert (
        f"there is no {'folder' if url.endswith('/') else 'file'} {url}" in run("doctor", "--url", url, exit=3).stderr
    )
    assert list(tmp_path.iterdir()) == []


def test_url_of_a_server_that_is_none_is_used_wrongly(run: Run) -> None:
    run("doctor", "--url", "ws://", exit=2)


def test_unsafe_sqlite_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apsw.sqlite_lib_version", lambda: "3.46.0")
    checks = found(run, exit=1)
    assert checks["sqlite"]["state"] == "failed"
    assert "3.51.3 or newer" in checks["sqlite"]["found"]
    assert checks["write-ahead log"]["state"] == "failed"


def test_folder_that_everyone_can_write_is_a_warning(run: Run, tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    check = found(run)["folder"]
    assert check["state"] == "warning"
    assert "everyone" in check["found"]


def test_folder_that_cannot_be_written_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_args: False)
    assert found(run, exit=1)["folder"]["state"] == "failed"


@pytest.mark.parametrize(
    ("free", "state"), [(machine_checks.FREE_WARN, "ok"), (machine_checks.FREE_WARN - 1, "warning")]
)
def test_little_room_is_a_warning(run: Run, monkeypatch: pytest.MonkeyPatch, free: int, state: str) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(free * 2, free, free))
    assert found(run)["free space"]["state"] == state


def test_no_room_fails(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    free = machine_checks.FREE_FAIL - 1
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(free * 2, free, free))
    assert found(run, exit=1)["free space"]["state"] == "failed"


@pytest.mark.parametrize(
    ("kind", "state"),
    [("nfs4", "warning"), ("cifs", "warning"), ("fuse.sshfs", "warning"), ("ext4", "ok"), (None, "ok")],
)
def test_network_file_system_is_a_warning(
    run: Run, monkeypatch: pytest.MonkeyPatch, kind: str | None, state: str
) -> None:
    monkeypatch.setattr(machine_checks, "_file_system", lambda _folder: kind)
    assert found(run)["file system"]["state"] == state


def test_innermost_mount_counts(tmp_path: Path) -> None:
    assert machine_checks._file_system(Path("/proc")) in ("proc", None)
    assert machine_checks._file_system(tmp_path) != "proc"


def test_expiry_that_was_stopped_by_the_clock_is_a_warning(run: Run, shop: str) -> None:
    assert "expiry" not in found(run, "--url", shop)
    with open_space(shop) as storage:
        storage.set_property(EXPIRY_STOPPED, "3 days")
    check = found(run, "--url", shop)["expiry"]
    assert (check["state"], "the clock has jumped 3 days forward" in check["found"]) == ("warning", True)
