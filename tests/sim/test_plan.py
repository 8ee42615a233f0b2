"""Plans, names of worlds, and declared situations, as data."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from sim import failing, kinds
from sim import plan as plans
from sim.plan import PCT_SHARE, SWITCHES, Knobs, Plan, draw_knobs
from sim.report import Failure, Report
from sim.sometimes import DECLARED, too_rare, undeclared
from sim.watchpoints import WATCHPOINTS, owner_of
from sim.worker import Result
from tests.sim import toy


@pytest.mark.parametrize("seed", range(5))
def test_the_text_of_a_plan_is_python_that_makes_it_again(seed: int) -> None:
    plan = toy.generate(random.Random(seed))
    again = eval(repr(plan), vars(plans) | vars(toy))  # noqa: S307  # a plan is a program
    assert again == plan
    assert again.digest() == plan.digest()


def test_plans_that_differ_have_different_digests() -> None:
    found = {toy.generate(random.Random(seed)).digest() for seed in range(50)}
    assert len(found) == 50


def test_drawn_knobs_cover_every_switch_probability_and_one_world_in_four_has_priorities() -> None:
    drawn = [draw_knobs(random.Random(seed)) for seed in range(2000)]
    assert {each.switch for each in drawn} == set(SWITCHES)
    assert {each.pct for each in drawn} == {0, 1, 2, 3}
    assert abs(sum(each.pct > 0 for each in drawn) / 2000 - PCT_SHARE) < 0.05


def test_text_of_a_plan_leaves_defaults_out() -> None:
    assert repr(Plan(kind="toy", knobs=Knobs(switch=0.5))) == "Plan(kind='toy', knobs=Knobs(switch=0.5))"


@pytest.mark.parametrize(
    ("text", "kind", "found"),
    [
        ("tests.sim.toy:12", None, ("tests.sim.toy", 12)),
        (" small-tests.sim.toy:0 ", None, ("small-tests.sim.toy", 0)),
        ("12", "tests.sim.toy", ("tests.sim.toy", 12)),
        ("tests.sim.toy:12", "tests.sim.toy", ("tests.sim.toy", 12)),
    ],
)
def test_names_of_worlds(text: str, kind: str | None, found: tuple[str, int]) -> None:
    assert kinds.parse(text, kind) == found


def test_small_kind_makes_smaller_plans_of_the_same_seed() -> None:
    small, usual = kinds.make_plan("small-tests.sim.toy", 3), kinds.make_plan("tests.sim.toy", 3)
    assert small.kind == usual.kind == "tests.sim.toy"
    assert len(small.operations) < len(usual.operations)


def test_failing_plans_are_kept_once_the_latest_last_and_a_damaged_line_is_passed_over(tmp_path: Path) -> None:
    file = tmp_path / ".sim" / "failing.jsonl"
    assert failing.known(file) == []
    failing.remember([Failure(kind="toy", seed=seed) for seed in range(60)], file)
    assert [each.seed for each in failing.known(file)] == list(range(10, 60))
    failing.remember([Failure(kind="toy", seed=10), Failure(kind="toy", seed=99)], file)
    assert [each.seed for each in failing.known(file)][-1] == 99
    assert Counter(each.seed for each in failing.known(file)).most_common(1)[0][1] == 1
    file.write_text("{broken\n" + file.read_text(encoding="utf-8"), encoding="utf-8")
    assert len(failing.known(file)) == 50


def test_situations_are_declared_once() -> None:
    assert len({each.name for each in DECLARED}) == len(DECLARED)
    assert undeclared(["a new one", DECLARED[0].name]) == ["a new one"]


def test_situation_that_never_occurred_is_too_rare_whatever_the_number_of_worlds() -> None:
    first = DECLARED[0]
    assert first in too_rare({}, {first.kind: 1})
    assert first not in too_rare({first.name: 1}, {first.kind: 1000})
    assert first in too_rare({first.name: 1}, {first.kind: 1001})


def test_world_without_an_end_is_a_failure_of_its_status() -> None:
    report = Report()
    report.add(Result(kind="toy", seed=4, status="too slow", text="no end"))
    assert report.failures[0].rules == ("too slow",)
    assert "too slow: no end" in report.summary()


def test_every_watchpoint_counts_a_declared_situation_at_a_function_that_exists() -> None:
    for point in WATCHPOINTS:
        owner, name = owner_of(point.place)
        assert callable(owner.__dict__[name]), point
    assert undeclared(point.name for point in WATCHPOINTS) == []
