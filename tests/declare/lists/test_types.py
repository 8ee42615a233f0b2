"""What lists and choices are to a type checker; and that it is so."""

from __future__ import annotations

from typing import assert_type

import headwater as hw
from tests.declare.lists.kit import Desk, Item, is_open, title_of


def numbered(item: Item, index: int) -> tuple[int, str]:
    return index, item.title


async def later(number: int) -> float:
    return number / 2


def older(age: int) -> int:
    return age + 1


def letters(item: Item) -> list[str]:
    return list(item.title)


def test_the_type_of_a_list_is_that_of_its_function() -> None:
    desk = Desk()
    flag = desk.app.cell("flag", default=True)
    maybe: hw.Cell[list[int] | None] = desk.app.cell("maybe", None, type=list[int] | None)

    @desk.app.computed
    def halves() -> list[float]:
        return [number / 2 for number in desk.numbers.value]

    rows = hw.each(desk.board.items, title_of)
    assert_type(rows, hw.Each[str])
    assert_type(hw.each(desk.board.items, numbered), hw.Each[tuple[int, str]])
    assert_type(hw.each(lambda: desk.board.items, title_of, name="by_function", on=desk.app), hw.Each[str])
    assert_type(hw.each(desk.numbers, lambda number: number > 1, name="large"), hw.Each[bool])
    assert_type(desk.app.each(halves, lambda half: half * 2, name="doubled"), hw.Each[float])
    assert_type(desk.app.each(maybe, lambda number: number + 1, name="more"), hw.Each[int])
    assert_type(hw.each(desk.numbers, later, on=hw.App("apart")), hw.Each[float])
    ages = desk.app.cell("ages", type=list[int | None], default=[])
    assert_type(hw.each(ages, older), hw.Each[int | None])
    assert_type(hw.select(ages, older), hw.Select[int])
    chosen = hw.select(desk.board.items, is_open)
    assert_type(chosen, hw.Select[Item])
    assert_type(hw.each(chosen, title_of, name="titles"), hw.Each[str])
    flat = hw.flat_each(desk.board.items, letters)
    assert_type(flat, hw.FlatEach[str])
    assert_type(hw.flat_each(desk.board.items, lambda item: item.tags, name="tags"), hw.FlatEach[str])
    assert_type(hw.flat_each(desk.numbers, lambda number: (number, -number), name="both"), hw.FlatEach[int])
    assert_type(hw.flat_each(desk.numbers, lambda number: [number, -number], name="two"), hw.FlatEach[int])
    choice = hw.if_else(flag, rows, desk.numbers)
    assert_type(choice, hw.Choice[list[str] | list[int]])
    assert_type(hw.if_else(flag, halves, None, name="halved"), hw.Choice[list[float] | None])
    assert_type(desk.app.if_else(flag, 1, "one", name="one"), hw.Choice[int | str])
    assert_type(hw.when(flag, halves), hw.Choice[bool | list[float]])
    assert_type(desk.app.unless(halves, "none"), hw.Choice[list[float] | str])
    with desk.open():
        desk.fill(2)
        assert_type(rows(), list[str])
        assert_type(rows[0], str)
        assert_type(rows[0:1], list[str])
        assert_type(chosen(), list[Item])
        assert_type(next(iter(chosen)), Item)
        assert (rows(), rows[0], chosen()[1].title, flat()) == (["T0", "T1"], "T0", "t1", ["t", "0", "t", "1"])
        assert (choice(), hw.each(desk.numbers, lambda number: [number], name="lists")()) == (["T0", "T1"], [[0], [1]])
