"""What goes wrong outside: tried again as often as was said, then told, with the last good answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

import pytest

import headwater as hw
from headwater.testing import simulate
from tests.runtime.resources.outside import World, pause
from tests.runtime.resources.test_resources import Town


@pytest.fixture
def world() -> World:
    return World()


@dataclass(frozen=True)
class Report:
    temp: int
    sky: str = "blue"


def test_a_failure_is_told_with_the_last_good_answer(world: World) -> None:
    town = Town(world)

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", OSError("no route"))
        town.weather.refresh("Oslo")
        await world.says("Oslo", 7)
        town.weather.refresh("Oslo")
        await world.says("Oslo", OSError("no route"))
        found = town.weather("Oslo")
        assert isinstance(found, hw.Failed)
        assert str(found.error) == "HW152: weather('Oslo') failed: OSError: no route"
        assert found.error.facts == {"resource": "weather", "kind": "OSError", "text": "OSError: no route", "tries": 1}
        assert found == town.weather("Oslo")

    world.run(main)
    assert world.taken() == ["loading", (None, "OSError: no route"), 7, (7, "OSError: no route")]
    assert world.errors == []


def test_what_is_named_is_tried_again_with_doubling_waits_and_shown_as_before_meanwhile(world: World) -> None:
    town = Town(world, retry=hw.Retry(3, backoff="1s", on=OSError))

    async def main(_: hw.AsyncSpace) -> None:
        for wait in (1, 2, 4):
            await world.says("Oslo", OSError("down"))
            await pause(wait - 0.1)
            assert world.wire.open == []
            await pause(0.2)
            assert world.wire.open == ["Oslo"]
        assert world.taken() == ["loading"]
        await world.says("Oslo", OSError("down"))
        assert world.taken() == [(None, "OSError: down")]
        found = town.weather("Oslo")
        assert isinstance(found, hw.Failed)
        assert found.error.message == "weather('Oslo') failed 4 times: OSError: down"

    world.run(main)
    assert len(world.asked()) == 4


def test_one_answer_ends_the_count_of_failures(world: World) -> None:
    town = Town(world, retry=hw.Retry(1, backoff="1s"))

    async def main(_: hw.AsyncSpace) -> None:
        for degrees in (7, 8):
            await world.says("Oslo", OSError("down"))
            await pause(1)
            await world.says("Oslo", degrees)
            town.weather.refresh("Oslo")
        await world.says("Oslo", 9)

    world.run(main)
    assert world.taken() == ["loading", 7, 8, 9]


def test_what_is_not_named_fails_at_once(world: World) -> None:
    Town(world, retry=hw.Retry(3, on=OSError))

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", KeyError("temp"))

    world.run(main)
    assert world.taken() == ["loading", (None, "KeyError: 'temp'")]


def test_a_failure_is_asked_for_again_when_an_answer_would_have_grown_old(world: World) -> None:
    Town(world)

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", OSError("down"))
        await pause(599)
        assert world.wire.open == []
        await pause(2)
        await world.says("Oslo", 7)

    world.run(main)
    assert world.taken() == ["loading", (None, "OSError: down"), 7]


def test_a_failure_is_asked_for_again_when_somebody_looks_anew(world: World) -> None:
    town = Town(world)

    async def main(space: hw.AsyncSpace) -> None:
        await world.says("Oslo", OSError("down"))
        town.city.value = ""
        await space.settle()
        town.city.value = "Oslo"
        await world.says("Oslo", 7)

    world.run(main)
    assert world.taken() == ["loading", (None, "OSError: down"), (None, "OSError: down"), 7]


def test_nobody_waits_for_a_retry_who_has_looked_away(world: World) -> None:
    town = Town(world, retry=hw.Retry(3, backoff="1m"))

    async def main(space: hw.AsyncSpace) -> None:
        await world.says("Oslo", OSError("down"))
        town.city.value = ""
        await pause(1)
        assert space._opening.wake_in() is None
        town.city.value = "Oslo"
        await world.says("Oslo", 7)

    world.run(main)
    assert world.asked() == ["Oslo", "Oslo"]


def test_a_request_that_takes_too_long_is_ended(world: World) -> None:
    @world.app.resource(timeout="5s", retry=hw.Retry(1, backoff="1s", on=TimeoutError))
    async def slow() -> int:
        world.note("asked")
        await pause(60)
        return 1

    @world.app.sink
    def show() -> None:
        world.note(slow())

    async def main(space: hw.AsyncSpace) -> None:
        await pause(20)
        assert isinstance(found := slow(), hw.Failed)
        assert "failed 2 times: TimeoutError: slow() did not answer within 5000 ms" in str(found.error)
        assert space.runs(slow) == 2

    world.run(main)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ("warm", "report('Oslo') failed: cannot store its answer: expected Report, got str 'warm'"),
        (Report("warm"), "cannot store temp in its answer: expected int, got str 'warm'"),
        (object(), "its answer: expected Report, got object <object object"),
    ],
)
def test_an_answer_that_does_not_fit_its_type_is_a_failure_that_says_so(
    world: World, answer: object, told: str
) -> None:
    @world.app.resource
    async def report(name: str) -> Report:
        found: Report = await world.wire.ask(name)
        return found

    @world.app.sink
    def show() -> None:
        world.note(report("Oslo"))

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", Report(7))
        report.refresh("Oslo")
        await world.says("Oslo", answer)
        found = report("Oslo")
        assert isinstance(found, hw.Failed)
        assert found.last == Report(7)
        assert told in found.error.message

    world.run(main)


def test_what_waits_for_something_that_was_cancelled_has_failed(world: World) -> None:
    @world.app.resource
    async def broken() -> int:
        waiting = asyncio.get_running_loop().create_future()
        waiting.cancel()
        await waiting
        return 1

    @world.app.sink
    def show() -> None:
        world.note(broken())

    async def main(space: hw.AsyncSpace) -> None:
        await space.settle()
        assert isinstance(found := broken(), hw.Failed)
        assert "broken() waited for something that was cancelled" in str(found.error)

    world.run(main)


def test_what_would_end_a_program_ends_a_request(world: World) -> None:
    @world.app.resource
    async def rude() -> int:
        raise SystemExit(3)

    @world.app.sink
    def show() -> None:
        world.note(rude())

    async def main(space: hw.AsyncSpace) -> None:
        await space.settle()
        assert isinstance(found := rude(), hw.Failed)
        assert "SystemExit: 3" in str(found.error)

    world.run(main)


def test_an_error_that_cannot_say_what_it_is_and_one_that_says_too_much(world: World) -> None:
    class Odd(Exception):  # noqa: N818  # odd
        def __str__(self) -> str:
            raise ValueError("no")

    @world.app.resource
    async def failing(which: str) -> int:
        raise Odd if which == "odd" else ValueError("x" * 10_000)

    @world.app.sink
    def show() -> None:
        failing("odd")
        failing("long")

    async def main(space: hw.AsyncSpace) -> None:
        await space.settle()
        odd, long = failing("odd"), failing("long")
        assert isinstance(odd, hw.Failed)
        assert isinstance(long, hw.Failed)
        assert "Odd: <no text: str() raised ValueError>" in str(odd.error)
        assert len(str(long.error)) < 2100

    world.run(main)


# --- closing ------------------------------------------------------------------------------------------------


def test_closing_cancels_requests_and_does_not_wait_for_answers(world: World) -> None:
    Town(world)

    async def main(space: hw.AsyncSpace) -> None:
        await pause(1)
        assert world.wire.open == ["Oslo"]
        await space.close()
        assert (world.wire.open, world.wire.stopped) == ([], ["Oslo"])

    async def whole() -> None:
        async with world.aopen() as space:
            await main(space)

    simulate(whole())


def test_closing_leaves_behind_what_does_not_stop(world: World, caplog: pytest.LogCaptureFixture) -> None:
    @world.app.resource
    async def stubborn() -> int:
        while True:
            try:
                await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                if world.log:
                    raise
                world.note("stays")

    @world.app.sink
    def show() -> None:
        stubborn()

    async def whole() -> None:
        async with world.aopen():
            await pause(1)

    simulate(whole())
    assert "the request stubborn() does not end although it was cancelled" in caplog.text


@pytest.mark.parametrize("what", ["settle", "close"])
def test_a_resource_cannot_wait_for_its_own_end(world: World, what: str) -> None:
    spaces: list[hw.AsyncSpace] = []

    @world.app.resource
    async def selfish() -> int:
        act: Callable[[], object] = getattr(spaces[0], what)
        await act()  # type: ignore[misc]  # a coroutine, by either name
        return 1

    @world.app.sink
    def show() -> None:
        world.note(selfish())

    async def main(space: hw.AsyncSpace) -> None:
        spaces.append(space)
        await space.settle()
        assert isinstance(found := selfish(), hw.Failed)
        assert "wait for its" in str(found.error) or "wait for itself" in str(found.error)

    world.run(main)
