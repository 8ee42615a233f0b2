"""What a reader depends on: as much as it looked at, and nothing else. Told by journals and counts, not by clocks."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.cells import traverse
from headwater.store.commit import PatchDoc
from headwater.values.chunked import ChunkedMap
from headwater.values.patch import Replace
from headwater.values.tree import is_map
from tests.cells.kit import DEEP, SHALLOW, Sent, checks, depends, put, stored


class Item(hw.Doc):
    title: str
    done: bool = False


class Board(hw.Doc):
    name: str = "home"
    items: hw.List[Item] = hw.List()
    notes: hw.Map[str, str] = hw.Map()


app = hw.App("p")
board = app.doc("board", Board)
wide: hw.Cell[dict[str, Any]] = app.cell("wide", dict[str, Any]())
numbers = app.cell("numbers", list[int]())


class FlattenedError(AssertionError):
    """All entries of a wide document were gone through."""


@pytest.mark.parametrize("kind", ["key", "typed part", "address"])
def test_reading_one_key_of_ten_thousand_touches_only_that(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    with app.open("memory:") as space:
        wide.value = {f"k{n}": {"n": n} for n in range(10_000)}
        assert type(stored(space, "p.wide")) is ChunkedMap
        cells: dict[str, hw.Cell[Any]] = {
            "key": wide.key("k77"),
            "typed part": wide.at("k77", type=dict[str, int]),
            "address": space.cell("p.wide/k77"),
        }
        cell = cells[kind]
        space.sync()  # the store goes through all of it: once, and not from now on
        with monkeypatch.context() as patch, space.transaction() as tx:
            for name in ("flat", "items", "values", "keys"):
                patch.setattr(ChunkedMap, name, _refuse)
            assert cell.value == {"n": 77}
            assert cell.exists
            assert depends(tx) == {("p.wide", ("k77",), DEEP)}
            assert len(tx.journal) <= 2


def _refuse(*_args: object) -> None:
    raise FlattenedError


def test_writing_one_key_of_ten_thousand_sends_only_that() -> None:
    with app.open("memory:") as space:
        wide.value = {f"k{n}": n for n in range(10_000)}
        sent = Sent(space)
        wide.key("k77").value = -1
        assert sent.operations == [PatchDoc("space/p.wide", (Replace(("k77",), -1),))]


def test_one_field_of_a_document_depends_on_that_field() -> None:
    with app.open("memory:") as space:
        item = Item(title="milk")
        name = hw.id_of(item)
        with space.transaction() as tx:
            assert item.title == "milk"
            assert item.title == "milk"
            assert depends(tx) == {(name, ("title",), DEEP)}
            assert len(tx.journal) == 1
        with space.transaction() as tx:
            assert item.done is False
            assert depends(tx) == {(name, ("done",), DEEP)}


def test_a_field_that_is_not_stored_depends_on_its_coming() -> None:
    with app.open("memory:") as space:
        put(space, "old", {"title": "milk"})
        item = space.doc("old", Item)
        with space.transaction() as tx:
            assert item.done is False
            assert {(doc, path) for doc, path, _ in depends(tx)} == {("old", ("done",))}


def test_the_length_of_a_list_of_documents_is_one_shallow_read() -> None:
    with app.open("memory:") as space:
        board.items = [Item(title=str(n)) for n in range(20)]
        with space.transaction() as tx:
            assert len(board.items) == 20
            assert depends(tx) == {("p.board", ("items",), SHALLOW)}
            assert len(tx.journal) == 1


def test_going_through_a_list_of_documents_is_one_read_of_the_list() -> None:
    with app.open("memory:") as space:
        items = [Item(title=str(n)) for n in range(20)]
        board.items = items
        with space.transaction() as tx:
            assert list(board.items) == items
            assert depends(tx) == {("p.board", ("items",), DEEP)}
        with space.transaction() as tx:
            assert [item.title for item in board.items][:2] == ["0", "1"]
            assert depends(tx) == {("p.board", ("items",), DEEP)} | {
                (hw.id_of(item), ("title",), DEEP) for item in items
            }


def test_one_document_of_a_list_depends_on_which_one_it_is_and_not_on_what_it_holds() -> None:
    with app.open("memory:") as space:
        items = [Item(title=str(n)) for n in range(20)]
        board.items = items
        with space.transaction() as tx:
            assert board.items[7] is items[7]
            assert depends(tx) == {("p.board", ("items", 7), DEEP)}


def test_one_element_and_one_key() -> None:
    with app.open("memory:") as space:
        numbers.value = list(range(1000))
        board.notes = {f"k{n}": "x" for n in range(1000)}
        with space.transaction() as tx:
            assert numbers.at(500).value == 500
            assert board.notes["k5"] == "x"
            assert depends(tx) == {("p.numbers", (500,), DEEP), ("p.board", ("notes", "k5"), DEEP)}


def test_a_whole_subsumes_its_parts() -> None:
    with app.open("memory:") as space:
        wide.value = {"a": {"b": 1}, "c": 2}
        with space.transaction() as tx:
            assert wide.at("a", "b").value == 1
            assert wide.value == {"a": {"b": 1}, "c": 2}
            assert wide.at("c").value == 2
            assert depends(tx) == {("p.wide", (), DEEP)}


def test_what_is_peeked_at_wakes_nobody_and_is_checked_all_the_same() -> None:
    with app.open("memory:") as space:
        numbers.value = [1, 2]
        with space.transaction() as tx:
            assert numbers.peek() == [1, 2]
            assert numbers.at(0).peek() == 1
            assert depends(tx) == set()
            assert checks(tx) == {("p.numbers", (), DEEP)}
        put(space, "link", {"/": {"link@1": {"id": "p.numbers"}}})
        with space.transaction() as tx:
            assert space.cell("link").at(1).peek() == 2
            assert depends(tx) == set()
            assert {doc for doc, _, _ in checks(tx)} == {"link", "p.numbers"}


def test_showing_something_neither_wakes_nor_conflicts() -> None:
    with app.open("memory:") as space:
        numbers.value = [1, 2]
        board.items.append(Item(title="milk"))
        put(space, "link", {"/": {"link@1": {"id": "p.numbers"}}})
        with space.transaction() as tx:
            for shown in (numbers, board, board.items, board.notes, space.cell("link"), space.doc("p.board")):
                repr(shown)
                shown._repr_html_()
            assert depends(tx) == set()
            assert checks(tx) == set()


def test_existence_is_a_shallow_read() -> None:
    with app.open("memory:") as space:
        wide.value = {"a": {"b": 1}}
        with space.transaction() as tx:
            assert wide.exists
            assert hw.exists(board) is False
            assert depends(tx) == {("p.wide", (), SHALLOW), ("p.board", (), SHALLOW)}


def test_what_a_transaction_wrote_itself_is_not_checked_against_others() -> None:
    with app.open("memory:") as space, space.transaction() as tx:
        numbers.value = [1]
        assert numbers.value == [1]
        assert numbers.at(0).value == 1
        assert checks(tx) == set()


def test_a_document_with_one_link_in_it_is_one_read() -> None:
    with app.open("memory:") as space:
        put(space, "target", 5)
        wide.value = {**{f"k{n}": n for n in range(1000)}, "link": {"/": {"link@1": {"id": "target"}}}}
        assert is_map(stored(space, "p.wide"))
        with space.transaction() as tx:
            assert wide.value["link"] == 5
            assert depends(tx) == {("p.wide", (), DEEP), ("target", (), DEEP)}
            assert len(tx.journal) <= 4


def test_the_order_of_scopes_is_from_broad_to_narrow() -> None:
    assert sorted(traverse.BREADTH, key=traverse.BREADTH.__getitem__) == ["space", "user", "session"]


# --- who runs ---------------------------------------------------------------------------------------------------


def test_only_those_run_whose_part_has_changed() -> None:
    live = hw.App("live")
    cell: hw.Cell[dict[str, Any]] = live.cell("cell", {"a": 1, "list": [1, 2], "map": {}})
    runs: dict[str, int] = {}

    def sink(name: str, look: Any) -> None:
        def run() -> None:
            runs[name] = runs.get(name, 0) + 1
            look()

        live.sink(name=name)(run)

    sink("a", lambda: cell.at("a").value)
    sink("first", lambda: cell.at("list", 0).value)
    sink("second", lambda: cell.at("list", 1).value)
    sink("third", lambda: cell.at("list", 2).value)
    sink("all", lambda: cell.value)
    sink("peek", cell.peek)
    sink("exists", lambda: cell.at("map", "x").exists)

    def ran(do: Any) -> set[str]:
        before = dict(runs)
        do()
        return {name for name in runs if runs[name] > before[name]}

    with live.open("memory:"):
        cell.value = {"a": 1, "list": [1, 2], "map": {}}
        assert ran(lambda: setattr(cell.at("a"), "value", 2)) == {"a", "all"}
        assert ran(lambda: setattr(cell.at("list", 1), "value", 9)) == {"second", "all"}
        assert ran(lambda: cell.at("list", type=list).append(3)) == {"third", "all"}
        assert ran(lambda: cell.at("list", type=list).insert(0, 1)) == {"second", "third", "all"}
        assert ran(lambda: setattr(cell.at("map", "y"), "value", 1)) == {"all"}
        assert ran(lambda: setattr(cell.at("map", "x"), "value", 1)) == {"exists", "all"}
        assert ran(lambda: setattr(cell.at("a"), "value", 2)) == set()
        assert ran(lambda: setattr(cell, "value", cell.peek())) == set()
