"""W10: whatever is published is looked at by its consumer; and what it has looked at and left, not before it has to."""

from __future__ import annotations

import pytest

from headwater.errors import InvariantError
from tests.workflow.world import MINUTE, Behaviour, World


def test_what_a_producer_publishes_is_consumed_by_the_same_drain(world: World) -> None:
    world.outside.append("a1")
    world.drain()
    assert world.status() == {"a1": "consumed"}
    assert world.status("done") == {"done a1": "consumed"}


def test_plan_that_takes_nothing_is_not_made_again_before_something_happens(world: World) -> None:
    """The problem of the empty reservation: what waits is not looked at in circles."""
    world.rest()
    world.publish("a1")
    world.ran.clear()
    world.drain(Behaviour(prepare="nothing"), limit=5)
    assert world.ran == ["Act.prepare", "Act.next"]
    world.rest()
    assert world.ran == ["Act.prepare", "Act.next"]
    world.publish("a2")
    world.rest()
    assert set(world.status().values()) == {"consumed"}


def test_event_published_while_its_consumer_prepares_is_looked_at_next(world: World) -> None:
    """The flag is taken down when a run begins, not when it ends."""
    world.rest()
    world.publish("a1")
    world.drain(Behaviour(prepare="idle", meanwhile=("prepare", "publish")), limit=1)
    assert world.ran.count("Act.prepare") == 2, "once for the deployment"
    world.rest()
    assert set(world.status().values()) == {"consumed"}
    assert len(world.status()) == 2


@pytest.mark.parametrize("phase", ["mutate", "next"])
def test_event_published_while_its_consumer_acts_is_looked_at_next(world: World, phase: str) -> None:
    world.publish("a1")
    world.drain(Behaviour(meanwhile=(phase, "publish")), limit=1)
    world.rest()
    assert len(world.status()) == 2
    assert set(world.status().values()) == {"consumed"}


def test_backlog_is_consumed_one_by_one_to_its_end(world: World) -> None:
    for number in range(4):
        world.publish(f"a{number}")
    world.drain(Behaviour(prepare="one"))
    assert set(world.status().values()) == {"consumed"}
    assert world.service.effects.total() == 4


@pytest.mark.parametrize("prepare", ["idle", "nothing"])
def test_what_was_left_is_looked_at_once_after_a_restart(world: World, prepare: str) -> None:
    """What was in memory is made again from what is kept, at the price of one more look."""
    world.publish("a1")
    world.drain(Behaviour(prepare=prepare))
    world.ran.clear()
    world.kill()
    world.drain(Behaviour(prepare=prepare))
    assert world.ran.count("Act.prepare") == 1


def test_event_that_was_given_back_is_looked_at_again(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(service="refuses"), limit=1)
    assert world.status() == {"a1": "pending"}
    world.clock.advance(MINUTE)
    world.rest()
    assert world.status() == {"a1": "consumed"}


def test_event_that_nobody_has_looked_at_is_found(world: World) -> None:
    """As if its publication had set no flag."""
    world.rest()
    world.publish("a1")
    world.space._opening.flows.hosted[world.flow.full_name].flags.dirty.clear()
    with pytest.raises(
        InvariantError, match=r"W10: Act has not looked since it came, or came back: StoredEvent\(id=1,"
    ):
        world.rest()
