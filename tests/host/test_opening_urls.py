"""From a URL to a space: which file is meant, what is refused, and that what is refused stays as it was."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from headwater.core import doc_key, open_space
from headwater.errors import (
    CorruptError,
    MigrationError,
    NameRefusedError,
    NotFoundError,
    SpaceHeldError,
    UnavailableError,
    UsageError,
)
from headwater.host.space_files import default_url, file_name, locate, spaces_in
from headwater.store.backends.sqlite_file import FORMAT
from tests.support.naive import NOTHING, plain
from tests.support.spaces import put

NOTE = doc_key("note")


def write(url: str, value: object, space: str | None = None) -> None:
    with open_space(url, space) as storage:
        replica = storage.attach()
        pending = replica.commit([put("note", value)])
        replica.sync()
        assert pending.accepted


def read(url: str, space: str | None = None) -> object:
    with open_space(url, space, create=False) as storage:
        return plain(storage.attach().read(NOTE))


def everything_below(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


# --- names ----------------------------------------------------------------------------------------------------

REFUSED = ["", "../x", "a/b", "a\\b", "/etc/x", "\0", "a\0b", "a\nb", " a", "a ", "\x7f", "\ud800", "x" * 201]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("url", ["folder/", "memory:", "x.db"])
def test_name_that_could_lead_astray_is_refused_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NameRefusedError):
        open_space(url, name)
    assert everything_below(tmp_path) == {}


@pytest.mark.parametrize("name", [".", "..", "con", "NUL", "-", "~", "a.db", "*", "x" * 200, "日本", "é", "e\u0301"])
def test_odd_name_is_one_plain_file_inside_the_folder(tmp_path: Path, name: str) -> None:
    write(f"{tmp_path}/", name, name)
    [found] = spaces_in(tmp_path)
    assert found == tmp_path / file_name(name)
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*-[0-9a-f]{10}\.db", found.name)
    assert read(f"{tmp_path}/", name) == name


def test_names_that_differ_only_in_case_or_in_signs_have_files_of_their_own(tmp_path: Path) -> None:
    names = ["A", "a", "a b", "a-b", "a_b", "é", "e\u0301"]
    for name in names:
        write(f"{tmp_path}/", name, name)
    assert len(spaces_in(tmp_path)) == len({path.name.lower() for path in spaces_in(tmp_path)}) == len(names)
    assert [read(f"{tmp_path}/", name) for name in names] == names


def test_empty_url_and_one_with_a_zero_byte_are_refused() -> None:
    for url in ("", "a\0.db"):
        with pytest.raises(UsageError, match="is not a URL"):
            open_space(url)


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("ws://host/x", "is a server's"),
        ("wss://host", "is a server's"),
        ("mysql://host/db", "postgresql://HOST/DATABASE or ws://HOST:PORT/SPACE is expected"),
    ],
)
def test_url_that_is_no_file_says_what_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, told: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=told):
        open_space(url)
    assert everything_below(tmp_path) == {}


def test_space_without_a_name_is_called_after_its_file_or_main(tmp_path: Path) -> None:
    assert locate("notes.db").space == "notes"
    assert locate("folder/").space == "main"
    assert locate("memory:").space == "main"
    assert locate(str(tmp_path)).path == tmp_path / file_name("main"), "a folder is one with and without a slash"


# --- where nobody says ----------------------------------------------------------------------------------------


def test_default_url_is_the_first_that_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATER_URL", raising=False)
    with pytest.raises(UsageError, match=r"no \*\.db here.*--url"):
        default_url()
    Path("only.db").touch()
    assert default_url() == "only.db"
    Path("second.db").touch()
    with pytest.raises(UsageError, match=r"several.*only\.db, second\.db") as refused:
        default_url()
    assert refused.value.facts["found"] == ("only.db", "second.db")
    Path("headwater.toml").write_text('url = "from-settings.db"')
    assert default_url() == "from-settings.db"
    monkeypatch.setenv("HEADWATER_URL", "memory:")
    assert default_url() == "memory:"


def test_settings_that_cannot_be_read_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATER_URL", raising=False)
    Path("only.db").touch()
    for content in (b"url = ", b"\xff\xfe"):
        Path("headwater.toml").write_bytes(content)
        with pytest.raises(UsageError, match=r"headwater\.toml"):
            default_url()


@pytest.mark.parametrize("content", ["", "url = ''", "other = 1"])
def test_settings_without_a_url_leave_the_question_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATER_URL", raising=False)
    Path("only.db").touch()
    Path("headwater.toml").write_text(content)
    assert default_url() == "only.db"


# --- not there, or not ours -----------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["new.db", "no-folder/new.db", "folder/", "."])
def test_opening_without_create_makes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFoundError):
        open_space(url, create=False)
    assert everything_below(tmp_path) == {}


@pytest.mark.parametrize("size", [0, 1, 511])
def test_file_too_small_for_a_space_is_not_made_one_without_create(tmp_path: Path, size: int) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(bytes(size))
    with pytest.raises(NotFoundError):
        open_space(str(path), create=False)
    assert everything_below(tmp_path) == {str(path): bytes(size)}


def test_folder_of_a_url_with_a_slash_is_made_and_that_of_a_file_is_not(tmp_path: Path) -> None:
    write(f"{tmp_path}/deep/folder/", 1)
    assert (tmp_path / "deep" / "folder").stat().st_mode & 0o077 == 0, "nobody else's business"
    with pytest.raises(NotFoundError, match="make it first"):
        open_space(f"{tmp_path}/other/x.db")
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("create", [True, False])
@pytest.mark.parametrize("mode", ["delete", "wal"])
def test_foreign_database_is_refused_and_not_a_byte_of_it_changes(tmp_path: Path, mode: str, create: bool) -> None:
    path = tmp_path / "theirs.db"
    db = apsw.Connection(str(path))
    db.execute(f"pragma journal_mode = {mode}").fetchall()
    db.execute("create table theirs(x); insert into theirs values (1)")
    db.close()
    before = everything_below(tmp_path)
    with pytest.raises(MigrationError, match="not a Headwater space"):
        open_space(str(path), create=create)
    assert everything_below(tmp_path) == before
    db = apsw.Connection(str(path))
    assert db.execute("select x from theirs").fetchall() == [(1,)], "and it is not locked"
    db.close()


def test_newer_format_is_refused_and_not_a_byte_of_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "newer.db"
    write(str(path), 1)
    db = apsw.Connection(str(path))
    db.execute(f"pragma user_version = {FORMAT + 1}")
    db.close()
    before = everything_below(tmp_path)
    with pytest.raises(MigrationError, match="install a newer Headwater") as refused:
        open_space(str(path))
    assert refused.value.facts["found"] == FORMAT + 1
    assert everything_below(tmp_path) == before


@pytest.mark.parametrize("content", [b"x" * 4096, b"SQLite format 3\0" + b"\xff" * 4080])
def test_damaged_file_in_a_folder_is_refused_while_others_open(tmp_path: Path, content: bytes) -> None:
    url = f"{tmp_path}/"
    write(url, "fine", "good")
    write(url, "lost", "bad")
    bad = tmp_path / file_name("bad")
    bad.write_bytes(content)
    for _ in range(2):
        with pytest.raises(CorruptError) as refused:
            open_space(url, "bad")
        assert str(bad) in str(refused.value), "and it is let go of: the second time it is damage again, not held"
    assert bad.read_bytes() == content
    assert read(url, "good") == "fine"


def test_damaged_log_is_refused_while_others_open(tmp_path: Path) -> None:
    url = f"{tmp_path}/"
    for name in ("good", "bad"):
        write(url, name, name)
    bad = tmp_path / file_name("bad")
    db = apsw.Connection(str(bad))
    db.execute("update log set body = zeroblob(length(body)); update meta set value = '0' where key = 'folded'")
    db.close()
    for _ in range(2):
        with pytest.raises(CorruptError, match="checksum"):
            open_space(url, "bad")
    assert read(url, "good") == "good"


def test_swapped_file_is_refused_with_both_names(tmp_path: Path) -> None:
    url = f"{tmp_path}/"
    for name in ("one", "two"):
        write(url, name, name)
    (tmp_path / file_name("two")).rename(tmp_path / file_name("one"))
    with pytest.raises(CorruptError, match=r"'two', not 'one'.*swapped"):
        open_space(url, "one")
    (tmp_path / file_name("one")).rename(tmp_path / file_name("two"))
    assert read(url, "two") == "two"


def test_renamed_file_of_its_own_keeps_the_space_it_holds(tmp_path: Path) -> None:
    write(str(tmp_path / "before.db"), 1)
    (tmp_path / "before.db").rename(tmp_path / "after.db")
    with open_space(str(tmp_path / "after.db")) as storage:
        assert storage.name == "before"


@pytest.mark.parametrize("dangling", [True, False])
def test_symbolic_link_is_refused_and_not_followed(tmp_path: Path, dangling: bool) -> None:
    target = tmp_path / "target.db"
    if not dangling:
        write(str(target), 1)
    link = tmp_path / "link.db"
    link.symlink_to(target)
    before = everything_below(tmp_path)
    with pytest.raises(UsageError, match="symbolic link"):
        open_space(str(link))
    assert everything_below(tmp_path) == before
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / file_name("main")).symlink_to(target)
    with pytest.raises(UsageError, match="symbolic link"):
        open_space(f"{folder}/")
    assert spaces_in(folder) == []


def test_folder_in_the_place_of_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / file_name("main")).mkdir()
    with pytest.raises(UnavailableError):
        open_space(f"{tmp_path}/")


# --- held -----------------------------------------------------------------------------------------------------


def test_space_opened_twice_here_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    with open_space(str(path)) as storage:
        (tmp_path / "sub").mkdir()
        for other_way in (str(path), f"{tmp_path}/sub/../x.db"):
            with pytest.raises(SpaceHeldError, match=f"this process.*{os.getpid()}") as refused:
                open_space(other_way)
            assert refused.value.facts["pid"] == os.getpid()
        replica = storage.attach()
        pending = replica.commit([put("note", "still mine")])
        replica.sync()
        assert pending.accepted
    assert read(str(path)) == "still mine"


def test_space_opened_twice_here_stays_locked_for_other_processes(tmp_path: Path) -> None:
    """A hard link is the same file under another name: looking who holds it must not let go of it."""
    path, other_name = tmp_path / "x.db", tmp_path / "y.db"
    write(str(path), 1)
    other_name.hardlink_to(path)
    with open_space(str(path)):
        with pytest.raises(SpaceHeldError):
            open_space(str(other_name))
        other = subprocess.run(
            [sys.executable, str(Path(__file__).with_name("holder.py")), str(path)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    assert "SpaceHeldError" in other.stderr
    assert other.stdout == ""


def test_space_held_by_another_process_names_it(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    holder = Path(__file__).with_name("holder.py")
    command = [sys.executable, str(holder), str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None and child.stdout is not None
        assert child.stdout.readline() == "open\n"
        for _ in range(2):
            with pytest.raises(SpaceHeldError) as refused:
                open_space(str(path))
            assert refused.value.facts["pid"] == child.pid
            assert f"process {child.pid}" in str(refused.value)
            assert "holder.py" in str(refused.value), "its command"
        child.stdin.close()
        assert child.wait(timeout=120) == 0
    with open_space(str(path)) as storage:
        assert plain(storage.attach().read(NOTE)) is NOTHING


def test_failed_opening_lets_go_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    path.write_bytes(b"x" * 4096)
    with pytest.raises(CorruptError):
        open_space(str(path))
    path.unlink()
    write(str(path), 1)
    assert read(str(path)) == 1


def test_closed_space_can_be_opened_again_here(tmp_path: Path) -> None:
    for number in range(3):
        write(str(tmp_path / "x.db"), number)
    assert read(str(tmp_path / "x.db")) == 2


def test_only_space_of_a_folder_need_not_be_named(tmp_path: Path) -> None:
    folder = f"{tmp_path}/spaces/"
    with open_space(folder, "notes") as space:
        space.attach().commit([put("a", 1)])
    with open_space(folder, create=False) as space:
        assert (space.name, space.attach().read(doc_key("a"))) == ("notes", 1)
    open_space(folder, "other").close()
    with pytest.raises(NotFoundError, match="no space 'main'"):
        open_space(folder, create=False)


@pytest.mark.parametrize("durability", ["off", "nope", "FULL", ""])
def test_durability_that_is_not_known_is_refused_before_anything_is_opened(tmp_path: Path, durability: str) -> None:
    """SQLite takes a word it does not know for less than was asked."""
    with pytest.raises(UsageError, match="'full' or 'normal' is expected"):
        open_space(str(tmp_path / "x.db"), durability=durability)
    assert not (tmp_path / "x.db").exists()
