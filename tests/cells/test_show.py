"""What people see: one line in a terminal, a small table in a notebook; nothing in it is ever executed."""

from __future__ import annotations

from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

import pytest

import headwater as hw
from headwater.cells.display import LINE_MAX, ROWS_MAX
from tests.cells.kit import Sent, put

SCRIPT = "<script>alert('x')</script>&\"'"


class Person(hw.Doc):
    name: str
    best: hw.Link[Person | None] = hw.Link()
    friends: hw.List[Person] = hw.List()
    by_name: hw.Map[str, Person] = hw.Map()


@dataclass
class Group:
    title: str
    members: list[Person]


app = hw.App("show")
count = app.cell("count", 7)
text = app.cell("text", "")
free: hw.Cell[Any] = app.cell("free", None)
group: hw.Cell[Group] = app.cell("group", type=Group)
ann = app.doc("ann", Person)


class Tags(HTMLParser):
    """All tags of a text, and its rows as plain text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.rows: list[list[str]] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        assert {name for name, _ in attrs} <= {"style"}
        if tag == "tr":
            self.rows.append([])
        if tag in {"td", "th"}:
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        self.rows[-1][-1] += data


HARMLESS = {"table", "thead", "tbody", "tr", "th", "td", "i"}


# --- one line ---------------------------------------------------------------------------------------------------


def test_a_cell_shows_its_address_and_its_value() -> None:
    assert repr(count) == "<Cell show.count: not readable here>"
    with app.open("memory:"):
        assert repr(count) == "<Cell show.count = 7>"
        free.value = {"a": [1, 2]}
        assert repr(free.at("a", 1)) == "<Cell show.free/a/1 = 2>"
    assert repr(count) == "<Cell show.count: not readable here>"


def test_a_document_shows_its_class_its_id_and_its_fields() -> None:
    assert repr(ann) == "<Person show.ann: not readable here>"
    with app.open("memory:"):
        ann.name = "Ann"
        assert repr(ann) == "<Person show.ann: name='Ann', best=None, friends=[], by_name={}>"
        bob = Person(name="Bob", best=ann)
        assert f"<Person {hw.id_of(bob)}: name='Bob', best=<Person show.ann>, friends=[]" in repr(bob)


def test_a_list_and_a_map_show_what_they_hold() -> None:
    with app.open("memory:"):
        ann.name = "Ann"
        ann.friends.append(ann)
        ann.by_name["me"] = ann
        assert repr(ann.friends) == "<List show.ann/friends = [<Person show.ann>]>"
        assert repr(ann.by_name) == "<Map show.ann/by_name = {'me': <Person show.ann>}>"
    assert repr(ann.friends) == "<List show.ann/friends: not readable here>"


def test_documents_that_hold_each_other_can_be_shown() -> None:
    with app.open("memory:"):
        ann.name = "Ann"
        bob = Person(name="Bob", friends=[ann])
        ann.friends = [ann, bob]
        ann.best = bob
        ann.by_name = {"bob": bob}
        group.value = Group("all", [ann, bob])
        for thing in (ann, bob, ann.friends, ann.by_name, group):
            assert "Person" in repr(thing)
            assert len(repr(thing)) < 400
            assert Tags(thing._repr_html_()).tags <= HARMLESS


def test_long_values_are_cut_in_the_middle() -> None:
    with app.open("memory:"):
        text.value = "x" * 10_000
        assert len(repr(text)) < LINE_MAX + 40
        assert "..." in repr(text)
        free.value = list(range(100_000))
        assert len(repr(free)) < LINE_MAX + 40
        ann.name = "y" * 10_000
        assert len(repr(ann)) < 200


def test_a_long_list_is_not_gone_through_to_be_shown() -> None:
    shown: list[int] = []

    class Noisy(hw.Doc):
        n: int

        def __repr__(self) -> str:
            shown.append(1)
            return "noisy"

    class Holder(hw.Doc):
        items: hw.List[Noisy] = hw.List()

    with app.open("memory:"):
        holder = Holder(items=[Noisy(n=n) for n in range(1000)])
        repr(holder)
        holder._repr_html_()
        repr(holder.items)
        holder.items._repr_html_()
        assert len(shown) <= 10 * ROWS_MAX


def test_what_a_terminal_would_act_on_is_shown_as_its_code() -> None:
    odd = hw.App("odd")
    cell = odd.cell("a\x1b[31mb", "c\x1b[0m")
    with odd.open("memory:"):
        assert "\x1b" not in repr(cell)
        assert r"a\u001b[31mb" in repr(cell)
        assert r"c\x1b[0m" in repr(cell)


def test_a_field_that_cannot_be_read_does_not_hide_the_others() -> None:
    with app.open("memory:") as space:
        put(space, "show.ann", {"name": 5, "friends": [1]})
        assert repr(ann) == "<Person show.ann: name=<HW108>, best=None, friends=<HW108>, by_name={}>"
        assert "HW108" in ann._repr_html_()
        put(space, "show.text", 5)
        assert repr(text) == "<Cell show.text: not readable here>"
        assert "expected str, got int 5" in text._repr_html_()


def test_a_document_without_a_class_shows_what_it_has() -> None:
    with app.open("memory:") as space:
        put(space, "x", {"a": 1, "b": [2]})
        assert repr(space.doc("x")) == "<AnyDoc x: a=1, b=[2]>"
        assert repr(space.doc("nothing")) == "<AnyDoc nothing: >"
        put(space, "y", 5)
        assert repr(space.doc("y")) == "<AnyDoc y: >"
        doc = space.doc("x")
        assert Tags(doc._repr_html_()).rows == [["x", "AnyDoc"], ["a", "1"], ["b", "[2]"]]
    assert repr(doc) == "<AnyDoc x: not readable here>"
    assert "closed" in doc._repr_html_()


def test_showing_stores_nothing() -> None:
    with app.open("memory:") as space:
        sent = Sent(space)
        for thing in (count, ann, ann.friends, ann.by_name, group, free):
            repr(thing)
            thing._repr_html_()
        assert sent.commits == []


# --- a table ----------------------------------------------------------------------------------------------------


def test_nothing_that_is_stored_is_executed() -> None:
    class Odd(hw.Doc):
        name: str = ""

    odd = type("<b>Odd</b>", (hw.Doc,), {"__annotations__": {SCRIPT: str}, "__module__": __name__})
    with app.open("memory:") as space:
        text.value = SCRIPT
        free.value = {SCRIPT: SCRIPT, "list": [SCRIPT]}
        put(space, SCRIPT, {SCRIPT: SCRIPT})
        things: list[Any] = [text, free, Odd(name=SCRIPT), odd(**{SCRIPT: SCRIPT}), space.cell("show.free/list")]
        things += [space.doc(SCRIPT), space.doc(SCRIPT, odd), ann, space.cell("show.text", int)]
        for thing in things:
            html = thing._repr_html_()
            assert Tags(html).tags <= HARMLESS, html
            assert "<script" not in html


def test_a_cell_shows_its_entries() -> None:
    with app.open("memory:"):
        free.value = {"a": 1, "b": "x"}
        assert Tags(free._repr_html_()).rows == [["show.free", "Any"], ["a", "1"], ["b", "'x'"]]
        free.value = ["p", None]
        assert Tags(free._repr_html_()).rows == [["show.free", "Any"], ["0", "'p'"], ["1", "None"]]
        assert Tags(count._repr_html_()).rows == [["show.count", "int"], ["", "7"]]


def test_a_document_shows_its_fields() -> None:
    with app.open("memory:"):
        ann.name = "Ann"
        ann.friends = [ann]
        rows = Tags(ann._repr_html_()).rows
        assert rows == [
            ["show.ann", "Person"],
            ["name", "'Ann'"],
            ["best", "None"],
            ["friends", "[<Person show.ann>]"],
            ["by_name", "{}"],
        ]


def test_only_the_first_rows_are_shown() -> None:
    with app.open("memory:"):
        free.value = list(range(1000))
        rows = Tags(free._repr_html_()).rows
        assert len(rows) == 1 + ROWS_MAX + 1
        assert rows[-1] == ["", "and 980 more"]


@pytest.mark.parametrize("thing", [count, ann, ann.friends, ann.by_name], ids=["cell", "doc", "list", "map"])
def test_what_cannot_be_read_here_says_why_in_the_table(thing: Any) -> None:
    rows = Tags(thing._repr_html_()).rows
    assert "HW001" in str(rows)
