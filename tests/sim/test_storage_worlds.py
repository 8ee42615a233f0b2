"""Worlds of one space file: the rules hold, also at many crash points; faults are performed and undone."""

from __future__ import annotations

import random

import msgspec
import pytest

from sim.apart import play_all
from sim.faults import ALL, Eio, Full, Kill, KillInIo, LyingSync, SlowDisk, generate_faults
from sim.kinds import make_plan
from sim.plan import Plan
from sim.storage.workload import Act, Step, Writer


def acts(count: int, *, large: int = 0) -> tuple[Act, ...]:
    return tuple(
        Act(at=n / 10, number=n, session="a", steps=(Step("large" if n == large else "set", "d0"),), waits=n % 2 == 0)
        for n in range(1, count + 1)
    )


@pytest.mark.slow
def test_rules_hold_in_some_worlds_and_at_their_crash_points() -> None:
    plans = [
        (msgspec.structs.replace(make_plan("small-storage", seed), features=("crash points",)), seed)
        for seed in range(12)
    ]
    for outcome in play_all(plans):
        assert outcome.violations == ()


def test_commits_that_a_disk_loses_after_it_has_confirmed_them_are_found() -> None:
    """A check of the checker: with a disk whose syncs do nothing, no program can keep its word."""
    faults = (LyingSync(at=0.55, node="s"), Kill(at=2.0, node="s", keep=0.0, down=0.1))
    honest = Plan(kind="storage", nodes=(Writer("a", resends=True),), operations=acts(15), faults=faults[1:])
    lying = msgspec.structs.replace(honest, faults=faults)
    found = play_all([(plan, seed) for plan in (honest, lying) for seed in range(3)])
    assert [[each.rule for each in outcome.violations][:1] for outcome in found] == [[]] * 3 + [["S1"]] * 3


def test_damage_of_a_file_is_noticed_or_harmless() -> None:
    plans = [
        (msgspec.structs.replace(make_plan("small-storage", seed), features=("flipped bits",)), seed)
        for seed in range(4)
    ]
    outcomes = play_all(plans)
    assert [each.violations for each in outcomes] == [()] * 4
    assert sum(each.counts["flipped bits noticed"] for each in outcomes) > 0


def test_each_fault_of_the_disk_happens_and_everything_is_decided_afterwards() -> None:
    faults = (
        Full(at=0.2, node="s", seconds=0.5),
        Kill(at=1.0, node="s", keep=0.0, down=0.1),
        Eio(at=1.3, node="s", kind="sync"),
        KillInIo(at=1.5, node="s", kind="sync", nth=2, after=True, keep=0.5, down=0.1, again=1),
        SlowDisk(at=1.7, node="s", seconds=0.3, sync_ms=50),
    )
    plan = Plan(kind="storage", nodes=(Writer("a", resends=True),), operations=acts(25), faults=faults)
    [outcome] = play_all([(plan, 1)])
    assert outcome.violations == ()
    assert outcome.counts["kills in I/O"] >= 1
    assert outcome.counts["stalled"] >= 1
    assert outcome.counts["kills"] >= 4


def test_power_failure_after_a_failed_sync_costs_nothing() -> None:
    """A plan of this kind found a file that could not be opened any more."""
    faults = (
        Eio(at=0.55, node="s", kind="sync", count=3),
        Kill(at=1.5, node="s", keep=1.0, down=0.1),
        Kill(at=1.9, node="s", keep=0.0, down=0.1),
    )
    plan = Plan(kind="storage", nodes=(Writer("a", resends=True),), operations=acts(25), faults=faults)
    for outcome in play_all([(plan, seed) for seed in range(4)]):
        assert outcome.violations == ()


def test_log_that_was_compacted_before_the_oracle_looked_is_no_violation() -> None:
    """The oracle of admission took compacted entries for entries that never were."""
    for outcome in play_all([(make_plan("storage", seed), seed) for seed in (197, 574)]):
        assert outcome.violations == ()


def test_commit_that_a_full_disk_refused_is_no_origin() -> None:
    """The model took a result that may be elided for accepted, though its session was told that it is not stored."""
    for outcome in play_all([(make_plan("small-storage", 291), 291), (make_plan("storage", 405), 405)]):
        assert outcome.violations == ()


def test_faults_are_drawn_in_order_and_name_their_nodes() -> None:
    for seed in range(50):
        faults = generate_faults(random.Random(seed), ALL, ("s", "a"), 10.0)
        assert [each.at for each in faults] == sorted(each.at for each in faults)
        assert len({type(each) for each in faults}) <= 4
        assert {getattr(each, "node", "s") for each in faults} <= {"s", "a"}
        assert generate_faults(random.Random(seed), ALL, ("s", "a"), 10.0) == faults
