"""W14: in a workflow that is paused or blocked nothing begins, and nobody can have it run now; nor before its time."""

from __future__ import annotations

import pytest

from headwater.testing.invariants.workflow_invariants import w14_paused
from tests.testing.workflow_invariants.tampering import copy_run, is_found, rows, set_to
from tests.workflow.world import DAY, MINUTE, SECOND, Behaviour, World


def test_paused_workflow_starts_nothing_whatever_comes_and_however_late_it_is(world: World) -> None:
    world.rest()
    world.act("pause")
    world.publish("a1")
    world.clock.advance(DAY)
    world.ran.clear()
    world.rest()
    assert (world.ran, world.space.workflows.wake_at) == ([], None)
    assert not world.act("now")
    world.act("resume")
    world.rest()
    assert world.status() == {"a1": "consumed"}
    assert world.ran.count("poll") == 1


@pytest.mark.parametrize("phase", ["prepare", "mutate", "next"])
def test_run_that_is_paused_in_the_middle_stops_before_it_acts_or_comes_to_its_end(world: World, phase: str) -> None:
    """And that is not counted as a failure."""
    world.publish("a1")
    world.drain(Behaviour(meanwhile=(phase, "pause")))
    expected = {"a1": "pending"} if phase == "prepare" else {"a1": "consumed"}
    assert (world.status(), len(world.service.done)) == (expected, 0 if phase == "prepare" else 1)
    assert rows(world, "select failures, block from flow") == [(0, None)]
    world.act("resume")
    world.rest()
    assert world.status() == {"a1": "consumed"}


@pytest.mark.parametrize(
    "stop",
    [
        Behaviour(prepare="fails"),
        Behaviour(prepare="signed out"),
        Behaviour(prepare="asks"),
        Behaviour(service="is not allowed"),
        Behaviour(next="fails"),
    ],
)
def test_blocked_workflow_starts_nothing_and_cannot_be_run_now(world: World, stop: Behaviour) -> None:
    world.publish("a1")
    world.drain(stop, limit=1)
    assert world.view.state == "Needs attention"
    world.ran.clear()
    world.clock.advance(DAY)
    world.publish("a2")
    world.rest()
    assert (world.ran, world.space.workflows.wake_at) == ([], None)
    assert not world.act("now")


def test_pause_does_not_touch_what_blocks_and_a_block_does_not_touch_what_the_user_wants(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="signed out", meanwhile=("prepare", "pause")), limit=1)
    assert rows(world, "select intent, block_kind from flow") == [("paused", "auth")]
    world.act("resume")
    assert rows(world, "select intent, block_kind from flow") == [("active", None)]


def test_backoff_holds_up_everything_of_its_workflow(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(prepare="passes"), limit=1)
    world.done.publish("x", id="x1")
    world.ran.clear()
    world.clock.advance(10 * SECOND - 1)
    world.rest()
    assert (world.ran, world.space.workflows.wake_at) == ([], world.clock.now_ms() + 1)
    assert not world.act("now"), "a run is not finished"
    world.clock.advance(1)
    world.rest()
    assert "Act.prepare" in world.ran


def test_run_now_is_refused_while_a_run_is_active(world: World) -> None:
    world.publish("a1")
    answers: list[bool] = []
    world.drain(Behaviour(meanwhile=("mutate", lambda: answers.append(world.act("now")))), limit=1)
    assert answers == [False]


def test_run_now_runs_every_producer_once_and_counts_from_then(world: World) -> None:
    world.rest()
    world.clock.advance(MINUTE)
    assert world.act("now")
    world.ran.clear()
    world.rest()
    assert world.ran.count("poll") == 1
    assert rows(world, "select why from flow_run where kind = 'producer' order by id") == [("schedule",), ("manual",)]
    assert world.space.workflows.wake_at == world.clock.now_ms() + 5 * MINUTE


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("intent = 'paused'", "is stopped"),
        ("intent = 'archived'", "is stopped"),
        ("block = 'x', block_kind = 'logic'", "is stopped"),
        ("repairing = 1", "is stopped"),
        ("head = 1, retry_at = 5", "still waits for 5"),
    ],
)
def test_run_that_begins_although_its_workflow_is_stopped_is_found(world: World, change: str, text: str) -> None:
    world.drain(limit=1)
    copy_run(world, 1, chain=2, status="active", phase="preparing")
    set_to(world, "flow", change)
    is_found(world, lambda tables: w14_paused(tables, tables.run(2)), rf"W14: it begins.*{text}.*: RunRow\(id=2")
