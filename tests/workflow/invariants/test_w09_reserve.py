"""W9: what a run takes is its own until it ends; it is consumed with its commit, or never."""

from __future__ import annotations

from tests.workflow.world import Behaviour, World


def test_event_that_is_skipped_while_prepare_looks_at_it_is_no_fault_of_the_handler(world: World) -> None:
    """It is prepared anew, without that one, at once."""
    world.publish("a1")
    world.publish("a2")
    world.drain(Behaviour(meanwhile=("prepare", "skip")), limit=2)
    assert world.status() == {"a1": "skipped", "a2": "consumed"}
    assert world.service.effects == {"a2": 1}
    assert [run.status for run in reversed(world.flow.runs())] == ["paused:transient", "committed"]
