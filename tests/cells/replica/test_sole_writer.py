"""Commits of a session that is the only writer are accepted without a check of their reads.

The oracle is a second engine that gets the same commits with all their reads named, and checks every one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from random import Random

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from headwater.cells.pending_commit import Failure, PendingCommit
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.errors import HeadwaterError, StoreFullError
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.commit import (
    Absent,
    CommitOutcome,
    Committed,
    Conflict,
    Operation,
    SetDoc,
    Submission,
    Tables,
    Verdict,
)
from headwater.store.engine import Engine
from headwater.testing import SimClock
from headwater.values.address import Depth, doc_key
from headwater.values.ids import MAIN, DocKey
from headwater.values.patch import Increment
from headwater.values.tree import ABSENT, Maybe, freeze
from tests.cells.replica.desk import Desk

FULL = StoreFullError("the disk is full")
DOCS = [doc_key(name) for name in "abc"]


class Twins(Desk):
    """Two engines decide the same commits. A replica hears of the verdicts when it is told, and not with the others."""

    def __init__(self) -> None:
        super().__init__()
        self.other = Engine(MemoryBackend(), SimClock())
        self.news: dict[Replica, list[CommitOutcome | Failure]] = {}
        self.counts: Counter[str] = Counter()

    def decide_some(self, count: int) -> None:
        group, self.waiting = self.waiting[:count], self.waiting[count:]
        # Copies: naming the reads of a commit changes it.
        checked = [Submission(copy(each).name_reads()) for each in group]
        outcomes = self.engine.admit(group)
        for each in group:
            assert isinstance(each, PendingCommit)
            how = "checked" if each.unnamed is None else "unchecked"
            self.counts[how] += 1
            if each.commit.preconditions:
                self.counts[f"{how}, with a precondition"] += 1
        expected = self.other.admit(checked)
        assert [_verdict(each) for each in outcomes] == [_verdict(each) for each in expected]
        for one in outcomes:
            self.counts[type(one.verdict).__name__] += 1
        for untold in self.news.values():
            untold.extend(outcomes)

    def fail_one(self) -> None:
        failure = Failure(self.waiting.pop(0).commit, FULL)
        for untold in self.news.values():
            untold.append(failure)

    def tell_one(self, replica: Replica) -> None:
        untold, self.news[replica] = self.news[replica], []
        replica.integrate(untold)

    def reopen(self) -> None:
        self.engine = Engine(self.engine.backend, SimClock())
        self.other = Engine(self.other.backend, SimClock())


def _verdict(outcome: CommitOutcome) -> tuple[str, int]:
    verdict = outcome.verdict
    return type(verdict).__name__, verdict.seq if isinstance(verdict, Committed) else 0


def play(random: Random, steps: int, sessions: int) -> Twins:  # noqa: C901, PLR0912  # one case for each kind of step
    """Transactions of some sessions, verdicts in groups, failures of the disk, news now and then."""
    desk = Twins()
    replicas = [desk.replica(f"s{number}") for number in range(sessions)]
    desk.news = {replica: [] for replica in replicas}
    open_ones: list[Transaction] = []
    for _ in range(steps):
        replica = random.choice(replicas)
        match random.randrange(12):
            case 0 | 1:
                open_ones.append(Transaction(replica))
            case 2 | 3 if open_ones:
                tx = random.choice(open_ones)
                tx.read(random.choice(DOCS), random.choice([(), ("n",), ("m",)]), random.choice([*Depth]))
            case 4 | 5 if open_ones:
                tx = random.choice(open_ones)
                tx.put(random.choice(DOCS), freeze({"n": random.randrange(3), "m": random.randrange(3)}))
            case 6 if open_ones:
                tx = open_ones.pop(random.randrange(len(open_ones)))
                tx.commit()
            case 7:
                tx = Transaction(replica)
                seen = tx.read(random.choice(DOCS))
                tx.put(random.choice(DOCS), freeze({"n": 1 if seen else 2, "m": random.randrange(9)}))
                if random.random() < 0.3 and tx.read(DOCS[0], ("n",)) in {0, 1, 2}:
                    tx.patch(DOCS[0], Increment(("n",), 1))
                if random.random() < 0.5:
                    # As an event creates its receipt: in some, it exists.
                    doc = doc_key(f"receipt{random.randrange(20)}")
                    tx.require(Absent(doc))
                    tx.put(doc, 1)
                tx.commit()
            case 8 if desk.waiting and random.random() < 0.2:
                desk.fail_one()
            case 9 if random.random() < 0.1:
                desk.reopen()
            case 10:
                desk.decide_some(random.randrange(1, 6))
            case _:
                desk.tell_one(replica)
    desk.decide_some(len(desk.waiting))
    for doc in DOCS:
        assert desk.engine.states.get(MAIN, doc).value == desk.other.states.get(MAIN, doc).value
    return desk


@given(st.randoms(use_true_random=False), st.integers(1, 80), st.integers(1, 3))
def test_verdicts_are_those_of_an_engine_that_checks_every_read(random: Random, steps: int, sessions: int) -> None:
    desk = play(random, steps, sessions)
    event(f"unchecked: {min(desk.counts['unchecked'], 3)}, conflicts: {min(desk.counts['Conflict'], 3)}")


@pytest.mark.parametrize("sessions", [1, 2, 3])
def test_verdicts_are_the_same_in_long_lives_too(sessions: int) -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        counts += play(Random(seed), 150, sessions).counts
    seen = ("unchecked", "checked", "unchecked, with a precondition", "checked, with a precondition")
    assert min(counts[name] for name in (*seen, "Committed", "Conflict", "Refused")) > 20, counts


def test_only_writer_names_no_reads() -> None:
    desk = Desk()
    here = desk.replica("here")
    for number in range(4):
        tx = Transaction(here)
        tx.read(DOCS[0])
        tx.put(DOCS[1], number)
        tx.commit()
    desk.decide()
    desk.tell()
    tx = Transaction(here)
    tx.read(DOCS[0])
    tx.put(DOCS[1], 9)
    tx.commit()
    (outcome,) = desk.decide()
    assert (outcome.commit.reads, outcome.commit.pending_reads) == ((), ())


class Adding:
    """A table transaction that adds a write to its commit."""

    def __init__(self, *operations: Operation) -> None:
        self._operations = operations

    def apply(self, _tables: Tables, _look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        return self._operations

    def decided(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """Nothing waits for it."""


def test_write_that_a_table_transaction_adds_is_not_overlooked() -> None:
    """The session does not know of it before it has integrated the verdict."""
    desk = Desk()
    here = desk.replica("here")
    here.commit([SetDoc(DOCS[0], 0)])
    desk.settle()
    first = Transaction(here)
    first.put(DOCS[0], 1)
    first.table_transaction = Adding(SetDoc(DOCS[1], 7))
    first.commit()
    second = Transaction(here)
    assert second.read(DOCS[1]) is ABSENT
    second.put(DOCS[2], 2)
    second.commit()
    assert [type(each.verdict) for each in desk.decide()] == [Committed, Conflict]
    desk.tell()
    third = Transaction(here)
    assert third.read(DOCS[1]) == 7
    third.put(DOCS[2], 3)
    third.commit()
    assert [type(each.verdict) for each in desk.decide()] == [Committed]
