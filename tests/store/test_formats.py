"""Spaces written by every earlier version open, verify, and read as they always did."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile

import pytest

from headwater.store.backends.sqlite_file import FORMAT
from headwater.store.verify import verify
from tests.store.fixtures.make_format_1 import told
from tests.support.spaces import Space, edit, increment, put

FIXTURES = Path(__file__).with_name("fixtures")
SPACES = sorted(path.stem for path in FIXTURES.glob("format-*.db"))


def open_copy(name: str, folder: Path) -> Space:
    copyfile(FIXTURES / f"{name}.db", folder / "space.db")
    return Space("sqlite", folder)


def test_there_is_a_space_of_every_format() -> None:
    assert {int(name.split("-")[1]) for name in SPACES} == set(range(1, FORMAT + 1))


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_verifies(name: str, tmp_path: Path) -> None:
    space = open_copy(name, tmp_path)
    report = verify(space.engine)
    assert report.findings == []
    assert report.snapshots > 0
    assert verify(space.reopen()).ok
    space.close()


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_reads_as_it_did(name: str, tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    space = open_copy(name, tmp_path)
    first = space.engine.documents.horizon.seq
    for _ in range(2):
        assert told(space, first) == expected
        space.engine.fold()
    space.close()


@pytest.mark.parametrize("name", SPACES)
def test_space_of_an_earlier_version_goes_on(name: str, tmp_path: Path) -> None:
    space = open_copy(name, tmp_path)
    head = space.engine.head
    assert space.writer("new").accept(edit("patched", increment("n")), put("more", 1)) == head + 1
    assert verify(space.reopen()).ok
    space.close()
