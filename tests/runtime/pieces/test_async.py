"""Pieces in an event loop: async functions in them, and async functions that start them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import headwater as hw
from headwater.errors import UsageError
from tests.app.simulated import Lab, pause
from tests.runtime.pieces.kit import check_held, held, stored


@pytest.fixture
def lab() -> Lab:
    return Lab()


@pytest.fixture
def slow(lab: Lab) -> Any:  # a pattern
    @hw.pattern
    def searching(p: hw.Builder, text: str) -> dict[str, Any]:
        times = p.cell("times", 1)

        @p.computed
        async def hits() -> str:
            found = text * times.value
            try:
                await pause(100)
            except asyncio.CancelledError:
                lab.note("cancelled", text)
                raise
            lab.note("hits", text)
            return found

        @p.sink
        def show() -> None:
            lab.note("show", hits())

        @p.handler
        async def more() -> int:
            now = times.value
            await pause(100)
            times.value = now + 1
            return now + 1

        return {"hits": hits, "times": times, "more": more}

    return searching


def test_a_piece_that_is_stopped_cancels_what_is_under_way(lab: Lab, slow: Any) -> None:
    async def main() -> None:
        async with lab.open() as space:
            before = held(space)
            piece = space.start(slow, "s", text="a")
            await pause(50)
            piece.stop()
            await space.settle()
            assert lab.taken() == [(50, "cancelled", "a")]
            assert (held(space), piece.status) == (before, "stopped")
            space.start(slow, "s", text="a")
            await space.settle()
            assert lab.taken() == [(150, "hits", "a"), (150, "show", "a")]
            check_held(space)

    lab.run(main)


def test_a_piece_that_is_built_anew_lets_what_is_not_concerned_go_on(lab: Lab) -> None:
    @hw.pattern
    def two(p: hw.Builder, one: str, other: str) -> None:
        @p.sink
        async def first() -> None:
            found = one
            await pause(100)
            lab.note("first", found)

        @p.sink
        async def second() -> None:
            found = other
            await pause(100)
            lab.note("second", found)

    async def main() -> None:
        async with lab.open() as space:
            space.start(two, "t", one="a", other="b")
            await pause(50)
            space.start(two, "t", one="a", other="c")
            await space.settle()
            assert lab.taken() == [(100, "first", "a"), (150, "second", "c")]
            check_held(space)

    lab.run(main)


def test_a_handler_of_a_piece_that_is_stopped_while_it_waits(lab: Lab, slow: Any) -> None:
    async def main() -> None:
        async with lab.open() as space:
            piece = space.start(slow, "s", text="a")
            ticket = piece.outputs["more"].send()
            await pause(50)
            piece.stop()
            assert await ticket == 2, "what has begun comes to its end"
            assert piece.outputs["times"].value == 2
            check_held(space)

    lab.run(main)


def test_what_an_async_handler_starts_begins_when_it_has_ended(lab: Lab, slow: Any) -> None:
    fails = [True]

    @lab.app.handler
    async def make() -> str:
        piece = hw.start(slow, "s", text="a")
        await pause(200)
        if fails:
            fails.pop()
            raise ValueError("no")
        return piece.id

    async def main() -> None:
        async with lab.open() as space:
            with pytest.raises(hw.HeadwaterError):
                await make.send()
            assert lab.taken() == []
            assert held(space).running == 0
            made = await make.send()
            await space.settle()
            assert lab.taken() == [(500, "hits", "a"), (500, "show", "a")]
            assert (list(space._opening.pieces.running), stored(space, made)["status"]) == ([made], "running")
            check_held(space)

    lab.run(main)


def test_an_async_computed_has_children(lab: Lab, slow: Any) -> None:
    names = lab.app.cell("names", ["a"])
    mode = lab.app.cell("mode", "a")

    @lab.app.sink
    async def each() -> None:
        wanted = names.value
        await pause(10)
        for name in wanted:
            hw.start(slow, name, text=name)

    @lab.app.computed
    async def chosen() -> hw.Piece[Any] | str:
        wanted = mode.value
        await pause(10)
        return slow(text=wanted) if wanted.isupper() else wanted  # type: ignore[no-any-return]

    @lab.app.sink
    def show() -> None:
        found = chosen()
        lab.note("chosen", found if isinstance(found, str) else found.key)

    async def main() -> None:
        async with lab.open() as space:
            await space.settle()
            assert held(space).running == 1
            names.value = ["b", "c"]
            mode.value = "X"
            await space.settle()
            assert sorted(piece.key for piece in space._opening.pieces.running.values()) == ["()", "b", "c"]
            check_held(space)
            names.value = ["c"]
            await pause(5)
            names.value = ["d"]
            mode.value = "y"
            await space.settle()
            assert sorted(piece.key for piece in space._opening.pieces.running.values()) == ["d"]
            check_held(space)

    lab.run(main)


def test_closing_while_pieces_wait_leaves_nothing_under_way(lab: Lab, slow: Any) -> None:
    async def main() -> None:
        async with lab.open() as space:
            for key in "abc":
                space.start(slow, key, text=key)
            await pause(50)
        assert sorted(map(str, lab.taken())) == [str((50, "cancelled", key)) for key in "abc"]

    lab.run(main)


def test_an_async_function_of_a_stopped_piece_says_that_it_is_stopped(lab: Lab, slow: Any) -> None:
    async def main() -> None:
        async with lab.open() as space:
            piece = space.start(slow, "s", text="a")
            assert await space.fresh(piece.outputs["hits"]) == "a"
            piece.stop()
            told = r"hits\(\) of searching s is async and cannot be called: the piece is stopped; start it again"
            with pytest.raises(UsageError, match=told):
                piece.outputs["hits"]()
            with pytest.raises(UsageError, match=told):
                await space.fresh(piece.outputs["hits"])
            space.start(slow, "s", text="a")
            assert await space.fresh(piece.outputs["hits"]) == "a"

    lab.run(main)
