"""Shrinking removes what a violation does not need, and nothing that it needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sim.apart import play
from sim.kinds import make_plan
from sim.plan import Knobs, Plan
from sim.shrink import Shrunk, source_of
from tests.sim.toy import BAD, Add, Parts, Spoil

ROOT = Path(__file__).parents[2]

SHRINK = """
import sys
import msgspec
from sim.kinds import make_plan
from sim.shrink import shrink
plan = make_plan("tests.sim.toy", 1)
plan = msgspec.structs.replace(plan, features=tuple(sys.argv[3:]))
found = shrink(plan, 1, sys.argv[2], runs_max=int(sys.argv[1]))
print(found.runs, found.text.splitlines()[-1])
print(repr(found.plan))
"""


def shrunk(runs_max: int, rule: str = "toy", *features: str) -> tuple[int, str, Plan]:
    """In a process of its own, because it forks."""
    command = [sys.executable, "-c", SHRINK, str(runs_max), rule, *features]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    runs, _, text = first.partition(" ")
    return int(runs), text, _evaluated(second)


def _evaluated(source: str) -> Plan:
    from sim import plan as plans
    from tests.sim import toy

    found = eval(source, vars(plans) | vars(toy))  # noqa: S307  # a plan is a program
    assert isinstance(found, Plan)
    return found


@pytest.mark.slow
def test_smallest_plan_violates_the_same_rule_and_has_nothing_to_spare() -> None:
    runs, text, plan = shrunk(60)
    assert runs <= 60
    assert text == "7 was added by a spoiled node"
    assert [type(each) for each in plan.operations] == [Add]
    assert [each.number for each in plan.operations if isinstance(each, Add)] == [BAD]
    assert [type(each) for each in plan.faults] == [Spoil]
    assert len(plan.nodes) == 1
    assert plan.app == Parts(("checked",))
    assert plan.knobs == Knobs()
    assert [each.rule for each in play(plan, 1).violations] == ["toy"]


@pytest.mark.slow
def test_plan_that_ends_in_an_error_of_the_simulator_is_no_smaller_one() -> None:
    """Although that is a violation of the same rule."""
    _, text, plan = shrunk(60, "T", "brittle")
    assert text == "planted: there are operations"
    assert len(plan.operations) == 1


def test_error_of_the_simulator_can_be_shrunk_itself() -> None:
    _, text, plan = shrunk(60, "T", "raise")
    assert "planted" in text
    assert plan.operations == ()


def test_shrinking_ends_when_its_runs_are_spent() -> None:
    runs, _, plan = shrunk(4)
    assert runs <= 5
    assert plan != Plan(kind="tests.sim.toy")


def test_regression_is_a_test_that_plays_the_plan() -> None:
    plan = make_plan("small-tests.sim.toy", 2)
    source = source_of(
        Shrunk(before=plan, plan=plan, rule="toy", text='a "text"', runs=1, real_s=0.1), "small-tests.sim.toy", 2
    )
    names: dict[str, object] = {}
    exec(compile(source, "test_plan.py", "exec"), names)  # noqa: S102  # what was written is a program
    assert names["PLAN"] == plan
    assert callable(names["test_small_tests_sim_toy_2_violates_no_rule"])
    assert all(len(line) <= 120 for line in source.splitlines())


@pytest.mark.parametrize("seed", [12, 299])
def test_regression_has_classes_of_one_name_from_two_modules(seed: int) -> None:
    """Expressions and operations both have a `Call`."""
    plan = make_plan("program", seed)
    source = source_of(Shrunk(before=plan, plan=plan, rule="V", text="", runs=1, real_s=0.1), "program", seed)
    names: dict[str, object] = {}
    exec(compile(source, "test_plan.py", "exec"), names)  # noqa: S102  # what was written is a program
    assert names["PLAN"] == plan
    assert {"PartsCall", "OperationsCall"} <= set(names)


def test_a_world_is_the_same_when_it_is_played_again() -> None:
    plan = make_plan("tests.sim.toy", 5)
    assert play(plan, 5, record=True) == play(plan, 5, record=True)
