"""Calls that are no runs: a failure counts for them as an answer does, so whoever asks in a circle asks nobody."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import headwater as hw
from headwater.declare.resources.resource_instance import FAILED_MS
from tests.runtime.resources.outside import World, breathe, pause
from tests.runtime.resources.test_resources import Town


@pytest.fixture
def world() -> World:
    return World()


def failing(world: World, fresh_for: str | None = None) -> hw.Resource[[str], int]:
    @world.app.resource(fresh_for=fresh_for)
    async def rate(of: str) -> int:
        world.wire.asked.append(of)
        raise OSError("down")

    return rate


async def ask(call: Callable[[], object], times: int) -> None:
    for _ in range(times):
        call()
        await breathe()


def test_calls_within_fresh_for_do_not_ask_again_for_what_failed(world: World) -> None:
    rate = failing(world, "10m")

    async def main(_: hw.AsyncSpace) -> None:
        await ask(lambda: rate("EUR"), 20)
        assert isinstance(rate("EUR"), hw.Failed)
        assert world.asked() == ["EUR"]
        await pause(599)
        await ask(lambda: rate("EUR"), 5)
        assert world.asked() == []
        await pause(1)
        await ask(lambda: rate("EUR"), 5)
        assert world.asked() == ["EUR"]

    world.run(main)


def test_without_fresh_for_calls_ask_again_for_what_failed_after_a_while(world: World) -> None:
    rate = failing(world)

    async def main(_: hw.AsyncSpace) -> None:
        await ask(lambda: rate("EUR"), 20)
        await pause(FAILED_MS / 1000 - 1)
        await ask(lambda: rate("EUR"), 20)
        assert world.asked() == ["EUR"]
        await pause(1)
        await ask(lambda: rate("EUR"), 20)
        assert world.asked() == ["EUR"]

    world.run(main)


def test_a_computed_that_is_called_does_not_ask_again_for_what_failed(world: World) -> None:
    rate = failing(world, "10m")

    @world.app.computed
    def shown() -> str:
        return type(rate("EUR")).__name__

    async def main(space: hw.AsyncSpace) -> None:
        await ask(shown, 20)
        assert (shown(), space.runs(shown)) == ("Failed", 2)
        assert world.asked() == ["EUR"]
        await pause(600)
        await ask(shown, 5)
        assert world.asked() == ["EUR"]

    world.run(main)


def test_refresh_and_whoever_begins_to_look_ask_again_for_what_failed(world: World) -> None:
    town = Town(world)
    town_city = town.city

    async def main(space: hw.AsyncSpace) -> None:
        town_city.value = ""
        await space.settle()
        world.taken()
        world.asked()
        town.weather("Rome")
        await world.says("Rome", OSError("down"))
        town.weather.refresh("Rome")
        await world.says("Rome", OSError("down"))
        town_city.value = "Rome"
        await world.says("Rome", 7)
        assert world.asked() == ["Rome"] * 3
        assert world.taken()[-1] == 7

    world.run(main)


def test_who_began_to_look_and_looked_away_leaves_nothing_for_calls(world: World) -> None:
    """The look did not come to ask: it was over in the same pass."""
    rate = failing(world, "10m")
    on = world.app.cell("on", False)

    @world.app.sink
    def show() -> None:
        if on.value:
            rate("EUR")

    async def main(space: hw.AsyncSpace) -> None:
        await ask(lambda: rate("EUR"), 3)
        on.value = True
        on.value = False
        await space.settle()
        world.asked()
        await ask(lambda: rate("EUR"), 5)
        assert world.asked() == []

    world.run(main)


def test_a_failure_that_the_clock_on_the_wall_says_is_yet_to_come_is_asked_for(world: World) -> None:
    rate = failing(world)

    async def main(_: hw.AsyncSpace) -> None:
        await ask(lambda: rate("EUR"), 3)
        world.off_ms -= 3_600_000
        await ask(lambda: rate("EUR"), 3)
        assert world.asked() == ["EUR", "EUR"]

    world.run(main)


def test_a_failure_from_before_a_restart_counts_for_calls(world: World, tmp_path: object) -> None:
    world.url = f"{tmp_path}/calls.db"
    rate = failing(world, "10m")

    async def main(_: hw.AsyncSpace) -> None:
        await ask(lambda: rate("EUR"), 5)
        assert isinstance(rate("EUR"), hw.Failed)

    world.run(main)
    assert world.asked() == ["EUR"]
    world.run(main)
    assert world.asked() == []
