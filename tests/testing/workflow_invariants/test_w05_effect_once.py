"""W5: whatever happens, what an event is about is done once at most; and once, if it is consumed after a call."""

from __future__ import annotations

import pytest

from headwater.workflow.table_checks import check_all, w5_effect_once
from tests.testing.workflow_invariants.tampering import is_found, tamper
from tests.workflow.outside import MODES
from tests.workflow.world import MINUTE, Behaviour, World


@pytest.mark.parametrize("service", [mode for mode in MODES if mode not in {"says so", "is not allowed"}])
@pytest.mark.parametrize("reconcile", ["truth", "unknown"])
@pytest.mark.parametrize("dies", ["", "mutate", "after mutate", "reconcile", "next", "after next"])
def test_effect_is_there_once_whatever_the_service_says_and_whenever_the_process_dies(
    quick: World, service: str, reconcile: str, dies: str
) -> None:
    """`check` counts the effects after each step, and `finish` after everything."""
    quick.publish("a1")
    quick.publish("a2")
    quick.drain(Behaviour(prepare="one", service=service, reconcile=reconcile, dies=dies), limit=2)
    quick.finish()
    assert quick.status()["a1"] == quick.status()["a2"] == "consumed"
    assert quick.service.effects["a1"] == quick.service.effects["a2"] == 1


@pytest.mark.parametrize("commits", range(1, 14))
def test_effect_is_there_once_after_whichever_commit_the_process_dies(world: World, commits: int) -> None:
    world.publish("a1")
    world.outside.append("a2")
    world.drain(limit=4, dies_after=commits)
    world.outside.clear()
    world.finish()
    assert set(world.status().values()) == {"consumed"}


@pytest.mark.parametrize("times", [2, 3, 4])
def test_effect_is_there_once_although_the_process_dies_again_and_again(world: World, times: int) -> None:
    world.publish("a1")
    for _ in range(times):
        world.drain(Behaviour(service="applies, then breaks", reconcile="unknown", dies="after mutate"), limit=1)
        world.clock.advance(10 * MINUTE)
        world.drain(Behaviour(reconcile="truth", dies="reconcile"), limit=1)
        world.clock.advance(10 * MINUTE)
    world.finish()
    assert world.service.effects["a1"] == 1


def test_two_calls_about_one_event_that_both_happened_are_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(service="refuses"), limit=1)
    world.clock.advance(MINUTE)
    world.drain(limit=1)
    tamper(world, "update flow_call set status = 'applied', result = x'01' where run = 1")
    is_found(world, w5_effect_once, r"W5: runs \[1, 2\] have acted on it, or may have: StoredEvent\(id=1")


def test_call_that_may_have_happened_beside_one_that_has_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(service="refuses"), limit=1)
    world.clock.advance(MINUTE)
    world.drain(limit=1)
    tamper(world, "update flow_call set status = 'needs_reconcile' where run = 1")
    is_found(world, w5_effect_once, r"W5: runs \[1, 2\] have acted on it, or may have")


@pytest.mark.parametrize("query", ["delete from flow_call", "update flow_call set status = 'failed', result = null"])
def test_event_that_is_consumed_although_nothing_was_done_is_found(world: World, query: str) -> None:
    world.publish("a1")
    world.drain(limit=1)
    tamper(world, query)
    is_found(world, w5_effect_once, "W5: it is consumed by run 1, whose call did not happen: StoredEvent")
    is_found(world, check_all, "W3")


# --- put aside after the effect -------------------------------------------------------------------------------


def put_aside(world: World) -> int:
    """A run whose `next` has failed, and that a person has abandoned."""
    world.publish("a1")
    world.drain(Behaviour(next="fails"), limit=1)
    run = world.view.run
    assert run is not None and world.act("abandon", run)
    assert world.status() == {"a1": "parked"}
    return run


@pytest.mark.parametrize("how", ["retry", "reprocess"])
@pytest.mark.parametrize("commits", range(1, 5))
def test_effect_is_there_once_although_its_run_was_put_aside_and_taken_up(world: World, how: str, commits: int) -> None:
    run = put_aside(world)
    world.check()
    assert world.act(how, run)
    world.drain(limit=2, dies_after=commits)
    world.finish()
    assert world.status()["a1"] == "consumed"
    assert world.service.effects["a1"] == 1


def test_event_that_waits_again_after_its_effect_is_found(world: World) -> None:
    put_aside(world)
    tamper(world, "update flow_event set status = 'pending'")
    is_found(world, w5_effect_once, "W5: run 1 has acted on it, or may have, and it waits again: StoredEvent")
