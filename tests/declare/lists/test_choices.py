"""hw.if_else, hw.when, hw.unless: the branch that is chosen is read, and the other is not even run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError
from tests.declare.lists.kit import Desk, Item, title_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def desk() -> Desk:
    return Desk()


class Pair:
    """Two computed functions over a cell each, and a flag."""

    def __init__(self, desk: Desk) -> None:
        app = desk.app
        self.flag = flag = app.cell("flag", default=True)
        self.left_in = left_in = app.cell("left_in", 1)
        self.right_in = right_in = app.cell("right_in", 2)

        @app.computed
        def left() -> int:
            return left_in.value

        @app.computed
        def right() -> int:
            return right_in.value

        self.left, self.right = left, right
        self.choice = app.if_else(flag, left, right)


def test_the_other_branch_never_runs(desk: Desk) -> None:
    pair = Pair(desk)
    desk.look_at(pair.choice)
    with desk.open():
        assert (desk.shown, desk.runs()) == ([1], {"left": 1, "if_flag": 1})
        pair.right_in.value = 20
        assert desk.runs() == {}
        pair.left_in.value = 10
        assert (desk.shown, desk.runs()) == ([10], {"left": 1})
        pair.flag.value = False
        assert (desk.shown, desk.runs()) == ([20], {"right": 1, "if_flag": 1})
        pair.left_in.value = 11
        assert desk.runs() == {}


def test_the_other_branch_is_not_live(desk: Desk) -> None:
    pair = Pair(desk)
    desk.look_at(pair.choice)
    with desk.open() as space:

        def live() -> set[str]:
            return {node.name for node in space.scheduler.registry.nodes if node.is_live}

        assert live() == {"left", "if_flag", "look"}
        pair.flag.value = False
        assert live() == {"right", "if_flag", "look"}


def test_a_condition_that_stays_true_wakes_nobody(desk: Desk) -> None:
    count = desk.app.cell("count", 1)
    choice = desk.app.if_else(lambda: count.value > 0, "some", "none", name="amount")

    @desk.app.computed
    def read() -> str:
        return choice()

    desk.look_at(read)
    with desk.open():
        desk.runs()
        count.value = 2
        assert desk.runs() == {"amount": 1}
        count.value = 0
        assert (desk.runs(), desk.shown) == ({"amount": 1, "read": 1}, ["none"])


def test_the_stored_result_is_a_link_to_the_branch(desk: Desk) -> None:
    pair = Pair(desk)
    desk.look_at(pair.choice)
    with desk.open() as space:
        assert space._opening.replica.read(hw_key(pair.choice)) == {
            "/": {"link@1": {"id": "desk.left", "scope": "space"}}
        }
        assert space.cell(pair.choice.address).value == 1
        assert repr(pair.choice) == "<choice desk.if_flag>"


def hw_key(function: hw.Computed[[], Any]) -> Any:
    return f"space/{function.address}"


def test_branches_are_cells_documents_lists_and_values(desk: Desk) -> None:
    flag = desk.app.cell("flag", default=True)
    cell = desk.app.cell("cell", 5)
    rows = hw.each(desk.board.items, title_of)
    of_cell = hw.if_else(flag, cell, None)
    of_list = hw.if_else(flag, [1, {"a": 2}], rows, name="list")
    of_doc = hw.if_else(flag, desk.board, "none", name="doc")
    of_items = hw.if_else(flag, desk.board.items, 0, name="items")
    desk.look_at(of_cell, of_list, of_doc, of_items)
    with desk.open():
        desk.fill(2)
        assert desk.shown == [5, [1, {"a": 2}], desk.board, desk.board.items]
        desk.runs()
        cell.value = 6
        assert (desk.shown[0], desk.runs()) == (6, {})
        flag.value = False
        assert desk.shown == [None, ["T0", "T1"], "none", 0]
        desk.runs()
        desk.board.items.append(Item(title="x"))
        assert (desk.shown[1], desk.runs()) == (["T0", "T1", "X"], {"each_title_of": 1, "each_title_of.element": 1})


def test_a_value_cannot_be_changed_by_whoever_reads_it(desk: Desk) -> None:
    flag = desk.app.cell("flag", default=True)
    given = [1]
    choice: hw.Choice[list[int]] = desk.app.if_else(flag, given, [2])
    with desk.open():
        given.append(2)
        assert choice() == [1]
        with pytest.raises(hw.HeadwaterError, match="frozen"):
            choice().append(3)


def test_when_gives_the_value_or_the_condition(desk: Desk) -> None:
    count = desk.app.cell("count", 0)
    name = desk.app.cell("name", "ann")
    choice = hw.when(count, name)
    desk.look_at(choice)
    with desk.open():
        assert desk.shown == [0]
        count.value = 3
        assert desk.shown == ["ann"]
        name.value = "bob"
        assert desk.shown == ["bob"]
        count.value = 0
        assert desk.shown == [0]


def test_unless_gives_the_condition_or_the_value(desk: Desk) -> None:
    nick = desk.app.cell("nick", "")

    @desk.app.computed
    def shout() -> str:
        return nick.value.upper()

    choice = hw.unless(shout, "nobody")
    desk.look_at(choice)
    with desk.open():
        assert (desk.shown, desk.runs()) == (["nobody"], {"shout": 1, "unless_shout": 1})
        nick.value = "ann"
        assert (desk.shown, desk.runs()) == (["ANN"], {"shout": 1, "unless_shout": 1})
        nick.value = "bob"
        assert desk.shown == ["BOB"]


def test_what_a_function_says_is_kept_to_be_the_branch(desk: Desk) -> None:
    def total() -> int:
        return sum(desk.numbers.value)

    choice = desk.app.when(total, "some")
    desk.look_at(choice)
    with desk.open():
        assert desk.shown == [0]
        desk.numbers.value = [1, 2]
        assert desk.shown == ["some"]
        desk.numbers.value = [1, -1]
        assert desk.shown == [0]


def test_choices_can_be_nested(desk: Desk) -> None:
    pair = Pair(desk)
    outer = desk.app.cell("outer", default=False)
    both = hw.if_else(outer, pair.choice, "off")
    desk.look_at(both)
    with desk.open():
        assert (desk.shown, desk.runs()) == (["off"], {"if_outer": 1})
        outer.value = True
        assert (desk.shown, desk.runs()) == ([1], {"if_outer": 1, "if_flag": 1, "left": 1})


def test_a_condition_that_fails_is_told_to_whoever_reads(desk: Desk) -> None:
    count = desk.app.cell("count", 0)
    choice = desk.app.if_else(lambda: 1 / count.value > 0, "plus", "minus", name="sign")
    with desk.open():
        with pytest.raises(ZeroDivisionError):
            choice()
        count.value = -1
        assert choice() == "minus"


def test_in_a_transaction_that_has_written_it_sees_what_was_written(desk: Desk) -> None:
    pair = Pair(desk)
    with desk.open() as space:
        with space.transaction():
            pair.flag.value = False
            pair.right_in.value = 7
            assert pair.choice() == 7
        assert pair.choice() == 7


def test_a_user_s_own_condition_is_that_user_s_own_choice(desk: Desk, tmp_path: Path) -> None:
    mine = desk.app.cell("mine", default=False, scope="user")
    choice = hw.if_else(mine, "yes", "no")
    for actor, wanted in (("ann", "yes"), ("bob", "no"), ("ann", "yes")):
        with desk.app.open(tmp_path / "own.db", actor=actor):
            assert (choice() == wanted) or not mine.exists
            mine.value = actor == "ann"
            assert choice() == wanted


def test_a_restart_runs_no_choice_and_no_branch(desk: Desk, tmp_path: Path) -> None:
    pair = Pair(desk)
    desk.look_at(pair.choice)
    for runs in ({"left": 1, "if_flag": 1}, {}):
        with desk.open(tmp_path / "kept.db"):
            assert (desk.runs(), desk.shown) == (runs, [1])


def test_other_branches_are_another_choice(tmp_path: Path) -> None:
    for then in ("one", "two"):
        desk = Desk()
        flag = desk.app.cell("flag", default=True)
        choice = hw.if_else(flag, then, "none")
        with desk.open(tmp_path / "edited.db"):
            assert (choice(), desk.runs()) == (then, {"if_flag": 1})


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda app, _: app.if_else(3, 1, 2), "int 3 is no condition; give a cell, a computed, or a function"),
        (lambda app, _: app.if_else(lambda: True, 1, 2), "app.if_else needs a name for"),
        (lambda app, flag: app.if_else(flag, lambda: 1, 2), "is a function; a branch is a cell, a value, or made"),
        (lambda app, flag: app.if_else(flag, object(), 2), "app.if_else 'if_flag'"),
        (lambda app, _: app.when(lambda x: x, 2, name="n"), "the condition takes parameters"),
        (lambda app, flag: (app.if_else(flag, 1, 2), app.if_else(flag, 1, 2)), "has 'if_flag' already"),
        (lambda _, __: hw.if_else(lambda: 1, 1, 2, name="n"), "hw.if_else: nothing here says which app it is for"),
        (lambda _, __: hw.unless(3, 1), "hw.unless: int 3 is no condition; give a cell, a computed"),  # type: ignore[call-overload]  # so
        (lambda _, flag: hw.when(flag, 1, on="x"), "on='x'; an app is expected"),  # type: ignore[call-overload]  # so
    ],
)
def test_wrong_use_is_told(desk: Desk, make: Any, told: str) -> None:
    flag = desk.app.cell("flag", default=True)
    with pytest.raises(DeclarationError) as found:
        make(desk.app, flag)
    assert told in str(found.value)


def test_an_async_condition_is_refused(desk: Desk) -> None:
    async def later() -> bool:
        return True

    with pytest.raises(DeclarationError, match="the condition is async; make a computed of it"):
        desk.app.if_else(later, 1, 2)


def test_a_computed_with_parameters_is_no_branch(desk: Desk) -> None:
    @desk.app.computed
    def row(item: Item) -> str:
        return item.title

    flag = desk.app.cell("flag", default=True)
    with pytest.raises(DeclarationError, match=r"row\(\) takes parameters; give a computed without any"):
        desk.app.if_else(flag, row, 2)
