"""Transactions that read spans are serializable: each accepted one sees the same when it runs alone, in log order.

Random transactions on several replicas ask for spans, with limits and in both directions, some with a field that is in
no index, and write what depends on what they saw. With a mistake built in, histories soon fail: so the check can.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from headwater.cells import span_reads
from headwater.cells.replica import Replica
from headwater.cells.space_port import SpacePort
from headwater.cells.span_entries import SpanEntry
from headwater.cells.span_records import Span
from headwater.cells.spans import document, keys
from headwater.cells.transaction import Transaction
from headwater.store import span_conflicts
from headwater.store.collection_record import Shift
from headwater.store.commit import CommitOutcome, Committed, SpanRead
from headwater.store.span_conflicts import SpanView
from headwater.values.address import Depth
from headwater.values.ids import LocalSeq, SessionId
from headwater.values.patch import Replace
from headwater.values.sortkey import AFTER, encode_field
from headwater.values.tree import ABSENT, get
from tests.cells.spans.shelf import BY_STATE, SpanDesk, inside, numbers, order, space_of, value

STATES = ("a", "b", "c")
DOCS = 9


def act(space: SpacePort, tx: Transaction, seed: int) -> list[object]:
    """What one transaction does, given what it sees. Returns what it saw."""
    rng = random.Random(seed)
    saw: list[object] = []
    total = 0
    with inside(space, tx):
        for _ in range(rng.randrange(1, 3)):
            state, low = encode_field(rng.choice(STATES)), encode_field(rng.randrange(6))
            span = Span(BY_STATE, state + low, state + AFTER)
            limit, reverse, with_note = rng.choice([1, 2, None]), rng.random() < 0.5, rng.random() < 0.4
            fields = ("note",) if with_note else ()
            found = list(keys(space, span, limit=limit, reverse=reverse, fields=fields))
            seen: list[object] = [*found]
            if with_note:
                seen += [get(document(space, span, key, fields), ("note",)) for key in found]
            saw.append(seen)
            total += sum(sum(each) if isinstance(each, bytes) else int(each) for each in seen)  # type: ignore[misc, call-overload]
            for _ in range(rng.randrange(3)):
                number = rng.randrange(DOCS) if not found or rng.random() < 0.6 else int(numbers(found)[0])
                how = (total + number) % 4
                doc = order(number)
                # A deletion of nothing is no write, and an edit needs a document: so both read whether there is one.
                is_there = how < 2 and tx.read(doc, (), Depth.SHALLOW) is not ABSENT
                if how == 0 and is_there:
                    tx.delete(doc)
                elif how == 1 and is_there:
                    # An edit: on another version of the document it leads to another key. One without effect is no
                    # write, so what it replaces is read.
                    tx.read(doc, ("state",))
                    tx.patch(doc, Replace(("state",), STATES[total % 3]))
                else:
                    tx.put(doc, value(STATES[total % 3], (total * 7 + number) % 6, note=total % 5))
    return saw


class History:
    """Replicas that take in the log at different times, and the transactions that they have sent."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.desk = SpanDesk()
        self.replicas = [self.desk.replica(f"r{number}") for number in range(3)]
        self.spaces = [space_of(replica) for replica in self.replicas]
        self.untold: list[list[Any]] = [[] for _ in self.replicas]
        self.sent: dict[tuple[SessionId, LocalSeq], tuple[int, list[object]]] = {}
        self.accepted: list[tuple[int, list[object]]] = []
        self.rejected = 0

    def decide(self, count: int) -> None:
        """The store decides the oldest that wait."""
        group, self.desk.waiting = self.desk.waiting[:count], self.desk.waiting[count:]
        for outcome in self.desk.engine.admit(group):
            self._note(outcome)
            for told in self.untold:
                told.append(outcome)

    def _note(self, outcome: CommitOutcome) -> None:
        commit = outcome.commit
        if isinstance(outcome.verdict, Committed):
            self.accepted.append(self.sent[commit.session, commit.local_seq])
        else:
            self.rejected += 1

    def step(self, number: int) -> None:
        who, chance = self.rng.randrange(3), self.rng.random()
        if chance < 0.3:
            self.decide(self.rng.randrange(1, 3))
        elif chance < 0.5:
            told, self.untold[who] = self.untold[who], []
            self.replicas[who].integrate(told)
        else:
            self.transact(self.replicas[who], self.spaces[who], self.seed * 1000 + number)

    def transact(self, replica: Replica, space: SpacePort, seed: int) -> None:
        tx = Transaction(replica)
        saw = act(space, tx, seed)
        if not tx.has_writes:
            return
        tx.commit()
        if tx.local_seq is not None:
            self.sent[replica.session, tx.local_seq] = (seed, saw)

    def is_serializable(self) -> bool:
        """Whether each sees the same alone."""
        desk = SpanDesk()
        replica = desk.replica("alone")
        space = space_of(replica)
        for seed, saw in self.accepted:
            tx = Transaction(replica)
            if act(space, tx, seed) != saw:
                return False
            tx.commit()
            desk.settle()
        return True


def play(seed: int) -> History:
    history = History(seed)
    for number in range(40):
        history.step(number)
    history.decide(len(history.desk.waiting))
    return history


def test_accepted_transactions_see_the_same_alone() -> None:
    histories = [play(seed) for seed in range(120)]
    assert [each.seed for each in histories if not each.is_serializable()] == []
    assert sum(len(each.accepted) for each in histories) > 1000
    assert sum(each.rejected for each in histories) > 100


def _short(entry: SpanEntry) -> tuple[bytes, bytes] | None:
    basis, end = entry.basis, entry.end
    if end is None:
        return basis.lo, basis.hi
    if not end:
        return None
    return (end + b"\0", basis.hi) if entry.is_reverse else (basis.lo, end)


def _change_named(**changes: object) -> Any:
    right = span_reads.named_now

    def named(*args: Any) -> SpanRead:
        return msgspec.structs.replace(right(*args), **changes)

    return named


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize("mistake", ["one key short", "only keys after", "no layers", "no fields"])
def test_a_history_with_a_mistake_fails(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    match mistake:
        case "one key short":
            monkeypatch.setattr(SpanEntry, "covered", property(_short))
        case "only keys after":
            right = span_conflicts._is_hit

            def hit(view: SpanView, shift: Shift) -> bool:
                moves = tuple(msgspec.structs.replace(move, before=None) for move in shift.moves)
                return right(view, msgspec.structs.replace(shift, moves=moves))

            monkeypatch.setattr(span_conflicts, "_is_hit", hit)
        case "no layers":
            monkeypatch.setattr(span_reads, "named_now", _change_named(layers=(), layered=()))
        case _:
            monkeypatch.setattr(span_reads, "named_now", _change_named(fields=()))
    assert any(not play(seed).is_serializable() for seed in range(400))
