"""A file of grants that is damaged, or not its owner's alone, lets nobody in."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from headwater.access import grants, tokens
from headwater.access.rights import Right
from headwater.errors import CorruptError, MigrationError, UnavailableError
from tests.server.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def broken(desk: Desk) -> dict[str, bytes]:
    """The file with one thing wrong each."""
    desk.server.create(space="notes", can=Right.READ)
    good = json.loads(desk.file.read_bytes())
    [grant] = good["grants"]

    def of(**changed: object) -> bytes:
        return json.dumps({"version": 1, "grants": [{**grant, **changed}]}).encode()

    return {
        "empty": b"",
        "cut": desk.file.read_bytes()[:-30],
        "not JSON": b"\0" * 100,
        "not UTF-8": of(note="#").replace(b"#", b"\xff"),
        "a list": b"[]",
        "deep": b"[" * 100_000,
        "no version": json.dumps({"grants": []}).encode(),
        "version 0": json.dumps({"version": 0, "grants": []}).encode(),
        "more": json.dumps({**good, "extra": 1}).encode(),
        "more in a grant": of(admin=True),
        "unknown right": of(can="admin"),
        "no right": of(can="none"),
        "a number for a right": of(can=3),
        "unknown kind": of(kind="password"),
        "not a hash": of(secret=grant["id"]),
        "a key for a token": of(kind="key"),
        "no space": of(space=""),
        "no actor": of(actor=""),
        "a date": of(expires="tomorrow"),
        "two of one id": json.dumps({"version": 1, "grants": [grant, grant]}).encode(),
    }


def test_a_damaged_file_lets_nobody_in_and_says_what_is_wrong(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cases = broken(Desk(tmp_path))
    for name, data in cases.items():
        folder = tmp_path / name
        folder.mkdir()
        desk = Desk(folder)
        token, grant = desk.server.create(space="notes", can=Right.READ)
        good = desk.file.read_bytes()
        desk.file.write_bytes(data)
        caplog.clear()
        for _ in range(3):
            desk.later()
            assert desk.server.with_token(token) is None, name
            assert desk.server.right(grant.id, "notes") is Right.NONE, name
        [record] = caplog.records
        assert record.levelno == logging.ERROR
        assert "access.json is damaged" in record.getMessage()
        with pytest.raises(CorruptError, match="put a copy back"):
            desk.command()
        with pytest.raises(CorruptError, match="put a copy back"):
            desk.server.create(space="notes", can=Right.READ)
        with pytest.raises(CorruptError, match="put a copy back"):
            desk.server.revoke(grant.id)
        assert desk.file.read_bytes() == data, "what may help to mend it is kept"
        desk.file.write_bytes(good)
        desk.later()
        assert desk.server.with_token(token) == grant, name


def test_the_local_user_is_let_in_though_the_file_is_damaged(desk: Desk) -> None:
    token = tokens.mint()
    desk.server.admit_local(token)
    desk.file.write_bytes(b"{")
    desk.file.chmod(0o600)
    desk.later()
    assert desk.server.with_token(token) is not None


def test_a_newer_file_is_not_guessed_at(desk: Desk) -> None:
    desk.server.create(space="notes", can=Right.READ)
    desk.file.write_bytes(b'{"version": 3, "grants": {"new": "form"}}')
    with pytest.raises(MigrationError, match="use a newer Headwater"):
        desk.command()


def test_a_file_that_is_too_large_is_not_read(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.server.create(space="notes", can=Right.READ)
    monkeypatch.setattr(grants, "BYTES_MAX", 100)
    with pytest.raises(CorruptError, match="more than 100 bytes"):
        desk.command()


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o620, 0o602, 0o666, 0o610])
def test_a_file_that_others_can_use_lets_nobody_in_until_that_is_mended(desk: Desk, mode: int) -> None:
    token, grant = desk.server.create(space="notes", can=Right.READ)
    desk.file.chmod(mode)
    desk.later()
    assert desk.server.with_token(token) is None
    with pytest.raises(UnavailableError, match=f"mode {mode:04o}.*chmod 600"):
        desk.command()
    desk.file.chmod(0o600)
    desk.later()
    assert desk.server.with_token(token) == grant


def test_a_file_that_is_elsewhere_lets_nobody_in(desk: Desk, tmp_path: Path) -> None:
    token, grant = desk.server.create(space="notes", can=Right.READ)
    elsewhere = tmp_path / "elsewhere.json"
    desk.file.rename(elsewhere)
    desk.file.symlink_to(elsewhere)
    desk.later()
    assert desk.server.with_token(token) is None
    with pytest.raises(UnavailableError, match="is a symbolic link"):
        desk.command()
    desk.file.unlink()
    os.mkfifo(desk.file, 0o600)
    with pytest.raises(UnavailableError, match="not a plain file"):
        desk.command()
    desk.file.unlink()
    elsewhere.rename(desk.file)
    desk.later()
    assert desk.server.right(grant.id, "notes") is Right.READ


def test_what_the_system_refuses_for_a_moment_is_tried_again(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    token, grant = desk.server.create(space="notes", can=Right.READ)

    def refuse() -> tuple[int, ...] | None:
        raise PermissionError(13, "Permission denied", "access.json")

    with monkeypatch.context() as patch:
        patch.setattr(desk.server, "_identity", refuse)
        desk.later()
        assert desk.server.with_token(token) is None
    desk.later()
    assert desk.server.with_token(token) == grant, "the file is the same as before, and is read again"
