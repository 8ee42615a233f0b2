"""Scenes of programs: each shows the mistake that it is set up for, and nothing without it."""

from __future__ import annotations

import random

import pytest

from sim.apps import parts as p
from sim.kinds import play_plan
from sim.mutants.catalog import find
from sim.mutants.hunt import rules_of
from sim.mutants.mutant import apply
from sim.plan import Outcome, Plan
from sim.program import scenes
from sim.program.operations import Program, Settle
from sim.runner import run
from sim.worker import Result

pytestmark = pytest.mark.slow

CASES = (
    # Two checks cover each other there, and for late failures: no single mistake breaks a rule.
    (scenes.overtaken_handler, Program(), "", ""),
    (scenes.excused_function, Program(), "events.parked_after_runs", "L2"),
    (scenes.contested_handler, Program(sessions=2, threads=(0, 1), loop=True), "events.retry_without_wake", "L1"),
    (scenes.open_sender, Program(), "events.origin_sent_unheard", "L2"),
    (scenes.piece_while_locked, Program(), "runtime.piece_work_left", "L2"),
    (scenes.late_failure, Program(loop=True), "", ""),
    (scenes.listed_call, Program(), "resume.instances_unmade", "V"),
    (scenes.resumed_piece, Program(), "resume.layers_not_newer", "V"),
    (scenes.other_code, Program(), "resume.adopted_other_code", "V"),
)
SEEDS = 12
"""Of each scene. Some of its choices do not show the mistake."""


def _plan(make: scenes.Make, node: Program, seed: int) -> Plan:
    scene = make(random.Random(f"scene-{seed}"))
    app = p.App(parts=(p.IntCell("i1"), *scene.parts))
    features = ("gates",) if make is scenes.excused_function else ()
    return Plan(
        kind="program", features=features, nodes=(node,), app=app, operations=(*scene.operations, Settle(gap=0.01))
    )


def _broken(plans: list[Plan], mutant: str = "") -> set[str]:
    """The rules that do not hold in some of the plans, with or without a mutant."""
    results: list[Result] = []

    def play(_: str, index: int) -> Outcome:
        return play_plan(plans[index], index)

    names = [("program", index) for index in range(len(plans))]
    assert run(names, play, jobs=1, on_result=results.append, prepare=lambda: apply(find(mutant)) if mutant else None)
    return {rule for result in results for rule in rules_of(result)}


def test_every_scene_is_tried() -> None:
    assert {make for make, *_ in CASES} == {make for make, *_ in scenes.SCENES}


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize(("make", "node", "mutant", "rule"), CASES)
def test_scene_shows_the_mistake_that_it_is_for(make: scenes.Make, node: Program, mutant: str, rule: str) -> None:
    plans = [_plan(make, node, seed) for seed in range(SEEDS)]
    assert _broken(plans) == set()
    if mutant:
        assert rule in _broken(plans, mutant)
