"""Random sessions against one engine, every decision compared with the naive store's.

A run draws everything from one source of chance: a seeded `random.Random`, or hypothesis, which then shrinks it.
"""

from __future__ import annotations

import random
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from unittest.mock import patch

from headwater.errors import StoreFullError
from headwater.store.branching import fork
from headwater.store.commit import (
    Absent,
    Commit,
    CommitOutcome,
    Committed,
    Conflict,
    Operation,
    OriginCommitted,
    PendingRead,
    Precondition,
    Read,
    Refused,
    ValueIs,
    Verdict,
)
from headwater.store.verification import verify
from headwater.values.address import Depth, doc_key
from headwater.values.codec import digest
from headwater.values.ids import LocalSeq
from headwater.values.patch import PatchOp
from headwater.values.tree import freeze
from tests.support.naive import NOTHING, MisfitError, NaiveSpace, exact, plain
from tests.support.spaces import (
    Space,
    Writer,
    add,
    add_unique,
    admit,
    append,
    drop,
    edit,
    increment,
    move,
    pending_read,
    put,
    read,
    remove,
    remove_by_value,
    replace,
    splice,
)

DOCS = ("p", "q")
START = {"a": 0, "m": {"x": 1, "y": {"z": 2}}, "l": [1, 2, 3], "n": 5}
PATHS: list[tuple[str | int, ...]] = [
    (),
    ("a",),
    ("b",),
    ("m",),
    ("m", "x"),
    ("m", "y"),
    ("m", "y", "z"),
    ("m", "w"),
    ("m", "w", "v"),
    ("l",),
    ("l", 0),
    ("l", 1),
    ("l", 2),
    ("l", 3),
    ("n",),
    ("a", "deep"),
]
LISTS: list[tuple[str | int, ...]] = [("l",), ("l",), ("l",), ("m", "list")]
LIST_PATHS: list[tuple[str | int, ...]] = [("l",), ("l", 0), ("l", 1), ("l", 2), ("l", 3), ("l", 4), ("m", "w")]
VALUES = [0, 1, 1.0, True, None, "t", [1], [1, 2, 3, 4], {"x": 1}, {"x": 2, "k": 3}, {"y": {"z": 9}}]


@dataclass
class Client:
    """A session as an honest replica would keep it: how much of the log it has seen, and what it waits for."""

    writer: Writer
    seen: int = 0
    # Sent, and not heard of yet: what its view is stacked with.
    layers: dict[int, Commit] = field(default_factory=dict)
    dead: set[int] = field(default_factory=set)
    sent: list[tuple[Commit, Verdict]] = field(default_factory=list)


class Schedule:
    """One run. `counts` tells what happened how often."""

    def __init__(self, space: Space, rng: random.Random, *, honest: bool = False) -> None:
        self.space = space
        self.naive = NaiveSpace()
        self.counts: Counter[str] = Counter()
        self._rng = rng
        self._honest = honest
        # Some runs crowd into one list of one document: there the layers of a session depend on each other most.
        crowded = bool(rng.randrange(2))
        self._docs = DOCS[:1] if crowded else DOCS
        self._paths = LIST_PATHS if crowded else PATHS
        self._clients = [Client(space.writer(name)) for name in ("ann", "bob", "cyd")]
        self._reopened_at = 0
        setup = space.writer("setup")
        for doc in DOCS:
            self._decide([(None, setup.build(put(doc, START)))])

    def run(self, steps: int) -> Counter[str]:
        """Take so many steps, then check everything."""
        for _ in range(steps):
            self._step()
        self.check()
        return self.counts

    def _step(self) -> None:
        kind = self._rng.randrange(20)
        client = self._rng.choice(self._clients)
        if kind == 0:
            self.space.engine.fold()
        elif kind == 1:
            self.space.reopen()
            self._reopened_at = self.naive.head
            self.counts["reopened"] += 1
        elif kind == 2:
            self._evict()
        elif kind == 3:
            self._replay(client)
        elif kind == 4 and len(self.naive.forks) < 2:
            self._fork()
        elif kind <= 7:
            self._catch_up(client)
        else:
            size = self._rng.choice([1, 1, 2, 3])
            authors = [self._rng.choice(self._clients) for _ in range(size)]
            self._decide([(author, self._build(author)) for author in authors])

    # -- what happens --------------------------------------------------------------------------------------

    def _evict(self) -> None:
        """Forget documents as memory pressure would."""
        for branch, states in list(self.space.engine.states._states.items()):
            for doc in list(states):
                if self._rng.randrange(2):
                    self.space.engine.states.drop(branch, doc)

    def _fork(self) -> None:
        name = f"branch{len(self.naive.forks)}"
        parent = self._rng.choice(["main", *self.naive.forks])
        at = self._rng.randint(self.space.engine.documents.horizon.seq, self.naive.head)
        seq = fork(self.space.engine, self.space.clock, name, parent, at)  # type: ignore[arg-type]
        assert seq == self.naive.fork(name, parent, at)
        writer = self.space.writer(f"on-{name}", name)
        self._clients.append(Client(writer, seen=self.naive.head))

    def _catch_up(self, client: Client) -> None:
        """The client hears of everything: its layers are confirmed or gone."""
        client.seen = self.naive.head
        client.layers.clear()

    def _replay(self, client: Client) -> None:
        """Something is sent once more."""
        known = [
            (commit, verdict)
            for commit, verdict in client.sent
            # What was rejected before a restart, and was the session's last, may be decided anew.
            if isinstance(verdict, Committed)
        ]
        if known:
            commit, verdict = self._rng.choice(known)
            [outcome] = admit(self.space.engine, commit)
            assert outcome.verdict == verdict, f"INV-11: {commit} was {verdict}, and is now {outcome.verdict}"
            self.counts["replayed"] += 1

    def _build(self, client: Client) -> Commit:
        operations = [self._operation() for _ in range(self._rng.choice([0, 1, 1, 1, 2]))]
        reads = [self._read(client) for _ in range(self._rng.choice([0, 1, 1, 2]))]
        given = [self._precondition(client)] if self._rng.randrange(6) == 0 else []
        commit = client.writer.build(*operations, reads=reads, given=given)
        client.layers[commit.local_seq] = commit
        return commit

    def _operation(self) -> Operation:
        doc = self._rng.choice(self._docs)
        kind = self._rng.randrange(24)
        if kind == 0:
            return put(doc, self._rng.choice([START, START, *VALUES]))
        if kind == 1:
            return drop(doc)
        return edit(doc, *[self._patch() for _ in range(self._rng.choice([1, 1, 1, 2]))])

    def _patch(self) -> PatchOp:  # a table of nine operations
        rng = self._rng
        path, value = rng.choice(self._paths[1:]), rng.choice(VALUES)
        items = [rng.choice([1, 2, 3, "t"]) for _ in range(rng.choice([0, 1, 1, 2]))]
        match rng.randrange(12):
            case 0 | 1:
                return replace(*path, to=value)
            case 2 | 3:
                return add(*path, value=value)
            case 4:
                return remove(*path)
            case 5:
                return splice(*rng.choice(LISTS), at=rng.randrange(4), delete=rng.randrange(2), items=items)
            case 6:
                return move(path, rng.choice(self._paths[1:]))
            case 7 | 8:
                return append(*rng.choice(LISTS), items=items)
            case 9:
                return add_unique(*rng.choice(LISTS), items=items)
            case 10:
                return increment(*rng.choice([("n",), ("a",), ("m", "x"), ("new",)]), by=rng.choice([1, 0.5]))
            case _:
                return remove_by_value(*rng.choice(LISTS), items=items)

    def _read(self, client: Client) -> Read | PendingRead:
        """Mostly as a replica would mark it; sometimes with less than it should name, or from any time."""
        rng = self._rng
        doc, path = rng.choice(self._docs), rng.choice(self._paths)
        depth = rng.choice([Depth.DEEP, Depth.DEEP, Depth.SHALLOW])
        key = doc_key(doc)
        basis = self.naive.revision(key, client.writer.branch, client.seen)
        layers = [n for n, commit in client.layers.items() if any(o.doc == key for o in commit.operations)]
        layers = [n for n in layers if n not in client.dead]
        if not self._honest and rng.randrange(5) == 0:
            basis = rng.randint(0, self.naive.head)
            layers = [n for n in range(1, client.writer.last + 2) if rng.randrange(3) == 0]
        if not layers:
            return read(doc, *path, at=basis, depth=depth)
        return pending_read(doc, *path, basis=basis, layers=[(n, n) for n in layers], depth=depth)

    def _precondition(self, client: Client) -> Precondition:
        rng = self._rng
        doc = rng.choice([*self._docs, "never"])
        match rng.randrange(3):
            case 0:
                return Absent(doc_key(doc))
            case 1:
                value = self.naive.value(doc_key(doc), client.writer.branch, rng.randint(0, self.naive.head))
                return ValueIs(doc_key(doc), b"" if value is NOTHING else digest(freeze(value)))
            case _:
                return OriginCommitted(LocalSeq(rng.randint(1, client.writer.last + 1)))

    # -- what must hold ------------------------------------------------------------------------------------

    def _decide(self, group: list[tuple[Client | None, Commit]]) -> None:
        if self._rng.randrange(12) == 0:
            self._fail([commit for _, commit in group])
        outcomes = admit(self.space.engine, *[commit for _, commit in group])
        for (client, commit), outcome in zip(group, outcomes, strict=True):
            self._judge(commit, outcome)
            if client is not None:
                client.sent.append((commit, outcome.verdict))
                if not isinstance(outcome.verdict, Committed):
                    client.dead.add(commit.local_seq)

    def _fail(self, group: list[Commit]) -> None:
        """The disk is full: it is as if the group had never been sent."""
        full = StoreFullError("no room")
        with patch.object(self.space.backend, "append", side_effect=full), suppress(StoreFullError):
            admit(self.space.engine, *group)
        assert self.space.engine.head == self.naive.head
        self.counts["failed"] += 1

    def _judge(self, commit: Commit, outcome: CommitOutcome) -> None:
        naive, verdict = self.naive, outcome.verdict
        holds = all(self._met(commit, precondition) for precondition in commit.preconditions)
        match verdict:
            case Committed(seq):
                assert holds, f"accepted against its preconditions: {commit}"
                assert naive.coherent(commit), f"INV-2: accepted, but what it read has changed: {commit}"
                before = {effect.doc: naive.value(effect.doc, commit.branch) for effect in outcome.effects}
                assert naive.append(commit) == seq
                for effect in outcome.effects:
                    assert exact(plain(effect.before)) == exact(before[effect.doc])
                    assert exact(plain(effect.after)) == exact(naive.value(effect.doc, commit.branch))
                self.counts["accepted"] += 1
                self.counts["accepted with reads"] += bool(commit.reads or commit.pending_reads)
                self.counts["accepted with pending reads"] += bool(commit.pending_reads)
                self.counts["accepted with preconditions"] += bool(commit.preconditions)
            case Conflict():
                assert holds, f"a conflict, though a precondition does not hold: {commit}"
                fits = self._fits(commit)
                assert commit.reads or commit.pending_reads or not fits, f"rejected for nothing: {commit} {verdict}"
                needless = fits and naive.coherent(commit)
                self.counts["conflict, needlessly" if needless else "conflict"] += 1
                self.counts["conflict by misfit"] += not fits
            case Refused():
                assert not holds, f"refused, though its preconditions hold: {commit} {verdict}"
                self.counts["refused"] += 1

    def _met(self, commit: Commit, precondition: Precondition) -> bool:
        match precondition:
            case Absent(doc):
                return not self.naive.revision(doc, commit.branch)
            case ValueIs(doc, expected):
                value = self.naive.value(doc, commit.branch)
                return (b"" if value is NOTHING else digest(freeze(value))) == expected
            case OriginCommitted(local_seq):
                return self.naive.seq_of(commit.session, local_seq) is not None

    def _fits(self, commit: Commit) -> bool:
        from tests.support import naive

        try:
            for doc in {operation.doc for operation in commit.operations}:
                naive.apply(self.naive.value(doc, commit.branch), commit.operations, doc)
        except MisfitError:
            return False
        return True

    def check(self) -> None:
        """INV-5, INV-9, INV-11: the documents are the fold of the log, now and at every place, and stay so."""
        engine, naive = self.space.engine, self.naive
        assert engine.head == naive.head
        placed: dict[str, list[int]] = {}
        for entry in naive.log:
            placed.setdefault(entry.session, []).append(entry.local_seq)
        for session, numbers in placed.items():
            assert session == "" or numbers == sorted(set(numbers)), f"INV-5, INV-11: {session} has {numbers}"
        for _ in range(2):
            for branch in ("main", *naive.forks):
                for seq in range(naive.head + 1):
                    self._compare(branch, seq)
            report = verify(engine)
            assert report.ok, report.findings
            engine = self.space.reopen()

    def _compare(self, branch: str, seq: int) -> None:
        for doc in (*DOCS, "never"):
            found = self.space.engine.documents.at(branch, doc_key(doc), seq)  # type: ignore[arg-type]
            assert exact(plain(found.value)) == exact(self.naive.value(doc_key(doc), branch, seq)), (
                f"INV-9: {doc} on {branch} at {seq}"
            )
            assert found.seq == self.naive.revision(doc_key(doc), branch, seq)
