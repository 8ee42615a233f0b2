"""Rule 30: a link into an open space is followed; if the space is not open, it is HW113, and nothing else fails."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import AddressError, SpaceNotOpenError
from headwater.server.server import Server
from headwater.store.commit import SetDoc
from headwater.values.address import doc_key
from headwater.values.ids import DocId, SpaceId
from headwater.values.link import LinkRecord
from headwater.values.tree import freeze


class Person(hw.Doc):
    name: str
    friend: hw.Link["Person | None"] = hw.Link()


class Task(hw.Doc):
    title: str
    owner: hw.Link[Person]
    helper: hw.Link[Person | None] = hw.Link()


people, tasks = hw.App("people"), hw.App("tasks")
board = tasks.cell("board", type=list[Person], default=[])
anything: hw.Cell[Any] = tasks.cell("anything", None)


def made(who: str = "people.db", todo: str = "tasks.db") -> tuple[str, str]:
    """A task whose owner is in another space; their ids."""
    with people.open(who) as far:
        ann = Person(name="Ann")
        far.sync()
        with tasks.open(todo) as near:
            task = Task(title="tea", owner=ann, helper=ann)
            board.value = [ann, Person(name="Here")]
            anything.value = {"owner": ann}
            near.sync()
            return hw.id_of(task), hw.id_of(ann)


def test_a_link_is_followed_while_the_space_is_open_and_sees_changes() -> None:
    task, ann = made()
    with people.open("people.db") as far, tasks.open("tasks.db") as near:
        found = near.doc(task, Task)
        assert found.owner.name == "Ann"
        far.doc(ann, Person).name = "Anna"
        assert found.owner.name == "Anna"
        assert anything.value == {"owner": {"friend": None, "name": "Anna"}}
        assert hw.exists(found.owner)


def test_a_link_into_a_space_that_is_not_open_raises_when_it_is_used() -> None:
    task, ann = made()
    with tasks.open("tasks.db") as near:
        found = near.doc(task, Task)
        with pytest.raises(SpaceNotOpenError, match="resolve=") as caught:
            _ = found.owner.name
        assert caught.value.code == "HW113"
        assert ann in caught.value.message
        with pytest.raises(SpaceNotOpenError):
            _ = anything.value
        assert not hw.exists(found.owner)
        assert found.title == "tea"
        assert found.owner == found.owner


def test_a_list_of_links_shows_the_others() -> None:
    made()
    with tasks.open("tasks.db"):
        far, here = board.value
        assert here.name == "Here"
        assert not hw.exists(far)
        assert [person.name for person in board.value if hw.exists(person)] == ["Here"]
        assert "not readable" in repr(far) or "Person" in repr(far)


def test_an_optional_link_into_a_space_that_is_not_open_is_not_none() -> None:
    task, _ = made()
    with tasks.open("tasks.db") as near:
        helper = near.doc(task, Task).helper
        assert helper is not None
        assert not hw.exists(helper)
        with pytest.raises(SpaceNotOpenError):
            _ = helper.name


def test_an_optional_link_to_a_document_that_was_deleted_there_is_none() -> None:
    task, ann = made()
    with people.open("people.db") as far, tasks.open("tasks.db") as near:
        assert near.doc(task, Task).helper is not None
        hw.delete(far.doc(ann, Person))
        assert near.doc(task, Task).helper is None
        assert not hw.exists(near.doc(task, Task).owner)


def test_a_handle_works_as_soon_as_the_space_is_open() -> None:
    task, _ = made()
    with tasks.open("tasks.db") as near:
        owner = near.doc(task, Task).owner
        assert not hw.exists(owner)
        with people.open("people.db"):
            assert owner.name == "Ann"
        assert not hw.exists(owner)


def test_a_far_document_links_into_its_own_space_and_back() -> None:
    task, ann = made()
    with people.open("people.db") as far, tasks.open("tasks.db") as near:
        with far.transaction():
            bob = Person(name="Bob")
        far.doc(ann, Person).friend = bob
        friend = near.doc(task, Task).owner.friend
        assert friend is not None
        assert friend.name == "Bob"
        back = LinkRecord(doc=DocId("tasks.note"), space=near.id, scope="space")
        near.cell("tasks.note").value = "hello"
        far._opening.replica.commit((SetDoc(doc_key("people.back"), freeze({"near": back.to_value()})),))
        link = LinkRecord(doc=DocId("people.back"), space=far.id, scope="space")
        near._opening.replica.commit((SetDoc(doc_key("tasks.there"), link.to_value()),))
        assert near.cell("tasks.there").value == {"near": "hello"}


def test_a_cycle_over_two_spaces_reads_as_absent() -> None:
    with people.open("people.db") as far, tasks.open("tasks.db") as near:
        there = LinkRecord(doc=DocId("people.x"), space=far.id, scope="space")
        back = LinkRecord(doc=DocId("tasks.x"), space=near.id, scope="space")
        near._opening.replica.commit((SetDoc(doc_key("tasks.x"), there.to_value()),))
        far._opening.replica.commit((SetDoc(doc_key("people.x"), back.to_value()),))
        assert near.cell("tasks.x", int, default=7).value == 7
        assert not hw.exists(near.cell("tasks.x"))


def test_hops_count_across_spaces() -> None:
    with people.open("people.db") as far, tasks.open("tasks.db") as near:
        for number in range(200):
            here, there = ((near, "tasks"), (far, "people")) if number % 2 == 0 else ((far, "people"), (near, "tasks"))
            link = LinkRecord(doc=DocId(f"{there[1]}.x{number + 1}"), space=there[0].id, scope="space")
            here[0]._opening.replica.commit((SetDoc(doc_key(f"{here[1]}.x{number}"), link.to_value()),))
        with pytest.raises(AddressError, match="without reaching a value"):
            _ = near.cell("tasks.x0").value


@pytest.mark.parametrize("space", ["home", "", "7k3q9d4m2x8v1n6p0c5r"])
def test_a_link_to_no_known_space_is_not_followed(space: str) -> None:
    with tasks.open("tasks.db") as near:
        link = LinkRecord(doc=DocId("x"), space=SpaceId(space), scope="space").to_value()
        near._opening.replica.commit((SetDoc(doc_key("tasks.x"), link),))
        cell = near.cell("tasks.x", int, default=7)
        if space:
            with pytest.raises(SpaceNotOpenError):
                _ = cell.value
            assert not hw.exists(cell)


def test_a_link_leads_into_a_space_of_a_server(server: Server) -> None:
    task, ann = made(who=f"{server.url}/people")
    with people.open(f"{server.url}/people") as far, tasks.open("tasks.db") as near:
        assert near.doc(task, Task).owner.name == "Ann"
        far.doc(ann, Person).name = "Anna"
        assert near.doc(task, Task).owner.name == "Anna"


def test_a_link_leads_to_the_file_wherever_it_is_moved(tmp_path: Path) -> None:
    task, _ = made()
    (tmp_path / "people.db").rename(tmp_path / "moved.db")
    with people.open("moved.db"), tasks.open("tasks.db") as near:
        assert near.doc(task, Task).owner.name == "Ann"


def test_code_in_an_event_loop_follows_links() -> None:
    task, _ = made()

    async def followed() -> str:
        async with people.aopen("people.db"), tasks.aopen("tasks.db") as near:
            return near.doc(task, Task).owner.name

    assert asyncio.run(followed()) == "Ann"


def test_a_function_that_follows_a_link_runs_again_when_its_target_changes() -> None:
    near_app = hw.App("near")
    first = near_app.cell("first", type=list[Person], default=[])
    shown: list[str] = []

    @near_app.computed
    def title() -> str:
        return ", ".join(person.name for person in first.value)

    @near_app.sink
    def show() -> None:
        shown.append(title())

    with people.open("people.db") as far:
        ann = Person(name="Ann")
        far.sync()
        with near_app.open("near.db") as near:
            first.value = [ann]
            ann.name = "Anna"
            assert shown == ["", "Ann", "Anna"]
            assert near.runs(title) == 3
            far.sync()
    with people.open("people.db"), near_app.open("near.db") as near:
        assert near.runs(title) == 0
        assert title() == "Anna"
