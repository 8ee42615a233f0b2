"""A host that is killed before any statement, and again while it recovers: no letter is posted twice, none is lost.

HEADWATER_CRASH_POINTS=all kills it before every statement there is, with a life for each; otherwise before some of
them, spread evenly.
"""

from __future__ import annotations

import random

import pytest

from tests.crash.workflows.worlds import EVERY, Maker, World, spread

PARTS = 4


def lines_of(world: World) -> int:
    """How many lines a life has that nobody kills."""
    end = world.live()
    assert not end.killed
    world.check(end)
    return end.lines


@pytest.mark.parametrize("kind", ["class", "connector"])
@pytest.mark.parametrize("part", range(PARTS))
def test_killed_before_a_statement_the_next_host_finishes_and_nothing_happens_twice(
    maker: Maker, kind: str, part: int
) -> None:
    lines = lines_of(maker.world(kind=kind))
    killed = 0
    for point in spread(lines, 60, part, PARTS):
        world = maker.world(kind=kind)
        end = world.live(point)
        if not end.killed:
            assert point > lines * 0.95, "the last lines are not always the same"
            break
        killed += 1
        world.finish()
    assert killed >= (lines // PARTS * 0.95 if EVERY else 15)
