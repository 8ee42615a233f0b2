"""Plain Python inside a computed is as precise as the words for graphs: what is not called does not run."""

from __future__ import annotations

import pytest

from tests.declare.lists.kit import Desk, Item


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("size", [10, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_comprehension_calls_what_it_calls(desk: Desk, size: int) -> None:
    @desk.app.computed
    def row(item: Item) -> str:
        return item.title.upper()

    @desk.app.computed
    def rows() -> list[str]:
        return [row(item) for item in desk.board.items if not item.done]

    desk.look_at(rows)
    with desk.open():
        desk.fill(size)
        desk.board.items[3].title = "x"
        assert desk.runs() == {"row": 1, "rows": 1}
        desk.board.items.insert(2, Item(title="new"))
        assert desk.runs() == {"row": 1, "rows": 1}
        desk.board.items.reverse()
        assert desk.runs() == {"rows": 1}
        desk.board.items[4].done = True
        assert desk.runs() == {"rows": 1}
        desk.board.items[4].title = "nobody asks"
        assert desk.runs() == {}
        desk.board.items[4].done = False
        assert desk.runs() == {"row": 1, "rows": 1}
        assert len(rows()) == size + 1


def test_an_if_runs_one_branch(desk: Desk) -> None:
    flag = desk.app.cell("flag", default=True)
    left_in, right_in = desk.app.cell("left_in", 1), desk.app.cell("right_in", 2)

    @desk.app.computed
    def left() -> int:
        return left_in.value

    @desk.app.computed
    def right() -> int:
        return right_in.value

    @desk.app.computed
    def either() -> int:
        return left() if flag.value else right()

    desk.look_at(either)
    with desk.open():
        assert desk.runs() == {"left": 1, "either": 1}
        right_in.value = 20
        assert desk.runs() == {}
        flag.value = False
        assert (desk.runs(), desk.shown) == ({"right": 1, "either": 1}, [20])
        left_in.value = 10
        assert desk.runs() == {}


def test_any_looks_no_further_than_it_has_to(desk: Desk) -> None:
    @desk.app.computed
    def is_long(number: int) -> bool:
        return number > 2

    @desk.app.computed
    def some() -> bool:
        return any(is_long(number) for number in desk.numbers.value)

    desk.look_at(some)
    with desk.open():
        desk.numbers.value = [1, 5, 6, 7]
        assert desk.runs() == {"is_long": 2, "some": 2}
