"""Replicas attached to one storage, as programs use them: what each is told comes to exactly what each reads."""

from __future__ import annotations

import random
from collections import Counter
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from headwater.cells.pending_commit import PendingCommit
from headwater.core import open_space
from headwater.errors import AddressError
from headwater.host.storage import Storage
from headwater.runtime.attached_replica import AttachedReplica
from headwater.store.commit import Absent, Committed, Conflict, Refused
from headwater.values.address import Depth, doc_key
from headwater.values.ids import MAIN
from tests.cells.replica.desk import Ear, see
from tests.support.halves import examples
from tests.support.hosts import in_memory
from tests.support.limits import small_limits
from tests.support.naive import NOTHING, exact, plain
from tests.support.schedules import DOCS, PATHS, START, Schedule
from tests.support.spaces import Space, put

NAMES = (*DOCS, "new")


class Together:
    """Three replicas of one storage, a listener at each, and everything they ever committed."""

    def __init__(self, storage: Storage, rng: random.Random) -> None:
        self.storage = storage
        self.rng = rng
        # Only its generator of operations is used.
        self._operations = Schedule(Space("memory", Path()), rng, honest=True)
        setup = storage.attach()
        setup.commit([put(name, START) for name in DOCS])
        setup.sync()
        setup.detach()
        self.replicas = [storage.attach() for _ in range(3)]
        self.ears = [Ear(replica, **{name: deepcopy(START) for name in DOCS}) for replica in self.replicas]
        self.pendings: list[PendingCommit] = []
        self.settled: Counter[int] = Counter()

    def run(self, steps: int) -> None:
        for _ in range(steps):
            index = self.rng.randrange(3)
            replica = self.replicas[index]
            match self.rng.randrange(8):
                case 0 | 1:
                    replica.refresh()
                case 2:
                    replica.sync()
                case 3:
                    # Rarely: reading loads, and a document that was never loaded takes another way.
                    self.compare(index, self.rng.choice(NAMES))
                case _:
                    self.commit(replica)
        self.finish()

    def commit(self, replica: AttachedReplica) -> None:
        rng = self.rng
        operations = [self._operations._operation() for _ in range(rng.choice([0, 1, 1, 1, 2, 3]))]
        if rng.randrange(8) == 0:
            operations.append(put("new", rng.randrange(3)))
        reads = [
            replica.read_mark(doc_key(rng.choice(NAMES)), rng.choice(PATHS), rng.choice(list(Depth)))
            for _ in range(rng.choice([0, 0, 1, 2]))
        ]
        given_that = [Absent(doc_key("new"))] if rng.randrange(8) == 0 else []
        try:
            pending = replica.commit(operations, reads=reads, preconditions=given_that)
        except AddressError:
            return
        self.pendings.append(pending)
        pending.on_settled(lambda settled: self.settled.update([id(settled)]))

    def compare(self, index: int, name: str) -> None:
        told, read = self.ears[index].model.get(doc_key(name), NOTHING), see(self.replicas[index], name)
        assert exact(told) == exact(read), f"told {told}, but it reads {read}"

    def finish(self) -> None:
        for replica in self.replicas:
            replica.sync()
        for replica in self.replicas:
            replica.refresh()
            assert replica.pending_count == 0
        for name in NAMES:
            engine = self.storage.call(lambda engine: engine)
            truth = exact(plain(engine.documents.at(MAIN, doc_key(name), engine.head).value))
            for index, replica in enumerate(self.replicas):
                self.compare(index, name)
                assert exact(see(replica, name)) == truth
        assert all(self.settled[id(pending)] == 1 for pending in self.pendings)
        assert all(pending.settled and pending.error is None for pending in self.pendings)

    def counts(self) -> Counter[type]:
        return Counter(type(pending.verdict) for pending in self.pendings)


@given(rng=st.randoms(use_true_random=False), group_max=st.integers(1, 6), steps=st.integers(1, 40))
def test_what_each_replica_is_told_comes_to_what_it_reads(rng: random.Random, group_max: int, steps: int) -> None:
    with small_limits(FOLD_COMMITS=7, SNAPSHOT_SLACK_BYTES=40):
        storage = in_memory(group_max=group_max)
        together = Together(storage, rng)
        together.run(steps)
        storage.close()
    for kind in together.counts():
        event(kind.__name__)


@pytest.mark.property
def test_replicas_agree_while_the_thread_of_the_space_decides_whenever_it_likes() -> None:
    counts: Counter[type] = Counter()
    runs = examples(200)
    for seed in range(runs):
        with open_space("memory:", group_max=5) as storage:
            together = Together(storage, random.Random(seed))
            together.run(60)
        counts += together.counts()
    for kind in (Committed, Conflict, Refused):
        assert counts[kind] > runs / 10, f"too rare to prove anything: {counts}"


def test_replicas_of_two_branches_are_isolated_until_a_merge() -> None:
    with open_space("memory:") as storage:
        main = storage.attach()
        main.commit([put("a", "before"), put("b", "before")])
        main.sync()
        storage.fork("draft")
        draft, other = storage.attach(branch="draft"), storage.attach(branch="draft")
        ears = Ear(main, a="before", b="before"), Ear(other, a="before", b="before")
        draft.commit([put("a", "draft")])
        main.commit([put("b", "main")])
        for replica in (draft, main, other):
            replica.sync()
        for replica in (draft, main, other):
            replica.refresh()
        assert [see(replica, "a") for replica in (main, draft, other)] == ["before", "draft", "draft"]
        assert [see(replica, "b") for replica in (main, draft, other)] == ["main", "before", "before"]
        assert ears[0].heard() == [("commit", (), "before", "main")]
        assert ears[1].heard() == [("integrate", (), "before", "draft")]
        storage.merge("draft")
        main.refresh()
        other.refresh()
        assert ears[0].heard() == [("integrate", (), "before", "draft")]
        assert ears[1].told == []
        assert (see(main, "a"), see(main, "b"), see(other, "b")) == ("draft", "main", "before")


def test_merge_shows_through_commits_that_are_under_way() -> None:
    storage = in_memory()
    main = storage.attach()
    main.commit([put("a", 0)])
    main.sync()
    storage.fork("draft")
    draft = storage.attach(branch="draft")
    draft.commit([put("b", "draft")])
    draft.sync()
    main.refresh()
    ear = Ear(main, a=0)
    late = main.commit([put("b", "mine")], reads=[main.read_mark(doc_key("b"), ())])
    storage.merge("draft")
    main.sync()
    assert isinstance(late.verdict, Conflict)
    assert ear.heard() == [("commit", (), NOTHING, "mine"), ("revert", (), "mine", "draft")]
    storage.close()
