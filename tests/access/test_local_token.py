"""The token for programs of the server's own user: found by them, and by nobody else."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.access.access_control import AccessControl
from headwater.access.local_token import LocalToken, find_local, find_local_token, loopback
from headwater.access.rights import Right
from headwater.access.tokens import digest, mint
from headwater.errors import UnavailableError, UsageError
from headwater.testing.sim_clock import SimClock

URL = "ws://127.0.0.1:8400"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with a home and nothing else."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    (tmp_path / "home").mkdir()
    return tmp_path / "home" / ".local" / "state" / "headwater"


@pytest.fixture
def runtime(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The same with a folder for what runs."""
    folder = home.parents[3] / "run"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    return folder / "headwater"


def leave(host: str = "127.0.0.1", port: int = 8400) -> LocalToken:
    return LocalToken.leave(host, port, f"ws://{host}:{port}")


def test_a_client_of_the_same_user_finds_what_the_server_left(runtime: Path) -> None:
    left = leave()
    assert left.path == runtime / "127.0.0.1-8400.json"
    assert digest(left.token) is not None
    assert find_local_token("127.0.0.1", 8400) == left.token
    assert json.loads(left.path.read_text()) == {"token": left.token, "pid": os.getpid(), "url": URL}
    assert find_local_token("127.0.0.1", 8401) is None
    assert find_local_token("127.0.0.2", 8400) is None
    assert find_local_token("::1", 8400) is None
    left.remove()
    assert find_local_token("127.0.0.1", 8400) is None
    assert list(runtime.iterdir()) == []
    left.remove()


def test_nobody_else_can_read_it_whatever_the_mask(runtime: Path) -> None:
    before = os.umask(0)
    try:
        left = leave()
    finally:
        os.umask(before)
    assert left.path.stat().st_mode & 0o777 == 0o600
    assert runtime.stat().st_mode & 0o777 == 0o700


def test_without_a_folder_for_what_runs_it_is_in_the_home(home: Path) -> None:
    before = os.umask(0)
    try:
        left = leave()
    finally:
        os.umask(before)
    assert left.path.parent == home
    assert home.stat().st_mode & 0o777 == 0o700
    assert find_local_token("127.0.0.1", 8400) == left.token


@pytest.mark.parametrize("wrong", ["open", "file", "link", "gone", "relative"])
def test_a_folder_for_what_runs_that_is_not_the_users_alone_is_not_used(
    runtime: Path, home: Path, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = runtime.parent
    if wrong == "open":
        base.chmod(0o755)
    elif wrong == "relative":
        monkeypatch.chdir(base.parent)
        monkeypatch.setenv("XDG_RUNTIME_DIR", base.name)
    else:
        base.rmdir()
        if wrong == "file":
            base.write_text("")
        elif wrong == "link":
            (base.parent / "other").mkdir(mode=0o700)
            base.symlink_to(base.parent / "other")
    assert leave().path.parent == home


def test_a_client_with_another_environment_finds_it_all_the_same(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service has no XDG_RUNTIME_DIR, a shell has one."""
    left = leave()
    assert left.path.parent == home
    (tmp_path / "run").mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    assert find_local_token("127.0.0.1", 8400) == left.token


@pytest.mark.usefixtures("home")
def test_where_there_is_no_folder_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "home").rmdir()
    (tmp_path / "home").write_text("")
    with pytest.raises(UnavailableError, match="no folder for the token of local programs"):
        leave()
    assert find_local_token("127.0.0.1", 8400) is None


def test_a_folder_that_was_opened_up_is_closed_again_by_the_next_server(home: Path) -> None:
    leave()
    home.chmod(0o777)
    assert find_local_token("127.0.0.1", 8400) is None, "others may have put it there"
    left = leave()
    assert home.stat().st_mode & 0o777 == 0o700
    assert find_local_token("127.0.0.1", 8400) == left.token


def test_a_folder_that_is_a_link_is_not_used(home: Path, tmp_path: Path) -> None:
    (tmp_path / "trap").mkdir(mode=0o700)
    home.parent.mkdir(parents=True)
    home.symlink_to(tmp_path / "trap")
    with pytest.raises(UnavailableError, match="is not a folder of this user"):
        leave()
    assert list((tmp_path / "trap").iterdir()) == []


# --- addresses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("127.1.2.3", "127.1.2.3"),
        ("::1", "::1"),
        ("[::1]", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("::ffff:127.0.0.1", "127.0.0.1"),
        ("localhost", None),
        ("0.0.0.0", None),  # noqa: S104  # refused
        ("::", None),
        ("10.0.0.1", None),
        ("127.0.0.1.evil.test", None),
        ("2130706433", None),
        ("127.1", None),
        ("", None),
        ("../../x", None),
    ],
)
def test_loopback_is_an_address_of_this_machine_only(host: str, address: str | None) -> None:
    assert loopback(host) == address


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.test", "localhost", "../x"])  # noqa: S104
def test_a_server_that_others_can_reach_leaves_none(home: Path, host: str) -> None:
    with pytest.raises(UsageError, match="not a loopback address"):
        leave(host)
    assert not home.exists()
    assert find_local_token(host, 8400) is None


def test_every_spelling_of_an_address_finds_the_same(runtime: Path) -> None:
    left = leave("::1")
    assert left.path == runtime / "__1-8400.json"
    for host in ("::1", "[::1]", "0:0:0:0:0:0:0:1"):
        assert find_local_token(host, 8400) == left.token


@pytest.mark.usefixtures("runtime")
def test_localhost_is_answered_with_the_address_to_connect_to() -> None:
    """Another user may listen on ::1, where localhost may lead as well: the token must not get there."""
    left = leave()
    assert find_local_token("localhost", 8400) is None
    for name in ("localhost", "LOCALHOST", "localhost.", "notes.localhost"):
        found = find_local(name, 8400)
        assert found is not None
        assert (found.host, found.port, found.token, found.pid) == ("127.0.0.1", 8400, left.token, os.getpid())
    left.remove()
    other = leave("::1")
    found = find_local("localhost", 8400)
    assert found is not None
    assert (found.host, found.token) == ("::1", other.token)
    assert find_local("notlocalhost", 8400) is None


# --- what is not believed ---------------------------------------------------------------------------------


def refused(caplog: pytest.LogCaptureFixture) -> str:
    caplog.clear()
    with caplog.at_level(logging.INFO, "headwater"):
        assert find_local_token("127.0.0.1", 8400) is None
    [record] = caplog.records
    return record.getMessage()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644, 0o666])
@pytest.mark.usefixtures("runtime")
def test_a_file_that_others_can_use_is_not_believed(mode: int, caplog: pytest.LogCaptureFixture) -> None:
    left = leave()
    left.path.chmod(mode)
    said = refused(caplog)
    assert f"mode {mode:04o}" in said
    assert left.token not in said


def test_a_link_is_not_believed(runtime: Path, caplog: pytest.LogCaptureFixture) -> None:
    left = leave()
    left.path.rename(runtime / "other")
    left.path.symlink_to(runtime / "other")
    assert "symbolic link" in refused(caplog)


def test_a_pipe_is_not_waited_for(runtime: Path, caplog: pytest.LogCaptureFixture) -> None:
    runtime.mkdir(mode=0o700)
    os.mkfifo(runtime / "127.0.0.1-8400.json", 0o600)
    assert "not a plain file" in refused(caplog)


def test_a_file_of_another_user_is_not_believed(
    runtime: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = leave()
    if os.geteuid() == 0:
        os.chown(left.path, 12_345, 12_345)
        assert "belongs to user 12345, not to user 0" in refused(caplog)
        return
    # The same seen from the other side: what is here is this user's, and somebody else asks.
    monkeypatch.setattr("headwater.access.local_token._folders", lambda: iter([runtime]))
    monkeypatch.setattr(os, "geteuid", lambda: 12_345)
    assert "not to user 12345" in refused(caplog)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[]", b'{"token": 7}', b"x" * 10_000, b"[" * 4000])
@pytest.mark.usefixtures("runtime")
def test_a_damaged_file_is_not_believed(data: bytes, caplog: pytest.LogCaptureFixture) -> None:
    left = leave()
    left.path.write_bytes(data)
    assert "is not used" in refused(caplog)
    left.remove()
    assert left.path.exists(), "not what we left"
    assert find_local_token("127.0.0.1", 8400) is None


@pytest.mark.usefixtures("runtime")
def test_what_is_no_token_is_not_sent(caplog: pytest.LogCaptureFixture) -> None:
    left = leave()
    left.path.write_text(json.dumps({"token": "hw_\r\nX: y", "pid": os.getpid(), "url": URL}))
    assert "it is none" in refused(caplog)


# --- servers that ended -----------------------------------------------------------------------------------

LEAVING = """
import sys
from headwater.access.local_token import LocalToken
print(LocalToken.leave("127.0.0.1", 8400, "ws://127.0.0.1:8400").token)
"""


def test_what_a_dead_server_left_is_not_used_and_is_replaced(runtime: Path, caplog: pytest.LogCaptureFixture) -> None:
    done = subprocess.run([sys.executable, "-c", LEAVING], capture_output=True, text=True, check=True)
    assert (runtime / "127.0.0.1-8400.json").exists()
    assert "has ended" in refused(caplog)
    left = leave()
    assert left.token != done.stdout.strip()
    assert find_local_token("127.0.0.1", 8400) == left.token
    assert [path.name for path in runtime.iterdir()] == ["127.0.0.1-8400.json"]


@pytest.mark.parametrize("pid", [0, -1, 2**40, 2**70])
@pytest.mark.usefixtures("runtime")
def test_a_number_that_is_no_process_is_a_dead_one(pid: int, caplog: pytest.LogCaptureFixture) -> None:
    left = leave()
    left.path.write_text(json.dumps({"token": mint(), "pid": pid, "url": URL}))
    assert "has ended" in refused(caplog)


@pytest.mark.usefixtures("runtime")
def test_a_server_removes_only_what_it_left_itself() -> None:
    before = leave()
    after = leave()
    before.remove()
    assert find_local_token("127.0.0.1", 8400) == after.token


@pytest.mark.usefixtures("runtime")
def test_the_server_lets_in_who_found_it(tmp_path: Path) -> None:
    access = AccessControl(tmp_path, SimClock())
    access.admit_local(leave().token)
    found = find_local_token("127.0.0.1", 8400)
    assert found is not None
    grant = access.with_token(found)
    assert grant is not None
    assert access.right(grant.id, "notes") is Right.OWN
    assert not (tmp_path / "access.json").exists()
