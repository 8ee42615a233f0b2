"""Edits of lists, dicts and numbers in cells: patches that say what they want, not the value that comes of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.cells.cell import Cell
from headwater.errors import AddressError, SchemaError
from headwater.store.commit import PatchDoc, SetDoc, encode_operations
from headwater.values.patch import AddUnique, Append, Increment, Remove, RemoveByValue, Replace, Splice
from tests.cells.kit import Sent, inside, stored, twice

EDITS: dict[str, tuple[Callable[[Cell[list[str]]], None], type, Callable[[list[str]], list[str]]]] = {
    "append": (lambda cell: cell.append("x"), Append, lambda old: [*old, "x"]),
    "extend": (lambda cell: cell.extend(["x", "y"]), Append, lambda old: [*old, "x", "y"]),
    "add_unique": (lambda cell: cell.add_unique("x"), AddUnique, lambda old: [*old, "x"]),
    "insert": (lambda cell: cell.insert(1, "x"), Splice, lambda old: [old[0], "x", *old[1:]]),
    "insert-from-end": (lambda cell: cell.insert(-1, "x"), Splice, lambda old: [*old[:-1], "x", old[-1]]),
    "insert-at-end": (lambda cell: cell.insert(10**6, "x"), Append, lambda old: [*old, "x"]),
    "remove": (lambda cell: cell.remove("b"), RemoveByValue, lambda old: [item for item in old if item != "b"]),
}


@pytest.fixture
def app() -> hw.App:
    return hw.App("t")


# --- what reaches the store -------------------------------------------------------------------------------------


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_reaches_the_store_as_one_patch(app: hw.App, edit: str, in_transaction: bool) -> None:
    do, kind, model = EDITS[edit]
    cell = app.cell("cell", list[str]())
    with app.open("memory:") as space:
        cell.value = ["a", "b", "c"]
        sent = Sent(space)
        if in_transaction:
            with space.transaction():
                do(cell)
                assert cell.value == model(["a", "b", "c"])
        else:
            do(cell)
        assert [type(op) for op in sent.patches] == [kind]
        assert cell.value == model(["a", "b", "c"])


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_the_size_of_an_edit_does_not_grow_with_the_list(app: hw.App, edit: str, in_transaction: bool) -> None:
    sizes = []
    cell = app.cell("cell", list[str]())
    for length in (10, 10_000):
        with app.open("memory:") as space:
            cell.value = ["a", "b", *map(str, range(length))]
            sent = Sent(space)
            if in_transaction:
                with space.transaction():
                    EDITS[edit][0](cell)
            else:
                EDITS[edit][0](cell)
            sizes.append(len(encode_operations(tuple(sent.operations))))
    # Five digits of an index instead of two.
    assert sizes[1] <= sizes[0] + 4


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_depends_on_nothing_and_is_checked_against_nothing(app: hw.App, edit: str) -> None:
    cell = app.cell("cell", list[str]())
    with app.open("memory:") as space:
        cell.value = ["a", "b", "c"]
        with space.transaction() as tx:
            EDITS[edit][0](cell)
            assert tx.journal.dependencies() == []
            assert tx.journal.conflicts() == []


def test_a_part_is_written_without_its_whole(app: hw.App) -> None:
    cell = app.cell("cell", {"a": {"b": 1}, "z": 2})
    with app.open("memory:") as space:
        cell.value = {"a": {"b": 1}, "z": 2}
        sent = Sent(space)
        cell.at("a", "b").value = 5
        with space.transaction():
            cell.at("a", "c").value = 6
        cell.at("a", "b").clear()
        assert [type(op).__name__ for op in sent.patches] == ["Replace", "Add", "Remove"]
        assert cell.value == {"a": {"c": 6}, "z": 2}


def test_increment_of_a_part_is_one_patch(app: hw.App) -> None:
    cell = app.cell("cell", {"n": 1})
    with app.open("memory:") as space:
        cell.value = {"n": 1}
        sent = Sent(space)
        cell.key("n").increment()
        cell.key("n").increment(-5)
        cell.key("new").increment(2)
        assert sent.patches == [Increment(("n",), 1), Increment(("n",), -5), Increment(("new",), 2)]
        assert cell.value == {"n": -3, "new": 2}


def test_remove_takes_a_key_out_of_a_dict(app: hw.App) -> None:
    cell = app.cell("cell", {"a": 1, "b": 2})
    with app.open("memory:") as space:
        cell.remove("a")
        assert cell.value == {"b": 2}
        sent = Sent(space)
        cell.remove("nobody")
        assert sent.commits == []
        cell.remove("b")
        assert sent.patches == [Remove(("b",))]


def test_remove_takes_a_key_that_is_kept_as_text(app: hw.App) -> None:
    cell: hw.Cell[Any] = app.cell("cell", {1: "a", 2: "b"}, type=dict[int, str])
    with app.open("memory:"):
        cell.remove(1)
        assert cell.value == {2: "b"}
        cell.remove("nothing that could be a key")
        assert cell.value == {2: "b"}


def test_remove_takes_every_equal_element_and_minds_its_type(app: hw.App) -> None:
    cell: hw.Cell[list[Any]] = app.cell("cell", [1, True, 1.0, 1, "1"])
    with app.open("memory:"):
        cell.remove(1)
        assert [repr(item) for item in cell.value] == ["True", "1.0", "'1'"]


# --- at the same time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("edit", EDITS)
def test_edits_of_two_at_the_same_time_both_land(app: hw.App, tmp_path: Path, edit: str) -> None:
    cell = app.cell("cell", list[str]())
    with twice(app, tmp_path) as (one, two):
        cell.value = ["a", "b", "c"]
        two.sync()
        one.settle()
        with two.transaction():
            EDITS[edit][0](cell)
            with inside(one):
                cell.append("other")
                one.sync()
        two.sync()
        one.settle()
        with inside(one):
            assert cell.value == one.cell("t.cell").value
            assert "other" in cell.value
            assert set(EDITS[edit][2](["a", "b", "c"])) <= set(cell.value)
        assert two.stats.rejected == 0


def test_two_who_count_at_the_same_time_are_both_counted(app: hw.App, tmp_path: Path) -> None:
    count = app.cell("count", 0)
    with twice(app, tmp_path) as (one, two):
        for _ in range(5):
            with two.transaction():
                count.increment()
                with inside(one):
                    count.increment(10)
        one.sync()
        two.sync()
        assert count.value == 55


def test_two_who_add_the_same_at_the_same_time_add_it_once(app: hw.App, tmp_path: Path) -> None:
    tags = app.cell("tags", list[str]())
    with twice(app, tmp_path) as (one, two):
        with two.transaction():
            tags.add_unique("new")
            with inside(one):
                tags.add_unique("new")
                one.sync()
        two.sync()
        assert tags.value == ["new"]


def test_parts_written_by_two_at_the_same_time_both_land(app: hw.App, tmp_path: Path) -> None:
    cell = app.cell("cell", {"a": 1, "b": 2})
    with twice(app, tmp_path) as (one, two):
        cell.value = {"a": 1, "b": 2}
        two.sync()
        one.settle()
        with two.transaction():
            cell.at("a").value = 10
            with inside(one):
                cell.at("b").value = 20
                one.sync()
        two.sync()
        assert cell.value == {"a": 10, "b": 20}


# --- writes that change nothing ---------------------------------------------------------------------------------


def test_equal_writes_are_not_sent(app: hw.App) -> None:
    cell: hw.Cell[Any] = app.cell("cell", {"a": [1]})
    with app.open("memory:") as space:
        cell.value = {"a": [1], "n": 0.0}
        space.sync()
        sent = Sent(space)
        cell.value = {"n": 0.0, "a": [1]}
        cell.at("a").value = [1]
        cell.at("a", 0).value = 1
        cell.at("a", type=list).add_unique(1)
        cell.at("a", type=list).remove(7)
        cell.at("a", type=list).extend([])
        cell.at("n", type=float).increment(0.0)
        cell.at("nothing").clear()
        with space.transaction():
            cell.at("a").value = [1]
            cell.value = {"n": 0.0, "a": [1]}
        assert sent.commits == []
        assert space.stats.commits == 1


def test_a_write_of_an_equal_value_of_another_type_is_a_write(app: hw.App) -> None:
    cell: hw.Cell[Any] = app.cell("cell", None)
    with app.open("memory:") as space:
        cell.value = 1
        space.sync()
        sent = Sent(space)
        cell.value = 1.0
        cell.value = True
        cell.value = -0.0
        assert len(sent.commits) == 3


def test_writing_the_default_down_is_a_write(app: hw.App) -> None:
    cell = app.cell("cell", 5)
    with app.open("memory:") as space:
        sent = Sent(space)
        cell.value = 5
        assert sent.operations == [SetDoc("space/t.cell", 5)]
        assert cell.exists


def test_what_is_undone_within_a_transaction_leaves_one_write(app: hw.App) -> None:
    cell = app.cell("cell", {"n": 0})
    with app.open("memory:") as space:
        cell.value = {"n": 0}
        space.sync()
        sent = Sent(space)
        with space.transaction():
            for n in range(100):
                cell.at("n").value = n
        assert sent.operations == [PatchDoc("space/t.cell", (Replace(("n",), 99),))]


# --- edits that do not fit --------------------------------------------------------------------------------------


def test_items_of_another_type_are_refused_and_nothing_is_added(app: hw.App) -> None:
    cell = app.cell("cell", [1], type=list[int])
    with app.open("memory:") as space:
        cell.value = [1]
        sent = Sent(space)
        with pytest.raises(SchemaError, match=r"cannot store t\.cell: expected int, got str 'x'"):
            cell.append("x")  # type: ignore[arg-type]
        with pytest.raises(SchemaError, match=r"expected int, got str 'x'"):
            cell.extend([2, "x"])  # type: ignore[list-item]
        with pytest.raises(SchemaError, match=r"expected int, got None"):
            cell.insert(0, None)  # type: ignore[arg-type]
        with pytest.raises(SchemaError, match=r"str 'abc' was given"):
            cell.extend("abc")  # type: ignore[arg-type]
        with pytest.raises(SchemaError, match="int 5 was given"):
            cell.extend(5)  # type: ignore[arg-type]
        assert sent.commits == []
        assert cell.value == [1]


@pytest.mark.parametrize(
    ("hint", "value"),
    [(dict[str, int], {"a": 1}), (str, "a"), (tuple[int, str], (1, "a")), (tuple[int, ...] | int, 5)],
)
def test_what_is_no_list_cannot_be_appended_to(app: hw.App, hint: Any, value: Any) -> None:
    cell: hw.Cell[Any] = app.cell("cell", type=hint)
    with app.open("memory:") as space:
        cell.value = value
        sent = Sent(space)
        with pytest.raises((SchemaError, AddressError), match=r"cannot (add|append) to"):
            cell.append(7)
        assert sent.commits == []
        assert cell.value == value


def test_a_tuple_of_any_length_can_be_appended_to(app: hw.App) -> None:
    cell: hw.Cell[Any] = app.cell("cell", (1, 2), type=tuple[int, ...])
    with app.open("memory:"):
        cell.append(3)
        assert cell.value == (1, 2, 3)


def test_only_numbers_can_be_counted_up(app: hw.App) -> None:
    text = app.cell("text", "a")
    flag = app.cell("flag", False)
    free: hw.Cell[Any] = app.cell("free", None)
    count = app.cell("count", 0)
    with app.open("memory:") as space:
        sent = Sent(space)
        with pytest.raises(SchemaError, match=r"the step added to t\.text: expected str, got int 1"):
            text.increment()  # type: ignore[misc]
        with pytest.raises(SchemaError, match=r"cannot add True to t\.flag: it is declared as bool"):
            flag.increment(True)  # type: ignore[misc]
        with pytest.raises(SchemaError, match=r"the step added to t\.count: expected int, got float 0\.5"):
            count.increment(0.5)  # type: ignore[arg-type]
        with pytest.raises(SchemaError, match=r"expected int, got str 'x'"):
            count.increment("x")  # type: ignore[arg-type]
        free.value = "text"
        with pytest.raises(AddressError, match=r"cannot increment"):
            free.increment()
        assert len(sent.commits) == 1


def test_a_number_that_would_grow_too_large_is_refused(app: hw.App) -> None:
    count = app.cell("count", 2**64 - 1)
    with app.open("memory:") as space:
        count.value = 2**64 - 1
        sent = Sent(space)
        with pytest.raises(AddressError, match=r"cannot increment the root: an integer beyond 64 bits"):
            count.increment()
        assert count.value == 2**64 - 1
        assert sent.commits == []


def test_a_part_below_a_number_cannot_be_written(app: hw.App) -> None:
    cell: hw.Cell[Any] = app.cell("cell", None)
    with app.open("memory:") as space:
        cell.value = {"a": 5}
        sent = Sent(space)
        with pytest.raises(AddressError, match=r"cannot add a/b: a is int, not a dict|cannot add a/b: a "):
            cell.at("a", "b").value = 1
        assert sent.commits == []
        assert stored(space, "t.cell") == {"a": 5}
