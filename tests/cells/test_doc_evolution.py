"""Classes change, documents stay: what a new class reads of an old document, and what it leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pytest

import headwater as hw
from headwater.errors import SchemaError
from tests.cells.kit import put, stored

app = hw.App("docs")


@pytest.fixture
def space() -> Iterator[hw.Space]:
    with app.open("memory:") as space:
        yield space


def test_an_added_field_with_a_default_reads_old_documents(space: hw.Space) -> None:
    put(space, "old", {"name": "Ann"})

    class New(hw.Doc):
        name: str
        added: int = 5
        many: hw.List[int] = hw.List([1])
        by_id: hw.Map[UUID, int] = hw.Map()

    doc = space.doc("old", New)
    assert (doc.name, doc.added, list(doc.many), dict(doc.by_id)) == ("Ann", 5, [1], {})
    assert stored(space, "old") == {"name": "Ann"}
    doc.added += 1
    doc.many.append(2)
    assert stored(space, "old") == {"name": "Ann", "added": 6, "many": [1, 2]}


def test_an_added_field_without_a_default_says_so_when_it_is_read(space: hw.Space) -> None:
    put(space, "old", {"name": "Ann"})

    class New(hw.Doc):
        name: str
        added: int

    doc = space.doc("old", New)
    assert doc.name == "Ann"
    with pytest.raises(SchemaError, match=r"old/added has no value yet; write one, or declare it with a default"):
        _ = doc.added
    doc.added = 1
    assert doc.added == 1


def test_a_removed_field_is_kept_in_the_store(space: hw.Space) -> None:
    put(space, "old", {"name": "Ann", "gone": {"x": 1}})

    class New(hw.Doc):
        name: str

    doc = space.doc("old", New)
    doc.name = "Anna"
    with space.transaction():
        doc.name = "Annabel"
    assert stored(space, "old") == {"name": "Annabel", "gone": {"x": 1}}
    assert space.doc("old").gone == {"x": 1}


def test_a_field_of_another_type_says_what_to_do(space: hw.Space) -> None:
    put(space, "old", {"name": "Ann", "age": "thirty", "tags": "x"})

    class New(hw.Doc):
        name: str
        age: int = 0
        tags: hw.List[str] = hw.List()

    doc = space.doc("old", New)
    assert doc.name == "Ann"
    message = r"cannot read old/age: expected int, got str 'thirty'. Write the whole anew"
    with pytest.raises(SchemaError, match=message):
        _ = doc.age
    with pytest.raises(SchemaError, match=r"cannot read old/tags: expected list\[str\], got str 'x'"):
        list(doc.tags)
    doc.age = 30
    assert doc.age == 30


def test_a_class_that_changes_between_two_openings_of_a_file(tmp_path: Path) -> None:
    class First(hw.Doc):
        name: str
        old: int = 1

    first_app = hw.App("evolve")
    first = first_app.doc("doc", First)
    url = str(tmp_path / "evolve.db")
    with first_app.open(url, durability="normal"):
        first.name = "Ann"
        first.old = 7

    class Second(hw.Doc):
        name: str
        new: str = "fresh"

    second_app = hw.App("evolve")
    second = second_app.doc("doc", Second)
    with second_app.open(url, durability="normal") as space:
        assert (second.name, second.new) == ("Ann", "fresh")
        second.name = "Anna"
        space.sync()
        assert stored(space, "evolve.doc") == {"name": "Anna", "old": 7}
    with first_app.open(url, durability="normal"):
        assert (first.name, first.old) == ("Anna", 7)
