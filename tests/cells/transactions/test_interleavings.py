"""Accepted transactions are as if they had run one after another, in the order of the log.

Each is kept as a program: what it read and saw, what it wrote. A naive model runs the accepted ones again, alone, in
the order of the log: every one sees again what it saw, and what they leave is what the store holds.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headwater.cells.journal import EditInputs, Journal
from headwater.cells.transaction import Transaction
from headwater.errors import HeadwaterError
from tests.cells.transactions.interleaving import Interleaving
from tests.support.halves import examples


@pytest.mark.property
def test_accepted_transactions_are_as_if_run_one_after_another() -> None:
    counts: Counter[str] = Counter()
    runs = examples(700)
    for seed in range(runs):
        run = Interleaving(random.Random(seed))
        run.run(80)
        counts += run.counts
    for case in ("committed, built on reads", "rejected here", "rejected by the store", "aborted"):
        assert counts[case] > runs * 3 / 7, f"{case} is too rare: {counts}"


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rng=st.randoms(use_true_random=False), steps=st.integers(1, 50))
def test_no_interleaving_lets_a_transaction_build_on_what_is_not_so(rng: random.Random, steps: int) -> None:
    run = Interleaving(rng)
    run.run(steps)
    event(f"rejected: {min(run.counts['rejected'], 3)}")


def is_found(steps: int = 80, seeds: int = 1500) -> bool:
    """Does any of many runs go wrong?"""
    for seed in range(seeds):
        try:
            Interleaving(random.Random(seed)).run(steps)
        except (AssertionError, HeadwaterError):
            return True
    return False


def without_conflict_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Journal, "conflicts", lambda _: [])


def without_leanings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(EditInputs, "of", lambda *_: [])


def without_copies_of_savepoints(monkeypatch: pytest.MonkeyPatch) -> None:
    def roll_back(tx: Transaction, point: tuple[int, dict[object, tuple[object, bool, list[object]]]]) -> None:
        for doc, draft in tx._drafts.items():
            before: tuple[object, bool, list[object]] = (draft.mark.value, False, [])
            draft.value, draft.whole, draft.ops = point[1].get(doc) or before  # type: ignore[assignment]

    monkeypatch.setattr(Transaction, "roll_back", roll_back)


def without_checking_own_documents(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reads of documents that the transaction has patched are left out."""
    conflicts = Journal.conflicts

    def fewer(journal: Journal) -> list[object]:
        tried = {entry.doc for entry in journal if entry.flags}
        return [entry for entry in conflicts(journal) if entry.doc not in tried]

    monkeypatch.setattr(Journal, "conflicts", fewer)


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize(
    "plant",
    [
        without_conflict_reads,
        without_leanings,
        without_copies_of_savepoints,
        without_checking_own_documents,
    ],
)
def test_planted_bug_is_found(plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert is_found()
