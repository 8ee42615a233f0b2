"""Random schedules: the engine accepts only what a naive store would accept, and folds the log the same way."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tests.support.halves import examples
from tests.support.limits import small_limits
from tests.support.schedules import Schedule
from tests.support.spaces import KINDS, Space

STEPS = 25


def run_seed(kind: str, folder: Path, seed: int, *, honest: bool) -> Counter[str]:
    folder.mkdir()
    space = Space(kind, folder)
    with small_limits(FOLD_COMMITS=6, SNAPSHOT_SLACK_BYTES=40, CACHE_BYTES=4000):
        counts = Schedule(space, random.Random(seed), honest=honest).run(STEPS)
    space.close()
    return counts


@pytest.mark.property
@pytest.mark.parametrize(
    ("kind", "runs"), [("memory", 120), ("sqlite", 25), pytest.param("postgres", 15, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("honest", [True, False], ids=["honest", "any"])
def test_engine_accepts_only_what_the_naive_store_accepts(kind: str, runs: int, honest: bool, tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    runs = max(examples(runs), 5)  # fewer miss a case
    for seed in range(runs):
        counts += run_seed(kind, tmp_path / str(seed), seed, honest=honest)
    # A generator that never meets a case proves nothing about it.
    for case in (
        "accepted",
        "accepted with reads",
        "accepted with pending reads",
        "accepted with preconditions",
        "conflict",
        "conflict by misfit",
        "refused",
        "replayed",
        "reopened",
        "failed",
    ):
        assert counts[case] >= runs / 5, f"{case} is too rare: {counts}"
    assert counts["conflict, needlessly"] < counts["accepted"] / 2, f"hardly anything gets through: {counts}"


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large])
@given(rng=st.randoms(use_true_random=False), honest=st.booleans(), steps=st.integers(1, 20))
def test_no_schedule_tells_engine_and_naive_store_apart(rng: random.Random, honest: bool, steps: int) -> None:
    with small_limits(FOLD_COMMITS=4, SNAPSHOT_SLACK_BYTES=10):
        counts = Schedule(Space("memory", Path()), rng, honest=honest).run(steps)
    event(f"accepted more than rejected: {counts['accepted'] > counts['conflict'] + counts['refused']}")


def test_every_kind_of_backend_is_tried() -> None:
    assert [getattr(kind, "values", (kind,))[0] for kind in KINDS] == ["memory", "sqlite", "postgres"]
