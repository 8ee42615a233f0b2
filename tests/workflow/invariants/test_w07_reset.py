"""W7: how a chain goes on follows from what is known of its effect, and from nothing else."""

from __future__ import annotations

import pytest

from tests.workflow.world import MINUTE, Behaviour, World


@pytest.mark.parametrize("answer", ["truth", "unknown", "fails", "nonsense"])
@pytest.mark.parametrize("person", ["reconcile", "skip call"])
@pytest.mark.parametrize("service", ["applies, then breaks", "breaks"])
def test_answer_of_a_person_counts_although_the_service_is_being_asked(
    world: World, answer: str, person: str, service: str
) -> None:
    world.publish("a1")
    world.drain(Behaviour(service=service, reconcile="unknown"), limit=1)
    world.clock.advance(MINUTE)
    world.drain(Behaviour(reconcile=answer, meanwhile=("reconcile", person)))
    world.finish()
    assert world.status()["a1"] == ("skipped" if person == "skip call" else "consumed")
