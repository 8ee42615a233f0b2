"""A service that answers late, wrongly or not at all, and hosts that are killed on the way: a letter is posted once.

As in `test_every_statement`, HEADWATER_CRASH_POINTS=all kills before every statement there is.
"""

from __future__ import annotations

import pytest

from tests.support.service import Way
from tests.system.crash.workflows.worlds import EVERY, Maker, World, spread

WAYS = [Way.DROPPED, Way.FAILED_AFTER, Way.FAILED_BEFORE, Way.HELD_AFTER, Way.HELD_BEFORE, Way.BUSY]
POINTS = 10
PATIENCE_S = 0.05
"""How long a host waits for an answer that is held: it does not come."""


def world_of(maker: Maker, way: Way, kind: str = "class") -> World:
    """The first two calls end so, and all others well."""
    held = way in (Way.HELD_AFTER, Way.HELD_BEFORE)
    world = maker.world(way, way, kind=kind, patience=PATIENCE_S if held else 10.0)
    world.account.behave(way, way, asked_max=3 if way is Way.HELD_BEFORE else 0)
    return world


# --- it can be asked ------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["class", "connector"])
@pytest.mark.parametrize("way", WAYS)
def test_whatever_the_service_does_nobody_is_needed(maker: Maker, way: Way, kind: str) -> None:
    world = world_of(maker, way, kind)
    world.finish()
    assert len(world.account.called) == (4 if way in (Way.FAILED_BEFORE, Way.BUSY) else 2)
    assert (world.account.asked > 0) == (way is not Way.BUSY), "a service that says itself that it refused is believed"


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_whatever_the_service_does_a_killed_host_does_it_no_second_time(maker: Maker, way: Way) -> None:
    first = world_of(maker, way)
    end = first.live()
    first.check(end)
    killed = 0
    for point in spread(end.lines, POINTS):
        world = world_of(maker, way)
        if not world.live(point).killed:
            break
        killed += 1
        world.finish()
    assert killed >= (end.lines * 0.8 if EVERY else POINTS - 2)


@pytest.mark.parametrize("vfs", ["", "powerloss"])
@pytest.mark.parametrize("kind", ["class", "connector"])
@pytest.mark.parametrize("way", [Way.KILLED_BEFORE, Way.KILLED_AFTER])
def test_host_that_is_killed_in_the_middle_of_its_call_asks_what_became_of_it(
    maker: Maker, way: Way, kind: str, vfs: str
) -> None:
    world = maker.world(way, kind=kind, vfs=vfs)
    assert world.live().killed
    assert world.in_doubt == 1
    world.finish()
    assert world.account.asked == 1
    assert len(world.account.called) == (3 if way is Way.KILLED_BEFORE else 2)


@pytest.mark.slow
def test_host_that_is_killed_in_each_of_its_calls_comes_to_an_end(maker: Maker) -> None:
    world = maker.world(Way.KILLED_BEFORE, Way.KILLED_BEFORE, Way.KILLED_AFTER, Way.KILLED_BEFORE, Way.KILLED_AFTER)
    for _ in range(5):
        assert world.live().killed
    world.finish()


# --- it cannot be asked ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", [Way.DROPPED, Way.FAILED_AFTER, Way.FAILED_BEFORE, Way.HELD_AFTER])
def test_without_reconcile_a_person_is_asked_once_and_with_the_truth_it_goes_on(maker: Maker, way: Way) -> None:
    # Long enough for the calls that are not held, whatever else the machine does.
    world = maker.world(way, kind="mute", patience=1.0 if way is Way.HELD_AFTER else 10.0)
    assert world.finish_with_help() == 1
    assert world.account.asked == 0


@pytest.mark.slow
@pytest.mark.parametrize("way", [Way.KILLED_BEFORE, Way.KILLED_AFTER])
def test_without_reconcile_a_host_that_is_killed_in_its_call_leaves_a_stop(maker: Maker, way: Way) -> None:
    world = maker.world(way, kind="mute")
    assert world.live().killed
    assert world.finish_with_help() == 1


@pytest.mark.slow
def test_without_reconcile_a_killed_host_leaves_a_stop_only_if_nobody_knows(maker: Maker) -> None:
    lines = maker.lines_of_a_life(kind="mute")
    killed = asked = 0
    for point in spread(lines, 20):
        world = maker.world(kind="mute")
        if not world.live(point).killed:
            break
        killed += 1
        found = world.finish_with_help()
        assert found == world.in_doubt
        asked += found
    assert killed >= (lines * 0.95 if EVERY else 19)
    assert 0 < asked < killed / 2


# --- it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("way", [Way.SIGNED_OUT, Way.FORBIDDEN])
def test_service_that_does_not_let_us_in_is_a_stop_that_somebody_can_end(maker: Maker, way: Way) -> None:
    world = maker.world(way)
    end = world.live()
    assert (end.done, end.state) == (False, "Needs attention")
    assert "the post office does not know us" in end.sentence
    assert world.live().state == "Needs attention", "by itself it does not go on"
    assert len(world.account.called) == 1
    end = world.live(resumes=True)
    world.check(end)
