"""Transactions that read spans are serializable: run again alone, in the order of the log, each reads the same.

Several replicas hold the log up to some commit, with own undecided commits on top. A transaction reads spans, with
limits and in both directions, some with a field that is not indexed, and writes what depends on what it saw.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import AddressError
from headwater.store.applying import apply_operation
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.collection_record import CollectionRecord, Index, id_of
from headwater.store.commit import Commit, Committed, DeleteDoc, Operation, PatchDoc, SetDoc, SpanRead, Submission
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.index_field import IndexField
from headwater.testing import SimClock
from headwater.values.address import doc_key
from headwater.values.ids import DocKey, LocalSeq, Seq, SessionId
from headwater.values.patch import Replace
from headwater.values.sortkey import AFTER, encode_field
from headwater.values.tree import ABSENT, Maybe, freeze, get
from tests.support.halves import examples
from tests.support.limits import small_limits

RECORD = CollectionRecord("d", indexes=(Index((IndexField("a"), IndexField("b"))),))
NAMED = RECORD.named[1]
DOCS = [doc_key(f"d:{number}") for number in range(14)]

State: TypeAlias = dict[DocKey, Maybe]


@dataclass(eq=False)
class Tx:
    """A transaction: the seed says what it does, given what it sees."""

    seed: int
    commit: Commit
    saw: list[object]


def key_of(doc: DocKey, value: Maybe) -> bytes:
    return NAMED.key(b"", value, id_of(doc))


def applied(state: State, operations: tuple[Operation, ...]) -> State:
    state = dict(state)
    for operation in operations:
        state[operation.doc], _ = apply_operation(state.get(operation.doc, ABSENT), operation)
    return state


def run(seed: int, view: State) -> tuple[list[object], list[tuple[bytes, bytes, bool]], tuple[Operation, ...]]:
    """The author's function: what it saw, the spans that it read, and what it writes."""
    rng = random.Random(seed)
    index = sorted((key_of(doc, value), doc) for doc, value in view.items() if value is not ABSENT)
    saw: list[object] = []
    spans: list[tuple[bytes, bytes, bool]] = []
    operations: list[Operation] = []
    for _ in range(rng.randrange(1, 3)):
        a, low = rng.randrange(3), rng.randrange(6)
        lo, hi = encode_field(a) + encode_field(low), encode_field(a) + AFTER
        limit, down, with_field = rng.choice([1, 2, 99]), rng.random() < 0.5, rng.random() < 0.4
        found = [(key, doc) for key, doc in index if lo <= key < hi]
        if down:
            found.reverse()
        if len(found) >= limit:
            found = found[:limit]
            lo, hi = (found[-1][0], hi) if down else (lo, found[-1][0] + b"\0")
        spans.append((lo, hi, with_field))
        seen = [(key, get(view[doc], ("c",)) if with_field else None) for key, doc in found]
        saw.append(seen)
        number = sum(int(str(c or 0)) + key[-2] for key, c in seen) + len(seen)
        for _ in range(rng.randrange(3)):
            place = rng.randrange(14)
            doc = DOCS[place] if not found or rng.random() < 0.6 else found[0][1]
            b, c = (number * 7 + low) % 6, number % 5
            if (number + place) % 4 == 0:
                operations.append(DeleteDoc(doc))
            elif rng.random() < 0.4 and doc in [each for _, each in found]:
                operations.append(PatchDoc(doc, (Replace(("c",), c), Replace(("b",), b))[: 1 + number % 2]))
            else:
                operations.append(SetDoc(doc, freeze({"a": (number + a) % 3, "b": b, "c": c})))
    return saw, spans, tuple({each.doc: each for each in operations}.values())


class Replica:
    """What one session knows: the log up to a commit, and its own commits that are not decided."""

    def __init__(self, name: str) -> None:
        self.session = SessionId(name)
        self.seq, self.last = 0, 0
        self.pending: list[Tx] = []

    def transact(self, seed: int, confirmed: State) -> None:
        steps: list[tuple[Tx, State, State]] = []
        view = confirmed
        for tx in list(self.pending):
            try:
                after = applied(view, tx.commit.operations)
            except AddressError:
                # It does not fit what was decided since: it is never sent.
                self.pending.remove(tx)
                continue
            steps.append((tx, view, after))
            view = after
        saw, spans, operations = run(seed, view)
        self.last += 1
        reads: list[SpanRead] = []
        for lo, hi, with_field in spans:
            layers: list[tuple[LocalSeq, LocalSeq]] = []
            layered: dict[DocKey, None] = {}
            for tx, before, after in steps:
                docs = [
                    doc for doc in {each.doc for each in tx.commit.operations} if self.is_in(doc, before, after, lo, hi)
                ]
                if docs:
                    layers.append((tx.commit.local_seq, tx.commit.local_seq))
                    layered.update(dict.fromkeys(docs))
            fields = ("c",) if with_field else ()
            reads.append(SpanRead(NAMED.name, lo, hi, Seq(self.seq), fields, tuple(layers), tuple(layered)))
        commit = Commit(self.session, LocalSeq(self.last), operations, spans=tuple(reads))
        self.pending.append(Tx(seed, commit, saw))

    @staticmethod
    def is_in(doc: DocKey, before: State, after: State, lo: bytes, hi: bytes) -> bool:
        values = (before.get(doc, ABSENT), after.get(doc, ABSENT))
        return any(value is not ABSENT and lo <= key_of(doc, value) < hi for value in values)


def play(seed: int) -> tuple[int, int]:
    """One history: the numbers of accepted and rejected transactions. Every accepted one reads the same again."""
    rng = random.Random(seed)
    engine = Engine(MemoryBackend(), SimClock())
    declare(engine, RECORD)
    states: dict[int, State] = {engine.head: {}}
    replicas = [Replica(name) for name in "abc"]
    for replica in replicas:
        replica.seq = engine.head
    accepted = rejected = 0
    for step in range(60):
        replica = rng.choice(replicas)
        if rng.random() < 0.35 and replica.pending:
            tx = replica.pending.pop(0)
            [outcome] = engine.admit([Submission(tx.commit)])
            if not isinstance(outcome.verdict, Committed):
                # Those that rest on it are rejected when it is their turn.
                rejected += 1
                continue
            accepted += 1
            before = states[engine.head - 1]
            saw, _, operations = run(tx.seed, before)
            assert saw == tx.saw, (seed, step)
            assert operations == tx.commit.operations
            states[engine.head] = applied(before, operations)
        elif rng.random() < 0.4:
            replica.seq = engine.head
        else:
            replica.transact(rng.randrange(10**9), states[replica.seq])
    return accepted, rejected


@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(100), deadline=None)
def test_transactions_that_read_spans_are_serializable(seed: int) -> None:
    play(seed)


def test_histories_have_both_accepted_and_rejected_transactions() -> None:
    with small_limits(FOLD_COMMITS=5):
        counts = [play(seed) for seed in range(20)]
    assert sum(accepted for accepted, _ in counts) > 100
    assert sum(rejected for _, rejected in counts) > 50
