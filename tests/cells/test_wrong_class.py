"""A handle of the wrong class is refused; a class that was renamed, or stands above or below, is not."""

from __future__ import annotations

import gc

import pytest

import headwater as hw
from headwater.errors import DeclarationError, SchemaError
from headwater.store.commit import SetDoc
from headwater.values.ids import DocKey
from headwater.values.link import link_to
from headwater.values.tree import freeze


class Human(hw.Doc):
    name: str = "-"


class Worker(Human):
    wage: int = 1


class Purchase(hw.Doc):
    cents: int = 7
    buyer: hw.Link[Human | None] = hw.Link()


def test_a_handle_of_another_class_is_refused() -> None:
    app = hw.App("t")
    with app.open("memory:") as space:
        ann = Human(name="ann")
        name = hw.id_of(ann)
        with pytest.raises(SchemaError, match=f"{name} is a document of class Human, not of Purchase"):
            space.doc(name, Purchase)
        with pytest.raises(SchemaError, match="is a document of class Human"):
            space.doc(f"space!{name}", Purchase)
        assert space.doc(name, Human) == ann
        assert space.doc(name).name == "ann"
        assert space.cell(name).value == {"name": "ann"}


def test_a_class_above_or_below_fits() -> None:
    app = hw.App("t")
    with app.open("memory:") as space:
        bob = Worker(name="bob")
        assert space.doc(hw.id_of(bob), Human).name == "bob"
        ann = Human(name="ann")
        assert space.doc(hw.id_of(ann), Worker).wage == 1


def test_an_id_without_a_class_and_one_of_a_renamed_class_fit() -> None:
    app = hw.App("t")
    with app.open("memory:") as space:
        space.cell("plain").value = {"cents": 3}
        assert space.doc("plain", Purchase).cents == 3
        space.cell("nosuchclassanymore:abc").value = {"cents": 4}
        assert space.doc("nosuchclassanymore:abc", Purchase).cents == 4


def test_a_declared_document_keeps_its_class() -> None:
    app = hw.App("t")
    app.doc("first", Purchase)
    app.cell("count", 0)
    with app.open("memory:") as space:
        assert space.doc("t.first", Purchase).cents == 7
        with pytest.raises(SchemaError, match=r"t\.first is declared as a document of class Purchase, not of Human"):
            space.doc("t.first", Human)
        with pytest.raises(SchemaError, match=r"t\.count is no document of class Human"):
            space.doc("t.count", Human)


def test_a_link_to_a_document_of_another_class_cannot_be_read() -> None:
    app = hw.App("t")
    first = app.doc("first", Purchase)
    with app.open("memory:") as space:
        other = Purchase(cents=1)
        link = link_to(DocKey(f"space/{hw.id_of(other)}")).to_value()
        # As a program with other classes would write it.
        space._opening.replica.commit((SetDoc(DocKey("space/t.first"), freeze({"cents": 2, "buyer": link})),))
        with pytest.raises(SchemaError, match="is a document of class Purchase, not of Human"):
            _ = first.buyer
        first.buyer = None
        assert first.buyer is None


@pytest.mark.parametrize("name", ["Schema", "Collection", "Events", "Headwater", "HEADWATER"])
def test_words_of_headwater_are_no_classes(name: str) -> None:
    with pytest.raises(DeclarationError, match="belong to Headwater"):
        type(name, (hw.Doc,), {"__annotations__": {"a": int}})
    gc.collect()
