"""W6: that a call is about to leave is on disk before it does; from then on, until it is known, it counts as made."""

from __future__ import annotations

import pytest

from headwater.workflow.table_checks import w6_intent
from tests.testing.workflow_invariants.tampering import copy_run, is_found, rows, tamper
from tests.workflow.world import Behaviour, World


def test_service_is_called_only_when_that_is_on_disk(world: World) -> None:
    """`see_intent` looks when the service is called; here, at what would be left if the process died then."""
    world.publish("a1")
    world.drain(Behaviour(dies="mutate"), limit=1)
    assert rows(world, "select status, tries from flow_call") == [("needs_reconcile", 0)]
    assert rows(world, "select status, phase, outcome from flow_run") == [("crashed", "mutating", "unknown")]
    assert world.status() == {"a1": "reserved"}
    world.finish()


@pytest.mark.parametrize("commits", [1, 2, 3, 4])
def test_process_that_dies_before_the_call_is_on_disk_has_not_called(world: World, commits: int) -> None:
    world.publish("a1")
    world.drain(limit=1, dies_after=commits)
    known = {key for (key,) in rows(world, "select key from flow_call")}
    assert set(world.service.calls) <= known
    world.finish()


def test_person_who_cancels_before_the_call_has_prevented_it(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(meanwhile=("prepare", "cancel")), limit=1)
    assert not world.service.calls
    assert world.status() == {"a1": "skipped"}
    assert rows(world, "select outcome from flow_run") == [("skipped",)]
    assert rows(world, "select * from flow_call") == []


def test_call_in_flight_cannot_be_cancelled(world: World) -> None:
    world.publish("a1")
    answers: list[bool] = []
    world.drain(Behaviour(meanwhile=("mutate", lambda: answers.append(world.act("cancel", 1)))), limit=1)
    assert answers == [False]
    assert world.status() == {"a1": "consumed"}


@pytest.mark.parametrize(
    ("service", "query"),
    [
        ("breaks", "delete from flow_call"),
        ("breaks", "update flow_call set status = 'failed'"),
        ("refuses", "update flow_call set status = 'needs_reconcile'"),
        ("refuses", "update flow_call set resolved_by = 'user_skip'"),
        ("applies", "update flow_call set status = 'in_flight'"),
        ("applies", "update flow_run set outcome = 'none'"),
        ("applies", "update flow_run set outcome = 'skipped'"),
    ],
)
def test_run_and_call_that_tell_different_stories_are_found(world: World, service: str, query: str) -> None:
    world.publish("a1")
    world.drain(Behaviour(service=service, reconcile="unknown"), limit=1)
    tamper(world, query)
    is_found(world, w6_intent, "W6: its outcome is .*, and its call .*: RunRow")


def test_run_that_may_have_acted_and_tells_of_no_call_is_found(world: World) -> None:
    world.drain(limit=1)
    copy_run(world, 1, chain=2, status="active", phase="mutating", outcome="unknown")
    is_found(world, w6_intent, "W6: its outcome is unknown, and its call None: RunRow")
