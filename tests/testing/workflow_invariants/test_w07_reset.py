"""W7: how a chain goes on follows from what is known of its effect, and from nothing else."""

from __future__ import annotations

import pytest

from headwater.workflow.table_checks import w7_reset
from tests.testing.workflow_invariants.tampering import copy_run, is_found, rows, set_to, tamper
from tests.workflow.world import MINUTE, Behaviour, World

COPIED = "select phase, outcome, effect_of, prepare_result, mutation_result, taken from flow_run"


@pytest.mark.parametrize("answer", ["truth", "unknown", "fails", "nonsense"])
@pytest.mark.parametrize("person", ["reconcile", "skip call"])
@pytest.mark.parametrize("service", ["applies, then breaks", "breaks"])
def test_answer_of_a_person_counts_although_the_service_is_being_asked(
    quick: World, answer: str, person: str, service: str
) -> None:
    quick.publish("a1")
    quick.drain(Behaviour(service=service, reconcile="unknown"), limit=1)
    quick.clock.advance(MINUTE)
    quick.drain(Behaviour(reconcile=answer, meanwhile=("reconcile", person)))
    quick.finish()
    assert quick.status()["a1"] == ("skipped" if person == "skip call" else "consumed")


# --- by the outcome -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("behaviour", "outcome"),
    [
        (Behaviour(prepare="passes"), "none"),
        (Behaviour(prepare="fails"), "none"),
        (Behaviour(service="refuses"), "failed"),
        (Behaviour(service="did not"), "failed"),
        (Behaviour(dies="prepare"), "none"),
    ],
)
def test_run_that_has_done_nothing_is_followed_by_one_from_the_beginning(
    world: World, behaviour: Behaviour, outcome: str
) -> None:
    """Its events are given back, and what is there then is planned."""
    world.publish("a1")
    world.drain(behaviour, limit=1)
    assert rows(world, "select outcome from flow_run") == [(outcome,)]
    assert world.status() == {"a1": "pending"}
    world.publish("a2")
    world.help()
    world.drain(limit=1)
    assert rows(world, "select retry_of, effect_of, outcome, taken from flow_run where id = 2") == [
        (1, None, "applied", 2)
    ]


@pytest.mark.parametrize(
    "behaviour",
    [
        Behaviour(next="fails"),
        Behaviour(next="passes"),
        Behaviour(dies="next"),
        Behaviour(dies="after next"),
    ],
)
def test_run_that_has_acted_is_followed_by_one_that_goes_on_with_what_it_came_to(
    world: World, behaviour: Behaviour
) -> None:
    """It keeps its events, whatever has come since. That it has acted may have to be asked for, after a kill."""
    world.publish("a1")
    world.drain(behaviour, limit=1)
    assert world.status() == {"a1": "reserved"}
    world.publish("a2")
    world.help()
    world.ran.clear()
    world.drain(limit=1)
    assert [one for one in world.ran if one != "Act.reconcile"] == ["Act.next"]
    kept = rows(world, "select prepare_result from flow_run where id = 1")[0][0]
    assert rows(world, f"{COPIED} where id = 2") == [("committed", "applied", 1, kept, b"\x01", 1)]
    assert world.status() == {"a1": "consumed", "a2": "pending"}


@pytest.mark.parametrize("service", ["breaks", "applies, then breaks", "applies late", "cannot tell"])
def test_run_whose_call_nobody_knows_of_has_no_successor_before_somebody_does(quick: World, service: str) -> None:
    """It is asked about five times in the background; then only a person can tell, and nothing else ends it."""
    quick.publish("a1")
    quick.drain(Behaviour(service=service, reconcile="unknown"), limit=1)
    for _ in range(8):
        quick.clock.advance(10 * MINUTE)
        quick.drain(Behaviour(reconcile="fails"), limit=1)
    assert quick.ran.count("Act.reconcile") == 6, "at once, and five times later"
    assert rows(quick, "select count(*) from flow_run") == [(1,)]
    assert (quick.view.state, quick.status()) == ("Needs attention", {"a1": "reserved"})
    for action in ("resume", "retry", "approve", "reject", "cancel", "now"):
        assert not quick.act(action), action
    quick.restart(version=True)
    quick.rest()
    assert rows(quick, "select count(*) from flow_run") == [(1,)]
    quick.finish()
    assert quick.status()["a1"] == "consumed"


# --- tampered -------------------------------------------------------------------------------------------------


def test_successor_of_a_run_that_nobody_knows_of_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(service="breaks", reconcile="unknown"), limit=1)
    copy_run(world, 1, retry_of=1, attempt=2, status="active", phase="preparing", outcome="none")
    is_found(world, w7_reset, "W7: it follows run 1, whose outcome is unknown: RunRow")


@pytest.mark.parametrize(
    "change", ["effect_of = null", "outcome = 'skipped'", "prepare_result = x'00'", "phase = 'prepared'"]
)
def test_successor_that_does_not_go_on_from_an_effect_is_found(world: World, change: str) -> None:
    world.publish("a1")
    world.drain(Behaviour(next="fails"), limit=1)
    world.act("resume")
    world.drain(limit=1)
    set_to(world, "flow_run", change, where="id = 2")
    is_found(world, w7_reset, "W7: it does not go on from what run 1 came to: RunRow")


def test_successor_that_goes_on_from_nothing_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(service="refuses"), limit=1)
    world.clock.advance(MINUTE)
    world.drain(limit=1)
    tamper(world, "update flow_run set effect_of = 1 where id = 2")
    is_found(world, w7_reset, "W7: it goes on from run 1, which has done nothing: RunRow")
    tamper(world, "update flow_run set retry_of = null where id = 2")
    is_found(world, w7_reset, "W7: it goes on from a call, and from no run: RunRow")


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("update flow_run set status = 'failed:logic'", "and it is shown as failed"),
        ("update flow_call set status = 'in_flight'", "it has stopped, and its call is not asked about"),
        ("update flow_call set status = 'indeterminate'", r"only a person can report .* world\.flow does not ask one"),
    ],
)
def test_unknown_outcome_that_nobody_looks_after_is_found(world: World, query: str, text: str) -> None:
    world.publish("a1")
    world.drain(Behaviour(service="breaks", reconcile="unknown"), limit=1)
    tamper(world, query)
    is_found(world, w7_reset, f"W7: .*{text}")
