"""Documents and cells in values that have no type of their own: stored as links, read through."""

from __future__ import annotations

from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import UnconfirmedLinkError


class Person(hw.Doc):
    name: str


class Team(hw.Doc):
    members: hw.List[Person] = hw.List()


def test_document_in_an_untyped_value_is_a_link_that_is_read_through() -> None:
    app = hw.App("plain")
    anything: hw.Cell[object] = app.cell("anything", None)
    with app.open("memory:") as space:
        ann = Person(name="Ann")
        anything.value = {"owner": ann, "all": [ann]}
        link = {"/": {"link@1": {"id": hw.id_of(ann), "scope": "space"}}}
        assert space._opening.replica.read(space._opening.key("plain.anything", "space")) == {
            "all": [link],
            "owner": link,
        }
        assert anything.value == {"owner": {"name": "Ann"}, "all": [{"name": "Ann"}]}


def test_whoever_read_through_such_a_link_is_run_when_its_target_changes() -> None:
    app = hw.App("plain")
    anything: hw.Cell[object] = app.cell("anything", None)
    seen: list[object] = []
    with app.open("memory:"):
        ann = Person(name="Ann")
        anything.value = [ann]
        app.sink(name="watch")(lambda: seen.append(anything.value))
        ann.name = "Anna"
    assert seen == [[{"name": "Ann"}], [{"name": "Anna"}]]


def test_cell_in_an_untyped_value_is_a_link_to_its_place() -> None:
    app = hw.App("plain")
    count = app.cell("count", 1)
    anything: hw.Cell[object] = app.cell("anything", None)
    with app.open("memory:"):
        count.value = 2
        anything.value = {"n": count}
        assert anything.peek() == {"n": 2}
        count.value = 3
        assert anything.peek() == {"n": 3}


def test_document_that_another_space_does_not_have_is_refused_in_an_untyped_value() -> None:
    app = hw.App("plain")
    anything: hw.Cell[object] = app.cell("anything", None)
    with app.open("memory:", space="one") as one:
        ann = Person(name="Ann")
        hw.delete(ann)
        one.sync()
        with app.open("memory:", space="other"):
            with pytest.raises(UnconfirmedLinkError, match="space 'other' cannot link to person:"):
                anything.value = {"owner": ann}
            assert anything.value is None


def test_document_may_be_used_in_every_opening_of_its_space(tmp_path: Path) -> None:
    app = hw.App("plain")
    team = app.doc("team", Team)
    url = str(tmp_path / "plain.db")
    with app.open(url) as outer:
        ann = Person(name="Ann")
        outer.sync()
        with app.open(url):
            team.members.append(ann)
            assert [member.name for member in team.members] == ["Ann"]
