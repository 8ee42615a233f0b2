"""Rule 30: spaces that are not open are looked for by the resolver of the opening, and opened only to be read."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import CrossSpaceError, LimitError, SpaceNotOpenError, UsageError
from headwater.host import space_resolver
from headwater.host.read_only_space import ReadOnlyFile
from headwater.host.space_files import open_for_reading


class Person(hw.Doc):
    name: str


class Task(hw.Doc):
    title: str
    owner: hw.Link[Person]


people, tasks = hw.App("people"), hw.App("tasks")
board = tasks.cell("board", type=list[Person], default=[])


def made(url: str = "data/", space: str | None = "people") -> tuple[str, str, str]:
    """A task whose owner is in another space: the ids of both, and of that space."""
    with people.open(url, space=space) as far:
        ann = Person(name="Ann")
        far.sync()
        with tasks.open("tasks.db") as near:
            task = Task(title="tea", owner=ann)
            board.value = [ann]
            near.sync()
            return hw.id_of(task), hw.id_of(ann), far.id


def test_a_space_is_found_in_a_folder_by_its_id() -> None:
    task, ann, far = made()
    with tasks.open("tasks.db", resolve="data/") as near:
        found = near.doc(task, Task)
        assert found.owner.name == "Ann"
        assert hw.exists(found.owner)
        assert hw.address_of(found.owner) == f"hw://{far}/{ann}"


def test_a_space_is_found_after_it_was_renamed_and_moved(tmp_path: Path) -> None:
    task, _, _ = made()
    [path] = (tmp_path / "data").glob("*.db")
    (tmp_path / "other").mkdir()
    path.rename(tmp_path / "other" / "x.db")
    with tasks.open("tasks.db", resolve=tmp_path / "other") as near:
        assert near.doc(task, Task).owner.name == "Ann"


def test_a_function_says_where_a_space_is() -> None:
    task, _, far = made("people.db", None)
    asked: list[str] = []

    def where(space_id: str) -> str | None:
        asked.append(space_id)
        return {far: "people.db"}.get(space_id)

    with tasks.open("tasks.db", resolve=where) as near:
        assert near.doc(task, Task).owner.name == "Ann"
        assert near.doc(task, Task).owner.name == "Ann"
    assert asked == [far]


@pytest.mark.parametrize(
    "resolve", ["empty/", "nowhere/", lambda _: None, lambda _: "missing.db", lambda _: "tasks.db"]
)
def test_a_space_that_is_not_found_is_not_open(resolve: str | Callable[[str], str | None], tmp_path: Path) -> None:
    task, _, _ = made()
    (tmp_path / "empty").mkdir()
    with tasks.open("tasks.db", resolve=resolve) as near:
        with pytest.raises(SpaceNotOpenError, match="does not have it"):
            _ = near.doc(task, Task).owner.name
        assert not hw.exists(near.doc(task, Task).owner)
    assert not (tmp_path / "missing.db").exists()


def test_another_file_in_the_place_of_the_space_is_not_taken_for_it(tmp_path: Path) -> None:
    task, _, far = made("people.db", None)
    with tasks.open("tasks.db", resolve=lambda _: "people.db") as near:
        assert near.doc(task, Task).owner.name == "Ann"
    (tmp_path / "people.db").unlink()
    with people.open("people.db") as other:
        assert other.id != far
    with tasks.open("tasks.db", resolve=lambda _: "people.db") as near:
        assert not hw.exists(near.doc(task, Task).owner)


def test_of_two_files_with_its_id_none_is_taken_for_the_space(tmp_path: Path) -> None:
    task, _, far = made()
    [path] = (tmp_path / "data").glob("*.db")
    copy = path.with_name("a copy.db")
    shutil.copy(path, copy)
    with tasks.open("tasks.db", resolve="data/") as near:
        owner = near.doc(task, Task).owner
        with pytest.raises(SpaceNotOpenError, match=r"a copy\.db.* have the id .* spaces new-id FILE") as refused:
            _ = owner.name
        assert (refused.value.facts["space"], hw.exists(owner)) == (far, False)
        with people.open(path):
            # The open one is meant.
            assert (owner.name, hw.exists(owner)) == ("Ann", True)
        copy.unlink()
        assert owner.name == "Ann"


def test_a_file_that_is_deleted_meanwhile_is_not_found(tmp_path: Path) -> None:
    task, _, _ = made()
    [path] = (tmp_path / "data").glob("*.db")
    with tasks.open("tasks.db", resolve="data/") as near:
        path.unlink()
        assert not hw.exists(near.doc(task, Task).owner)


def test_what_another_opening_has_written_is_read_after_it_is_closed() -> None:
    task, ann, _ = made()
    with tasks.open("tasks.db", resolve="data/") as near:
        assert near.doc(task, Task).owner.name == "Ann"
        with people.open("data/", space="people") as far:
            far.doc(ann, Person).name = "Anna"
            assert near.doc(task, Task).owner.name == "Anna"
        assert near.doc(task, Task).owner.name == "Anna"


def test_nothing_is_written_through_a_link() -> None:
    task, _, _ = made()
    with tasks.open("tasks.db", resolve="data/") as near:
        owner = near.doc(task, Task).owner
        with pytest.raises(CrossSpaceError, match="only to be read"):
            owner.name = "Eve"
        with pytest.raises(CrossSpaceError, match="only to be read"):
            hw.delete(owner)
        assert owner.name == "Ann"


def test_at_most_so_many_are_open_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_resolver, "OPEN_MAX", 3)
    owners = []
    with tasks.open("tasks.db") as near:
        for number in range(5):
            with people.open("data/", space=f"p{number}") as far:
                ann = Person(name=f"Ann {number}")
                far.sync()
                board.append(ann)
        near.sync()
    with tasks.open("tasks.db", resolve="data/") as near:
        owners = [person.name for person in board.value]
        assert owners == [f"Ann {number}" for number in range(5)]
        resolver = near._opening.resolver
        assert isinstance(resolver, space_resolver.SpaceResolver)
        assert len(resolver._open) == 3


def test_one_transaction_that_reads_too_many_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(space_resolver, "OPEN_MAX", 3)
    ids = []
    for number in range(5):
        with people.open("data/", space=f"p{number}") as far:
            ids.append(far.id)
    with tasks.open("tasks.db", resolve="data/") as near:
        resolver = near._opening.resolver
        assert resolver is not None
        with near.transaction(), pytest.raises(LimitError, match="Keep what is shown together"):
            for space_id in ids:
                resolver.find(space_id)
        # The next transaction counts anew.
        with near.transaction():
            assert all(resolver.find(space_id) is not None for space_id in ids[2:] * 2)


@pytest.mark.parametrize("resolve", ["", 3, "ws://127.0.0.1:8400"])
def test_what_is_no_place_for_spaces_is_refused(resolve: object) -> None:
    with pytest.raises(UsageError, match="resolve="):
        tasks.open("tasks.db", resolve=resolve)  # type: ignore[arg-type]


def test_code_in_an_event_loop_follows_links_by_the_resolver() -> None:
    task, _, _ = made()

    async def followed() -> str:
        async with tasks.aopen("tasks.db", resolve="data/") as near:
            return near.doc(task, Task).owner.name

    assert asyncio.run(followed()) == "Ann"


# --- a file that is read for a moment -------------------------------------------------------------------------------


def test_this_program_opens_a_file_that_it_reads_at_once() -> None:
    task, ann, _ = made()
    with tasks.open("tasks.db", resolve="data/") as near:
        assert near.doc(task, Task).owner.name == "Ann"
        with people.open("data/", space="people") as far:
            far.doc(ann, Person).name = "Anna"
            far.sync()
            assert near.doc(task, Task).owner.name == "Anna"


def test_another_program_waits_for_a_reader(tmp_path: Path) -> None:
    made("people.db", None)
    program = "import headwater as hw\nwith hw.App('people').open('people.db') as space: print(space.id)"
    reading = ReadOnlyFile(tmp_path / "people.db")
    assert (tmp_path / "people.db-reading").exists()
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=tmp_path, timeout=60
    )
    assert done.stdout.strip() == reading.identity.id
    assert not (tmp_path / "people.db-reading").exists()


def test_the_mark_of_a_reader_that_was_killed_does_not_hide_an_owner(tmp_path: Path) -> None:
    made("people.db", None)
    (tmp_path / "people.db-reading").write_text("1", encoding="utf-8")
    released: list[bool] = []
    storage = open_for_reading(tmp_path / "people.db", lambda: released.append(True))
    storage.close()
    assert not (tmp_path / "people.db-reading").exists()


def test_a_function_reads_a_space_that_the_resolver_finds_and_runs_at_each_start() -> None:
    _, ann, _ = made()
    near_app = hw.App("tasks")
    people_there = near_app.cell("board", type=list[Person], default=[])

    @near_app.computed
    def names() -> list[str]:
        return [person.name for person in people_there.value]

    for _ in range(2):
        # No log tells whether that file has changed: the run is not kept.
        with near_app.open("tasks.db", resolve="data/") as near:
            assert (names(), near.runs(names)) == (["Ann"], 1)
    with people.open("data/", space="people") as far:
        far.doc(ann, Person).name = "Anna"
    with near_app.open("tasks.db", resolve="data/"):
        assert names() == ["Anna"]
    with near_app.open("tasks.db"), pytest.raises(hw.HeadwaterError, match="which is not open"):
        names()
