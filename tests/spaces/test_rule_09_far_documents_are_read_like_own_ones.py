"""Rule 9: a run, handling or block reads another space through its replica: each document once, as first seen."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.cells.far import FarReads
from headwater.values.address import far_key, is_far, split_far
from headwater.values.ids import DocKey
from tests.app.holding import in_thread


class Board(hw.Doc):
    """A list and a map, as a document has them."""

    numbers: hw.List[int] = hw.List()
    table: hw.Map[str, int] = hw.Map()


class Towns:
    """Two apps: functions of `near` read what belongs to `far`."""

    def __init__(self, tmp_path: Path) -> None:
        self.near, self.far = hw.App("near"), hw.App("far")
        self.urls = str(tmp_path / "near.db"), str(tmp_path / "far.db")
        self.there = self.far.cell("there", 1)
        self.items = self.far.cell("items", [1, 2])
        self.board = self.far.doc("board", Board)
        self.total = self.far.computed(name="total")(lambda: self.there.value * 10)
        self.row = self.far.computed(name="row")(self._row)
        self.doubled = self.far.each(self.board.numbers, lambda n: n * 2, name="doubled")

    def _row(self, number: int) -> int:
        return self.there.value + number

    def open_near(self) -> hw.Space:
        return self.near.open(self.urls[0])

    def open_far(self) -> hw.Space:
        return self.far.open(self.urls[1])


@pytest.fixture
def towns(tmp_path: Path) -> Towns:
    return Towns(tmp_path)


Use = Callable[[Towns], Any]
Change = Callable[[Towns], object]

READS: dict[str, tuple[Use, Change]] = {
    "value": (lambda t: t.there.value, lambda t: setattr(t.there, "value", 5)),
    "part": (lambda t: t.items.at(0).value, lambda t: setattr(t.items.at(0), "value", 7)),
    "exists": (lambda t: t.there.exists, lambda t: setattr(t.there, "value", 5)),
    "list": (lambda t: list(t.board.numbers), lambda t: t.board.numbers.append(3)),
    "len": (lambda t: len(t.board.numbers), lambda t: t.board.numbers.append(3)),
    "map": (lambda t: "a" in t.board.table, lambda t: t.board.table.__setitem__("a", 1)),
    "computed": (lambda t: t.total(), lambda t: setattr(t.there, "value", 5)),
    "computed with arguments": (lambda t: t.row(2), lambda t: setattr(t.there, "value", 5)),
    "elements": (lambda t: list(t.doubled()), lambda t: t.board.numbers.append(3)),
}


@pytest.mark.parametrize(("read", "change"), READS.values(), ids=READS)
def test_every_kind_of_read_gives_the_value_and_is_woken_by_its_change(towns: Towns, read: Use, change: Change) -> None:
    seen: list[object] = []

    @towns.near.sink
    def show() -> None:
        seen.append(read(towns))

    @towns.near.computed
    def mirror() -> str:
        return repr(read(towns))

    @towns.near.handler
    def ask() -> str:
        return repr(read(towns))

    with towns.open_far(), towns.open_near() as near:
        before = read(towns)
        assert mirror() == repr(before)
        change(towns)
        after = read(towns)
        assert seen == [before, after] != [before, before]
        assert (mirror(), ask.send().result()) == (repr(after), repr(after))
        with near.transaction():
            assert read(towns) == after


def test_functions_of_pieces_and_elements_of_lists_read_it_too(towns: Towns) -> None:
    @hw.pattern
    def card(b: hw.Builder) -> dict[str, object]:
        @b.computed
        def mirror() -> int:
            return towns.there.value

        return {"mirror": mirror}

    mine = towns.near.doc("mine", Board).numbers
    summed = towns.near.each(mine, lambda n: n + towns.there.value, name="summed")
    with towns.open_far(), towns.open_near() as near:
        piece: Any = near.start(card, "a")
        mine.append(1)
        assert (piece.outputs["mirror"](), list(summed())) == (1, [2])
        towns.there.value = 4
        assert (piece.outputs["mirror"](), list(summed())) == (4, [5])


def test_a_handler_sees_each_far_document_once_as_first_seen(towns: Towns) -> None:
    @towns.near.handler
    def twice() -> list[int]:
        first = towns.there.value
        # Another thread, in the middle of the handling.
        in_thread(lambda: setattr(towns.there, "value", 9))
        return [first, towns.there.value]

    with towns.open_far(), towns.open_near():
        assert twice.send().result() == [1, 1]
        assert towns.there.value == 9


def test_what_a_far_transaction_has_not_committed_is_not_seen(towns: Towns) -> None:
    @towns.near.computed
    def mirror() -> int:
        return towns.there.value

    with towns.open_far() as far, towns.open_near():
        with far.transaction():
            towns.there.value = 5
            assert (towns.there.value, mirror()) == (5, 1)
        assert mirror() == 5


def test_a_peek_is_no_dependency(towns: Towns) -> None:
    ran: list[int] = []

    @towns.near.sink
    def show() -> None:
        ran.append(towns.there.peek())

    @towns.near.sink
    def quiet() -> None:
        with hw.untracked():
            ran.append(towns.there.value)

    with towns.open_far(), towns.open_near():
        towns.there.value = 5
    assert ran == [1, 1]


def test_a_run_names_far_reads_with_the_space_and_the_address(towns: Towns) -> None:
    @towns.near.sink
    def show() -> None:
        assert towns.total() >= 0 <= towns.there.value

    with towns.open_far(), towns.open_near() as near:
        towns.there.value = 2
        told = hw.why(show)
        assert "far:far.there" in told
        assert "far:far.total()" in told
        assert "far:far.total" in near.graph()


def test_far_keys_are_told_from_all_others() -> None:
    for key in ("space/a", "user:ann/a", "space/a|b", "space/a/b|c"):
        assert not is_far(DocKey(key))
        far = far_key("7k3q9d4m2x8v1n6p0c5r", DocKey(key))
        assert is_far(far)
        assert split_far(far) == ("7k3q9d4m2x8v1n6p0c5r", key)


def test_a_run_with_far_reads_is_released_without_the_collector() -> None:
    near, far = hw.App("near"), hw.App("far")
    n = far.cell("n", 1)

    @near.computed
    def above() -> int:
        return n.value + 1

    near.sink(name="show")(above)
    with far.open("memory:") as there, near.open("memory:") as here:
        n.value = 2
        for space in (there, here):
            space.sync()
        gc.collect()
        gc.disable()
        try:
            for value in range(50):
                n.value = value
            for space in (there, here):
                space.sync()
            left = [each for each in gc.get_objects() if isinstance(each, FarReads)]
        finally:
            gc.enable()
    assert not left
