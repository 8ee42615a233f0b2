"""Documents that lead to each other, that are deleted, and that have no class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headwater as hw
from headwater.errors import AddressError, HeadwaterError, SchemaError
from tests.cells.kit import ABSENT, Sent, link, stored


class Person(hw.Doc):
    name: str
    age: int = 0
    boss: hw.Link[Person | None] = hw.Link()


class Task(hw.Doc):
    owner: hw.Link[Person]
    helper: hw.Link[Person | None] = hw.Link()
    title: str = "task"


app = hw.App("docs")
ann = app.doc("ann", Person)


@pytest.fixture
def space() -> Iterator[hw.Space]:
    with app.open("memory:") as space:
        yield space


# --- links to other documents -----------------------------------------------------------------------------------


def test_a_link_is_read_as_the_document_it_leads_to(space: hw.Space) -> None:
    bob = Person(name="Bob")
    task = Task(owner=bob)
    assert task.owner is bob
    assert task.owner.name == "Bob"
    task.owner = ann
    ann.name = "Ann"
    assert task.owner.name == "Ann"
    assert stored(space, hw.id_of(task))["owner"] == link("docs.ann", scope="space")
    task.helper = bob
    assert task.helper == bob
    task.helper = None
    assert task.helper is None


def test_a_link_takes_documents_of_its_class_only(space: hw.Space) -> None:
    task = Task(owner=ann)
    sent = Sent(space)
    with pytest.raises(SchemaError, match=r"expected Person, got another class of documents, Task"):
        task.owner = task  # type: ignore[assignment]
    with pytest.raises(SchemaError, match=r"expected Person, got 'ann'"):
        task.owner = "ann"  # type: ignore[assignment]
    with pytest.raises(SchemaError, match=r"expected Person, got None"):
        task.owner = None  # type: ignore[assignment]
    with pytest.raises(SchemaError, match=r"expected Person or None, got 5"):
        task.helper = 5  # type: ignore[assignment]
    assert sent.commits == []


@pytest.mark.usefixtures("space")
def test_a_document_that_others_link_to_can_be_deleted() -> None:
    bob = Person(name="Bob")
    task = Task(owner=bob, helper=bob)
    hw.delete(bob)
    assert not hw.exists(bob)
    assert task.helper is None
    assert task.owner == bob
    with pytest.raises(SchemaError, match=r"person:\w+/name .*does not exist.* deleted"):
        _ = task.owner.name
    assert task.owner.age == 0
    assert task.title == "task"
    hw.delete(bob)
    bob.name = "again"
    assert task.helper is not None
    assert task.owner.name == "again"


def test_deleting_a_document_wakes_who_followed_a_link_to_it() -> None:
    live = hw.App("live")
    seen: list[str] = []
    task = live.doc("task", Task)
    live.sink(name="show")(lambda: seen.append("none" if task.helper is None else task.helper.name))
    with live.open("memory:"):
        bob = Person(name="Bob")
        task.helper = bob
        hw.delete(bob)
        bob.name = "back"
        assert seen == ["none", "Bob", "none", "back"]


def test_deleting_needs_a_document_or_a_cell(space: hw.Space) -> None:
    cell: hw.Cell[Any] = space.cell("x")
    cell.value = {"a": 1}
    hw.delete(cell.at("a"))
    assert stored(space, "x") == {}
    hw.delete(cell)
    assert stored(space, "x") is ABSENT
    for wrong in ("x", None, 5, Person):
        with pytest.raises(AddressError, match=r"is neither a document nor a cell"):
            hw.delete(wrong)  # type: ignore[arg-type]
        with pytest.raises(AddressError, match=r"is neither a document nor a cell"):
            hw.exists(wrong)  # type: ignore[arg-type]
        with pytest.raises(AddressError, match=r"is not a document"):
            hw.id_of(wrong)  # type: ignore[arg-type]


# --- without a class --------------------------------------------------------------------------------------------


def test_a_document_without_a_class_has_the_fields_it_has(space: hw.Space) -> None:
    bob = Person(name="Bob", boss=ann)
    ann.name = "Ann"
    doc = space.doc(hw.id_of(bob))
    assert isinstance(doc, hw.AnyDoc)
    assert doc.name == "Bob"
    assert doc.age == 0
    assert doc.boss == {"name": "Ann"}
    doc.name = "Bobby"
    doc.extra = [1]
    assert bob.name == "Bobby"
    assert doc.extra == [1]
    del doc.extra
    assert not hasattr(doc, "extra")
    with pytest.raises(AttributeError, match=r"person:\w+/extra does not exist"):
        _ = doc.extra


def test_a_document_without_a_class_can_be_linked_to(space: hw.Space) -> None:
    class Pointer(hw.Doc):
        to: hw.Link[hw.AnyDoc]

    bob = Person(name="Bob")
    pointer = Pointer(to=bob)
    assert pointer.to == bob
    assert isinstance(pointer.to, hw.AnyDoc)
    assert pointer.to.name == "Bob"
    pointer.to = space.doc("docs.ann")
    assert pointer.to == ann


def test_names_with_an_underscore_are_no_fields_of_a_document_without_a_class(space: hw.Space) -> None:
    doc = space.doc("docs.ann")
    with pytest.raises(AttributeError, match="_hidden"):
        _ = doc._hidden
    with pytest.raises(AttributeError):
        doc._hidden = 5
    assert stored(space, "docs.ann") is ABSENT


def test_a_document_without_a_class_is_not_made(space: hw.Space) -> None:
    with pytest.raises(HeadwaterError, match=r"AnyDoc"):
        hw.AnyDoc(name="x")
    assert space.stats.commits == 0
