"""Files of the real machine: what is replaced, synced and locked is so for other processes, too."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.machine import Files, Machine

LOCKING = """
import os, sys
from headwater.machine import Files
file = Files().open(sys.argv[1], os.O_RDWR)
print(file.try_lock(), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def files() -> Files:
    return Machine().files


def written(files: Files, path: Path, data: bytes) -> None:
    with files.open(path, os.O_WRONLY | os.O_CREAT) as file:
        file.write(data)
        file.sync()


def test_appending_keeps_what_is_there(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "log"
    for word in (b"one\n", b"two\n"):
        with files.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND) as file:
            file.write(word)
            file.sync()
    assert files.read(path) == b"one\ntwo\n"
    assert path.read_bytes() == b"one\ntwo\n"


def test_new_file_is_for_this_user_unless_a_mode_is_given(files: Files, tmp_path: Path) -> None:
    files.open(tmp_path / "a", os.O_WRONLY | os.O_CREAT).close()
    assert stat.S_IMODE(files.stat(tmp_path / "a").st_mode) == 0o600
    with files.open(tmp_path / "a", os.O_WRONLY) as file:
        file.set_mode(0o640)
        file.set_owner(os.geteuid(), -1)
    assert stat.S_IMODE(files.stat(tmp_path / "a").st_mode) == 0o640
    files.set_mode(tmp_path / "a", 0o600)
    assert stat.S_IMODE(files.stat(tmp_path / "a").st_mode) == 0o600


def test_replace_shows_the_old_file_or_the_new_one_to_who_has_it_open(files: Files, tmp_path: Path) -> None:
    path, part = tmp_path / "settings", tmp_path / ".settings.part"
    written(files, path, b"old")
    with files.open(path, os.O_RDONLY) as before:
        written(files, part, b"new and longer")
        files.replace(part, path)
        files.sync_folder(tmp_path)
        assert before.read(100) == b"old"
    assert files.read(path) == b"new and longer"
    assert files.names(tmp_path) == ["settings"]


def test_replace_of_a_file_that_is_not_there_leaves_the_old_one(files: Files, tmp_path: Path) -> None:
    written(files, tmp_path / "a", b"old")
    with pytest.raises(FileNotFoundError):
        files.replace(tmp_path / "b", tmp_path / "a")
    assert files.read(tmp_path / "a") == b"old"


def test_parts_are_read_by_position(files: Files, tmp_path: Path) -> None:
    written(files, tmp_path / "a", b"0123456789")
    with files.open(tmp_path / "a", os.O_RDWR) as file:
        assert file.read_at(3, 4) == b"456"
        assert file.read(2) == b"01"
        file.truncate(5)
        assert file.read(100) == b"234"
        assert file.read(100) == b""
        assert file.stat().st_size == 5


def test_lock_refuses_another_opening_until_the_file_is_closed(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    flags = os.O_RDWR | os.O_CREAT
    with files.open(path, flags) as one, files.open(path, flags) as other:
        assert one.try_lock()
        assert one.try_lock(), "it has it already"
        assert not other.try_lock()
    with files.open(path, flags) as third:
        assert third.try_lock()


def test_lock_refuses_a_second_process_and_ends_with_the_first(files: Files, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    written(files, path, b"")
    command = [sys.executable, "-c", LOCKING, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        with files.open(path, os.O_RDWR) as file:
            assert not file.try_lock()
        process.kill()
    with files.open(path, os.O_RDWR) as file:
        assert file.try_lock()


def test_folders_are_made_once_with_the_mode_of_the_last(files: Files, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b" / "c"
    files.make_folders(folder, 0o700)
    files.make_folders(folder, 0o700)
    assert stat.S_IMODE(files.stat(folder).st_mode) == 0o700
    assert stat.S_IMODE(files.stat(folder.parent).st_mode) == 0o777 & ~_mask()
    written(files, tmp_path / "file", b"")
    with pytest.raises(FileExistsError):
        files.make_folders(tmp_path / "file")
    with pytest.raises(NotADirectoryError):
        files.make_folders(tmp_path / "file" / "below")
    with pytest.raises(FileExistsError):
        files.mkdir(folder)


def _mask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_questions_about_paths(files: Files, tmp_path: Path) -> None:
    file, link, lost, hard = tmp_path / "file", tmp_path / "link", tmp_path / "lost", tmp_path / "hard"
    written(files, file, b"x")
    link.symlink_to(file)
    lost.symlink_to(tmp_path / "nowhere")
    hard.hardlink_to(file)
    assert [files.exists(path) for path in (file, link, lost, tmp_path)] == [True, True, False, True]
    assert [files.lexists(path) for path in (file, lost, tmp_path / "none")] == [True, True, False]
    assert [files.is_file(path) for path in (file, link, tmp_path)] == [True, True, False]
    assert [files.is_dir(path) for path in (file, tmp_path)] == [False, True]
    assert [files.is_symlink(path) for path in (file, link, lost)] == [False, True, True]
    assert files.is_same(file, hard)
    assert not files.is_same(file, tmp_path)
    assert files.resolve(link) == str(file.resolve())
    assert files.can_write(file)
    assert files.names(tmp_path) == ["file", "hard", "link", "lost"]
    assert stat.S_ISLNK(files.lstat(link).st_mode)


def test_path_that_cannot_be_one_is_not_there(files: Files, tmp_path: Path) -> None:
    written(files, tmp_path / "file", b"")
    for path in ("a\0b", str(tmp_path / "file" / "below"), ""):
        assert not files.exists(path)
        assert not files.lexists(path)
    with pytest.raises(OSError, match="too long"):
        files.exists("x" * 10_000)
    assert not files.lexists("x" * 10_000)


def test_remove_is_no_error_if_there_is_nothing(files: Files, tmp_path: Path) -> None:
    written(files, tmp_path / "file", b"")
    files.remove(tmp_path / "file")
    files.remove(tmp_path / "file")
    with pytest.raises(FileNotFoundError):
        files.unlink(tmp_path / "file")
    assert files.names(tmp_path) == []
