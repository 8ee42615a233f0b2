"""Resources that are declared wrongly, or called so; those declared late, or again; and what is said of them."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, UsageError
from headwater.testing.sim_clock import START_MS
from tests.runtime.resources.outside import World, pause
from tests.runtime.resources.test_plain_resources import take_in
from tests.runtime.resources.test_resources import Town


@pytest.fixture
def world() -> World:
    return World()


class Place(hw.Doc):
    name: str


async def asked(name: str) -> str:
    return name


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (
            {"fresh": "1m"},
            r"@app.resource asked\(\): there is no option fresh=; it takes name, fresh_for, retry, timeout",
        ),
        ({"fresh_for": "soon"}, r"@app.resource asked\(\), fresh_for=: 'soon' is no duration"),
        ({"fresh_for": 0}, r"@app.resource asked\(\): fresh_for=0 would have it asked for without end"),
        ({"timeout": "0s"}, r"@app.resource asked\(\): timeout='0s' leaves no time for an answer"),
        ({"retry": 3}, r"@app.resource asked\(\): retry=3; hw.Retry\(3, on=OSError\) is expected"),
    ],
)
def test_options_that_mean_nothing_are_refused(world: World, options: dict[str, Any], told: str) -> None:
    with pytest.raises(DeclarationError, match=told):
        world.app.resource(**options)(asked)


def test_a_function_that_is_not_async_is_refused(world: World) -> None:
    def plain() -> int:
        return 1

    declare: Callable[[object], object] = world.app.resource  # type: ignore[assignment]  # as who does not check types
    with pytest.raises(
        DeclarationError, match=r"plain\(\) is not async, and would hold up .* `async def plain\(...\)`"
    ):
        declare(plain)


def test_a_name_is_taken_once(world: World) -> None:
    world.app.resource(asked)
    with pytest.raises(DeclarationError, match=r"app 'world' has 'asked' already, a resource"):
        world.app.resource(asked)


def test_a_type_that_cannot_be_declared_is_told_when_it_is_opened(world: World) -> None:
    @world.app.resource
    async def wrong() -> Callable[[], int]:
        return lambda: 1

    with pytest.raises(DeclarationError, match=r"the answer of wrong\(\)"):
        world.open()


def test_arguments_that_do_not_fit_or_cannot_be_told_apart_are_refused(world: World) -> None:
    take: Callable[..., object] = world.app.resource(asked)
    with world.open():
        with pytest.raises(TypeError, match="missing a required argument: 'name'"):
            take()
        with pytest.raises(UsageError, match=r"asked\(<object object .*an argument cannot be compared"):
            take(object())


def test_one_that_is_declared_while_the_app_is_open_works_at_once(world: World) -> None:
    with world.open() as space:

        @world.app.resource
        async def late() -> int:
            return 5

        @world.app.sink
        def show() -> None:
            world.note(late())

        take_in(space, world, hw.Pending(), hw.Ready(5))


def test_in_a_notebook_another_takes_its_place(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)  # as a notebook does

    def declare(answer: int) -> hw.Resource[[str], int]:
        @world.app.resource(fresh_for="1h")
        async def found(name: str) -> int:
            world.wire.asked.append(name)
            return answer

        return found

    first = declare(1)

    @world.app.sink
    def show() -> None:
        world.note(first("a"))

    with world.open() as space:
        take_in(space, world, hw.Ready(1))
        second = declare(2)
        assert first("a") == hw.Ready(1), "what was asked for is still fresh"
        first.refresh("a")
        take_in(space, world, hw.Ready(2))
        assert second("a") == hw.Ready(2)
        assert space.runs(second) == 1


def test_documents_tell_arguments_apart(world: World) -> None:
    @world.app.resource
    async def weather(place: Place) -> str:
        return f"rain in {place.name}"

    async def main(space: hw.AsyncSpace) -> None:
        oslo, rome = Place(name="Oslo"), Place(name="Rome")
        assert weather(oslo) == weather(rome) == hw.Pending()
        await space.settle()
        assert (weather(oslo), weather(rome)) == (hw.Ready("rain in Oslo"), hw.Ready("rain in Rome"))
        assert space.runs(weather) == 2

    world.run(main)


# --- what is handed out -------------------------------------------------------------------------------------


def test_states_are_equal_by_what_they_say() -> None:
    error = hw.ResourceError("down")
    assert hw.Pending() == hw.Pending()
    assert hw.Ready([1]) == hw.Ready([1]) != hw.Ready([2])
    assert hw.Failed(error, 1) == hw.Failed(hw.ResourceError("down"), 1) != hw.Failed(error, 2)
    assert len({hw.Pending(), hw.Ready(1), hw.Ready(1), hw.Failed(error), hw.Failed(error)}) == 3
    assert repr(hw.Ready(1)) == "Ready(1)"
    with pytest.raises(AttributeError):
        hw.Ready(1).value = 2  # type: ignore[misc]  # frozen


def test_an_answer_made_by_hand_has_no_age() -> None:
    with pytest.raises(UsageError, match="made by hand: it has a value, and no time"):
        _ = hw.Ready(1).at


def test_an_answer_knows_when_it_came(world: World) -> None:
    town = Town(world)

    async def main(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)
        await pause(60)
        found = town.weather("Oslo")
        assert isinstance(found, hw.Ready)
        assert found.at == datetime.fromtimestamp(START_MS / 1000, UTC)
        assert (found.age, found.is_stale) == (timedelta(minutes=1), False)

    world.run(main)


# --- in words -----------------------------------------------------------------------------------------------


def test_why_says_what_stands_there_and_what_is_under_way(world: World) -> None:
    town = Town(world, retry=hw.Retry(1, backoff="5s"))

    async def main(space: hw.AsyncSpace) -> None:
        assert "has not been called here" in hw.why(town.weather, "Rome")
        await pause(1)
        assert hw.why(town.weather, "Oslo").splitlines() == [
            "weather('Oslo') is a resource, observed; 1 request was sent in this opening",
            "There is no answer yet",
            "A request is in progress",
            "Its readers run again when its result changes",
        ]
        await world.says("Oslo", OSError("down"))
        assert "It failed 1 times in a row, and is retried in 5s" in hw.why(town.weather, "Oslo")
        await pause(5)
        await world.says("Oslo", OSError("down"))
        assert "It failed at 2023-11-14 22:13:26 UTC: OSError: down" in hw.why(town.weather, "Oslo")
        town.weather.refresh("Oslo")
        await world.says("Oslo", 7)
        assert hw.why(town.weather, "Oslo").splitlines()[1:] == [
            "Its answer came at 2023-11-14 22:13:26 UTC",
            "No request is in progress",
            "It is requested again in 10m",
        ]
        town.city.value = ""
        await space.settle()
        assert "not observed; 3 requests were sent" in hw.why(town.weather, "Oslo")

    world.run(main)


def test_stats_count_requests(world: World) -> None:
    town = Town(world)
    with world.open() as space:
        assert space.stats.runs["weather"] in {0, 1}
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        for _ in range(1000):
            if space.runs(town.weather) == 1:
                break
            threading.Event().wait(0.01)
        assert space.stats.runs == {"show": 1, "weather": 1}
        assert "weather('Oslo')" in space.graph()
