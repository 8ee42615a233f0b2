"""Resources beside plain code: requests run in a thread of their own, answers are taken in by the author's."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import NotOpen
from headwater.testing.invariants.scheduler_invariants import check
from tests.runtime.resources.outside import World
from tests.runtime.resources.test_resources import Town


@pytest.fixture
def world() -> World:
    return World()


def take_in(space: hw.Space, world: World, *wanted: object) -> None:
    """Until the answer that is on its way is taken in. It comes by another thread, so this waits; nothing else does."""
    came = threading.Event()
    fetcher = space._opening.fetcher
    for _ in range(3000):
        space.settle()
        if world.log[-len(wanted) :] == list(wanted) and not fetcher.has_news:
            check(space.scheduler)
            return
        came.wait(0.01)
    raise AssertionError(f"{world.log} does not end with {wanted}")


def test_an_answer_is_taken_in_by_the_thread_of_the_author(world: World) -> None:
    Town(world)
    threads: list[str] = []
    world.app.sink(name="where")(lambda: threads.append(threading.current_thread().name))

    with world.open() as space:
        assert world.log == ["loading"]
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        world.wire.answer("Oslo", 7)
        take_in(space, world, "loading", 7)
    assert set(threads) == {threading.current_thread().name}


def test_waiting_takes_in_what_came() -> None:
    """In real time: this is what a program does."""
    app = hw.App("real")
    log: list[object] = []

    @app.resource
    async def soon() -> int:
        await asyncio.sleep(0.01)
        return 1

    @app.sink
    def show() -> None:
        log.append(soon())

    with app.open("memory:") as space:
        for _ in range(100):
            space.wait("50ms")
            if len(log) > 1:
                break
    assert log == [hw.Pending(), hw.Ready(1)]


def test_a_request_leaves_although_the_program_does_nothing_more(world: World) -> None:
    town = Town(world)
    with world.open():
        town.city.value = "Rome"
        world.wire.wait(lambda wire: wire.open == ["Rome"])


def test_the_next_write_takes_in_what_came(world: World) -> None:
    town = Town(world)
    other = world.app.cell("other", 0)
    with world.open() as space:
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        world.wire.answer("Oslo", 7)
        world.wire.wait(lambda wire: not wire.open)
        for _ in range(3000):
            other.value += 1
            if world.log == ["loading", 7]:
                break
            threading.Event().wait(0.01)
        assert world.log == ["loading", 7]
        assert space.runs(town.weather) == 1


def test_time_that_is_moved_makes_answers_old(world: World) -> None:
    Town(world)
    with world.open() as space:
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        world.wire.answer("Oslo", 7)
        take_in(space, world, 7)
        assert space._opening.wake_in() == 600
        world.time += 599_000
        space.settle()
        assert space._opening.wake_in() == 1
        assert world.asked() == ["Oslo"]
        world.time += 1000
        space.settle()
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        world.wire.answer("Oslo", 8)
        take_in(space, world, 7, 8)


def test_who_looks_away_stops_the_request_and_who_looks_again_asks_anew(world: World) -> None:
    town = Town(world)
    with world.open() as space:
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        town.city.value = ""
        world.wire.wait(lambda wire: wire.stopped == ["Oslo"])
        town.city.value = "Oslo"
        for _ in range(3000):
            space.settle()
            if world.wire.open:
                break
            threading.Event().wait(0.01)
        world.wire.answer("Oslo", 7)
        take_in(space, world, 7)
    assert (world.asked(), world.wire.most) == (["Oslo", "Oslo"], 1)


def test_a_plain_call_asks_and_reads_what_there_is(world: World) -> None:
    town = Town(world)
    with world.open() as space:
        assert town.weather("Rome") == hw.Pending()
        world.wire.wait(lambda wire: "Rome" in wire.open)
        world.wire.answer("Rome", 30)
        for _ in range(3000):
            if town.weather("Rome") == hw.Ready(30):
                break
            threading.Event().wait(0.01)
        assert town.weather("Rome") == hw.Ready(30)
        assert space.runs(town.weather) == 2
    assert sorted(world.asked()) == ["Oslo", "Rome"]


def test_many_threads_that_call_at_once_make_one_request(world: World) -> None:
    town = Town(world)
    with world.open():
        threads = [threading.Thread(target=lambda: town.weather("Rome")) for _ in range(16)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        world.wire.wait(lambda wire: "Rome" in wire.open)
    assert sorted(world.asked()) == ["Oslo", "Rome"]


def test_closing_cancels_requests(world: World) -> None:
    Town(world)
    with world.open():
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
    assert world.wire.stopped == ["Oslo"]
    assert not [thread for thread in threading.enumerate() if thread.name == "headwater-async"]


def test_a_program_that_stays_is_woken_by_an_answer(tmp_path: Path) -> None:
    app = hw.App("stays")
    log: list[object] = []

    @app.resource
    async def soon() -> int:
        return 1

    @app.sink
    def show() -> None:
        log.append(soon())
        if len(log) == 2:
            ended.set()

    ended = threading.Event()
    rung = threading.Event()
    from headwater.runtime.options import Options

    with app.open_with(tmp_path / "stays.db", Options(), rung.set) as space:
        while not ended.is_set():
            assert rung.wait(30)
            rung.clear()
            space.settle()
    assert log == [hw.Pending(), hw.Ready(1)]


def test_in_a_resource_cells_can_be_read(world: World) -> None:
    unit = world.app.cell("unit", "C")

    @world.app.resource
    async def weather(name: str) -> str:
        return f"{name} in {unit.value}"

    @world.app.sink
    def show() -> None:
        world.note(weather("Oslo"))

    with world.open() as space:
        take_in(space, world, hw.Ready("Oslo in C"))


def test_without_an_open_space_there_is_nothing_to_be_had(world: World) -> None:
    town = Town(world)
    with pytest.raises(NotOpen, match=r"HW001: weather has no open space here"):
        town.weather("Oslo")
    with pytest.raises(NotOpen, match=r"HW001: weather has no open space here"):
        town.weather.refresh("Oslo")


def test_resources_that_nobody_looks_at_are_forgotten_but_for_the_last(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.runtime.resources.fetcher.UNREAD_MAX", 10)

    @world.app.resource
    async def square(number: int) -> int:
        return number * number

    @world.app.sink
    def show() -> None:
        square(0)

    with world.open() as space:
        for number in range(100):
            while square(number) == hw.Pending():
                threading.Event().wait(0.001)
        assert len(space._opening.fetcher._sources[square]) <= 22
        assert space.runs(square) == 100
        assert square(0) == hw.Ready(0)
        assert square(1) == hw.Ready(1), "what came is kept, whoever forgets whom"
        assert space.runs(square) == 100
        check(space.scheduler)
