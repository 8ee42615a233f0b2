"""Resources and clocks in pieces: each piece has its own, and takes them along when it goes."""

from __future__ import annotations

from typing import Any

import headwater as hw
from tests.runtime.resources.outside import World, breathe, pause


def panel_of(world: World) -> hw.Pattern[..., dict[str, Any]]:
    @hw.pattern
    def panel(p: hw.Builder, city: str) -> dict[str, Any]:
        @p.resource(fresh_for="10m")
        async def weather(name: str) -> int:
            found: int = await world.wire.ask(name)
            return found

        @p.sink
        def show() -> None:
            world.note(city, weather(city))

        return {"weather": weather}

    return panel


def test_each_piece_asks_for_itself_and_stops_asking_when_it_is_stopped() -> None:
    world = World()
    panel = panel_of(world)

    async def main(space: hw.AsyncSpace) -> None:
        first = space.start(panel, "first", city="Oslo")
        second = space.start(panel, "second", city="Rome")
        await breathe()
        assert sorted(world.wire.open) == ["Oslo", "Rome"]
        await world.says("Rome", 17)
        first.stop()
        await breathe()
        assert (world.wire.open, world.wire.stopped) == ([], ["Oslo"])
        assert second.outputs["weather"]("Rome") == hw.Ready(17)
        second.stop()
        await breathe()
        assert space._opening.wake_in() is None
        await pause(3600)

    world.run(main)
    assert world.taken() == [("Oslo", hw.Pending()), ("Rome", hw.Pending()), ("Rome", hw.Ready(17))]


def test_a_piece_that_is_started_again_has_what_came_before() -> None:
    world = World()
    panel = panel_of(world)

    async def main(space: hw.AsyncSpace) -> None:
        piece = space.start(panel, "only", city="Oslo")
        await world.says("Oslo", 7)
        piece.stop()
        await breathe()
        space.start(panel, "only", city="Oslo")
        await breathe()

    world.run(main)
    assert world.taken() == [("Oslo", hw.Pending()), ("Oslo", hw.Ready(7)), ("Oslo", hw.Ready(7))]
    assert world.asked() == ["Oslo"]


def test_a_piece_that_is_built_anew_goes_on_asking() -> None:
    world = World()
    panel = panel_of(world)

    async def main(space: hw.AsyncSpace) -> None:
        space.start(panel, "only", city="Oslo")
        await breathe()
        space.start(panel, "only", city="Rome")
        await breathe()
        assert world.wire.open == ["Rome"]
        await world.says("Rome", 17)

    world.run(main)
    assert world.taken()[-1] == ("Rome", hw.Ready(17))


def test_a_clock_in_a_piece_stops_with_it() -> None:
    world = World()

    @hw.pattern
    def watch(p: hw.Builder) -> None:
        @p.sink
        def show() -> None:
            world.note(hw.clock(every="1s"))

    async def main(space: hw.AsyncSpace) -> None:
        piece = space.start(watch, "only")
        await pause(2.5)
        assert len(world.taken()) == 3
        piece.stop()
        await pause(10)
        assert (world.taken(), space._opening.wake_in()) == ([], None)

    world.run(main)


def test_a_function_that_goes_on_when_its_piece_is_built_anew_asks_the_resource_that_comes_now() -> None:
    world = World()

    @hw.pattern
    def panel(p: hw.Builder, title: str) -> None:
        @p.resource(fresh_for="10m")
        async def weather(name: str) -> int:
            found: int = await world.wire.ask(name)
            return found

        @p.computed
        def degrees() -> int | None:
            found = weather("Oslo")
            return found.value if isinstance(found, hw.Ready) else None

        @p.sink
        def show() -> None:
            world.note(title, degrees())

    async def main(space: hw.AsyncSpace) -> None:
        space.start(panel, "only", title="a")
        await breathe()
        space.start(panel, "only", title="b")
        await breathe()
        assert (world.wire.open, world.wire.most) == (["Oslo"], 1)
        await world.says("Oslo", 7)
        space.start(panel, "only", title="c")
        await pause(601)
        assert world.wire.open == ["Oslo"]
        await world.says("Oslo", 8)

    world.run(main)
    assert world.taken() == [("a", None), ("b", None), ("b", 7), ("c", 7), ("c", 8)]
    assert world.errors == []
