"""`hw.clock`: the time as a value. It ticks while somebody looks, and nothing is written for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import headwater as hw
from headwater.errors import NotOpen, UsageError
from headwater.testing.invariants.scheduler_invariants import check
from headwater.testing.sim_clock import START_MS
from tests.runtime.resources.outside import World, pause

START = datetime.fromtimestamp(START_MS / 1000, UTC)


@pytest.fixture
def world() -> World:
    return World()


def test_whoever_has_read_it_runs_again_at_each_tick(world: World) -> None:
    @world.app.sink
    def show() -> None:
        world.note(hw.clock(every="1s") - START)

    async def main(_: hw.AsyncSpace) -> None:
        await pause(3.5)
        assert world.taken() == [timedelta(seconds=n) for n in range(4)]

    world.run(main)


def test_it_is_cut_to_whole_ticks_of_the_clock_on_the_wall(world: World) -> None:
    world.off_ms = 20_500

    @world.app.sink
    def show() -> None:
        world.note(hw.clock(every="1m"))

    async def main(_: hw.AsyncSpace) -> None:
        await pause(120)
        found = world.taken()
        assert all(isinstance(each, datetime) and (each.second, each.microsecond) == (0, 0) for each in found)
        assert len(found) == 3

    world.run(main)


def test_a_tick_is_no_commit(world: World) -> None:
    @world.app.computed
    def minute() -> int:
        return hw.clock(every="1s").minute

    @world.app.sink
    def show() -> None:
        world.note(minute())

    async def main(space: hw.AsyncSpace) -> None:
        await space.settled()
        before = space.stats
        await pause(10)
        await space.settled()
        after = space.stats
        assert after.runs["minute"] - before.runs["minute"] == 10
        assert (after.commits, after.groups, after.seq) == (before.commits, before.groups, before.seq)
        assert after.runs["show"] == before.runs["show"], "the same minute: nobody is woken by that"

    world.run(main)


def test_it_does_not_tick_while_nobody_looks(world: World) -> None:
    on = world.app.cell("on", default=True)

    @world.app.computed
    def unread() -> datetime:
        return hw.clock(every="1s")

    @world.app.sink
    def show() -> None:
        if on.value:
            world.note(hw.clock(every="1m"))

    async def main(space: hw.AsyncSpace) -> None:
        unread()
        on.value = False
        await space.settle()
        assert space._opening.wake_in() is None
        passes = space.scheduler.runner.pass_number
        await pause(10_000)
        assert space.scheduler.runner.pass_number == passes
        assert space.runs(unread) == 1
        world.taken()
        on.value = True
        await space.settle()
        assert world.taken() == [datetime.fromtimestamp((START_MS + 10_000_000) // 60_000 * 60, UTC)]

    world.run(main)


def test_all_who_look_see_the_same_tick(world: World) -> None:
    for number in range(3):
        world.app.sink(name=f"show{number}")(lambda: world.note(hw.clock(every="1s")))
    poke = world.app.cell("poke", 0)
    world.app.sink(name="poked")(lambda: world.note(poke.value, hw.clock(every="1s")))

    async def main(space: hw.AsyncSpace) -> None:
        world.taken()
        await pause(0.9)
        poke.value = 1
        await space.settle()
        assert world.taken() == [(1, START)]
        await pause(0.2)
        assert world.taken() == [START + timedelta(seconds=1)] * 3 + [(1, START + timedelta(seconds=1))]

    world.run(main)


def test_ticks_that_were_slept_through_are_not_made_up_for(world: World) -> None:
    @world.app.sink
    def show() -> None:
        world.note(hw.clock(every="1s"))

    with world.open() as space:
        assert space._opening.wake_in() == 1
        world.time += 3_600_300
        space.settle()
        assert world.log == [START, START + timedelta(hours=1)]
        assert space._opening.wake_in() == pytest.approx(0.7)
        check(space.scheduler)


def test_plain_code_is_told_the_time_and_no_more(world: World) -> None:
    with world.open() as space:
        world.time += 1500
        assert hw.clock() == START + timedelta(seconds=1)
        assert hw.clock(every=timedelta(milliseconds=500)) == START + timedelta(milliseconds=1500)
        assert space._opening.wake_in() is None


def test_a_computed_that_is_only_called_is_told_how_late_it_is_each_time(world: World) -> None:
    on = world.app.cell("on", default=False)

    @world.app.computed
    def seen() -> datetime:
        return hw.clock(every="1s")

    @world.app.computed
    def above() -> datetime:
        return seen()

    @world.app.handler
    def ask() -> datetime:
        return above()

    @world.app.sink
    def show() -> None:
        if on.value:
            world.note(above())

    with world.open() as space:
        for second in range(1, 4):
            world.time += 1000
            assert above() == START + timedelta(seconds=second)
            with space.transaction():
                assert above() == START + timedelta(seconds=second)
            assert ask.send().result() == START + timedelta(seconds=second)
        world.time += 1000
        on.value = True
        assert world.log[-1] == START + timedelta(seconds=4)
        check(space.scheduler)
        world.time += 1000
        space.settle()
        assert world.log[-1] == START + timedelta(seconds=5)
        on.value = False
        world.time += 1000
        assert above() == START + timedelta(seconds=6)
        assert space._opening.wake_in() is None
        check(space.scheduler)


def test_whoever_has_read_it_runs_again_after_a_restart(world: World, tmp_path: object) -> None:
    world.url = f"{tmp_path}/clock.db"

    @world.app.computed
    def seen() -> datetime:
        return hw.clock(every="1d")

    @world.app.sink
    def show() -> None:
        world.note(seen())

    with world.open():
        pass
    world.off_ms = 3 * 86_400_000
    with world.open():
        first, second = world.log
        assert isinstance(first, datetime)
        assert isinstance(second, datetime)
        assert second - first == timedelta(days=3)


def test_a_restless_or_unknown_tick_is_refused(world: World) -> None:
    with world.open():
        with pytest.raises(UsageError, match=r"hw.clock\(every=0\) ticks too often"):
            hw.clock(every=0)
        with pytest.raises(UsageError, match=r"hw.clock\(every=...\): 'soon' is no duration"):
            hw.clock(every="soon")


def test_without_an_open_space_there_is_no_clock() -> None:
    with pytest.raises(NotOpen, match=r"hw.clock\(\) needs an open space"):
        hw.clock()
