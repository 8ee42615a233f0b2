"""What came outlives the process, with its age. What was under way is asked for again."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

import headwater as hw
from tests.runtime.resources.outside import World, pause
from tests.runtime.resources.test_resources import Town
from tests.support.power import POWER_CUT


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(str(tmp_path / "world.db"))


def test_an_answer_that_is_fresh_is_not_asked_for_again_and_its_age_counts_on(world: World) -> None:
    town = Town(world)

    async def first(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)

    async def second(space: hw.AsyncSpace) -> None:
        await space.settle()
        assert world.taken() == [7]
        assert space.runs(town.weather) == 0
        await pause(299)
        assert world.asked() == []
        await pause(2)
        assert world.asked() == ["Oslo"]
        await world.says("Oslo", 8)

    world.run(first)
    assert (world.taken(), world.asked()) == (["loading", 7], ["Oslo"])
    world.off_ms += 300_000
    world.run(second)
    assert world.taken() == [8]


def test_an_old_answer_is_shown_and_asked_for(world: World) -> None:
    Town(world)

    async def first(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", 7)

    async def second(_: hw.AsyncSpace) -> None:
        assert world.taken() == ["loading", 7, 7]
        await world.says("Oslo", 8)

    world.run(first)
    world.off_ms += 3_600_000
    world.run(second)
    assert world.taken() == [8]


def test_a_failure_is_asked_for_again_by_the_next_opening(world: World) -> None:
    Town(world)

    async def first(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", OSError("down"))

    async def second(_: hw.AsyncSpace) -> None:
        await world.says("Oslo", 8)

    world.run(first)
    world.run(second)
    assert world.taken() == ["loading", (None, "OSError: down"), (None, "OSError: down"), 8]


def test_what_was_under_way_is_asked_for_again(world: World) -> None:
    town = Town(world)
    with world.open():
        town.city.value = "Rome"
        world.wire.wait(lambda wire: "Rome" in wire.open)
    world.asked()
    with world.open():
        world.wire.wait(lambda wire: "Rome" in wire.open)
    assert world.asked() == ["Rome"]


def test_a_computed_that_reads_a_resource_runs_again_so_that_somebody_looks(world: World) -> None:
    town = Town(world)
    city = world.app.cell("no city", "")
    town.city = city

    @world.app.computed
    def warm() -> bool:
        found = town.weather("Rome")
        return isinstance(found, hw.Ready) and found.value > 20

    @world.app.sink
    def tell() -> None:
        world.note(warm())

    async def first(_: hw.AsyncSpace) -> None:
        await world.says("Rome", 7)

    async def second(_: hw.AsyncSpace) -> None:
        await world.says("Rome", 30)

    world.run(first)
    world.off_ms += 3_600_000
    world.run(second)
    assert world.taken() == [False, False, True]


def test_an_answer_of_another_type_than_it_has_now_is_asked_for_anew(world: World) -> None:
    @dataclass(frozen=True)
    class Old:
        temp: str

    @dataclass(frozen=True)
    class New:
        degrees: int

    def declare(world: World, kind: type, answer: object) -> None:
        @world.app.resource(name="report")
        async def report() -> object:
            return answer

        report.__wrapped__.__annotations__["return"] = kind

        @world.app.sink
        def show() -> None:
            world.note(report())

    async def main(space: hw.AsyncSpace) -> None:
        await space.settle()

    declare(world, Old, Old("warm"))
    world.run(main)
    later = World(world.url)
    declare(later, New, New(20))
    later.run(main)
    assert later.log == [hw.Pending(), hw.Ready(New(20))]


KILLED = """
import asyncio, sys
import headwater as hw

app = hw.App("killed")

@app.resource(fresh_for="1h")
async def quick(n: int) -> int:
    print("asked", n, flush=True)
    return n * n

@app.resource
async def endless() -> int:
    print("endless", flush=True)
    await asyncio.sleep(3600)
    return 1

@app.sink
def show() -> None:
    if isinstance(quick(7), hw.Ready):
        print(endless(), flush=True)

with app.open(sys.argv[1]) as space:
    space.wait("1h")
"""


def test_a_process_that_was_killed_keeps_what_came_and_asks_again_for_what_had_not(tmp_path: Path) -> None:
    for life in range(2):
        with subprocess.Popen(
            [*POWER_CUT, "-c", KILLED, str(tmp_path / "killed.db")],
            stdout=subprocess.PIPE,
            text=True,
        ) as child:
            assert child.stdout is not None
            said: list[str] = []
            while "endless" not in said:
                said.append(child.stdout.readline().strip())
                assert said[-1]
            child.send_signal(signal.SIGKILL)
        # That it leaves says that what it follows from is on disk: the answer of the first.
        assert said == (["asked 7", "Pending()", "endless"] if life == 0 else ["Pending()", "endless"])
