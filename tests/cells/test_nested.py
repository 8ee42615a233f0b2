"""Lists of lists, maps of lists, lists of cells: what stands in a list has its place there, and only there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

import headwater as hw
from headwater.errors import FrozenError, UsageError
from tests.cells.kit import Sent, depends, stored


class Person(hw.Doc):
    name: str = "?"


@dataclass
class Branch:
    name: str
    branches: list[Branch]
    who: Person | str | None = None


class Box(hw.Doc):
    grid: hw.List[hw.List[int]] = hw.List()
    lists: hw.Map[str, hw.List[int]] = hw.Map()
    plain: hw.Map[str, list[int]] = hw.Map()
    maps: hw.List[hw.Map[str, int]] = hw.List()
    cells: hw.List[hw.Cell[int]] = hw.List()
    maybe: hw.List[Person | None] = hw.List()
    mixed: hw.List[Person | int] = hw.List()
    branch: Branch = Branch("root", [])
    who: Person | str = "nobody"
    cell: hw.Cell[int] = 5  # type: ignore[assignment,list-item,dict-item]


app = hw.App("nested")
box = app.doc("box", Box)
number = app.cell("number", 0)


@pytest.fixture
def space() -> Iterator[hw.Space]:
    with app.open("memory:") as space:
        yield space


def rows() -> list[list[int]]:
    return [list(row) for row in box.grid]


def test_lists_of_lists_are_edited_in_place(space: hw.Space) -> None:
    box.grid.append([1, 2])  # type: ignore[arg-type]
    sent = Sent(space)
    box.grid[0].append(3)
    assert [(type(op).__name__, op.path) for op in sent.patches] == [("Append", ("grid", 0))]
    box.grid[0][0] = 9
    box.grid.append([7])  # type: ignore[arg-type]
    assert rows() == [[9, 2, 3], [7]]
    box.grid.reverse()
    assert rows() == [[7], [9, 2, 3]]
    assert box.grid == [[7], [9, 2, 3]]
    box.grid[1] = box.grid[0]
    box.grid[0].append(8)
    assert rows() == [[7, 8], [7]]
    assert list(Box(grid=box.grid).grid[0]) == [7, 8]


def test_what_is_taken_out_is_what_stood_there(space: hw.Space) -> None:
    box.grid = [[1], [2], [3]]  # type: ignore[assignment,list-item,dict-item]
    box.maps = [{"a": 1}, {"b": 2}]  # type: ignore[assignment,list-item,dict-item]
    box.lists = {"a": [1], "b": [2]}  # type: ignore[assignment,list-item,dict-item]
    assert box.grid.pop(0) == [1]
    assert box.grid.pop() == [3]
    assert rows() == [[2]]
    assert box.maps.pop(0) == {"a": 1}
    assert dict(box.maps[0]) == {"b": 2}
    assert box.lists.pop("a") == [1]
    assert box.lists.popitem() == ("b", [2])  # type: ignore[comparison-overlap]
    assert stored(space, "nested.box")["lists"] == {}
    with pytest.raises(KeyError, match="is empty"):
        box.lists.popitem()


def test_a_cell_that_stands_in_a_list_is_not_handed_out_without_its_place(space: hw.Space) -> None:
    number.value = 7
    box.cells = [1, 2]  # type: ignore[list-item]
    box.cells.append(number)
    box.cells[0].increment()
    with pytest.raises(UsageError, match=r"nested\.box/cells/0 is a cell of its own, which ends when it is taken out"):
        box.cells.pop(0)
    assert box.cells.pop().value == 7
    assert stored(space, "nested.box")["cells"] == [2, 2]
    box.cells.reverse()
    box.cells[0].value = 5
    assert [cell.value for cell in box.cells] == [5, 2]
    del box.cells[0]
    assert [cell.value for cell in box.cells] == [2]


def test_setdefault_hands_out_what_is_there_now(space: hw.Space) -> None:
    box.lists.setdefault("a", []).append(1)  # type: ignore[arg-type]
    box.lists.setdefault("a", []).append(2)  # type: ignore[arg-type]
    assert list(box.lists["a"]) == [1, 2]
    with pytest.raises(FrozenError, match="cannot append to a list"):
        box.plain.setdefault("a", []).append(1)
    assert stored(space, "nested.box")["plain"] == {"a": []}


def test_a_field_that_is_a_cell_has_its_default(space: hw.Space) -> None:
    assert box.cell.value == 5
    box.cell.increment()
    assert box.cell.value == 6
    assert stored(space, "nested.box") == {"cell": 6}
    made = Box()
    assert made.cell.value == 5


def test_documents_beside_other_things(space: hw.Space) -> None:
    ann = Person(name="Ann")
    box.mixed.extend([ann, 1])
    assert list(box.mixed) == [ann, 1]
    assert (box.mixed[0], box.mixed[1]) == (ann, 1)
    box.maybe.extend([ann, None])
    assert list(box.maybe) == [ann, None]
    assert (box.maybe[0], box.maybe[1]) == (ann, None)
    assert box.maybe.index(None) == 1
    assert box.who == "nobody"
    box.who = ann
    assert box.who == ann
    box.branch = Branch("root", [Branch("a", [], ann), Branch("b", [], "bob")])
    assert [branch.who for branch in box.branch.branches] == [ann, "bob"]
    with space.transaction() as tx:
        assert box.branch.branches[0].who == ann
        assert {doc for doc, _, _ in depends(tx)} == {"nested.box"}


def test_going_through_lists_in_a_list_does_not_depend_on_what_is_in_them(space: hw.Space) -> None:
    box.grid = [[1], [2, 3]]  # type: ignore[assignment,list-item,dict-item]
    with space.transaction() as tx:
        inner: Any = list(box.grid)
        assert len(inner) == 2
        assert {path for _, path, _ in depends(tx)} == {("grid",)}
        assert len(inner[1]) == 2
        assert {path for _, path, _ in depends(tx)} == {("grid",), ("grid", 1)}
