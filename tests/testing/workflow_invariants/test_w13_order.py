"""W13: what is there is dealt with before more is brought in; of two consumers, the one whose event waits longest."""

from __future__ import annotations

from typing import Any

import pytest

import headwater as hw
from headwater.errors import InvariantError
from headwater.testing.invariants.workflow_invariants import w13_order
from headwater.workflow.tables import WorkflowTables
from tests.testing.workflow_invariants.tampering import copy_run
from tests.workflow.world import MINUTE, Behaviour, World


def test_consumers_go_before_producers(world: World) -> None:
    """All are due at once, after a deployment; and whenever the producer's time comes."""
    for number in range(3):
        world.publish(f"a{number}")
        world.ran.clear()
        world.rest()
        assert [one for one in world.ran if "." not in one or one.endswith("prepare")][-1] == "poll"
        world.clock.advance(5 * MINUTE)


def test_consumer_that_is_to_be_woken_goes_before_a_producer(world: World) -> None:
    world.drain(Behaviour(prepare="idle", wake="5m"))
    world.clock.advance(5 * MINUTE)
    world.ran.clear()
    world.rest()
    assert world.ran == ["Act.prepare", "Tell.prepare", "poll"]


@pytest.mark.parametrize(("first", "second"), [("incoming", "done"), ("done", "incoming")])
def test_consumer_of_the_oldest_event_goes_first(world: World, first: str, second: str) -> None:
    world.rest()
    topics: dict[str, hw.Topic[Any]] = {"incoming": world.incoming, "done": world.done}
    topics[first].publish("x", id="x1")
    topics[second].publish("x", id="x2")
    world.space.sync()
    world.ran.clear()
    world.drain(Behaviour(prepare="one"), limit=2)
    order = [one for one in world.ran if one.endswith("prepare")]
    assert order == [f"{'Act' if topic == 'incoming' else 'Tell'}.prepare" for topic in (first, second)]


def test_chain_that_is_not_finished_goes_before_everything(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="passes"), limit=1)
    world.done.publish("x", id="older than nothing")
    world.clock.advance(5 * MINUTE)
    world.ran.clear()
    world.drain(limit=2)
    assert world.ran[0] == "Act.prepare"


def test_producer_that_goes_first_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="idle"), limit=1)
    copy_run(world, 1, chain=2, handler="poll", kind="producer", why="schedule")
    found = r"W13: event 1 waits for Act, and this runs first: RunRow\(id=2"
    with pytest.raises(InvariantError, match=found):
        world.space._opening.flows.look(lambda tables: w13_order(tables, tables.run(2), {"Act"}))
    world.space._opening.flows.look(lambda tables: w13_order(tables, tables.run(2)))


def test_producer_that_goes_before_a_consumer_whose_time_has_come_is_found(world: World) -> None:
    world.drain(Behaviour(prepare="idle", wake="5m"), limit=1)
    copy_run(world, 1, chain=2, handler="poll", kind="producer", why="schedule")
    world.clock.advance(5 * MINUTE)

    def look(tables: WorkflowTables) -> None:
        w13_order(tables, tables.run(2))

    with pytest.raises(InvariantError, match="W13: Act is to be woken, and this producer runs first: RunRow"):
        world.space._opening.flows.look(look)


def test_consumer_of_a_younger_event_that_goes_first_is_found(world: World) -> None:
    world.done.publish("x", id="older")
    world.publish("a1")
    world.drain(Behaviour(prepare="idle"), limit=1)
    copy_run(world, 1, chain=2, handler="Act", why="event")
    with pytest.raises(InvariantError, match="W13: event 1 waits for Tell, and this runs first"):
        world.space._opening.flows.look(lambda tables: w13_order(tables, tables.run(2), {"Tell", "Act"}))
