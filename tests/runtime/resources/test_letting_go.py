"""Memory: of arguments that nobody looks at the ones that were called lately are kept, and of a piece's nothing."""

from __future__ import annotations

import gc

import pytest

import headwater as hw
from headwater.declare.resources.resource_instance import ResourceInstance
from headwater.scheduler.scheduler_limits import UNREAD_MAX
from tests.runtime.resources.outside import World


def sources() -> int:
    gc.collect()
    return sum(isinstance(each, ResourceInstance) for each in gc.get_objects())


@pytest.mark.slow
def test_what_nobody_looks_at_any_more_goes_from_memory_fresh_or_not() -> None:
    world = World()
    query = world.app.cell("query", 0)

    @world.app.resource(fresh_for="1h")
    async def find(text: int) -> int:
        return text

    @world.app.sink
    def show() -> None:
        find(query.value)

    async def main(space: hw.AsyncSpace) -> None:
        for number in range(2 * UNREAD_MAX + 500):
            query.value = number
            await space.settle()
        await space.synced()
        space._opening.store_observations()
        assert sources() < 2 * UNREAD_MAX
        assert space.stats.documents < 2 * UNREAD_MAX
        assert space.runs(find) == 2 * UNREAD_MAX + 500
        # What was let go of is read again.
        world.asked()
        assert find(1) == hw.Ready(1)
        await space.settle()
        assert space.runs(find) == 2 * UNREAD_MAX + 500

    world.run(main)


def test_who_refreshes_again_and_again_does_not_pile_up_what_grows_old() -> None:
    world = World()

    @world.app.resource(fresh_for="1h")
    async def rate() -> int:
        return 1

    async def main(space: hw.AsyncSpace) -> None:
        for _ in range(500):
            rate.refresh()
            await space.settle()
            world.off_ms += 10
        assert space._opening.fetcher.ageing_count < 200

    world.run(main)


def test_a_piece_that_is_stopped_leaves_nothing_of_its_resources() -> None:
    app = hw.App("pieces")
    made: list[hw.Resource[[str], int]] = []

    @hw.pattern
    def feed(p: hw.Builder) -> None:
        @p.resource(fresh_for="1h")
        async def get(key: str) -> int:
            return len(key)

        made.append(get)

    with app.open("memory:") as space:
        for _ in range(20):
            piece = space.start(feed, "a")
            made.pop()("x")
            piece.stop()
            del piece
            space.sync()
        space.settle()
        gc.collect()
        # Others of this process have resources of their own.
        found = [each for each in gc.get_objects() if isinstance(each, hw.Resource) and each.doc.startswith("pieces+")]
        assert len(found) <= 1
        documents = space.stats.documents
        for key in range(20):
            piece = space.start(feed, str(key))
            made.pop()("x")
            piece.stop()
        space.sync()
        space.settle()
        space._opening.store_observations()
        assert space.stats.documents <= documents + 2
