"""A world that is named as an open finding fails a run only by another rule."""

from __future__ import annotations

import re

import pytest

from sim import open_findings
from sim.kinds import check_kind
from sim.plan import Outcome, Violation
from sim.report import Report
from sim.worker import Result


def played(seed: int, *rules: str) -> Result:
    violations = tuple(Violation(rule, 1.0, "a", "text") for rule in rules)
    status = "failed" if rules else "ok"
    return Result(kind="shared", seed=seed, status=status, outcome=Outcome(violations=violations))


@pytest.fixture(autouse=True)
def one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_findings, "_RULES", {"shared:7": "V"})


def test_named_world_that_fails_by_its_rule_is_no_new_failure() -> None:
    report = Report()
    report.add(played(7, "V", "L1"))
    assert report.new_failures == []
    assert "open findings, named in sim/open_findings.py: shared:7" in report.summary()
    assert "FAILED" not in report.summary()


def test_named_world_that_fails_by_another_rule_is_a_new_failure() -> None:
    report = Report()
    report.add(played(7, "S1"))
    report.add(played(8, "V"))
    assert [failure.name for failure in report.new_failures] == ["shared:7", "shared:8"]
    assert "FAILED: 2 of 2 worlds" in report.summary()


def test_named_world_that_passes_is_reported() -> None:
    report = Report()
    report.add(played(7))
    assert "passed, to be removed from sim/open_findings.py: shared:7" in report.summary()


def test_entries_name_worlds_and_say_why_once_each() -> None:
    names = [each.world for each in open_findings.OPEN]
    assert len(names) == len(set(names))
    for each in open_findings.OPEN:
        kind, _, seed = each.world.partition(":")
        assert check_kind(kind) == kind
        assert re.fullmatch(r"\d+", seed)
        assert len(each.cause) > 20
