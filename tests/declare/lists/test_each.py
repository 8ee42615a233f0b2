"""hw.each: one node for each element, and one for the list. Counts, on short and on long lists."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from tests.declare.lists.kit import Desk, Item, title_of

SIZES = [10, pytest.param(1000, marks=pytest.mark.slow)]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def square(number: int) -> int:
    return number * number


# --- lists of documents -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_one_more_document_costs_two_runs_and_two_writes_however_long_the_list_is(desk: Desk, size: int) -> None:
    rows = hw.each(desk.board.items, title_of)
    desk.look_at(rows)
    with desk.open() as space:
        desk.fill(size)
        with space.transaction():
            desk.board.items.append(Item(title="new"))
        assert desk.runs() == {"each_title_of": 1, "each_title_of.element": 1}
        assert desk.commits() == 3  # the item, its result, the list
        assert rows()[-1] == "NEW"
        assert len(rows()) == size + 1


@pytest.mark.parametrize("size", SIZES)
def test_a_change_inside_one_document_runs_one_element_and_not_the_list(desk: Desk, size: int) -> None:
    rows = hw.each(desk.board.items, title_of)
    desk.look_at(rows)
    with desk.open():
        desk.fill(size)
        desk.board.items[5].title = "other"
        assert desk.runs() == {"each_title_of.element": 1}
        desk.board.items[5].done = True
        assert desk.runs() == {}
        assert rows()[4:7] == ["T4", "OTHER", "T6"]


@pytest.mark.parametrize("size", SIZES)
def test_to_insert_in_the_middle_runs_one_element(desk: Desk, size: int) -> None:
    rows = hw.each(desk.board.items, title_of)
    desk.look_at(rows)
    with desk.open():
        desk.fill(size)
        desk.board.items.insert(size // 2, Item(title="new"))
        assert desk.runs() == {"each_title_of": 1, "each_title_of.element": 1}
        assert rows()[size // 2] == "NEW"


@pytest.mark.parametrize("size", SIZES)
def test_to_reorder_runs_no_element(desk: Desk, size: int) -> None:
    rows = hw.each(desk.board.items, title_of)
    desk.look_at(rows)
    with desk.open():
        desk.fill(size)
        desk.board.items.reverse()
        assert desk.runs() == {"each_title_of": 1}
        assert desk.commits() == 2
        assert rows()[0] == f"T{size - 1}"


@pytest.mark.parametrize("size", SIZES)
def test_to_remove_runs_no_element_and_leaves_no_node(desk: Desk, size: int) -> None:
    rows = hw.each(desk.board.items, title_of)
    desk.look_at(rows)
    with desk.open():
        desk.fill(size)
        before = desk.nodes
        gone = desk.board.items[3]
        del desk.board.items[3]
        assert desk.runs() == {"each_title_of": 1}
        assert desk.nodes == before - 1
        gone.title = "nobody asks"
        assert desk.runs() == {}


def test_a_document_that_leaves_and_changes_in_one_transaction_does_not_run(desk: Desk) -> None:
    desk.look_at(hw.each(desk.board.items, title_of))
    with desk.open() as space:
        desk.fill(10)
        with space.transaction():
            desk.board.items[3].title = "going"
            del desk.board.items[3]
        assert desk.runs() == {"each_title_of": 1}


def test_a_document_that_comes_back_runs_once_and_writes_nothing(desk: Desk) -> None:
    desk.look_at(hw.each(desk.board.items, title_of))
    with desk.open():
        desk.fill(10)
        gone = desk.board.items.pop(3)
        desk.space.sync()
        desk.runs(), desk.commits()
        desk.board.items.append(gone)
        assert desk.runs() == {"each_title_of": 1, "each_title_of.element": 1}
        assert desk.commits() == 2
        assert desk.shown == [["T0", "T1", "T2", "T4", "T5", "T6", "T7", "T8", "T9", "T3"]]


def test_duplicates_of_a_document_share_a_node(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)
    desk.look_at(rows)
    with desk.open():
        desk.fill(3)
        before = desk.nodes
        desk.board.items.append(desk.board.items[0])
        assert (desk.runs(), desk.nodes) == ({"each_title_of": 1}, before)
        desk.board.items[0].title = "twice"
        assert (desk.runs(), rows()) == ({"each_title_of.element": 1}, ["TWICE", "T1", "T2", "TWICE"])
        del desk.board.items[0]
        assert (desk.runs(), rows()) == ({"each_title_of": 1}, ["T1", "T2", "TWICE"])


def test_with_the_index_each_place_has_a_node(desk: Desk) -> None:
    def numbered(item: Item, index: int) -> str:
        return f"{index} {item.title}"

    rows = hw.each(desk.board.items, numbered)
    desk.look_at(rows)
    with desk.open():
        desk.fill(3)
        desk.board.items.append(desk.board.items[0])
        assert desk.runs() == {"each_numbered": 1, "each_numbered.element": 1}
        assert rows() == ["0 t0", "1 t1", "2 t2", "3 t0"]
        del desk.board.items[0]
        assert desk.runs() == {"each_numbered": 1, "each_numbered.element": 3}
        assert rows() == ["0 t1", "1 t2", "2 t0"]


def test_a_second_parameter_with_a_default_is_not_the_index(desk: Desk) -> None:
    def marked(item: Item, mark: str = "*") -> str:
        return mark + item.title

    rows = desk.app.each(desk.board.items, marked)
    with desk.open():
        desk.fill(2)
        assert rows() == ["*t0", "*t1"]


# --- lists of values --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", SIZES)
def test_one_more_value_costs_two_runs_and_two_writes_however_long_the_list_is(desk: Desk, size: int) -> None:
    squares = hw.each(desk.numbers, square)
    desk.look_at(squares)
    with desk.open():
        desk.fill(size)
        desk.numbers.append(7)
        assert desk.runs() == {"each_square": 1, "each_square.element": 1}
        assert desk.commits() == 3
        assert squares()[-1] == 49


@pytest.mark.parametrize("size", SIZES)
def test_a_change_of_one_value_runs_one_element_and_not_the_list(desk: Desk, size: int) -> None:
    squares = hw.each(desk.numbers, square)
    desk.look_at(squares)
    with desk.open():
        desk.fill(size)
        desk.numbers.at(4).value = 100
        assert desk.runs() == {"each_square.element": 1}
        desk.numbers.value = [*desk.numbers.value[:7], 200, *desk.numbers.value[8:]]
        assert desk.runs() == {"each_square.element": 1}
        assert squares()[3:9] == [9, 10_000, 25, 36, 40_000, 64]


def test_values_are_told_by_their_places(desk: Desk) -> None:
    squares = hw.each(desk.numbers, square)
    desk.look_at(squares)
    with desk.open():
        desk.fill(10)
        desk.numbers.insert(7, 70)
        # Those from there on hold something else now.
        assert desk.runs() == {"each_square": 1, "each_square.element": 4}
        assert squares() == [each * each for each in desk.numbers.value]


def test_a_shorter_list_of_values_runs_no_element(desk: Desk) -> None:
    squares = hw.each(desk.numbers, square)
    desk.look_at(squares)
    with desk.open():
        desk.fill(10)
        before = desk.nodes
        desk.numbers.value = desk.numbers.value[:6]
        assert (desk.runs(), desk.nodes, squares()) == ({"each_square": 1}, before - 4, [0, 1, 4, 9, 16, 25])
        assert desk.errors == []


def test_values_with_parts_are_tracked_as_wholes(desk: Desk) -> None:
    people = desk.app.cell("people", [{"name": "ann", "town": "A"}, {"name": "bob", "town": "B"}])

    def name(person: dict[str, str]) -> str:
        return person["name"]

    names = hw.each(people, name)
    desk.look_at(names)
    with desk.open():
        people.value = [{"name": "ann", "town": "A"}, {"name": "bob", "town": "B"}]
        desk.runs(), desk.commits()
        people.at(1, "town").value = "C"
        assert (desk.runs(), desk.commits()) == ({"each_name.element": 1}, 1)
        people.at(1, "name").value = "bert"
        assert (desk.runs(), names()) == ({"each_name.element": 1}, ["ann", "bert"])


def test_holes_stay_where_they_are_and_call_nobody(desk: Desk) -> None:
    ages = desk.app.cell("ages", type=list[int | None], default=[])
    called: list[int] = []

    def older(age: int) -> int:
        called.append(age)
        return age + 1

    rows = hw.each(ages, older)
    desk.look_at(rows)
    with desk.open():
        ages.value = [1, None, 3]
        assert rows() == [2, None, 4]
        ages.at(1).value = 2
        assert rows() == [2, 3, 4]
        ages.at(0).value = None
        assert (rows(), called) == ([None, 3, 4], [1, 3, 2])


def test_documents_that_were_deleted_are_holes_where_the_type_says_so(desk: Desk) -> None:
    class Shelf(hw.Doc):
        items: hw.List[hw.Link[Item | None]] = hw.List()

    shelf: Any = desk.app.doc("shelf", Shelf)  # to type checkers, a link is no document

    def upper(item: Item | None) -> str:
        assert item is not None
        return item.title.upper()

    rows = hw.each(lambda: shelf.items, upper, on=desk.app)
    desk.look_at(rows)
    with desk.open():
        shelf.items = [Item(title="a"), Item(title="b"), None]
        assert desk.shown == [["A", "B", None]]
        hw.delete(shelf.items[0])
        assert desk.shown == [[None, "B", None]]


# --- other sources ----------------------------------------------------------------------------------------


def test_an_absent_list_releases_all_and_reads_as_empty(desk: Desk) -> None:
    maybe: hw.Cell[list[int] | None] = desk.app.cell("maybe", None, type=list[int] | None)
    squares = desk.app.each(maybe, square)
    desk.look_at(squares)
    with desk.open():
        empty = desk.nodes
        assert desk.shown == [[]]
        maybe.value = [1, 2, 3]
        assert (desk.shown, desk.nodes) == ([[1, 4, 9]], empty + 3)
        maybe.value = None
        assert (desk.shown, desk.nodes) == ([[]], empty)
        maybe.value = [4]
        maybe.clear()
        assert (desk.shown, desk.nodes, desk.errors) == ([[]], empty, [])


def test_a_computed_that_returns_a_list_is_a_source(desk: Desk) -> None:
    offset = desk.app.cell("offset", 0)

    @desk.app.computed
    def shifted() -> list[int]:
        return [number + offset.value if number == 3 else number for number in desk.numbers.value]

    squares = hw.each(shifted, square)
    desk.look_at(squares)
    with desk.open():
        desk.fill(10)
        offset.value = 10
        assert desk.runs() == {"shifted": 1, "each_square.element": 1}
        assert squares()[3] == 169
        desk.numbers.append(11)
        assert desk.runs() == {"shifted": 1, "each_square": 1, "each_square.element": 1}


def test_a_function_that_hands_out_a_list_is_a_source(desk: Desk) -> None:
    rows = desk.app.each(lambda: desk.board.items, title_of)
    desk.look_at(rows)
    with desk.open():
        desk.fill(10)
        desk.board.items.insert(2, Item(title="new"))
        assert desk.runs() == {"each_title_of": 1, "each_title_of.element": 1}
        desk.board.items[2].title = "newer"
        assert (desk.runs(), rows()[2]) == ({"each_title_of.element": 1}, "NEWER")


def test_values_that_a_function_returns_are_told_by_themselves(desk: Desk) -> None:
    squares = desk.app.each(lambda: sorted(desk.numbers.value), square)
    desk.look_at(squares)
    with desk.open():
        desk.fill(10)
        desk.numbers.insert(0, 99)
        assert desk.runs() == {"each_square": 1, "each_square.element": 1}
        desk.numbers.insert(0, 5)
        assert desk.runs() == {"each_square": 1}
        assert squares() == [each * each for each in sorted(desk.numbers.value)]


def test_a_function_may_return_documents_and_nothing(desk: Desk) -> None:
    rows = desk.app.each(lambda: [each for each in desk.board.items if each.done] or None, title_of)
    desk.look_at(rows)
    with desk.open():
        desk.fill(10)
        assert desk.shown == [[]]
        desk.board.items[4].done = True
        assert desk.runs() == {"each_title_of": 1, "each_title_of.element": 1}
        assert desk.shown == [["T4"]]


def test_a_list_of_links_without_a_class_is_told_by_where_they_lead(desk: Desk) -> None:
    mixed = desk.app.cell("mixed", type=list[object], default=[])

    def told(thing: object) -> str:
        return str(thing["title"] if isinstance(thing, dict) else thing)

    rows = hw.each(mixed, told)
    desk.look_at(rows)
    with desk.open():
        first, second = Item(title="a"), Item(title="b")
        mixed.value = [first, 1, second]
        assert desk.shown == [["a", "1", "b"]]
        desk.runs()
        second.title = "c"
        assert (desk.runs(), desk.shown) == ({"each_told.element": 1}, [["a", "1", "c"]])
        mixed.value = [second, 1, first]
        assert (desk.runs(), desk.shown) == ({"each_told": 1}, [["c", "1", "a"]])


def test_a_list_of_cells_hands_out_the_cells(desk: Desk) -> None:
    cells = [desk.app.cell(f"c{number}", number) for number in range(3)]
    several = desk.app.cell("several", type=list[hw.Cell[int]], default=[])

    def doubled(cell: hw.Cell[int]) -> int:
        return cell.value * 2

    rows = hw.each(several, doubled)
    desk.look_at(rows)
    with desk.open() as space:
        with space.transaction():
            for number, cell in enumerate(cells):
                cell.value = number
            several.value = cells
        assert desk.shown == [[0, 2, 4]]
        desk.runs()
        cells[1].value = 5
        assert (desk.runs(), desk.shown) == ({"each_doubled.element": 1}, [[0, 10, 4]])


def test_lists_of_lists_are_chained_and_each_link_of_the_chain_runs_alone(desk: Desk) -> None:
    def length(title: str) -> int:
        return len(title)

    rows = hw.each(desk.board.items, title_of)
    lengths = hw.each(rows, length)
    desk.look_at(lengths)
    with desk.open():
        desk.fill(10)
        desk.board.items[3].title = "longer"
        assert desk.runs() == {"each_title_of.element": 1, "each_length.element": 1}
        desk.board.items.append(Item(title="x"))
        assert desk.runs() == {
            "each_title_of": 1,
            "each_title_of.element": 1,
            "each_length": 1,
            "each_length.element": 1,
        }
        assert desk.shown == [[2, 2, 2, 6, 2, 2, 2, 2, 2, 2, 1]]


def test_a_computed_that_is_called_elsewhere_shares_its_nodes(desk: Desk) -> None:
    @desk.app.computed
    def row(item: Item) -> str:
        return item.title.upper()

    rows = hw.each(desk.board.items, row)
    desk.look_at(rows)
    with desk.open():
        desk.fill(3)
        assert [row(item) for item in desk.board.items] == rows() == ["T0", "T1", "T2"]
        assert desk.runs() == {}
        desk.board.items[1].title = "x"
        assert (desk.runs(), row(desk.board.items[1])) == ({"row": 1}, "X")


# --- reading ----------------------------------------------------------------------------------------------


def test_whoever_asks_for_the_length_runs_no_element(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)

    @desk.app.computed
    def count() -> int:
        return len(rows)

    desk.look_at(count)
    with desk.open():
        desk.fill(10)
        desk.board.items.append(Item(title="x"))
        assert desk.runs() == {"each_title_of": 1, "count": 1}
        desk.board.items.reverse()
        assert desk.runs() == {"each_title_of": 1}
        assert desk.shown == [11]


def test_whoever_asks_for_one_element_runs_that_one(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)

    @desk.app.computed
    def third() -> str:
        return rows[2]

    desk.look_at(third)
    with desk.open():
        desk.fill(1)
        assert isinstance(desk.errors.pop().__cause__, IndexError)
        desk.fill(9)
        assert desk.shown == ["T1"]
        desk.board.items.append(Item(title="x"))
        assert desk.runs() == {"each_title_of": 1}
        desk.board.items[4].title = "y"
        assert desk.runs() == {}
        desk.board.items.insert(0, Item(title="z"))
        assert (desk.runs(), desk.shown) == ({"each_title_of": 1, "each_title_of.element": 1, "third": 1}, ["T0"])


def test_a_loop_that_is_left_reads_no_further(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)

    @desk.app.computed
    def found() -> str:
        for row in rows:
            if row.endswith("3"):
                return row
        return "none"

    desk.look_at(found)
    with desk.open():
        desk.fill(1000)
        assert desk.space.runs(rows.element) == 4
        desk.board.items[900].title = "t3"
        assert desk.runs() == {}
        desk.board.items[1].title = "first 3"
        assert (desk.runs(), desk.shown) == ({"each_title_of.element": 1, "found": 1}, ["FIRST 3"])


def test_it_is_read_like_a_list(desk: Desk) -> None:
    squares = hw.each(desk.numbers, square)
    with desk.open():
        assert (squares(), len(squares), list(squares), squares[1:]) == ([], 0, [], [])
        desk.fill(5)
        assert squares() == [0, 1, 4, 9, 16]
        assert (squares[-1], squares[1:3], squares[::-2], len(squares)) == (16, [1, 4], [16, 4, 0], 5)
        assert list(squares) == [*squares]
        for beyond in (5, -6):
            with pytest.raises(IndexError, match=f"each_square has no element {beyond}: its length is 5"):
                squares[beyond]
        with pytest.raises(TypeError):
            squares["1"]  # type: ignore[call-overload]  # that is what is refused
        found = squares()
        found.append(1)
        assert squares() == [0, 1, 4, 9, 16]


def test_nobody_looks_and_nothing_runs(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)
    with desk.open():
        desk.fill(10)
        desk.board.items[0].title = "x"
        assert desk.runs() == {}
        assert rows()[0] == "X"
        assert desk.runs() == {"each_title_of": 1, "each_title_of.element": 10}


def test_it_stands_in_the_store_as_links_to_the_results(desk: Desk) -> None:
    rows = hw.each(desk.board.items, title_of)
    desk.look_at(rows)
    with desk.open() as space:
        desk.fill(2)
        assert space.cell(rows.address).value == ["T0", "T1"]
        assert repr(rows) == "<each desk.each_title_of>"
        assert "each_title_of" in hw.why(rows)
