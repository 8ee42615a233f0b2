"""W11: a producer runs when its time has come, once for all times that were missed, whatever is done to the clock."""

from __future__ import annotations

import pytest

from tests.testing.workflow_invariants.tampering import is_found, tamper
from tests.workflow.world import DAY, HOUR, MINUTE, SECOND, Behaviour, World


def polls(world: World) -> int:
    """How often the producer has run since the last look."""
    count = world.ran.count("poll")
    world.ran.clear()
    return count


def test_producer_runs_when_its_time_has_come_and_not_before(world: World) -> None:
    world.rest()
    assert polls(world) == 1, "at once after a deployment"
    world.clock.advance(5 * MINUTE - 1)
    world.rest()
    assert polls(world) == 0
    world.clock.advance(1)
    world.rest()
    assert polls(world) == 1


def test_missed_times_come_to_one(world: World) -> None:
    world.rest()
    polls(world)
    world.clock.advance(7 * DAY)
    world.rest()
    assert polls(world) == 1
    assert world.space.workflows.wake_at == world.clock.now_ms() + 5 * MINUTE


def test_time_that_comes_while_a_run_is_stopped_is_made_up_for_once(world: World) -> None:
    """It queues: neither skipped nor piled up."""
    world.publish("a1")
    world.drain(Behaviour(service="breaks", reconcile="unknown"), limit=1)
    polls(world)
    world.clock.advance(3 * HOUR)
    world.drain(Behaviour(reconcile="unknown"), limit=1)
    assert polls(world) == 0, "a chain is not finished"
    assert world.act("reconcile")
    world.rest()
    assert polls(world) == 1


@pytest.mark.parametrize("back", [SECOND, HOUR, 30 * DAY])
def test_clock_that_is_set_back_starves_no_producer(world: World, back: int) -> None:
    """Long after the workflow itself was last touched, so that only its schedule can tell."""
    world.rest()
    for _ in range(3):
        world.clock.advance(12 * DAY)
        world.rest()
    polls(world)
    world.clock.advance(-back)
    world.rest()
    world.clock.advance(5 * MINUTE)
    world.rest()
    assert polls(world) == 1


def test_clock_that_is_set_back_starves_no_consumer_that_asked_to_be_woken(world: World) -> None:
    world.clock.advance(30 * DAY)
    world.publish("a1")
    world.drain(Behaviour(prepare="idle", wake="10m"))
    world.clock.advance(-20 * DAY)
    world.rest()
    assert world.status() == {"a1": "pending"}
    world.clock.advance(DAY)
    world.rest()
    assert world.status() == {"a1": "consumed"}


def test_clock_that_is_set_back_starves_no_retry(world: World) -> None:
    world.clock.advance(30 * DAY)
    world.publish("a1")
    world.drain(Behaviour(prepare="passes"))
    world.clock.advance(-20 * DAY)
    world.rest()
    assert world.status() == {"a1": "pending"}
    world.clock.advance(10 * SECOND)
    world.rest()
    assert world.status() == {"a1": "consumed"}


def test_clock_that_is_set_back_starves_no_question_about_a_call(world: World) -> None:
    world.clock.advance(30 * DAY)
    world.publish("a1")
    world.drain(Behaviour(service="applies, then breaks", reconcile="unknown"), limit=1)
    world.clock.advance(-20 * DAY)
    world.rest()
    assert world.status() == {"a1": "reserved"}
    world.clock.advance(10 * SECOND)
    world.rest()
    assert world.status() == {"a1": "consumed"}


def test_clock_that_jumps_back_and_forth_doubles_nothing(world: World) -> None:
    world.rest()
    polls(world)
    for ms in (HOUR, -2 * HOUR, 30 * DAY, -30 * DAY, -1, 1):
        world.clock.advance(ms)
        world.rest()
    assert polls(world) == 2, "after an hour, and after a month"


@pytest.mark.parametrize("ms", [6 * MINUTE, -1, None])
def test_producer_whose_time_is_wrong_is_found(world: World, ms: int | None) -> None:
    world.rest()
    at = None if ms is None else world.clock.now_ms() + ms
    tamper(world, "update flow_handler set next_run_at = ? where kind = 'producer'", at)
    is_found(world, world.watch.rest, "W11: it is .*, and its next run is due, or too far away: HandlerRow")


@pytest.mark.parametrize("ms", [25 * HOUR, 0])
def test_consumer_whose_time_is_wrong_is_found(world: World, ms: int) -> None:
    world.rest()
    tamper(world, "update flow_handler set wake_at = ? where name = 'Act'", world.clock.now_ms() + ms)
    is_found(world, world.watch.rest, "W11: it is .*, and it should have been woken, or be sooner: HandlerRow")
