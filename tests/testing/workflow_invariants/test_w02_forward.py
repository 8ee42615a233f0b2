"""W2: a run goes forward only. How far it came and what it waits for are two things; once it has ended, it stays so."""

from __future__ import annotations

import pytest

from headwater.workflow.table_checks import w2_forward
from tests.testing.workflow_invariants.tampering import is_found, rows, set_to, tamper
from tests.workflow.world import Behaviour, World

STOPS = [
    (Behaviour(prepare="fails"), "preparing", "failed:logic"),
    (Behaviour(prepare="passes"), "preparing", "paused:transient"),
    (Behaviour(prepare="asks"), "prepared", "paused:approval"),
    (Behaviour(service="breaks", reconcile="unknown"), "mutating", "paused:reconciliation"),
    (Behaviour(service="refuses"), "mutated", "paused:transient"),
    (Behaviour(next="fails"), "emitting", "failed:logic"),
    (Behaviour(next="passes"), "emitting", "paused:transient"),
    (Behaviour(dies="prepare"), "preparing", "crashed"),
    (Behaviour(dies="mutate"), "mutating", "crashed"),
]


@pytest.mark.parametrize(("behaviour", "phase", "status"), STOPS)
def test_run_that_stops_stays_in_its_phase_whatever_happens_to_its_chain(
    world: World, behaviour: Behaviour, phase: str, status: str
) -> None:
    """All steps are watched; what became of a call may be learnt later, and nothing else."""
    world.publish("a1")
    world.drain(behaviour, limit=1)
    assert rows(world, "select phase, status from flow_run where id = 1") == [(phase, status)]
    world.finish()
    learnt = {"mutating": "mutated", "prepared": "committed"}.get(phase, phase)
    ended = "committed" if phase == "prepared" else status
    assert rows(world, "select phase, status from flow_run where id = 1") == [(learnt, ended)]
    assert world.status()["a1"] == "consumed"


def test_run_that_has_come_further_before_is_found(world: World) -> None:
    world.publish("a1")
    world.drain(Behaviour(next="fails"), limit=1)
    tamper(world, "update flow_run set phase = 'mutated'")
    is_found(world, world.watch.look, "W2: it was emitting already: RunRow")


@pytest.mark.parametrize(
    ("column", "value", "text"),
    [
        ("version", 7, "it has changed"),
        ("why", "manual", "it has changed"),
        ("status", "crashed", "it had ended"),
    ],
)
def test_run_that_has_ended_and_is_another_now_is_found(world: World, column: str, value: object, text: str) -> None:
    """Compared with what was seen before: the tables as they are would do."""
    world.publish("a1")
    world.drain(Behaviour(prepare="fails"), limit=1)
    set_to(world, "flow_run", f"{column} = ?, error_kind = 'crashed'", value)
    is_found(world, world.watch.look, f"W2: {text}")


@pytest.mark.parametrize(
    ("phase", "status", "outcome"),
    [
        ("preparing", "active", "applied"),
        ("mutating", "active", "none"),
        ("mutating", "failed:logic", "unknown"),
        ("mutating", "paused:transient", "unknown"),
        ("preparing", "paused:reconciliation", "none"),
        ("committed", "active", "none"),
        ("committed", "committed", "unknown"),
        ("committed", "committed", "failed"),
        ("emitting", "active", "failed"),
    ],
)
def test_place_that_no_step_leads_to_is_found(world: World, phase: str, status: str, outcome: str) -> None:
    world.drain(limit=1)
    tamper(world, "update flow_run set phase = ?, status = ?, outcome = ?", phase, status, outcome)
    is_found(world, w2_forward, rf"W2: no step leads to where it is \({phase}, {status}, outcome {outcome}\): RunRow")
