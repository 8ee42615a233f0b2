"""A cell: reading, defaults, parts, and what comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import (
    AddressError,
    ConflictError,
    FrozenError,
    NotOpen,
    SchemaError,
    UsageError,
)
from tests.cells.kit import ABSENT, Sent, inside, stored, twice


@dataclass
class Size:
    width: int = 3
    height: int = 4


@dataclass
class Note:
    title: str
    tags: list[str] = field(default_factory=lambda: ["new"])
    size: Size = field(default_factory=Size)


@pytest.fixture
def app() -> hw.App:
    return hw.App("t")


# --- value, peek, exists ----------------------------------------------------------------------------------------


def test_a_cell_reads_its_default_until_it_is_written(app: hw.App) -> None:
    count = app.cell("count", 7)
    with app.open("memory:"):
        assert count.value == 7
        assert count.peek() == 7
        assert not count.exists
        count.value = 8
        assert count.value == 8
        assert count.peek() == 8
        assert count.exists


def test_reading_a_default_stores_nothing(app: hw.App) -> None:
    count = app.cell("count", {"a": [1]})
    with app.open("memory:") as space:
        sent = Sent(space)
        assert count.value == {"a": [1]}
        assert count.at("a").value == [1]
        assert not count.at("a").exists
        assert sent.commits == []
        assert stored(space, "t.count") is ABSENT


def test_a_cell_without_a_default_says_so_unless_its_type_takes_none(app: hw.App) -> None:
    name = app.cell("name", type=str)
    maybe: hw.Cell[str | None] = app.cell("maybe", type=str | None)  # type: ignore[arg-type]
    free: hw.Cell[Any] = app.cell("free", None)
    with app.open("memory:"):
        with pytest.raises(SchemaError, match=r"t\.name has no value yet; write one, or declare it with a default"):
            _ = name.value
        assert maybe.value is None
        assert free.value is None


def test_a_stored_none_is_no_absence(app: hw.App) -> None:
    cell: hw.Cell[int | None] = app.cell("cell", 5, type=int | None)
    with app.open("memory:"):
        cell.value = None
        assert cell.value is None
        assert cell.exists


def test_clear_makes_the_default_readable_again(app: hw.App) -> None:
    cell = app.cell("cell", {"a": 1})
    with app.open("memory:"):
        cell.value = {"b": 2}
        cell.clear()
        assert cell.value == {"a": 1}
        assert not cell.exists
        cell.clear()
        assert cell.value == {"a": 1}


def test_update_reads_changes_and_writes_in_one_transaction(app: hw.App) -> None:
    cell = app.cell("cell", 1)
    with app.open("memory:") as space:
        sent = Sent(space)
        assert cell.update(lambda old: old + 4) == 5
        assert cell.value == 5
        assert len(sent.commits) == 1
        with space.transaction():
            cell.update(lambda old: old * 2)
            cell.update(lambda old: old * 2)
        assert cell.value == 20
        assert len(sent.commits) == 2


def test_update_that_raises_writes_nothing(app: hw.App) -> None:
    cell = app.cell("cell", 1)
    with app.open("memory:") as space:
        sent = Sent(space)
        with pytest.raises(ZeroDivisionError):
            cell.update(lambda old: old // 0)
        assert sent.commits == []
        assert cell.value == 1


def test_a_cell_is_neither_true_nor_false(app: hw.App) -> None:
    cell = app.cell("cell", 0)
    with pytest.raises(UsageError, match=r"t\.cell is a cell, which is neither true nor false; .* read with \.value"):
        bool(cell)


def test_a_cell_outside_any_opening_says_to_open_its_app(app: hw.App) -> None:
    cell = app.cell("cell", 0)
    with pytest.raises(NotOpen, match=r"^HW001: cell has no open space here; wrap the code in `with app\.open"):
        _ = cell.value
    with pytest.raises(NotOpen, match="wrap the code in `with app"):
        cell.value = 1
    with pytest.raises(NotOpen, match="wrap the code in `with app"):
        cell.increment()


# --- defaults of wholes and of parts ----------------------------------------------------------------------------


def test_a_part_of_an_absent_whole_reads_that_part_of_the_default(app: hw.App) -> None:
    note = app.cell("note", Note("milk", ["a", "b"], Size(1, 2)))
    with app.open("memory:"):
        assert note.at("title").value == "milk"
        assert note.at("tags").value == ["a", "b"]
        assert note.at("tags", 1).value == "b"
        assert note.at("size", "height").value == 2
        assert note.at("size").value == Size(1, 2)


def test_a_stored_whole_does_not_fall_back_to_parts_of_the_default(app: hw.App) -> None:
    cell = app.cell("cell", {"a": 1, "b": {"c": 2}})
    with app.open("memory:"):
        cell.value = {"b": {}}
        assert cell.at("a").value is None
        assert cell.at("b", "c").value is None
        assert not cell.at("a").exists


def test_a_field_that_is_not_stored_reads_the_default_of_its_class(app: hw.App) -> None:
    note = app.cell("note", Note("milk", ["a"]))
    with app.open("memory:") as space:
        space.cell("t.note").value = {"title": "tea"}
        assert note.value == Note("tea", ["new"], Size(3, 4))
        assert note.at("tags").value == ["new"]
        assert note.at("size", "width").value == 3
        assert not note.at("tags").exists


def test_writing_a_part_of_an_absent_whole_writes_the_default_down_first(app: hw.App) -> None:
    note = app.cell("note", Note("milk", ["a"], Size(1, 2)))
    with app.open("memory:") as space:
        note.at("size", "width").value = 9
        assert note.value == Note("milk", ["a"], Size(9, 2))
        assert stored(space, "t.note") == {"title": "milk", "tags": ["a"], "size": {"width": 9, "height": 2}}


def test_editing_an_absent_list_builds_on_its_default(app: hw.App) -> None:
    cell = app.cell("cell", [1, 2])
    deep = app.cell("deep", {"list": ["x"]})
    number = app.cell("number", 40)
    with app.open("memory:"):
        cell.append(3)
        assert cell.value == [1, 2, 3]
        deep.at("list", type=list).append("y")
        assert deep.value == {"list": ["x", "y"]}
        number.increment(2)
        assert number.value == 42


@pytest.mark.parametrize("index", [0, 5, -1])
def test_inserting_into_an_absent_list_makes_it(app: hw.App, index: int) -> None:
    empty = app.cell("empty", list[str]())
    full = app.cell("full", ["a", "b"])
    with app.open("memory:"):
        empty.insert(index, "x")
        full.insert(index, "x")
        expected = ["a", "b"]
        expected.insert(index, "x")
        assert empty.value == ["x"]
        assert full.value == expected


def test_editing_a_field_that_is_not_stored_builds_on_the_default_of_its_class(app: hw.App) -> None:
    note = app.cell("note", type=Note)
    with app.open("memory:") as space:
        space.cell("t.note").value = {"title": "tea"}
        note.at("tags", type=list).append("old")
        assert note.value.tags == ["new", "old"]


def test_two_who_write_parts_of_an_absent_whole_at_the_same_time_conflict(app: hw.App, tmp_path: Path) -> None:
    note = app.cell("note", Note("milk", ["a"]))
    with twice(app, tmp_path) as (one, two):
        with two.transaction():
            note.at("title").value = "tea"
            with inside(one):
                note.at("size", "width").value = 9
            one.sync()
        with pytest.raises(ConflictError, match=r"Run it again on the current values"):
            two.sync()
        assert note.value == Note("milk", ["a"], Size(9, 4))


def test_two_who_fill_an_empty_default_at_the_same_time_both_land(app: hw.App, tmp_path: Path) -> None:
    cell = app.cell("cell", dict[str, int]())
    with twice(app, tmp_path) as (one, two):
        with two.transaction():
            cell.key("two").value = 2
            with inside(one):
                cell.key("one").value = 1
            one.sync()
        two.sync()
        assert cell.value == {"one": 1, "two": 2}


# --- parts ------------------------------------------------------------------------------------------------------


def test_parts_are_cells_of_their_own(app: hw.App) -> None:
    cell = app.cell("cell", {"a": {"b": [1, 2]}})
    with app.open("memory:"):
        part = cell.at("a", "b", 1)
        assert part.value == 2
        part.value = 5
        assert cell.value == {"a": {"b": [1, 5]}}
        assert part.address == "t.cell/a/b/1"
        assert cell.key("a").at("b").value == [1, 5]
        part.clear()
        assert cell.value == {"a": {"b": [1]}}


def test_a_key_is_the_same_cell_each_time(app: hw.App) -> None:
    cell = app.cell("cell", {"a": {"b": 1}})
    assert cell.key("a") is cell.at("a")
    assert cell.at() is cell  # type: ignore[comparison-overlap]


def test_a_part_may_be_given_a_type(app: hw.App) -> None:
    cell: hw.Cell[Any] = app.cell("cell", {"n": "x"})
    with app.open("memory:"):
        part = cell.at("n", type=int)
        with pytest.raises(SchemaError, match=r"cannot read t\.cell/n: expected int, got str 'x'"):
            _ = part.value
        with pytest.raises(SchemaError, match=r"cannot store t\.cell/n: expected int, got str 'y'"):
            part.value = "y"  # type: ignore[assignment]


@pytest.mark.parametrize("step", [-1, -100])
def test_elements_are_counted_from_the_front(app: hw.App, step: int) -> None:
    typed = app.cell("typed", [1, 2])
    free: hw.Cell[Any] = app.cell("free", None)
    for cell in (typed, free):
        with pytest.raises(AddressError, match=rf"{step} is not a step into t\.\w+: .* counted from the front"):
            cell.at(step)


@pytest.mark.parametrize("step", [1.0, None, True, b"a", ("a",)])
def test_only_text_and_numbers_are_steps(app: hw.App, step: Any) -> None:
    cell: hw.Cell[Any] = app.cell("cell", None)
    with pytest.raises(AddressError, match=r"is not a step into t\.cell: a key \(text\) or an index \(a number\)"):
        cell.at(step)


def test_a_key_that_is_no_text_is_refused_with_the_way_to_an_element(app: hw.App) -> None:
    cell: hw.Cell[Any] = app.cell("cell", None)
    with pytest.raises(AddressError, match=r"3 is not a key of t\.cell: keys are text; .* found with \.at\(3\)"):
        cell.key(3)  # type: ignore[call-overload]


def test_a_part_the_type_does_not_have_is_refused_at_once(app: hw.App) -> None:
    note = app.cell("note", Note("a"))
    with pytest.raises(SchemaError, match=r"t\.note has no part 'titel': it is declared as Note"):
        note.at("titel")
    with pytest.raises(SchemaError, match=r"t\.note/title has no part 0: it is declared as str"):
        note.at("title", 0)


def test_writing_beyond_the_end_of_a_list_says_how_long_it_is(app: hw.App) -> None:
    cell = app.cell("cell", [1])
    with app.open("memory:"):
        with pytest.raises(AddressError, match=r"cannot add 3: the root is a list of 1, which has no 3"):
            cell.at(3).value = 5
        assert not cell.exists
        cell.at(1).value = 2
        assert cell.value == [1, 2]


# --- what comes out ---------------------------------------------------------------------------------------------


def test_what_is_read_is_the_same_object_while_it_is_unchanged(app: hw.App) -> None:
    numbers = app.cell("numbers", list[int]())
    note = app.cell("note", Note("a"))
    with app.open("memory:") as space:
        assert numbers.value is numbers.value
        numbers.value = [1, 2]
        note.value = Note("b")
        first, read = numbers.value, note.value
        with space.transaction():
            assert numbers.value is first
            assert note.value is read
        note.at("title").value = "b"
        assert note.value is read
        note.at("title").value = "c"
        assert note.value is not read


def test_a_list_that_was_read_cannot_be_changed_and_says_how_to_write(app: hw.App) -> None:
    cell = app.cell("cell", [3, 1])
    with app.open("memory:"):
        for stored_or_default in range(2):
            with pytest.raises(FrozenError, match=r"cannot append to a list .* cell\.append\(\.\.\.\), or assign"):
                cell.value.append(4)
            with pytest.raises(FrozenError, match="cannot sort a list"):
                cell.value.sort()
            with pytest.raises(FrozenError, match="cannot assign into a list"):
                cell.value[0] = 5
            assert cell.value == [3, 1]
            if not stored_or_default:
                cell.value = [3, 1]


def test_a_dict_that_was_read_cannot_be_changed_and_says_how_to_write(app: hw.App) -> None:
    cell = app.cell("cell", {"a": {"b": [1]}})
    with app.open("memory:"):
        with pytest.raises(FrozenError, match=r"cannot set 'c' in a dict .* cell\.key\('k'\)\.value = "):
            cell.value["c"] = {}
        with pytest.raises(FrozenError, match="cannot append to a list"):
            cell.value["a"]["b"].append(2)
        assert cell.value == {"a": {"b": [1]}}


def test_an_object_that_was_read_cannot_be_changed_and_says_how_to_write(app: hw.App) -> None:
    note = app.cell("note", Note("a"))
    with app.open("memory:"):
        note.value = Note("b")
        with pytest.raises(FrozenError, match=r"cannot set 'title' of a Note .* cell\.at\('title'\)\.value = "):
            note.value.title = "c"
        with pytest.raises(FrozenError, match="cannot append to a list"):
            note.value.tags.append("x")
        with pytest.raises(FrozenError, match="cannot set 'width' of a Size"):
            note.value.size.width = 4
        assert note.value == Note("b")
        note.value = replace(note.value, title="c")
        assert note.value == Note("c")


def test_what_was_written_may_be_changed_afterwards_without_harm(app: hw.App) -> None:
    cell = app.cell("cell", list[list[int]]())
    mine = [[1]]
    with app.open("memory:"):
        cell.value = mine
        mine[0].append(2)
        mine.append([3])
        assert cell.value == [[1]]


def test_what_is_read_can_be_written_elsewhere(app: hw.App) -> None:
    one = app.cell("one", Note("a"))
    two = app.cell("two", Note("b"))
    many = app.cell("many", list[Note](), type=list[Note])
    with app.open("memory:"):
        two.value = one.value
        many.value = [one.value, two.value]
        many.append(one.value)
        assert many.value == [Note("a")] * 3
