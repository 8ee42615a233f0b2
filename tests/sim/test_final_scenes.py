"""Scenes of programs, as data: each finds a planted mistake, and without the mistake it breaks no rule."""

from __future__ import annotations

import random

import pytest

from sim.apps import parts as p
from sim.kinds import play_plan
from sim.mutants.catalog import find
from sim.mutants.hunt import warm
from sim.mutants.mutant import Mutant, apply
from sim.plan import Knobs, Plan
from sim.program import final_scenes
from sim.program import operations as o
from sim.program.generate import generate
from sim.runner import run
from sim.storage.workload import Act, Look, Step, Writer
from sim.worker import Result
from sim.world import progress


def program(*parts: p.Part, does: tuple[o.Operation, ...], **node: object) -> Plan:
    return Plan(
        kind="program",
        knobs=Knobs(switch=0.1),
        nodes=(o.Program(**node),),  # type: ignore[arg-type]  # as named
        app=p.App(parts=parts),
        operations=does,
    )


CELLS = (p.IntCell("z1"), p.IntCell("z2"), p.IntCell("z3"))
GROUPED = p.Sink("y1", (p.Read("z2"), p.Read("z3")), group="scene")
SHOWS_TWO = p.Sink("y1", (p.Read("z1"), p.Read("z2")))
ADD = p.Items("b1", "add", p.Const(1))
COUNTS = p.Put("z1", p.Binary("+", p.Field("b1", "count"), p.Field("b1", "x")))
EDITS = (p.Count("z1", p.Const(2)), p.Put("z1", p.Const(3)))
LINES = range(1, 26)
"""After the disk has taken a group, until its outcomes are delivered."""


def undercut(then: str) -> o.Operation:
    return o.Undercut(hot="z1", target="z2", value=5, then=then, cold="z3")  # type: ignore[arg-type]  # one of two


def overtake(value: int, *later: tuple[float, int], session: int = 0) -> tuple[o.Operation, ...]:
    return (o.Pass(seconds=1.0), o.Overtake(cell="z1", value=value, later=later, session=session))


FOUND = {
    "scheduler.outdated_kept": (
        "V",
        program(*CELLS, p.Sink("y1", (p.Read("z1"),), slow=20), does=overtake(1, (0.005, 2))),
    ),
    "scheduler.waited_unlooked": (
        "L1",
        program(*CELLS, p.Patient("y1", "z1"), does=overtake(p.HELD, (0.002, 1)), loop=True),
    ),
    "cells.version_stands": (
        "L1",
        program(
            *CELLS,
            p.Patient("y1", "z1"),
            does=overtake(p.HELD, (0.001, 1), session=1),
            loop=True,
            sessions=2,
            threads=(0, 1),
        ),
    ),
    "scheduler.invalid_again_unoffered": (
        "I1",
        program(*CELLS, p.Patient("y1", "z1", finishes=True), does=overtake(1, (0.008, 9), (0.001, 1)), loop=True),
    ),
    "scheduler.revert_is_own": (
        "V",
        program(*CELLS, GROUPED, does=(undercut("show"),), sessions=2, threads=(0, 1)),
    ),
    "cells.noop_over_layers": ("S1", program(*CELLS, does=(undercut("repeat"),), sessions=2, threads=(0, 1))),
    "cells.shallow_covered": (
        "INV-1",
        program(*CELLS, p.Board("b1"), does=(o.Write(step=ADD), o.Block(tag="x1", steps=(COUNTS,), beside=(ADD,)))),
    ),
    "cells.edited_read_unnamed": (
        "INV-1",
        program(
            *CELLS,
            does=(
                o.Write(step=p.Put("z1", p.Const(1))),
                o.Sync(),
                o.Block(tag="x1", steps=EDITS, beside=(p.Count("z1", p.Const(1)),)),
            ),
        ),
    ),
    "cells.layer_kept_after_replay": (
        "INV-9",
        program(*CELLS, does=tuple(o.Interrupt(cell="z1", lines=-n) for n in LINES)),
    ),
    "cells.heard_twice": (
        "INV-9",
        program(*CELLS, does=tuple(o.Interrupt(cell="z1", lines=-n, target="z2", value=n) for n in LINES)),
    ),
    "scheduler.inbox_missed": (
        "L2",
        program(*CELLS, SHOWS_TWO, does=(o.Preempt(cell="z1", other="z2", sink="y1", value=1),)),
    ),
    "store.elided_unrecorded": (
        "V",
        Plan(
            kind="storage",
            nodes=(Writer("a", resends=False),),
            operations=(
                Act(at=0.1, number=2, session="a", steps=(Step("result", "q0"),), waits=True),
                Act(at=0.2, number=4, session="a", steps=(Step("result", "q0"),)),
                Act(at=0.2, number=5, session="a", steps=(Step("set", "d0"),), looks=(Look("q0"),)),
            ),
        ),
    ),
}
"""By mutant: the rule that does not hold with it, and the situation."""


def rules(plan: Plan, mutant: Mutant | None) -> list[str]:
    """The rules that a plan breaks, played in a process of its own."""
    results: list[Result] = []
    run(
        [(plan.kind, 1)],
        lambda _, seed: play_plan(plan, seed),
        jobs=1,
        on_result=results.append,
        prepare=lambda: None if mutant is None else apply(mutant),
        progress=progress,
    )
    [result] = results
    assert result.status in ("ok", "failed"), result.text
    return [each.rule for each in result.outcome.violations]


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize("name", FOUND)
def test_situation_finds_its_mistake_and_breaks_no_rule_without_it(name: str) -> None:
    warm()
    rule, plan = FOUND[name]
    assert rules(plan, None) == []
    assert rule in rules(plan, find(name))


def test_scene_leaves_the_rest_of_a_plan_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(final_scenes, "SHARE", 1.0)
    found: set[str] = set()
    for seed in range(60):
        rng = random.Random(seed)
        plan = generate(rng, small=True)
        more = final_scenes.added(plan, rng)
        assert isinstance(plan.app, p.App)
        assert isinstance(more.app, p.App)
        assert more.operations[: len(plan.operations)] == plan.operations
        assert more.app.parts[: len(plan.app.parts)] == plan.app.parts
        assert len(more.app.named()) == len(more.app.parts)
        assert (more == plan) is bool(plan.faults)
        found.update(type(each).__name__ for each in more.operations[len(plan.operations) :])
    assert found >= {"Overtake", "Undercut", "Interrupt", "Preempt", "Block"}
