"""Lists that hold what lists seldom do, and readers that come at odd times."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, SchemaError
from tests.declare.lists.kit import Desk, Item, is_open, title_of


@pytest.fixture
def desk() -> Desk:
    return Desk()


def square(number: int) -> int:
    return number * number


def test_links_without_a_class_are_chosen_by_where_they_lead(desk: Desk) -> None:
    mixed = desk.app.cell("mixed", type=list[object], default=[])
    records = desk.app.select(mixed, lambda thing: isinstance(thing, dict), name="records")
    desk.look_at(records)
    with desk.open():
        item = Item(title="a")
        mixed.value = [1, item, "b"]
        assert [each["title"] for each in records() if isinstance(each, dict)] == ["a"]
        desk.runs()
        item.title = "c"
        assert desk.runs() == {"records.element": 1}
        assert [each["title"] for each in records() if isinstance(each, dict)] == ["c"]


def test_links_that_lead_in_a_circle_are_holes(desk: Desk) -> None:
    mixed = desk.app.cell("mixed", type=list[object], default=[])
    one, other = desk.app.cell("one", type=object, default=None), desk.app.cell("other", type=object, default=None)
    rows = desk.app.each(mixed, lambda thing: f"{thing}", name="rows")
    desk.look_at(rows)
    with desk.open():
        one.value, other.value = other, one
        mixed.value = [1, one]
        assert (desk.shown, desk.errors) == ([["1", None]], [])
        one.value = 5
        assert desk.shown == [["1", "5"]]


def test_what_does_not_fit_the_type_is_told_with_its_place(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)
    with desk.open() as space:
        desk.fill(1)
        space.cell("desk.board/items", list[int]).value = [3]
        with pytest.raises(SchemaError, match=r"cannot read desk\.board/items/0: expected a link to Item, got 3"):
            rows()


def test_whoever_has_looked_goes_on_seeing_what_he_saw(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)
    squares = desk.app.each(lambda: sorted(desk.numbers.value), square)
    even = desk.app.select(lambda: sorted(desk.numbers.value), lambda number: number % 2 == 0, name="even")
    with desk.open() as space:
        desk.fill(3)

        def edit() -> None:
            del desk.board.items[1]
            desk.numbers.value = [7]
            # Whoever looks now lets go of those that are gone.
            assert (rows(), squares(), even()) == (["T0", "T2"], [49], [])

        with space.transaction():
            seen = (rows(), squares(), even())
            thread = Thread(target=edit)
            thread.start()
            thread.join()
            assert (rows(), squares(), even()) == seen == (["T0", "T1", "T2"], [0, 1, 4], [0, 2])
        assert (rows(), squares(), even()) == (["T0", "T2"], [49], [])


def test_nothing_is_made_of_nothing(desk: Desk) -> None:
    def twice(item: Item) -> list[str]:
        return [item.title] * 2

    app: Any = desk.app
    source = lambda: [*desk.board.items, None]  # noqa: E731  # a name for what three lists are made of
    rows, chosen, flat = app.each(source, title_of), app.select(source, is_open), app.flat_each(source, twice)
    desk.look_at(rows, chosen, flat)
    with desk.open() as space:
        desk.fill(1)
        item = desk.board.items[0]
        assert desk.shown == [["T0", None], [item], ["t0", "t0"]]
        with space.transaction():
            item.title = "x"
            assert (rows(), chosen(), flat()) == (["X", None], [item], ["x", "x"])


def test_in_a_transaction_that_has_written_a_function_is_asked_anew(desk: Desk) -> None:
    handed_out = desk.app.each(lambda: desk.board.items, title_of, name="handed_out")
    squares = desk.app.each(lambda: sorted(desk.numbers.value), square)
    with desk.open() as space:
        desk.fill(2)
        with space.transaction():
            desk.numbers.value = [3, 1]
            desk.board.items.append(Item(title="new"))
            assert (handed_out(), squares()) == (["T0", "T1", "NEW"], [1, 9])


def test_a_chain_over_a_computed_that_others_call_shares_its_nodes(desk: Desk) -> None:
    @desk.app.computed
    def row(item: Item) -> str:
        return item.title.upper()

    lengths = hw.each(hw.each(desk.board.items, row), lambda text: len(text), name="lengths")  # noqa: PLW0108  # a function of ours
    desk.look_at(lengths)
    with desk.open():
        desk.fill(2)
        desk.board.items[0].title = "longer"
        assert (desk.runs(), desk.shown) == ({"row": 1, "lengths.element": 1}, [[6, 2]])


def test_a_function_that_says_it_returns_no_list_is_told(desk: Desk) -> None:
    app: Any = desk.app
    flat = app.flat_each(desk.numbers, square)
    with desk.open():
        desk.fill(1)
        with pytest.raises(DeclarationError, match=r"flat_each_square\.element\(\) returns int for an element; a list"):
            flat()
