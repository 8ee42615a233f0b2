"""Twins agree, and a difference between them is found."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sim.apart import play_all
from sim.apps.source import APP
from sim.plan import Plan
from sim.program import operations as o
from sim.program import twin
from sim.program.program import ProgramWorld
from sim.world import World


def plan_of(seed: int, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setattr(twin, "SHARE", 1.0)
    plan = twin.generate(random.Random(seed), small=True)
    assert plan is not None
    return plan


def test_twins_agree(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = [(plan_of(seed, monkeypatch), seed) for seed in range(3)]
    for (plan, _), outcome in zip(plans, play_all(plans), strict=True):
        assert outcome.violations == ()
        assert outcome.counts["operations"] >= 2 * len(plan.operations) - 1


@pytest.mark.parametrize("differ", [False, True])
def test_ledger_that_differs_after_a_restart_is_found(monkeypatch: pytest.MonkeyPatch, differ: bool) -> None:
    plan = plan_of(1, monkeypatch)
    found: list[tuple[str, str]] = []
    world = SimpleNamespace(plan=plan, violations=[], violate=lambda rule, text, _: found.append((rule, text)))
    played: list[str] = []

    def run(_: World, program: ProgramWorld) -> None:
        played.append(program.spec.name)
        operations = world.plan.operations
        assert any(isinstance(each, o.Reopen) for each in operations) is (program.spec.name == "p")
        entry: dict[str, Any] = {"tag": "x1", "by": "block", "result": 0, "sent": []}
        program.documents = {f"{APP}.ledger": [entry] * (1 + differ * (program.spec.name == "p"))}

    twin.play(cast("World", world), run)
    assert played == ["p", "q"]
    assert world.plan is plan
    assert [rule for rule, _ in found] == ["I7"] * differ
    assert all("the ledger" in text for _, text in found)
