"""Attacks 23 to 25 and 30: names that lead out of the store, or to each other, and files that were put in its way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from headwater.host.space_files import file_name
from headwater.store.commit import Committed, SetDoc
from headwater.sync.frames import Docs, Pull, SpaceOpened
from tests.system.attacks.raw import ClosedError, Raw
from tests.system.attacks.served import Served, doc

ASTRAY = [
    "../../etc/passwd",
    "a/../b",
    "..\\x",
    "C:\\x",
    "/etc",
    "a/b",
    "",
    " a",
    "a ",
    "a\0b",
    "a\nb",
    "\x7f",
    "\u202ea",
    "\ue000",
    "x" * 201,
    "x" * 60_000,
]
INSIDE = [".", "..", "%2e%2e", "%2e%2e%2f", "~", "con", "nul.db", "a.", "-x", "a-wal", "access.json", "memory:", "ws:x"]


def everything(folder: Path) -> set[Path]:
    """But for what the server writes about itself."""
    return {path for path in folder.rglob("*") if not path.name.startswith(("audit", "access"))}


@pytest.mark.parametrize("name", ASTRAY, ids=lambda name: ascii(name[:20]))
def test_a_name_that_is_none_is_refused_and_leaves_nothing_behind(served: Served, name: str) -> None:
    before = everything(served.folder.parent)
    with pytest.raises(ClosedError) as refused:
        Raw.into(served.port, served.token("*"), name)
    assert refused.value.code == 4403
    assert refused.value.troubles[-1].message.startswith("there is no such space, or")
    assert everything(served.folder.parent) == before


@pytest.mark.parametrize("name", INSIDE)
def test_a_name_that_means_something_to_a_file_system_stays_in_the_store(served: Served, name: str) -> None:
    outside = everything(served.folder.parent) - everything(served.folder)
    with Raw.into(served.port, served.token("*"), name) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), name)), Committed)
    assert everything(served.folder.parent) - everything(served.folder) == outside
    assert (served.folder / file_name(name)).is_file()


def test_names_that_a_file_system_takes_for_the_same_are_two_spaces(served: Served) -> None:
    names = ["A", "a", "a.", "Con", "con", "caf\u00e9", "cafe\u0301", "ﬁ", "fi", "ß", "ss", "K", "K"]
    assert len({file_name(name).lower() for name in names}) == len(set(names))
    for name in names:
        with Raw.into(served.port, served.token("*"), name) as raw:
            assert isinstance(raw.write(1, SetDoc(doc("who"), name)), Committed)
    for name in names:
        with Raw.into(served.port, served.token("*"), name) as raw:
            raw.say(Pull(1, (doc("who"),)))
            assert raw.expect(Docs).docs[0].value == (name,)


def is_broken(served: Served, space: str) -> str:
    with pytest.raises(ClosedError) as refused:
        served.enter(space)
    assert refused.value.code == 1012
    told = refused.value.troubles[-1].message
    # What is wrong is for whoever runs the server; where the file is, too.
    assert str(served.folder.parent) not in told
    assert told == f"space {space!r} cannot be opened now; the server's log says why"
    return told


def is_served(served: Served) -> bool:
    with served.enter(served.space()) as raw:
        return isinstance(raw.opened, SpaceOpened)


def test_a_link_in_the_store_is_not_followed(served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    space = served.space()
    target = tmp_path / "elsewhere.db"
    (served.folder / file_name(space)).symlink_to(target)
    is_broken(served, space)
    assert not target.exists()
    target.write_bytes(b"not yours")
    is_broken(served, space)
    assert target.read_bytes() == b"not yours"
    assert str(served.folder / file_name(space)) in caplog.text
    assert is_served(served)


def test_a_folder_in_the_place_of_a_space_is_not_served(served: Served) -> None:
    space = served.space()
    (served.folder / file_name(space)).mkdir()
    is_broken(served, space)
    assert is_served(served)


def test_a_file_that_is_no_space_is_left_as_it_is(served: Served) -> None:
    space = served.space()
    path = served.folder / file_name(space)
    path.write_bytes(b"something else " * 1000)
    is_broken(served, space)
    assert path.read_bytes() == b"something else " * 1000
    assert is_served(served)


def test_another_spaces_file_in_the_place_of_a_space_is_not_served(tmp_path: Path) -> None:
    with Served.running(tmp_path) as served:
        mine, other = served.space(), served.space()
        served.fill(mine, a="mine")
        served.fill(other, a="secret of the other")
    again = tmp_path / "again"
    again.mkdir()
    shutil.move(tmp_path / "store", again / "store")
    shutil.copy(again / "store" / file_name(other), again / "store" / file_name(mine))
    with Served.running(again) as served:
        is_broken(served, mine)
        with served.enter(other) as raw:
            raw.say(Pull(1, (doc("a"),)))
            assert raw.expect(Docs).docs[0].value == ("secret of the other",)


@pytest.mark.parametrize("branch", ["none", "../x", "", "a\0b", "x" * 256])
def test_a_branch_that_is_none_is_refused(served: Served, branch: str) -> None:
    space = served.space()
    served.fill(space, a=1)
    with pytest.raises(ClosedError) as refused:
        served.enter(space, branch=branch)
    assert refused.value.code == 4403


@pytest.mark.parametrize("name", ["x" * 257, "\0" * 300])
def test_a_name_of_a_session_or_branch_that_is_too_long_ends_the_connection(served: Served, name: str) -> None:
    space = served.space()
    for how in ({"branch": name}, {"session": name}):
        with pytest.raises(ClosedError) as refused:
            Raw.into(served.port, served.token(space), space, **how)
        assert refused.value.code == 4400


@pytest.mark.parametrize(
    "name", ["x" * 201, "\u202e", "a\nb", " a", "\0", "y" * 60_000], ids=lambda name: ascii(name[:9])
)
def test_a_name_of_an_actor_that_cannot_be_shown_is_refused(served: Served, name: str) -> None:
    with pytest.raises(ClosedError) as refused:
        Raw.into(served.port, served.token("*"), served.space(), actor=name)
    assert refused.value.code == 4403


@pytest.mark.parametrize("name", ["ann/x", "a:b", "%2f", "x%2f", "..", "*", "local", "user:x"])
def test_a_name_of_an_actor_cannot_be_mistaken_for_a_part_of_another(served: Served, name: str) -> None:
    space = served.space()
    with served.enter(space, actor="x") as other:
        assert isinstance(other.write(1, SetDoc(doc("mine", "user:x"), 1)), Committed)
    with served.enter(space, actor=name) as raw:
        raw.say(Pull(1, (doc("mine", "user:x"),)))
        assert raw.hear().code == "HW403"  # type: ignore[union-attr]  # a refusal
