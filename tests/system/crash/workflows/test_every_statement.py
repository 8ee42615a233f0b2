"""A host that is killed before any statement, and again while it recovers: no letter is posted twice, none is lost.

HEADWATER_CRASH_POINTS=all kills it before every statement there is, with a life for each; otherwise before some of
them, spread evenly.
"""

from __future__ import annotations

import random

import pytest

from tests.system.crash.workflows.worlds import EVERY, Maker, spread

PARTS = 4
POINTS = {"class": 120, "connector": 40}

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("kind", ["class", "connector"])
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_before_a_statement_nothing_is_lost_and_nothing_happens_twice(
    maker: Maker, kind: str, part: int
) -> None:
    lines = maker.lines_of_a_life(kind=kind)
    killed = 0
    for point in spread(lines, POINTS[kind], part, PARTS):
        world = maker.world(kind=kind)
        if not world.live(point).killed:
            assert point > lines * 0.95, "the last ones are not always the same"
            break
        killed += 1
        world.finish()
    assert killed >= (lines // PARTS * 0.95 if EVERY else POINTS[kind] // PARTS - 1)


@pytest.mark.parametrize("part", range(PARTS))
def test_power_that_fails_before_a_statement_is_no_worse(maker: Maker, part: int) -> None:
    """What was not synced is gone, too: what the next host finds is less than what this one has written."""
    lines = maker.lines_of_a_life(vfs="powerloss")
    killed = 0
    for point in spread(lines, 60, part, PARTS):
        world = maker.world(vfs="powerloss")
        if not world.live(point).killed:
            break
        killed += 1
        world.finish()
    assert killed >= (lines // PARTS * 0.95 if EVERY else 60 // PARTS - 1)


@pytest.mark.parametrize("vfs", ["", "powerloss"])
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_while_it_recovers_the_third_host_finishes(maker: Maker, vfs: str, part: int) -> None:
    """Pairs of lines: one of the first life, and one of the second, which finds what the first has left."""
    rng = random.Random(part)
    lines = maker.lines_of_a_life(vfs=vfs)
    killed_twice = 0
    for number in range(400 if EVERY else 8):
        world = maker.world(vfs=vfs)
        if not world.live(rng.randrange(1, lines)).killed:
            continue
        # Every other one in the first lines: there it is that recovery is at work.
        second = rng.randrange(1, 1500 if number % 2 else lines)
        killed_twice += world.live(second).killed
        world.finish()
    assert killed_twice >= (200 if EVERY else 4)
