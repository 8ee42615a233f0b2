"""hw.select and hw.flat_each: who is chosen, what is made of each, and what a change of one costs."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from tests.declare.lists.kit import Desk, Item, is_open, title_of

SIZES = [10, pytest.param(1000, marks=pytest.mark.slow)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def is_even(number: int) -> bool:
    return number % 2 == 0


def tags_of(item: Item) -> list[str]:
    return list(item.tags)


def titles(found: object) -> list[str]:
    assert isinstance(found, list)
    return [item.title for item in found]


# --- select -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_to_flip_one_runs_one_element_and_what_puts_them_together(desk: Desk, size: int) -> None:
    chosen = hw.select(desk.board.items, is_open)
    desk.look_at(chosen)
    with desk.open():
        desk.fill(size)
        desk.board.items[4].done = True
        assert desk.runs() == {"select_is_open": 1, "select_is_open.element": 1}
        assert len(chosen()) == size - 1
        desk.board.items[5].title = "not asked for"
        assert desk.runs() == {}
        assert titles(chosen())[3:5] == ["t3", "not asked for"]


@pytest.mark.parametrize("size", SIZES)
def test_one_more_costs_the_same_however_long_the_list_is(desk: Desk, size: int) -> None:
    desk.look_at(hw.select(desk.board.items, is_open))
    with desk.open() as space:
        desk.fill(size)
        with space.transaction():
            desk.board.items.append(Item(title="new"))
        assert desk.runs() == {"select_is_open.each": 1, "select_is_open": 1, "select_is_open.element": 1}
        assert desk.commits() == 4
        with space.transaction():
            desk.board.items.append(Item(title="done", done=True))
        assert desk.runs() == {"select_is_open.each": 1, "select_is_open": 1, "select_is_open.element": 1}
        # It is not among them.
        assert desk.commits() == 3


def test_the_order_is_that_of_the_list(desk: Desk) -> None:
    chosen = hw.select(desk.board.items, is_open)
    desk.look_at(chosen)
    with desk.open():
        desk.fill(5)
        desk.board.items[2].done = True
        assert titles(chosen()) == ["t0", "t1", "t3", "t4"]
        desk.runs()
        desk.board.items.reverse()
        assert desk.runs() == {"select_is_open.each": 1, "select_is_open": 1}
        assert titles(chosen()) == ["t4", "t3", "t1", "t0"]
        assert [*chosen] == [*desk.board.items[:2], *desk.board.items[3:]]


def test_values_are_chosen_by_their_places(desk: Desk) -> None:
    even = hw.select(desk.numbers, is_even)
    desk.look_at(even)
    with desk.open():
        desk.fill(10)
        assert even() == [0, 2, 4, 6, 8]
        desk.numbers.at(4).value = 40
        # Who is chosen is as it was, and so is the list of them: whoever reads it reads what it leads to.
        assert (desk.runs(), desk.shown) == ({"select_is_even.element": 1}, [[0, 2, 40, 6, 8]])
        desk.numbers.at(4).value = 41
        assert desk.runs() == {"select_is_even.element": 1, "select_is_even": 1}
        assert (desk.shown, len(even), even[-1]) == ([[0, 2, 6, 8]], 4, 8)
        desk.numbers.value = [2]
        assert (desk.shown, desk.errors) == ([[2]], [])


def test_holes_are_not_chosen(desk: Desk) -> None:
    ages = desk.app.cell("ages", type=list[int | None], default=[])
    grown = hw.select(ages, lambda _: True, name="grown")
    with desk.open():
        ages.value = [None, 1, None, 0]
        assert grown() == [1, 0]


def test_whatever_is_true_counts(desk: Desk) -> None:
    chosen = desk.app.select(desk.numbers, lambda number: number % 3, name="chosen")
    with desk.open():
        desk.fill(7)
        assert chosen() == [1, 2, 4, 5]


def test_a_list_that_is_handed_out_is_asked_for_elements_as_long_as_somebody_looks(desk: Desk) -> None:
    chosen = hw.select(desk.board.items, lambda item: item.tags, name="tagged")
    desk.look_at(chosen)
    with desk.open():
        desk.fill(3)
        tags = desk.board.items[1].tags
        tags.append("a")
        assert (titles(desk.shown[0]), desk.runs()) == (["t1"], {"tagged": 1, "tagged.element": 1})
        tags.append("b")
        assert desk.runs().get("tagged") is None
        tags.clear()
        assert titles(desk.shown[0]) == []


def test_what_cannot_be_asked_whether_it_is_true_is_told(desk: Desk) -> None:
    chosen = desk.app.select(desk.numbers, lambda _: desk.numbers, name="cells")
    with desk.open():
        desk.fill(1)
        with pytest.raises(hw.HeadwaterError, match="value"):
            chosen()


def test_with_the_index(desk: Desk) -> None:
    chosen = desk.app.select(desk.board.items, lambda _item, index: index > 2, name="late")
    with desk.open():
        desk.fill(5)
        assert titles(chosen()) == ["t3", "t4"]


def test_values_that_a_function_returns_are_chosen_themselves(desk: Desk) -> None:
    even = desk.app.select(lambda: sorted(desk.numbers.value), is_even)
    desk.look_at(even)
    with desk.open():
        desk.fill(5)
        desk.numbers.append(4)
        assert desk.shown == [[0, 2, 4, 4]]


def test_a_selection_is_the_source_of_another_list(desk: Desk) -> None:
    rows = hw.each(hw.select(desk.board.items, is_open), title_of)
    desk.look_at(rows)
    with desk.open():
        desk.fill(10)
        desk.board.items[3].done = True
        assert desk.runs() == {"select_is_open": 1, "select_is_open.element": 1, "each_title_of": 1}
        desk.board.items[4].title = "x"
        assert (desk.runs(), rows()[3]) == ({"each_title_of.element": 1}, "X")


def test_a_selection_of_values_is_the_source_of_another_list(desk: Desk) -> None:
    def text(number: int) -> str:
        return str(number)

    texts = hw.each(hw.select(desk.numbers, is_even), text)
    desk.look_at(texts)
    with desk.open():
        desk.fill(6)
        desk.numbers.at(2).value = 20
        assert desk.runs() == {"select_is_even.element": 1, "each_text.element": 1}
        desk.numbers.at(2).value = 21
        # It has changed, and is run before it is known that it is not among them any more.
        assert desk.runs() == {
            "select_is_even.element": 1,
            "select_is_even": 1,
            "each_text": 1,
            "each_text.element": 1,
        }
        assert desk.shown == [["0", "4"]]


def test_what_fails_for_one_that_is_chosen_no_more_concerns_nobody(desk: Desk) -> None:
    def inverse(number: int) -> float:
        return 1 / number

    rows = hw.each(desk.app.select(desk.numbers, lambda number: number != 0, name="others"), inverse)
    desk.look_at(rows)
    with desk.open():
        desk.numbers.value = [1, 2, 4]
        assert desk.shown == [[1, 0.5, 0.25]]
        desk.numbers.at(1).value = 0
        assert (desk.shown, desk.errors) == ([[1, 0.25]], [])
        desk.numbers.at(1).value = 5
        assert (desk.shown, desk.errors) == ([[1, 0.2, 0.25]], [])


# --- flat_each --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_what_is_made_of_one_element_runs_no_other(desk: Desk, size: int) -> None:
    tags = hw.flat_each(desk.board.items, tags_of)
    desk.look_at(tags)
    with desk.open():
        desk.fill(size)
        desk.board.items[2].tags.extend(["a", "b"])
        assert desk.runs() == {"flat_each_tags_of": 1, "flat_each_tags_of.element": 1}
        desk.board.items[7].tags.append("c")
        assert desk.shown == [["a", "b", "c"]]
        desk.runs()
        desk.board.items[2].tags[1] = "B"
        # There are as many as before: only whoever reads it looks again.
        assert (desk.runs(), desk.shown) == ({"flat_each_tags_of.element": 1}, [["a", "B", "c"]])
        desk.board.items.append(Item(title="x", tags=["d"]))  # type: ignore[arg-type]  # a list is stored as one
        assert desk.runs() == {
            "flat_each_tags_of.each": 1,
            "flat_each_tags_of": 1,
            "flat_each_tags_of.element": 1,
        }
        assert (desk.shown, len(tags), tags[-1]) == ([["a", "B", "c", "d"]], 4, "d")


def test_lists_are_spread_one_level_and_none_is_left_out(desk: Desk) -> None:
    def spread(number: int) -> list[list[int] | None] | None:
        return None if number == 1 else [[number] * number, None]

    flat = hw.flat_each(desk.numbers, spread)
    desk.look_at(flat)
    with desk.open():
        desk.fill(4)
        assert desk.shown == [[[], [2, 2], [3, 3, 3]]]
        desk.numbers.at(2).value = 1
        assert desk.shown == [[[], [3, 3, 3]]]


def test_what_is_made_of_documents_is_documents(desk: Desk) -> None:
    def pair(item: Item) -> list[Item]:
        return [item, desk.board.items[0]]

    flat = hw.flat_each(desk.board.items, pair)
    desk.look_at(flat)
    with desk.open():
        desk.fill(2)
        assert titles(flat()) == ["t0", "t0", "t1", "t0"]
        desk.board.items[1].title = "x"
        assert desk.runs() == {}
        assert titles(flat()) == ["t0", "t0", "x", "t0"]


def test_holes_make_nothing(desk: Desk) -> None:
    ages = desk.app.cell("ages", type=list[int | None], default=[])
    flat = desk.app.flat_each(ages, lambda age: [age, age], name="twice")
    with desk.open():
        ages.value = [None, 1, None]
        assert flat() == [1, 1]


def test_a_tuple_or_a_list_of_a_document_will_do(desk: Desk) -> None:
    def both(number: int) -> tuple[int, ...]:
        return (number, -number)

    def of(item: Item) -> hw.List[str]:
        return item.tags

    flat, tags = hw.flat_each(desk.numbers, both), hw.flat_each(desk.board.items, of)
    with desk.open():
        desk.fill(2)
        desk.board.items[0].tags.append("a")
        assert (flat(), tags()) == ([0, 0, 1, -1], ["a"])


def test_a_list_of_a_document_that_is_handed_out_is_looked_at_as_long_as_somebody_looks(desk: Desk) -> None:
    tags = hw.flat_each(desk.board.items, lambda item: item.tags, name="tags")
    desk.look_at(tags)
    with desk.open():
        desk.fill(2)
        item = desk.board.items[0]
        item.tags.append("a")
        assert desk.shown == [["a"]]
        item.tags.append("b")
        item.tags[0] = "z"
        assert desk.shown == [["z", "b"]]
        desk.runs()
        desk.board.items[1].tags.append("c")
        assert (desk.shown, desk.runs()) == ([["z", "b", "c"]], {"tags": 1, "tags.element": 1})
        item.tags.clear()
        assert desk.shown == [["c"]]


def test_what_is_no_list_is_told(desk: Desk) -> None:
    app: Any = desk.app
    flat = app.flat_each(desk.numbers, lambda number: f"{number}", name="texts")
    with desk.open():
        desk.fill(1)
        with pytest.raises(hw.HeadwaterError, match=r"texts\.element\(\) returned str '0' for an element; a list is"):
            flat()


def test_a_flat_list_is_the_source_of_another(desk: Desk) -> None:
    def upper(tag: str) -> str:
        return tag.upper()

    rows = hw.each(hw.flat_each(desk.board.items, tags_of), upper)
    desk.look_at(rows)
    with desk.open():
        desk.fill(3)
        desk.board.items[1].tags.extend(["a", "b"])
        assert desk.shown == [["A", "B"]]
        desk.runs()
        desk.board.items[1].tags[0] = "x"
        assert (desk.runs(), desk.shown) == (
            {"flat_each_tags_of.element": 1, "each_upper.element": 1},
            [["X", "B"]],
        )
