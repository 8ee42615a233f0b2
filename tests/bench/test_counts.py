"""What one write, run, event, workflow run and restored node take does not become more: counts, not times."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import counts
from bench.counting import calls_by_name


@pytest.mark.parametrize("unit", counts.UNITS)
def test_a_unit_takes_no_more_than_it_did(unit: str) -> None:
    held = counts.limits()[unit]
    measured = counts.count(unit)
    assert {kind: count for kind, count in measured.items() if not counts.holds(kind, count, held[kind])} == {}


def test_every_unit_has_a_limit_of_each_kind() -> None:
    kinds = {"calls", "objects", "blocks", "entries", "commits", "statements"}
    assert {unit: set(held) for unit, held in counts.limits().items()} == dict.fromkeys(counts.UNITS, kinds)


def test_limits_are_lowered_and_never_raised(tmp_path: Path) -> None:
    held = {"write": {"calls": 10.0, "entries": 2.0}}
    after = counts.lowered(held, {"write": {"calls": 12.0, "entries": 1.0}, "event": {"calls": 30.0}})
    assert after == {"write": {"calls": 10.0, "entries": 1.0}, "event": {"calls": 30.0}}
    counts.write_limits(after, tmp_path / "limits.toml")
    assert counts.limits(tmp_path / "limits.toml") == after


def test_a_compiled_measurement_keeps_the_limits_of_kinds_it_cannot_count() -> None:
    held = {"write": {"calls": 10.0, "entries": 2.0}}
    assert counts.lowered(held, {"write": {"entries": 1.0}}) == {"write": {"calls": 10.0, "entries": 1.0}}


def test_calls_of_other_code_are_not_counted() -> None:
    assert calls_by_name(lambda: Path("a").with_name("b")).total() == 0
