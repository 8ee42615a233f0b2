"""Rule 29: a link to a document of another space may be written if that document is confirmed there."""

import asyncio
from typing import Any

import pytest

import headwater as hw
from headwater.errors import CrossSpaceError, UnconfirmedLinkError
from headwater.server.server import Server
from headwater.store.commit import SetDoc
from headwater.values.address import doc_key
from headwater.values.ids import DocId
from headwater.values.link import LinkRecord


class Person(hw.Doc):
    name: str


class Task(hw.Doc):
    title: str
    owner: hw.Link[Person]


people, tasks = hw.App("people"), hw.App("tasks")
everyone = people.cell("everyone", type=list[str], default=[])
board = tasks.cell("board", type=list[Person], default=[])
anything: hw.Cell[Any] = tasks.cell("anything", None)


def test_a_link_to_a_confirmed_document_is_stored_with_the_id_of_its_space() -> None:
    with people.open("people.db") as who:
        ann = Person(name="Ann")
        who.sync()
        with tasks.open("tasks.db") as todo:
            task = Task(title="tea", owner=ann)
            stored = todo.cell(hw.id_of(task)).peek()
            fields: Any = todo._opening.replica.read(doc_key(hw.id_of(task)))
            assert task.owner.name == "Ann"
            assert task.owner == ann
            assert hw.address_of(task.owner) == f"hw://{who.id}/{hw.id_of(ann)}"
            assert stored is not None
            assert fields["owner"]["/"]["link@1"]["space"] == who.id


def test_a_link_to_a_document_that_is_not_confirmed_is_refused_with_the_advice_to_sync() -> None:
    with people.open("people.db") as who:
        with who.transaction():
            ann = Person(name="Ann")
            with tasks.open("tasks.db") as todo, pytest.raises(UnconfirmedLinkError, match=r"sync\(\)") as caught:
                Task(title="tea", owner=ann)
        assert caught.value.code == "HW115"
        who.sync()
        with tasks.open("tasks.db") as todo:
            assert Task(title="tea", owner=ann).owner.name == "Ann"
            assert todo.stats.rejected == 0


def test_a_link_to_a_document_that_was_deleted_is_refused() -> None:
    with people.open("people.db") as who:
        ann = Person(name="Ann")
        hw.delete(ann)
        who.sync()
        with tasks.open("tasks.db"), pytest.raises(UnconfirmedLinkError, match="does not exist"):
            Task(title="tea", owner=ann)


def test_lists_of_links_and_cells_take_links_to_other_spaces() -> None:
    with people.open("people.db") as who:
        ann, bob = Person(name="Ann"), Person(name="Bob")
        everyone.value = ["Ann"]
        who.sync()
        with tasks.open("tasks.db") as todo:
            board.value = [ann, bob]
            board.append(ann)
            assert [person.name for person in board.value] == ["Ann", "Bob", "Ann"]
            anything.value = {"all": everyone, "first": ann}
            todo.sync()
            assert anything.value["all"] == ["Ann"]
            assert anything.value["first"] == {"name": "Ann"}
            everyone.append("Cid")
            assert anything.value["all"] == ["Ann", "Cid"]


def test_a_link_that_was_read_is_written_elsewhere_although_its_space_is_not_open() -> None:
    with people.open("people.db") as who:
        ann = Person(name="Ann")
        who.sync()
        address = hw.address_of(ann)
        with tasks.open("tasks.db") as todo:
            first = hw.id_of(Task(title="tea", owner=ann))
    with tasks.open("tasks.db") as todo:
        task = todo.doc(first, Task)
        second = hw.id_of(Task(title="cake", owner=task.owner))
        assert hw.address_of(todo.doc(second, Task).owner) == address
        assert todo.doc(second, Task).owner == task.owner
    with people.open("people.db"), tasks.open("tasks.db") as todo:
        assert todo.doc(second, Task).owner.name == "Ann"


def test_a_link_back_into_the_own_space_names_no_space() -> None:
    with people.open("people.db") as who, tasks.open("tasks.db") as todo:
        with todo.transaction():
            here = Person(name="Cid")
        todo.sync()
        board.value = [here]
        stored: Any = todo._opening.replica.read(doc_key("tasks.board"))
        assert "space" not in stored[0]["/"]["link@1"]
        assert who.id


def test_two_openings_of_one_server_space_link_without_naming_it(server: Server) -> None:
    with people.open(f"{server.url}/all") as who, tasks.open(f"{server.url}/all") as todo:
        with who.transaction():
            ann = Person(name="Ann")
        who.sync()
        board.value = [ann]
        todo.sync()
        stored: Any = todo._opening.replica.read(doc_key("tasks.board"))
        assert "space" not in stored[0]["/"]["link@1"]


def test_code_in_an_event_loop_links_after_synced() -> None:
    async def linked() -> str:
        async with people.aopen("people.db") as who:
            with who.transaction():
                ann = Person(name="Ann")
                async with tasks.aopen("tasks.db"):
                    with pytest.raises(UnconfirmedLinkError):
                        Task(title="tea", owner=ann)
            await who.synced()
            async with tasks.aopen("tasks.db"):
                return Task(title="tea", owner=ann).owner.name

    assert asyncio.run(linked()) == "Ann"


@pytest.mark.parametrize("write", ["set", "append", "delete"])
def test_a_write_through_a_redirect_into_another_space_is_refused(write: str) -> None:
    with people.open("people.db") as who:
        everyone.value = ["Ann"]
        who.sync()
        with tasks.open("tasks.db") as todo:
            link = LinkRecord(doc=DocId("people.everyone"), space=who.id, scope="space", redirect=True)
            todo._opening.replica.commit((SetDoc(doc_key("tasks.far"), link.to_value()),))
            far = todo.cell("tasks.far", list[str])
            assert far.value == ["Ann"]
            edits = {"set": lambda: setattr(far, "value", []), "append": lambda: far.append("x"), "delete": far.clear}
            with pytest.raises(CrossSpaceError, match=r"people\.everyone of .* cannot be written") as caught:
                edits[write]()
            assert caught.value.code == "HW112"
            assert everyone.value == ["Ann"]
