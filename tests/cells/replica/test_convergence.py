"""Three replicas around one engine, in any interleaving: all come to the same documents, and whoever only listens
knows them, too."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from headwater.cells.pending_commit import PendingCommit
from headwater.errors import AddressError, MergeConflictError
from headwater.store.branching import fork
from headwater.store.commit import Absent, Committed, Conflict, OriginCommitted, Precondition
from headwater.values.address import Depth, doc_key
from headwater.values.ids import LocalSeq
from tests.support.halves import examples
from tests.support.hub import FULL, Hub, Mirror, Peer
from tests.support.limits import small_limits
from tests.support.naive import NaiveSpace, exact
from tests.support.schedules import DOCS, LIST_PATHS, PATHS, START, Schedule
from tests.support.spaces import Space, put

NAMES = [*DOCS, "never"]


class Meeting:
    """One run: three replicas of main, one of a branch, and a listener at each that never reads."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.counts: Counter[str] = Counter()
        space = Space("memory", Path())
        # Only for its generator of operations; it decides nothing here.
        self.schedule = Schedule(Space("memory", Path()), rng, honest=True)
        space.writer("setup").accept(*[put(name, START) for name in DOCS])
        fork(space.engine, space.clock, "draft")
        self.hub = Hub(space)
        self.peers = [self.hub.attach(name) for name in ("ann", "bob", "cyd")]
        self.peers.append(self.hub.attach("dee", "draft"))
        self.mirrors = [Mirror(peer, NAMES) for peer in self.peers]
        self.sent: list[tuple[Peer, PendingCommit]] = []

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.step()
            self.check_mirrors()
        self.hub.settle()
        self.check_mirrors()
        self.check_rest()

    def step(self) -> None:
        kind = self.rng.randrange(24)
        peer = self.rng.choice(self.peers)
        if kind <= 11:
            self.commit(peer)
        elif kind <= 15:
            self.hub.decide(self.rng.randint(1, 3))
        elif kind <= 19:
            peer.refresh()
        elif kind == 20:
            self.hub.fail(FULL, 1)
            self.counts["failed"] += 1
        elif kind == 21:
            self.hub.interrupt(self.rng.randint(1, 3))
            self.counts["interrupted"] += 1
        elif kind == 22:
            self.merge()
        else:
            self.hub.engine.fold()

    def commit(self, peer: Peer) -> None:
        rng = self.rng
        operations = [self.schedule._operation() for _ in range(rng.choice([0, 1, 1, 2]))]
        depth = rng.choice([Depth.DEEP, Depth.SHALLOW])
        paths = rng.choice([PATHS, LIST_PATHS])
        reads = [peer.mark(rng.choice(NAMES), *rng.choice(paths), depth=depth) for _ in range(rng.choice([0, 0, 1, 2]))]
        given: list[Precondition] = []
        if rng.randrange(8) == 0:
            absent, origin = Absent(doc_key(rng.choice(NAMES))), OriginCommitted(LocalSeq(rng.randint(1, 5)))
            given = [absent if rng.random() < 0.5 else origin]
        try:
            self.sent.append((peer, peer.commit(*operations, reads=reads, given=given)))
        except AddressError:
            self.counts["did not fit"] += 1

    def merge(self) -> None:
        try:
            self.hub.merge(*self.rng.choice([("draft", "main"), ("main", "draft")]))
        except MergeConflictError:
            return
        self.counts["merged"] += 1

    def check_mirrors(self) -> None:
        """What was told, applied in order to a copy, is what is read."""
        for peer, mirror in zip(self.peers, self.mirrors, strict=True):
            for name in NAMES:
                # Without being held: reading through the replica would load it, and hide documents never read there.
                record = peer.replica._documents.get(doc_key(name))
                if record is not None:
                    assert exact(mirror.documents[doc_key(name)]) == exact(peer.read(name)), f"{name} at {peer.branch}"

    def check_rest(self) -> None:
        naive = NaiveSpace()
        for entry in self.log():
            naive.log.append(entry)  # type: ignore[arg-type]
        naive.head = len(naive.log)
        naive.forks["draft"] = ("main", 1)
        for peer, mirror in zip(self.peers, self.mirrors, strict=True):
            assert peer.replica.pending_count == 0
            for name in NAMES:
                truth = exact(naive.value(doc_key(name), peer.branch))
                assert exact(peer.read(name)) == truth
                assert exact(self.hub.space.value(name, peer.branch)) == truth
                assert exact(mirror.documents[doc_key(name)]) == truth
        self.check_fates(naive)

    def log(self) -> list[object]:
        from headwater.store.commit import CommitEntry
        from headwater.store.document import read_entry
        from headwater.values.ids import NEVER
        from tests.support.naive import Accepted

        entries: list[object] = []
        for row in self.hub.space.backend.log(NEVER, self.hub.engine.head):
            entry = read_entry(row)
            if isinstance(entry, CommitEntry):
                told = (row.seq, entry.branch, entry.session, entry.local_seq, entry.operations)
                entries.append(Accepted(*told))
            else:
                entries.append(Accepted(row.seq, "", "", 0, ()))
        return entries

    def check_fates(self, naive: NaiveSpace) -> None:
        """INV-4, INV-6, INV-7: each commit was settled once, and as the log says."""
        settled = Counter(id(pending) for peer in self.peers for pending in peer.settled)
        for peer, pending in self.sent:
            assert settled[id(pending)] == 1
            if not any(pending is submission for submission in peer.submitted):
                self.counts["settled here"] += 1
                continue
            place = naive.seq_of(peer.replica._session, pending.commit.local_seq)
            if isinstance(pending.verdict, Committed):
                assert pending.verdict.seq == place
                self.counts["accepted"] += 1
            else:
                assert place is None, "reported as failed, but it is in the log"
                self.counts["conflict" if isinstance(pending.verdict, Conflict) else "refused"] += 1
                assert pending.verdict is not None or pending.error is FULL


@pytest.mark.property
def test_all_come_to_the_same_documents_whatever_happens_when() -> None:
    counts: Counter[str] = Counter()
    runs = examples(250)
    with small_limits(FOLD_COMMITS=9, SNAPSHOT_SLACK_BYTES=60):
        for seed in range(runs):
            meeting = Meeting(random.Random(seed))
            meeting.run(40)
            counts += meeting.counts
    for case in ("accepted", "conflict", "refused", "failed", "interrupted", "merged"):
        assert counts[case] > runs / 5, f"{case} is too rare: {counts}"


@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(rng=st.randoms(use_true_random=False), steps=st.integers(1, 25))
def test_no_interleaving_drives_replicas_apart(rng: random.Random, steps: int) -> None:
    with small_limits(FOLD_COMMITS=5, SNAPSHOT_SLACK_BYTES=10):
        meeting = Meeting(rng)
        meeting.run(steps)
    event(f"conflicts: {min(meeting.counts['conflict'], 3)}")


def test_the_checks_can_fail() -> None:
    """A replica that misses one outcome is noticed."""
    meeting = Meeting(random.Random(1))
    meeting.run(5)
    ann, bob = meeting.peers[:2]
    bob.read(DOCS[0])
    ann.commit(put(DOCS[0], "missed"))
    meeting.hub.decide()
    bob.inbox.clear()
    meeting.hub.settle()
    with pytest.raises(AssertionError):
        meeting.check_rest()
