"""W1: one run of a workflow is active at most, and none begins beside a chain that is not finished."""

from __future__ import annotations

from functools import partial

import pytest

from headwater.workflow import transitions
from headwater.workflow.planner import IdleUntil
from headwater.workflow.table_checks import check_all, w1_single
from tests.testing.workflow_invariants.tampering import copy_run, is_found, rows, tamper
from tests.workflow.world import Behaviour, World


def begins(world: World) -> object:
    """What a host would do now, if there were another."""
    hosted = world.space._opening.flows.hosted[world.flow.full_name]
    begin = partial(transitions.begin, name=hosted.spec.name, spec=hosted.spec, flags=hosted.flags)
    return world.space._opening.flows.do(begin)


@pytest.mark.parametrize("phase", ["prepare", "mutate", "next"])
def test_nothing_begins_beside_a_run_that_is_active(world: World, phase: str) -> None:
    found: list[object] = []
    world.publish("a1")
    world.publish("a2")
    world.drain(Behaviour(prepare="one", meanwhile=(phase, lambda: found.append(begins(world)))), limit=1)
    assert found == [IdleUntil()]
    assert len(world.flow.runs()) == 1


@pytest.mark.parametrize(
    "stop",
    [
        Behaviour(prepare="fails"),
        Behaviour(prepare="passes"),
        Behaviour(prepare="signed out"),
        Behaviour(prepare="asks"),
        Behaviour(service="breaks", reconcile="unknown"),
        Behaviour(next="fails"),
    ],
)
def test_nothing_new_begins_while_a_run_has_stopped_and_is_not_finished(world: World, stop: Behaviour) -> None:
    """Neither the producer, whose time has come, nor the consumer of what has just been published."""
    world.publish("a1")
    world.drain(stop, limit=1)
    world.publish("a2")
    assert begins(world) == IdleUntil(world.space.workflows.wake_at)
    assert len(world.flow.runs()) == 1
    world.check()


def test_two_active_runs_are_found(world: World) -> None:
    world.drain(limit=1)
    copy_run(world, 1, status="active", phase="preparing", chain=2)
    copy_run(world, 1, status="active", phase="preparing", chain=3)
    is_found(world, w1_single, r"W1: 2 runs of world\.flow are active: \[RunRow\(id=2")


def test_active_run_beside_one_that_is_to_be_finished_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="passes"), limit=1)
    copy_run(world, 1, status="active", chain=2)
    is_found(world, w1_single, r"W1: it is active, and what world\.flow has to finish is run 1: RunRow\(id=2")


def test_run_of_a_chain_that_is_active_and_forgotten_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="passes"), limit=1)
    copy_run(world, 1, status="active", retry_of=1, attempt=2)
    tamper(world, "update flow set head = null, retry_at = null")
    is_found(world, check_all, r"W1: it is active, and what world\.flow has to finish is run None: RunRow\(id=2")
    assert rows(world, "select count(*) from flow_run") == [(2,)]
