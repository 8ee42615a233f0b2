"""All that an app declares can be declared in a piece; and a pattern can be declared anew while it is at work."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.testing import probe
from tests.runtime.pieces.kit import Told, check_held, held, stored

told = Told()


@pytest.fixture(autouse=True)
def _told_anew() -> None:
    told.taken()


def made(factor: int) -> Any:
    @hw.pattern
    def scaled(p: hw.Builder, start: int) -> dict[str, Any]:
        n = p.cell("n", start)

        @p.computed
        def times() -> int:
            told("times")
            return n.value * factor

        @p.computed
        def squared() -> int:
            told("squared")
            return n.value * n.value

        return {"n": n, "times": times, "squared": squared}

    return scaled


def test_a_pattern_that_is_declared_anew_takes_the_place_of_the_one_before() -> None:
    """As in a notebook."""
    with hw.App("t").open("memory:") as space:
        first = space.start(made(2), "k", start=3)
        assert (first.outputs["times"](), first.outputs["squared"]()) == (6, 9)
        told.taken()
        again = space.start(made(5), "k", start=3)
        assert again is first
        assert (again.outputs["times"](), again.outputs["squared"]()) == (15, 9)
        assert (told.taken(), again.generation) == (["times"], 2)
        assert space.start(made(5), "k", start=3).generation == 2
        assert told.taken() == []
        check_held(space)


@hw.pattern
def clerk(p: hw.Builder, words: hw.Cell[list[str]]) -> dict[str, Any]:
    count = p.cell("count", 0)
    index = p.cell("index", dict[str, int]())

    @p.computed(writes=count)
    def longest() -> str:
        count.value = len(words.value)
        return max(words.value, key=len, default="")

    @p.materializer(writes=index)
    def fill() -> None:
        index.value = {word: len(word) for word in words.value}

    @p.sink(debounce="100ms")
    def late() -> None:
        told("late", len(words.value))

    @p.sink
    def show() -> None:
        told("show", longest())

    return {"count": count, "index": index, "longest": longest}


def test_writers_materializers_and_what_waits_for_quiet_go_with_their_piece() -> None:
    app = hw.App("t")
    words = app.cell("words", ["a", "bcd"])
    with probe(app) as t:
        before = held(t.space)  # type: ignore[arg-type]  # it is one for plain code
        piece = t.space.start(clerk, "c", words=words)
        t.advance("1s")
        assert (piece.outputs["count"].value, piece.outputs["index"].value) == (2, {"a": 1, "bcd": 3})
        assert sorted(told.taken()) == [("late", 2), ("show", "bcd")]
        words.value = [*words.value, "efghi"]
        assert (piece.outputs["count"].value, piece.outputs["index"].value["efghi"]) == (3, 5)
        assert told.taken() == [("show", "efghi")]
        piece.stop()
        t.advance("1s")
        assert told.taken() == [], "its time does not come any more"
        words.value = []
        assert (piece.outputs["count"].value, len(piece.outputs["index"].value)) == (3, 3)
        assert held(t.space) == before  # type: ignore[arg-type]  # likewise
        t.restart()
        assert told.taken() == []
        again = t.space.start(clerk, "c", words=words)
        t.advance("1s")
        assert (again.outputs["count"].value, again.outputs["index"].value) == (0, {})
        check_held(t.space)  # type: ignore[arg-type]  # likewise


def test_choices_and_selections_are_of_their_piece() -> None:
    @hw.pattern
    def chooser(p: hw.Builder, numbers: hw.Cell[list[int]]) -> dict[str, Any]:
        flag = p.cell("flag", default=True)
        one = p.cell("one", "one")
        two = p.cell("two", "two")
        chosen = p.if_else(flag, one, two, name="chosen")
        even = p.select(numbers, lambda number: number % 2 == 0, name="even")

        @p.sink
        def show() -> None:
            told(chosen(), list(even()))

        return {"flag": flag, "numbers": numbers}

    app = hw.App("t")
    numbers = app.cell("numbers", [1, 2, 3, 4])
    with app.open("memory:") as space:
        before = held(space)
        piece = space.start(chooser, "c", numbers=numbers)
        assert told.taken() == [("one", [2, 4])]
        piece.outputs["flag"].value = False
        numbers.value = [2, 6]
        assert told.taken() == [("two", [2, 4]), ("two", [2, 6])]
        check_held(space)
        piece.stop()
        assert held(space) == before
        numbers.value = [8]
        space.start(chooser, "c", numbers=numbers)
        assert told.taken() == [("two", [8])]
        check_held(space)


def test_streams_of_a_piece_are_handled_there() -> None:
    @hw.pattern
    def inbox(p: hw.Builder) -> dict[str, Any]:
        total = p.cell("total", 0)
        amounts = p.stream("amounts", int)

        @p.handler(on=amounts)
        def add(amount: int) -> None:
            total.value += amount

        return {"amounts": amounts, "total": total}

    with hw.App("t").open("memory:") as space:
        one, two = (space.start(inbox, key) for key in "ab")
        one.outputs["amounts"].send(3).result()
        assert (one.outputs["total"].value, two.outputs["total"].value) == (3, 0)
        one.stop()
        space.start(inbox, "a")
        one.outputs["amounts"].send(4).result()
        assert one.outputs["total"].value == 7


def test_a_single_piece_or_resource_is_an_output_too() -> None:
    @hw.pattern
    def small(p: hw.Builder) -> hw.Cell[int]:
        return p.cell("c", 1)

    @hw.pattern
    def around(p: hw.Builder) -> hw.Piece[hw.Cell[int]]:
        return p.start(small, "in")

    @hw.pattern
    def asking(p: hw.Builder) -> Any:
        @p.resource
        async def hits(q: str) -> str:
            return q

        return hits

    with hw.App("t").open("memory:") as space:
        piece = space.start(around, "a")
        assert piece.outputs.outputs.value == 1
        assert stored(space, piece)["outputs"] == {"result": piece.outputs.__headwater_value__()}
        asked = space.start(asking, "b")
        assert asked.outputs("x") == hw.Pending()
        check_held(space)
