"""Where lists are declared, under which names, and what is refused."""

from __future__ import annotations

import builtins
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError
from headwater.testing import probe
from tests.declare.lists.kit import Board, Desk, Item, title_of


@pytest.fixture
def desk() -> Desk:
    return Desk()


def square(number: int) -> int:
    return number * number


def test_they_belong_to_whom_the_source_belongs_to(desk: Desk) -> None:
    @desk.app.computed
    def several() -> list[int]:
        return [1]

    rows, squares, some = hw.each(desk.board.items, title_of), hw.each(several, square), hw.select(desk.numbers, square)
    made: list[hw.Computed[[], Any]] = [rows, squares, some]
    assert [each.owner for each in made] == [desk.app] * 3
    assert [each.address for each in made] == ["desk.each_title_of", "desk.each_square", "desk.select_square"]


def test_a_name_can_be_given(desk: Desk) -> None:
    rows = desk.app.each(desk.numbers, lambda number: number + 1, name="rows")
    assert (rows.name, rows.element.name, rows.address) == ("rows", "rows.element", "desk.rows")
    both = desk.app.flat_each(desk.numbers, lambda number: [number], name="both")
    assert (both.name, both.each.name, both.element.name) == ("both", "both.each", "both.element")


def test_on_says_whose_it_is() -> None:
    other = hw.App("other")
    rows = hw.each(lambda: [1, 2], square, on=other)
    assert rows.owner is other
    with other.open("memory:"):
        assert rows() == [1, 4]


def test_in_a_pattern_they_are_part_of_the_piece(desk: Desk) -> None:
    @hw.pattern
    def summary(p: hw.Builder, start: int) -> dict[str, hw.Computed[[], Any]]:
        numbers = p.cell("numbers", [start, start + 1, start + 2])
        squares = hw.each(numbers, square)
        large = hw.select(squares, lambda number: number > 4, name="large")
        shown = hw.if_else(lambda: len(large) > 1, large, "few", name="shown")

        @p.handler
        def add(number: int) -> None:
            numbers.append(number)

        @p.sink
        def look() -> None:
            desk.shown.append((start, squares(), shown()))

        return {"squares": squares, "shown": shown}

    with desk.open() as space:
        space.start(summary, "a", start=1)
        space.start(summary, "b", start=2)
        assert desk.shown == [(1, [1, 4, 9], "few"), (2, [4, 9, 16], [9, 16])]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda desk: desk.app.each(desk.numbers, lambda n: n), "app.each needs a name for"),
        (lambda desk: desk.app.each(desk.numbers, 3), "app.each takes a source and a function, not 3"),
        (lambda desk: desk.app.each(desk.numbers, str), "wrap the class: lambda element: ..."),
        (lambda desk: desk.app.each([1, 2], square), "list of 2 items is no source of a list"),
        (lambda desk: desk.app.each(None, square), "None is no source of a list; give a cell, a computed"),
        (lambda desk: desk.app.each(desk.app.cell("n", 1), square), "desk.n cannot hold a list, by its type"),
        (lambda desk: desk.app.each(desk.app.cell("d", {"a": 1}), square), "desk.d cannot hold a list, by its type"),
        (lambda desk: desk.app.each(lambda x: x, square), "the source takes parameters"),
        (lambda desk: desk.app.each(desk.numbers, lambda: 1, name="n"), "a function of one element is expected"),
        (
            lambda desk: desk.app.each(desk.numbers, lambda a, b, c: a + b + c, name="n"),
            "or of an element and its index",
        ),
        (lambda desk: desk.app.each(desk.numbers, lambda *, a: a, name="n"), "a function of one element is expected"),
        (lambda _: hw.each(lambda: [1], square), "hw.each: nothing here says which app it is for; call it on the app"),
        (lambda _: hw.each([1, 2], square), "hw.each: list of 2 items is no source of a list; give a cell, a computed"),  # type: ignore[call-overload]  # so
        (lambda _: hw.select(None, square), "hw.select: None is no source of a list"),  # type: ignore[call-overload]  # so
        (lambda _: hw.flat_each((1,), square), "hw.flat_each: tuple of 1 item is no source of a list"),  # type: ignore[call-overload]  # so
        (lambda desk: hw.each(desk.numbers, square, on="x"), "hw.each: on='x'; an app is expected"),  # type: ignore[call-overload]  # so
    ],
)
def test_wrong_use_is_told(desk: Desk, make: Any, told: str) -> None:
    with pytest.raises(DeclarationError) as found:
        make(desk)
    assert told in str(found.value)


def test_the_same_function_twice_is_refused_with_the_fix(desk: Desk) -> None:
    hw.each(desk.numbers, square)
    with pytest.raises(DeclarationError) as found:
        hw.each(desk.numbers, square)
    assert "app.each 'each_square': app 'desk' has 'each_square' already, a computed" in str(found.value)
    assert "choose another name (functions take name=...)" in str(found.value)
    assert hw.each(desk.numbers, square, name="others").name == "others"


def test_what_is_refused_leaves_nothing(desk: Desk) -> None:
    desk.app.cell("taken", 1)
    for make in (hw.each, hw.select):
        with pytest.raises(DeclarationError, match="has 'taken' already, a cell"):
            make(desk.numbers, square, name="taken")
    with pytest.raises(DeclarationError):
        hw.each(desk.app.cell("one", 1), square, name="rows")  # type: ignore[arg-type]  # that is what is refused
    assert hw.each(desk.numbers, square, name="rows").name == "rows"
    with desk.open() as space:
        assert space.stats.runs == {"rows": 0, "rows.element": 0}


def test_a_run_declares_nothing(desk: Desk) -> None:
    @desk.app.computed
    def rows() -> list[int]:
        return hw.each(desk.numbers, square)()

    with desk.open(), pytest.raises(DeclarationError, match=r"hw.each: rows\(\) declares it each time it runs"):
        rows()


def test_async_functions_are_for_each_alone(desk: Desk) -> None:
    async def later(number: int) -> bool:
        return number > 1

    async def numbers() -> list[int]:
        return [1]

    for make in (desk.app.select, desk.app.flat_each):
        with pytest.raises(DeclarationError, match="the function is async, which only each takes"):
            make(desk.numbers, later)
    with pytest.raises(DeclarationError, match="the source is async; make it a computed"):
        desk.app.each(numbers, square)  # type: ignore[arg-type]  # that is what is refused
    desk.app.each(desk.numbers, later)
    with pytest.raises(DeclarationError, match="is async and needs an event loop"):
        desk.app.open("memory:")


def test_before_it_is_open_there_is_nothing_to_read(desk: Desk) -> None:
    rows = hw.each(desk.numbers, square)
    with pytest.raises(hw.HeadwaterError, match="each_square has no open space here"):
        rows()


def test_declared_while_it_is_open_it_runs_from_then_on(desk: Desk) -> None:
    with desk.open():
        desk.fill(3)
        rows = hw.each(desk.board.items, title_of)
        desk.look_at(rows)
        assert desk.shown == [["T0", "T1", "T2"]]
        desk.board.items.append(Item(title="x"))
        assert desk.shown == [["T0", "T1", "T2", "X"]]


def test_two_openings_do_not_see_each_other(desk: Desk) -> None:
    rows = hw.each(desk.numbers, square)
    with desk.app.open("memory:", space="one"):
        desk.numbers.value = [1]
        with desk.app.open("memory:", space="two"):
            desk.numbers.value = [2, 3]
            assert rows() == [4, 9]
        assert rows() == [1]


def test_a_board_of_another_user_is_another_list(desk: Desk) -> None:
    mine = desk.app.doc("mine", Board, scope="user")
    own = desk.app.cell("own", list[int](), scope="user")
    rows, squares = hw.each(mine.items, title_of), hw.each(own, square)
    desk.look_at(rows, squares)
    with desk.app.open("memory:", actor="ann"):
        mine.items.append(Item(title="a"))
        own.value = [3]
        assert (rows(), squares(), desk.shown) == (["A"], [9], [["A"], [9]])
        own.append(4)
        assert (squares(), len(squares), squares[1]) == ([9, 16], 2, 16)


def test_declared_again_in_a_notebook_it_takes_the_place_of_the_one_before(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    rows = hw.each(desk.numbers, square, name="rows")
    shown = hw.if_else(lambda: desk.numbers.value, rows, "none", name="shown")
    further = hw.each(rows, square, name="further")
    desk.look_at(rows, further, shown)
    with desk.open():
        desk.fill(3)
        before = desk.nodes
        newer = hw.each(desk.numbers, lambda number: -number, name="rows")
        desk.app.if_else(lambda: desk.numbers.value, "some", "none", name="shown")
        assert newer() == rows() == [0, -1, -2]
        assert (len(rows), rows[1], [*rows], shown()) == (3, -1, [0, -1, -2], "some")
        assert (desk.shown, desk.nodes) == ([[0, -1, -2], [0, 1, 4], "some"], before)
        desk.numbers.append(3)
        assert desk.shown == [[0, -1, -2, -3], [0, 1, 4, 9], "some"]


def test_a_probe_finds_nothing_to_complain_of_and_restarts_run_no_element(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)
    squares = hw.each(hw.select(desk.numbers, lambda number: number > 1, name="large"), square)
    both = hw.flat_each(desk.numbers, lambda number: [number, number], name="both")
    desk.look_at(rows, squares, both, hw.if_else(desk.numbers, rows, squares))
    with probe(desk.app) as t:
        desk.numbers.value = [1, 2, 3]
        desk.board.items.append(Item(title="a"))
        desk.board.items.insert(0, Item(title="b"))
        del desk.board.items[1]
        desk.numbers.value = [5, 1]
        assert desk.shown == [["B"], [25], [5, 5, 1, 1], ["B"]]
        runs = [t.runs(each) for each in (rows.element, squares.element, both.element)]
        t.restart()
        assert [t.runs(each) for each in (rows.element, squares.element, both.element)] == runs
        assert desk.shown == [["B"], [25], [5, 5, 1, 1], ["B"]]
