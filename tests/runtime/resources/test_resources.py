"""Resources in an event loop: asked for when somebody looks, once for each set of arguments, kept while fresh."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import headwater as hw
from headwater.testing.sim_clock import START_MS
from tests.runtime.resources.outside import World, pause


@pytest.fixture
def world() -> World:
    return World()


class Town:
    """Program 8: a city, its weather, and somebody who looks."""

    def __init__(self, world: World, *, retry: hw.Retry | None = None) -> None:
        self.city = world.app.cell("city", "Oslo")

        @world.app.resource(fresh_for="10m", retry=retry)
        async def weather(name: str) -> int:
            found: int = await world.wire.ask(name)
            return found

        @world.app.sink
        def show() -> None:
            if not self.city.value:
                return
            match weather(self.city.value):
                case hw.Pending():
                    world.note("loading")
                case hw.Ready(degrees):
                    world.note(degrees)
                case hw.Failed(error, last):
                    world.note(last, error.facts["text"])

        self.weather = weather


# --- one request --------------------------------------------------------------------------------------------


def test_it_is_pending_until_the_answer_comes_and_then_whoever_looks_runs_again(world: World) -> None:
    Town(world)

    async def main(_: hw.AsyncSpace) -> None:
        assert world.taken() == ["loading"]
        await world.says("Oslo", 7)
        assert world.taken() == [7]

    world.run(main)
    assert world.asked() == ["Oslo"]


def test_settling_waits_for_requests_under_way(world: World) -> None:
    @world.app.resource
    async def slow() -> int:
        await pause(5)
        return 3

    @world.app.sink
    def show() -> None:
        world.note(slow())

    async def main(space: hw.AsyncSpace) -> None:
        await space.settle()
        assert world.taken() == [hw.Pending(), hw.Ready(3)]

    world.run(main)


def test_many_readers_of_the_same_arguments_share_one_request(world: World) -> None:
    town = Town(world)
    for number in range(20):
        world.app.sink(name=f"show{number}")(lambda: world.note(town.weather("Oslo")))

    async def main(space: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        assert world.log.count(hw.Ready(7)) == 20
        assert space.runs(town.weather) == 1

    world.run(main)
    assert (world.asked(), world.wire.most) == (["Oslo"], 1)


def test_each_set_of_arguments_is_asked_for_by_itself(world: World) -> None:
    @world.app.resource
    async def sum_of(a: int, b: int = 1, *, c: list[int] | None = None) -> int:
        return a + b + sum(c or [])

    @world.app.sink
    def show() -> None:
        found = [sum_of(1), sum_of(1, 1), sum_of(a=1, b=2), sum_of(1, c=[5, 6])]
        world.log = [each.value if isinstance(each, hw.Ready) else None for each in found]

    async def main(space: hw.AsyncSpace) -> None:
        await space.settle()
        assert world.taken() == [2, 2, 3, 13]
        assert space.runs(sum_of) == 3

    world.run(main)


def test_a_list_that_was_given_is_asked_for_as_it_was(world: World) -> None:
    given = [1, 2]

    @world.app.resource(fresh_for="1s")
    async def total(of: list[int]) -> int:
        return sum(of)

    @world.app.sink
    def show() -> None:
        world.note(total([1, 2]))

    async def main(space: hw.AsyncSpace) -> None:
        total(given)
        given.append(100)
        await space.settle()
        await pause(2)
        assert world.taken() == [hw.Pending(), hw.Ready(3)]

    world.run(main)


def test_an_answer_that_says_the_same_wakes_nobody_but_who_asked_when_it_came(world: World) -> None:
    town = Town(world)

    @world.app.sink
    def dated() -> None:
        match town.weather("Oslo"):
            case hw.Ready() as found:
                world.note(found.at)
            case _:
                pass

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        start = datetime.fromtimestamp(START_MS / 1000, UTC)
        assert world.taken() == ["loading", 7, start]
        await pause(600)
        await world.says("Oslo", 7)
        assert world.taken() == [start + timedelta(minutes=10)]

    world.run(main)


# --- who looks ----------------------------------------------------------------------------------------------


def test_nobody_looks_so_nothing_is_asked(world: World) -> None:
    town = Town(world)
    town.city = world.app.cell("no city", "")

    @world.app.computed
    def unread() -> object:
        return town.weather("Rome")

    async def main(_: hw.AsyncSpace) -> None:
        await pause(3600)

    world.run(main)
    assert world.asked() == []


def test_a_request_is_cancelled_when_nobody_looks_any_more(world: World) -> None:
    town = Town(world)

    async def main(space: hw.AsyncSpace) -> None:
        await pause(1)
        assert world.wire.open == ["Oslo"]
        town.city.value = ""
        await space.settle()
        assert (world.wire.open, world.wire.stopped) == ([], ["Oslo"])

    world.run(main)


def test_nothing_flaps_within_a_pass(world: World) -> None:
    """Who looks away and back before the pass is over has not looked away."""
    town = Town(world)
    other = world.app.cell("other", "")

    @world.app.sink
    def second() -> None:
        if other.value:
            town.weather(other.value)

    async def main(space: hw.AsyncSpace) -> None:
        await pause(1)
        for first, then in (("", "Oslo"), ("Oslo", ""), ("Oslo", "Oslo")):
            with space.transaction():
                town.city.value, other.value = first, then
            await pause(1)
        assert (world.wire.stopped, world.wire.open) == ([], ["Oslo"])
        await world.says("Oslo", 7)

    world.run(main)
    assert world.asked() == ["Oslo"]


def test_from_a_to_b_and_back_asks_for_a_again_and_drops_what_the_first_would_have_said(world: World) -> None:
    town = Town(world)

    async def main(space: hw.AsyncSpace) -> None:
        await pause(1)
        town.city.value = "Rome"
        await pause(1)
        town.city.value = "Oslo"
        await pause(1)
        assert world.asked() == ["Oslo", "Rome", "Oslo"]
        assert world.wire.open == ["Oslo"]
        await world.says("Oslo", 8)
        assert world.taken() == ["loading", "loading", "loading", 8]
        town.city.value = "Rome"
        await pause(1)
        await world.says("Rome", 30)
        town.city.value = "Oslo"
        await space.settle()
        assert world.taken() == ["loading", 30, 8], "still fresh: not asked for"

    world.run(main)
    assert (world.asked(), world.wire.most) == (["Rome"], 1)


def test_a_request_that_does_not_stop_at_once_is_never_joined_by_a_second(world: World) -> None:
    city = world.app.cell("city", "Oslo")
    under_way: list[int] = [0, 0]

    @world.app.resource
    async def stubborn(name: str) -> str:
        under_way[0] += 1
        under_way[1] = max(under_way)
        try:
            await pause(1)
        except asyncio.CancelledError:
            await pause(10)
            return "half a result"
        finally:
            under_way[0] -= 1
        return name

    @world.app.sink
    def show() -> None:
        if city.value:
            world.note(stubborn(city.value))

    async def main(space: hw.AsyncSpace) -> None:
        await pause(0.5)
        city.value = ""
        await pause(0.1)
        city.value = "Oslo"
        await space.settle()
        assert world.taken() == [hw.Pending(), hw.Pending(), hw.Ready("Oslo")]
        assert space.runs(stubborn) == 2

    world.run(main)
    assert under_way == [0, 1]


# --- freshness ----------------------------------------------------------------------------------------------


def test_an_old_answer_is_shown_while_a_new_one_is_asked_for(world: World) -> None:
    town = Town(world)

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        await pause(599)
        assert world.asked() == ["Oslo"]
        found = town.weather("Oslo")
        assert isinstance(found, hw.Ready)
        assert (found.is_stale, found.age) == (False, timedelta(seconds=599))
        await pause(2)
        assert world.asked() == ["Oslo"]
        found = town.weather("Oslo")
        assert isinstance(found, hw.Ready)
        assert found.is_stale
        await world.says("Oslo", 9)
        assert world.taken() == ["loading", 7, 9]

    world.run(main)


def test_a_space_that_nobody_writes_to_is_woken_when_something_is_due_and_not_otherwise(world: World) -> None:
    Town(world)

    async def main(space: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        passes = space.scheduler.runner.pass_number
        await pause(599)
        assert space.scheduler.runner.pass_number == passes
        assert space._opening.wake_in() == pytest.approx(1)

    world.run(main)


def test_without_fresh_for_an_answer_is_good_for_ever(world: World) -> None:
    @world.app.resource
    async def once() -> int:
        return 1

    @world.app.sink
    def show() -> None:
        once()

    async def main(space: hw.AsyncSpace) -> None:
        await pause(10**8)
        assert space.runs(once) == 1
        assert space._opening.wake_in() is None

    world.run(main)


def test_a_clock_that_was_set_back_does_not_keep_an_answer_fresh_for_years(world: World) -> None:
    town = Town(world)

    async def main(space: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        world.off_ms = -(10**9)
        town.city.value = ""
        await space.settle()
        town.city.value = "Oslo"
        await pause(1)
        assert world.wire.open == ["Oslo"]
        await world.says("Oslo", 8)

    world.run(main)
    assert world.asked() == ["Oslo", "Oslo"]


def test_refresh_asks_again_although_it_is_fresh(world: World) -> None:
    town = Town(world)

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        town.weather.refresh("Oslo")
        await pause(1)
        assert world.wire.open == ["Oslo"]
        await world.says("Oslo", 8)
        assert world.taken() == ["loading", 7, 8]

    world.run(main)


def test_refresh_stands_in_for_a_request_under_way_whose_answer_is_dropped(world: World) -> None:
    town = Town(world)

    async def main(_: hw.AsyncSpace) -> None:
        await pause(1)
        town.weather.refresh("Oslo")
        town.weather.refresh("Oslo")
        await pause(1)
        assert (world.asked(), world.wire.stopped) == (["Oslo", "Oslo"], ["Oslo"])
        await world.says("Oslo", 8)
        assert world.taken() == ["loading", 8]

    world.run(main)
    assert world.wire.most == 1


def test_refresh_in_a_transaction_asks_only_if_that_comes_to_be(world: World) -> None:
    town = Town(world)

    @world.app.handler
    def again(name: str) -> None:
        town.weather.refresh(name)
        if name == "Rome":
            raise ValueError(name)

    async def main(space: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        again.send("Rome")
        await space.settle()
        again.send("Oslo")
        await space.synced()
        await world.says("Oslo", 8)
        with space.transaction():
            try:
                with space.transaction():
                    town.weather.refresh("Bonn")
                    raise KeyError
            except KeyError:
                pass
        await space.settle()

    world.run(main)
    assert world.asked() == ["Oslo", "Oslo"]


def test_a_computed_may_not_refresh(world: World) -> None:
    town = Town(world)

    @world.app.computed
    def wrong() -> int:
        town.weather.refresh("Oslo")
        return 1

    async def main(_: hw.AsyncSpace) -> None:
        with pytest.raises(hw.HeadwaterError, match=r"weather.refresh\(\) has something done, .* do it in a handler"):
            wrong()
        town.city.value = ""

    world.run(main)


# --- plain calls --------------------------------------------------------------------------------------------


def test_a_call_that_is_no_run_asks_once_and_no_more_when_the_answer_is_there(world: World) -> None:
    town = Town(world)

    async def main(space: hw.AsyncSpace) -> None:
        town.city.value = ""
        await space.settle()
        world.asked()
        assert town.weather("Rome") == hw.Pending()
        assert town.weather("Rome") == hw.Pending()
        await pause(1)
        await world.says("Rome", 30)
        assert town.weather("Rome") == hw.Ready(30)
        await pause(3600)
        assert world.asked() == ["Rome"], "nobody looks: it grows old in peace"
        assert town.weather("Rome") == hw.Ready(30)
        await pause(1)
        await world.says("Rome", 31)
        assert town.weather("Rome") == hw.Ready(31)

    world.run(main)


def test_a_computed_that_a_caller_pulls_has_its_resources_asked_for(world: World) -> None:
    town = Town(world)

    @world.app.computed
    def warm() -> bool | None:
        found = town.weather("Rome")
        return found.value > 20 if isinstance(found, hw.Ready) else None

    async def main(space: hw.AsyncSpace) -> None:
        town.city.value = ""
        await space.settle()
        assert warm() is None
        await pause(1)
        await world.says("Rome", 30)
        assert warm() is True

    world.run(main)


def test_a_handler_reads_what_there_is(world: World) -> None:
    town = Town(world)

    @world.app.handler
    def ask(name: str) -> str:
        return repr(town.weather(name))

    async def main(space: hw.AsyncSpace) -> None:
        town.city.value = ""
        first = ask.send("Rome")
        await pause(1)
        await world.says("Rome", 30)
        second = ask.send("Rome")
        await space.settle()
        assert (await first, await second) == ("Pending()", "Ready(30)")

    world.run(main)


def test_a_computed_that_is_only_called_asks_again_when_the_answer_has_grown_old(world: World) -> None:
    town = Town(world)

    @world.app.computed
    def warm() -> str:
        return repr(town.weather("Rome"))

    async def main(space: hw.AsyncSpace) -> None:
        town.city.value = ""
        await space.settle()
        assert warm() == "Pending()"
        await world.says("Rome", 30)
        assert warm() == "Ready(30)"
        await pause(599)
        assert warm() == "Ready(30)"
        assert space.runs(warm) == 2
        assert space._opening.wake_in() is None, "nobody looks: nothing rings"
        await pause(1)
        assert warm() == "Ready(30)"
        await world.says("Rome", 31)
        assert warm() == "Ready(31)"
        assert warm() == "Ready(31)"
        assert space.runs(warm) == 4

    world.run(main)
    assert world.asked() == ["Rome", "Rome"]


def test_a_computed_that_was_looked_at_in_vain_asks_again_when_it_is_called(world: World) -> None:
    town = Town(world)
    is_shown = world.app.cell("is shown", default=True)

    @world.app.computed
    def warm() -> str:
        return repr(town.weather("Rome"))

    @world.app.sink
    def tell() -> None:
        if is_shown.value:
            world.note(warm())

    async def main(space: hw.AsyncSpace) -> None:
        town.city.value = ""
        await pause(1)
        is_shown.value = False
        await space.settle()
        assert world.wire.open == []
        assert warm() == "Pending()"
        await world.says("Rome", 30)
        assert warm() == "Ready(30)"

    world.run(main)
    assert world.asked() == ["Oslo", "Rome", "Rome"]
