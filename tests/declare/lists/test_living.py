"""Lists over time: restarts, event loops, transactions, failures, and what is left of elements that are gone."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest

import headwater as hw
from headwater.cells.elements import ElementEntry
from headwater.cells.reading import Readable
from headwater.declare.functions.instances import Instance
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.scheduler.runs.attempt import Attempt
from tests.app.simulated import Lab, pause
from tests.declare.lists.kit import Desk, Item, is_open, title_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def desk() -> Desk:
    return Desk()


def square(number: int) -> int:
    return number * number


def tags_of(item: Item) -> list[str]:
    return list(item.tags)


# --- restarts ---------------------------------------------------------------------------------------------


def declared(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)
    desk.look_at(
        rows,
        hw.each(desk.numbers, square),
        hw.select(desk.board.items, is_open),
        hw.flat_each(desk.board.items, tags_of),
    )


def elements(runs: dict[str, int]) -> dict[str, int]:
    return {name: count for name, count in runs.items() if name.endswith(".element")}


@pytest.mark.parametrize("size", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_after_a_restart_lists_run_and_elements_do_not(tmp_path: Path, size: int) -> None:
    desk = Desk()
    declared(desk)
    with desk.open(tmp_path / "kept.db"):
        desk.fill(size)
        before = desk.shown
    again = Desk()
    declared(again)
    with again.open(tmp_path / "kept.db"):
        assert again.runs() == {
            "each_title_of": 1,
            "each_square": 1,
            "select_is_open.each": 1,
            "select_is_open": 1,
            "flat_each_tags_of.each": 1,
            "flat_each_tags_of": 1,
        }
        assert (again.shown[:2], again.commits()) == (before[:2], 0)
        again.board.items[3].title = "x"
        again.numbers.at(2).value = 5
        assert again.runs() == {"each_title_of.element": 1, "each_square.element": 1}


def test_what_changed_while_nobody_looked_runs_for_just_those(tmp_path: Path) -> None:
    desk = Desk()
    declared(desk)
    with desk.open(tmp_path / "kept.db"):
        desk.fill(10)
    editor = Desk()
    with editor.open(tmp_path / "kept.db") as space, space.transaction():
        editor.board.items[3].title = "x"
        del editor.board.items[5]
        editor.board.items.insert(0, Item(title="new", tags=["a"]))  # type: ignore[arg-type]  # stored as one
        editor.numbers.value = [*editor.numbers.value[:8], 80]
    again = Desk()
    declared(again)
    with again.open(tmp_path / "kept.db"):
        assert elements(again.runs()) == {
            "each_title_of.element": 2,
            "each_square.element": 1,
            "select_is_open.element": 1,
            "flat_each_tags_of.element": 1,
        }
        assert again.shown[0] == ["NEW", "T0", "T1", "T2", "X", "T4", "T6", "T7", "T8", "T9"]
        assert again.shown[1] == [0, 1, 4, 9, 16, 25, 36, 49, 6400]
        assert again.shown[3] == ["a"]


def test_chains_of_lists_are_restored_from_end_to_end(tmp_path: Path) -> None:
    def chained(desk: Desk) -> None:
        rows = hw.each(desk.board.items, title_of)
        lengths = hw.each(rows, len, name="lengths")
        large = hw.select(lengths, lambda length: length > 2, name="large")
        letters = hw.flat_each(rows, split)
        desk.look_at(large, hw.each(letters, lambda letter: letter.lower(), name="small"), hw.each(large, str_of))

    def str_of(number: int) -> str:
        return str(number)

    def split(row: str) -> list[str]:
        return list(row)

    lives = [Desk(), Desk(), Desk()]
    for desk in lives:
        chained(desk)
    first, second, third = lives
    with first.open(tmp_path / "kept.db"):
        first.fill(4)
        first.board.items[1].title = "long"
    with second.open(tmp_path / "kept.db"):
        assert elements(second.runs()) == {}
        assert second.shown == first.shown == [[4], list("t0longt2t3"), ["4"]]
        second.board.items[2].title = "longer"
        assert elements(second.runs()) == {
            "each_title_of.element": 1,
            "lengths.element": 1,
            "large.element": 1,
            "flat_each_split.element": 1,
            "small.element": 6,
            "each_str_of.element": 1,
        }
        assert second.shown == [[4, 6], list("t0longlongert3"), ["4", "6"]]
    editor = Desk()
    with editor.open(tmp_path / "kept.db"):
        editor.board.items[0].title = "t9"
    with third.open(tmp_path / "kept.db"):
        # As long as before: whatever is made of its length need not run.
        assert elements(third.runs()) == {
            "each_title_of.element": 1,
            "lengths.element": 1,
            "flat_each_split.element": 1,
            # Both letters: what was written just now, and is not decided, proves nothing.
            "small.element": 2,
        }
        assert third.shown == [[4, 6], list("t9longlongert3"), ["4", "6"]]


def test_another_source_under_the_same_name_is_not_taken_for_the_old_one(tmp_path: Path) -> None:
    for chosen in ("numbers", "others"):
        desk = Desk()
        others = desk.app.cell("others", [7, 8])
        squares = hw.each(desk.numbers if chosen == "numbers" else others, square)
        desk.look_at(squares)
        with desk.open(tmp_path / "kept.db"):
            if chosen == "numbers":
                desk.numbers.value = [1, 2]
        assert desk.shown == [[1, 4] if chosen == "numbers" else [49, 64]]


def test_another_function_under_the_same_name_runs_for_all(tmp_path: Path) -> None:
    def cube(number: int) -> int:
        return number**3

    for fn in (square, cube):
        desk = Desk()
        desk.look_at(hw.each(desk.numbers, fn, name="powers"))
        with desk.open(tmp_path / "kept.db"):
            if fn is square:
                desk.fill(4)
        wanted = [[0, 1, 4, 9] if fn is square else [0, 1, 8, 27]]
        assert desk.shown == wanted


def test_who_left_and_comes_back_after_a_restart_runs_once_at_most_and_writes_nothing(tmp_path: Path) -> None:
    desk = Desk()
    declared(desk)
    with desk.open(tmp_path / "kept.db"):
        desk.fill(4)
        gone = hw.id_of(desk.board.items.pop(1))
    again = Desk()
    declared(again)
    with again.open(tmp_path / "kept.db") as space:
        again.runs(), again.commits()
        again.board.items.append(space.doc(gone, Item))
        # What it came to stands in the store; what it has read may be forgotten.
        assert all(count == 1 for count in elements(again.runs()).values())
        # The list, and those who put together what is in it.
        assert again.commits() == 5
        assert again.shown[0] == ["T0", "T2", "T3", "T1"]


# --- event loops ------------------------------------------------------------------------------------------


def test_in_an_event_loop_it_is_the_same() -> None:
    lab = Lab()
    numbers = lab.app.cell("numbers", list[int]())
    squares = hw.each(numbers, square)
    even = hw.select(squares, lambda number: number % 2 == 0, name="even")

    @lab.app.sink
    def show() -> None:
        lab.log.append((squares(), even()))

    async def main() -> None:
        async with lab.open() as space:
            await space.settle()
            assert lab.taken() == [([], [])]
            numbers.value = [1, 2, 3]
            await space.settle()
            assert lab.taken()[-1] == ([1, 4, 9], [4])
            runs = space.runs(squares.element)
            numbers.append(4)
            await space.settle()
            assert (lab.taken()[-1], space.runs(squares.element) - runs) == (([1, 4, 9, 16], [4, 16]), 1)

    lab.run(main)


def test_an_async_function_is_begun_for_all_elements_at_once() -> None:
    lab = Lab()
    numbers = lab.app.cell("numbers", list[int]())

    async def slow(number: int) -> int:
        lab.note("begin", number)
        await pause(100)
        return number * number

    squares = hw.each(numbers, slow)

    @lab.app.sink
    def show() -> None:
        lab.note("shown", squares())

    async def main() -> None:
        async with lab.open() as space:
            await space.settle()
            lab.taken()
            numbers.value = [1, 2, 3]
            await space.settle()
            assert lab.taken() == [(0, "begin", 1), (0, "begin", 2), (0, "begin", 3), (100, "shown", [1, 4, 9])]
            numbers.at(1).value = 5
            await space.settle()
            assert lab.taken() == [(100, "begin", 5), (200, "shown", [1, 25, 9])]

    lab.run(main)


def test_fresh_waits_until_every_element_is_there() -> None:
    lab = Lab()
    numbers = lab.app.cell("numbers", [1, 2])

    async def slow(number: int) -> int:
        await pause(100 * number)
        return number * number

    squares = hw.each(numbers, slow)

    async def main() -> None:
        async with lab.open() as space:
            with pytest.raises(hw.NotReadyError):
                squares()
            assert await space.fresh(squares) == [1, 4]
            numbers.append(3)
            assert await space.fresh(squares) == [1, 4, 9]
            numbers.at(1).value = 5
            assert await space.fresh(squares) == [1, 25, 9]

    lab.run(main)


# --- transactions -----------------------------------------------------------------------------------------


def test_in_a_transaction_that_has_written_it_sees_what_was_written(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)
    chosen = hw.select(desk.board.items, is_open)
    tags = hw.flat_each(desk.board.items, tags_of)
    squares = hw.each(desk.numbers, square)
    lengths = hw.each(rows, len, name="lengths")
    with desk.open() as space:
        desk.fill(2)
        with space.transaction():
            assert rows() == ["T0", "T1"]
            desk.board.items.append(Item(title="new", tags=["a", "b"]))  # type: ignore[arg-type]  # stored as one
            desk.board.items[0].done = True
            desk.numbers.append(5)
            assert (rows(), rows[2], len(rows), [*rows]) == (["T0", "T1", "NEW"], "NEW", 3, ["T0", "T1", "NEW"])
            assert ([item.title for item in chosen()], tags()) == (["t1", "new"], ["a", "b"])
            assert (squares(), lengths()) == ([0, 1, 25], [2, 2, 3])
            with pytest.raises(IndexError):
                rows[3]
        assert (rows(), squares(), tags()) == (["T0", "T1", "NEW"], [0, 1, 25], ["a", "b"])


def test_what_was_taken_back_was_never_in_the_list(desk: Desk) -> None:
    desk.look_at(hw.each(desk.board.items, title_of))
    with desk.open() as space:
        desk.fill(2)
        with pytest.raises(ZeroDivisionError), space.transaction():
            desk.board.items.append(Item(title="new"))
            raise ZeroDivisionError
        assert (desk.runs(), desk.shown) == ({}, [["T0", "T1"]])


def test_several_edits_in_one_transaction_are_one_run_of_the_list(desk: Desk) -> None:
    desk.look_at(hw.each(desk.board.items, title_of))
    with desk.open() as space:
        desk.fill(10)
        with space.transaction():
            desk.board.items.insert(3, Item(title="new"))
            desk.board.items.pop(7)
            desk.board.items.reverse()
        assert desk.runs() == {"each_title_of": 1, "each_title_of.element": 1}


def test_a_handler_reads_lists_that_are_current(desk: Desk) -> None:
    squares = hw.each(desk.numbers, square)

    @desk.app.handler
    def count(more: int) -> list[int]:
        found = squares()
        desk.numbers.append(more)
        return found + squares()

    with desk.open():
        desk.numbers.value = [1, 2]
        assert count.send(3).result() == [1, 4, 1, 4, 9]


# --- failures ---------------------------------------------------------------------------------------------


def root(number: int) -> float:
    if number < 0:
        raise ValueError(f"no root of {number}")
    return float(number**0.5)


def test_what_fails_for_one_concerns_only_whoever_reads_that_one(desk: Desk) -> None:
    roots = hw.each(desk.numbers, root)

    @desk.app.computed
    def first() -> float:
        return roots[0]

    desk.look_at(first)
    with desk.open():
        desk.errors.clear()
        desk.numbers.value = [1, -4, 9]
        assert (desk.shown, desk.errors, len(roots), roots[2]) == ([1.0], [], 3, 3.0)
        with pytest.raises(ValueError, match="no root of -4"):
            roots()
        with pytest.raises(ValueError, match="no root of -4"):
            roots[1]
        desk.numbers.at(1).value = 4
        assert roots() == [1.0, 2.0, 3.0]


def test_whoever_looks_is_told_once_and_again_when_it_is_mended(desk: Desk) -> None:
    desk.look_at(hw.each(desk.numbers, root))
    with desk.open():
        desk.numbers.value = [1, 4]
        desk.runs()
        desk.numbers.append(-9)
        assert [str(error.__cause__) for error in desk.errors] == ["no root of -9"]
        assert desk.shown == [[1.0, 2.0]]
        assert desk.runs() == {"each_root": 1, "each_root.element": 1}
        desk.numbers.at(2).value = 9
        assert (desk.shown, len(desk.errors)) == ([[1.0, 2.0, 3.0]], 1)


@pytest.mark.parametrize("place", [0, 5, 9])
@pytest.mark.parametrize("verb", ["each", "select", "flat_each"])
def test_one_that_fails_and_is_mended_runs_no_other(desk: Desk, verb: str, place: int) -> None:
    made = {"each": root, "select": root, "flat_each": lambda number: [root(number)]}[verb]
    app: Any = desk.app
    desk.look_at(getattr(app, verb)(desk.numbers, made, name="all"))
    with desk.open():
        desk.numbers.value = [1] * 10
        before, nodes = desk.shown, desk.nodes
        desk.runs()
        desk.numbers.at(place).value = -1
        assert [str(error.__cause__) for error in desk.errors] == ["no root of -1"]
        assert (desk.runs()["all.element"], desk.nodes) == (1, nodes)
        desk.numbers.at(place).value = 1
        assert (desk.runs()["all.element"], desk.nodes, desk.shown) == (1, nodes, before)
        assert len(desk.errors) == 1


def test_whoever_reads_a_part_of_it_lets_go_of_no_other_either(desk: Desk) -> None:
    roots = hw.each(desk.numbers, root)
    desk.look_at(lambda: roots[2:8])
    with desk.open():
        desk.numbers.value = [1] * 10
        desk.runs()
        desk.numbers.at(2).value = -1
        desk.numbers.at(2).value = 4
        assert (desk.shown, desk.runs()) == ([[2.0] + [1.0] * 5], {"each_root.element": 2})


def test_of_several_that_fail_the_first_is_told(desk: Desk) -> None:
    roots = hw.each(desk.numbers, root)
    desk.look_at(roots)
    with desk.open():
        desk.numbers.value = [1, -4, 9, -16]
        assert [str(error.__cause__) for error in desk.errors] == ["no root of -4"]
        assert desk.runs()["each_root.element"] == 4
        desk.numbers.at(1).value = 4
        assert [str(error.__cause__) for error in desk.errors] == ["no root of -4", "no root of -16"]
        desk.numbers.at(3).value = 16
        assert (desk.shown, desk.runs()) == ([[1.0, 2.0, 3.0, 4.0]], {"each_root.element": 2})


def test_a_selection_fails_as_a_whole_until_it_is_mended(desk: Desk) -> None:
    chosen = desk.app.select(desk.numbers, lambda number: root(number) > 1, name="large")
    with desk.open():
        desk.numbers.value = [1, -4, 9]
        with pytest.raises(ValueError, match="no root of -4"):
            chosen()
        desk.numbers.at(1).value = 4
        assert chosen() == [4, 9]


def test_a_source_that_fails_is_told_to_whoever_reads(desk: Desk) -> None:
    divisor = desk.app.cell("divisor", 0)
    squares = desk.app.each(lambda: [6 // divisor.value], square)
    with desk.open():
        with pytest.raises(ZeroDivisionError):
            squares()
        divisor.value = 2
        assert squares() == [9]


def test_a_source_that_is_no_list_is_told(desk: Desk) -> None:
    app: Any = desk.app  # type checkers refuse these
    squares = app.each(lambda: 3, square)
    others = app.each(app.cell("anything", type=object, default=3), square, name="others")
    strange = app.each(lambda: [object()], lambda thing: f"{thing}", name="strange")
    with desk.open():
        with pytest.raises(hw.HeadwaterError, match="each_square: its source is int 3; a list is expected"):
            squares()
        with pytest.raises(hw.HeadwaterError, match="anything holds int 3; a list is expected"):
            others()
        with pytest.raises(hw.HeadwaterError, match="strange: an element of the list cannot be stored"):
            strange()


def test_a_function_must_not_write(desk: Desk) -> None:
    def writes(number: int) -> int:
        desk.numbers.append(number)
        return number

    rows = hw.each(desk.numbers, writes)
    with desk.open():
        desk.numbers.value = [1]
        with pytest.raises(hw.HeadwaterError, match="is computed and may not write"):
            rows()


# --- what is left -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thousand_that_came_and_went_leave_no_node(desk: Desk) -> None:
    declared(desk)
    with desk.open() as space:
        desk.fill(5)
        index = space.scheduler.graph.index
        before = (desk.nodes, len(index.docs), len(space.scheduler.graph.writers))
        for number in range(1000):
            with space.transaction():
                desk.board.items.append(Item(title=str(number)))
                desk.numbers.append(number)
            with space.transaction():
                del desk.board.items[5]
                desk.numbers.value = desk.numbers.value[:5]
        assert (desk.nodes, len(index.docs), len(space.scheduler.graph.writers)) == before
        assert desk.errors == []


@pytest.mark.slow
def test_a_thousand_that_came_and_went_leave_nothing_in_memory(desk: Desk) -> None:
    large = hw.select(desk.numbers, lambda number: number > 2, name="large")
    desk.look_at(hw.each(desk.numbers, square), hw.each(large, square, name="squares"))
    with desk.open() as space:
        desk.fill(5)

        def left() -> int:
            # Not of the store: that keeps what was written.
            space.sync()
            gc.collect()
            kinds = (Node, NodeSpec, Instance, ElementEntry, Readable, Attempt)
            return sum(isinstance(each, kinds) for each in gc.get_objects())

        before = left()
        for number in range(1000):
            desk.numbers.append(number)
            desk.numbers.value = desk.numbers.value[:5]
        assert left() == before
        assert desk.errors == []


def test_when_nobody_looks_any_more_elements_stay_until_the_list_is_read(desk: Desk) -> None:
    squares = hw.each(desk.numbers, square)
    with desk.open():
        desk.fill(10)
        empty = desk.nodes
        assert len(squares()) == 10
        desk.numbers.value = [1]
        assert desk.nodes == empty + 10
        assert squares() == [1]
        assert desk.nodes == empty + 1
