"""What a transaction sees of indexes, against documents in a dict; and what its commit names."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from headwater.cells.replica import Replica
from headwater.cells.space_port import SpacePort
from headwater.cells.span_records import Span, SpanQuestion
from headwater.cells.spans import answer, keys
from headwater.cells.transaction import Savepoint, Transaction
from headwater.cells.untracked import untracked
from headwater.errors import ClosedError, QueryError
from headwater.store.collection_record import keys_of
from headwater.store.commit import DeleteDoc, SetDoc
from headwater.values.ids import DocKey
from headwater.values.patch import Replace
from headwater.values.sortkey import AFTER, encode_field
from headwater.values.tree import ABSENT, Maybe
from tests.cells.spans.shelf import (
    BY_CENTS,
    BY_STATE,
    CENTS,
    COUNT,
    EXISTS,
    ORDER,
    STATE,
    SUM,
    SpanDesk,
    cents,
    delete,
    inside,
    numbers,
    order,
    put,
    space_of,
    states,
    value,
)


@pytest.fixture
def desk() -> SpanDesk:
    made = SpanDesk()
    replica = made.replica("here")
    for number, each in enumerate((10, 20, 30, 40)):
        put(replica, number, "open", each)
    made.settle()
    return made


@pytest.fixture
def here(desk: SpanDesk) -> Replica:
    return desk.replicas[0]


def read(replica: Replica, tx: Transaction | None, span: Span, **options: object) -> list[str]:
    space = space_of(replica)
    with inside(space, tx):
        return numbers(keys(space, span, **options))  # type: ignore[arg-type]


def test_a_transaction_sees_its_own_writes_and_no_later_changes(desk: SpanDesk, here: Replica) -> None:
    there = desk.replica("there")
    tx = Transaction(here)
    assert read(here, tx, states("open")) == ["0", "1", "2", "3"]
    tx.put(order(5), value("open", 25))
    tx.patch(order(0), Replace(("cents",), 99))
    tx.delete(order(3))
    put(there, 1, "paid", 20)
    put(there, 7, "open", 1)
    desk.settle()
    assert read(here, tx, states("open")) == ["1", "5", "2", "0"]
    assert read(here, None, states("open")) == ["7", "0", "2", "3"]


def test_a_savepoint_that_is_rolled_back_takes_its_keys_away(here: Replica) -> None:
    tx = Transaction(here)
    tx.put(order(5), value("open", 25))
    point = tx.savepoint()
    tx.put(order(5), value("open", 5))
    tx.delete(order(0))
    tx.put(order(6), value("open", 6))
    assert read(here, tx, states("open")) == ["5", "6", "1", "2", "3"]
    tx.roll_back(point)
    assert read(here, tx, states("open")) == ["0", "1", "5", "2", "3"]


def test_iteration_goes_on_as_of_its_beginning(desk: SpanDesk, here: Replica) -> None:
    for number in range(100, 700):
        put(here, number, "many", number)
    desk.settle()
    space = space_of(here)
    tx = Transaction(here)
    with inside(space, tx):
        found = keys(space, states("many"))
        first = numbers([next(found)])
        delete(here, 690)
        put(here, 99, "many", 695)
        desk.settle()
        assert first + numbers(found) == [str(number) for number in range(100, 700)]


def test_a_change_in_a_span_that_was_read_rejects_the_commit(here: Replica) -> None:
    tx = Transaction(here)
    read(here, tx, states("open"), limit=2)
    tx.put(order(50), value("sum", 3))
    put(here, 60, "open", 15)
    tx.commit()
    assert tx.is_rejected


def test_a_change_behind_the_limit_does_not(desk: SpanDesk, here: Replica) -> None:
    tx = Transaction(here)
    read(here, tx, states("open"), limit=2)
    tx.put(order(50), value("sum", 3))
    put(here, 60, "open", 21)
    tx.commit()
    desk.settle()
    assert tx.verdict is not None
    assert not tx.is_rejected


def test_the_store_rejects_what_another_session_has_overtaken(desk: SpanDesk, here: Replica) -> None:
    there = desk.replica("there")
    put(there, 60, "open", 15)
    tx = Transaction(here)
    read(here, tx, states("open"))
    tx.put(order(50), value("sum", 3))
    tx.commit()
    desk.settle()
    assert tx.is_rejected
    assert read(here, None, states("sum")) == []


def test_a_pending_commit_that_is_overtaken_takes_those_that_have_seen_its_keys_along(
    desk: SpanDesk, here: Replica
) -> None:
    there = desk.replica("there")
    put(there, 0, "open", 11)
    first = Transaction(here)
    first.read(order(0))
    first.put(order(80), value("new", 1))
    first.commit()
    second = Transaction(here)
    assert read(here, second, states("new")) == ["80"]
    second.put(order(81), value("other", 1))
    second.commit()
    desk.settle()
    assert first.is_rejected
    assert second.is_rejected
    assert read(here, None, states("new")) == []


def test_an_own_commit_before_it_does_not_reject_a_commit(desk: SpanDesk, here: Replica) -> None:
    put(here, 60, "open", 15)
    tx = Transaction(here)
    assert read(here, tx, states("open")) == ["0", "60", "1", "2", "3"]
    tx.put(order(50), value("sum", 3))
    tx.commit()
    put(desk.replica("there"), 70, "paid", 15)
    desk.settle()
    assert tx.verdict is not None
    assert not tx.is_rejected


def test_inserts_without_reads_never_conflict(desk: SpanDesk, here: Replica) -> None:
    there = desk.replica("there")
    put(here, 60, "open", 15)
    put(there, 61, "open", 15)
    desk.settle()
    assert read(here, None, states("open"), limit=3) == ["0", "60", "61"]


def test_an_answer_that_is_the_same_again_does_not_reject_the_commit(desk: SpanDesk, here: Replica) -> None:
    space = space_of(here)
    tx = Transaction(here)
    with inside(space, tx):
        assert answer(space, states("open"), COUNT) == 4
        assert answer(space, states("open"), EXISTS) is True
    delete(here, 3)
    put(here, 9, "open", 70)
    tx.put(order(50), value("sum", 4))
    tx.commit()
    desk.settle()
    assert not tx.is_rejected


def test_an_answer_that_differs_does(here: Replica) -> None:
    space = space_of(here)
    tx = Transaction(here)
    with inside(space, tx):
        assert answer(space, states("open"), SUM) == 100
    put(here, 3, "open", 41)
    tx.put(order(50), value("sum", 4))
    tx.commit()
    assert tx.is_rejected


def test_an_untracked_read_is_checked_and_no_dependency(here: Replica) -> None:
    tx = Transaction(here)
    space = space_of(here)
    with inside(space, tx), untracked():
        assert numbers(keys(space, states("open"), limit=1)) == ["0"]
        answer(space, states("open"), COUNT)
    assert tx.spans is not None
    assert tx.spans.dependencies() == {}
    tx.put(order(50), value("sum", 4))
    delete(here, 0)
    tx.commit()
    assert tx.is_rejected


def test_nothing_is_read_before_the_first_key_is_taken(here: Replica) -> None:
    tx = Transaction(here)
    space = space_of(here)
    with inside(space, tx):
        keys(space, states("open"))
        assert list(keys(space, states("open"), limit=0)) == []
    assert tx.spans is None


def test_a_transaction_that_has_ended_reads_no_keys(here: Replica) -> None:
    tx = Transaction(here)
    tx.abort()
    with pytest.raises(ClosedError):
        read(here, tx, states("open"))


def test_an_index_that_no_collection_has_is_refused_with_those_there_are(here: Replica) -> None:
    with pytest.raises(QueryError, match=r"no index 'order#due'.*order#state,cents"):
        read(here, None, Span("order#due", b"", AFTER))


def test_a_space_without_collections_is_refused(desk: SpanDesk) -> None:
    bare = super(SpanDesk, desk).replica("bare")
    with pytest.raises(QueryError, match="has no collections"):
        read(bare, None, states("open"))


def test_a_handler_makes_what_writes_members_current_before_it_reads_an_index(here: Replica) -> None:
    here.written_docs = lambda kind: [order("made")] if kind == "order" else []
    looked: list[DocKey] = []
    tx = Transaction(here)
    tx.gate = looked.append
    read(here, tx, states("open"))
    read(here, tx, cents(0, 9))
    assert looked == [order("made")]


# --- a model --------------------------------------------------------------------------------------------------


class Model:
    """Documents as this replica sees them, in a dict; queries are answered by looking at all of them."""

    def __init__(self) -> None:
        self.docs: dict[DocKey, Maybe] = {}

    def keys(self, span: Span, limit: int | None, *, reverse: bool) -> list[bytes]:
        found = [
            key
            for doc, tree in self.docs.items()
            for name, key in keys_of(ORDER, doc, tree)
            if name == span.index and span.lo <= key < span.hi
        ]
        return sorted(found, reverse=reverse)[:limit]


def spans() -> Iterator[Span]:
    for state in ("a", "b"):
        lo = encode_field(state)
        yield Span(BY_STATE, lo, lo + AFTER)
        yield Span(BY_STATE, lo + encode_field(2), lo + encode_field(5))
    yield Span(BY_CENTS, encode_field(1), encode_field(4))
    yield Span("order#", b"", AFTER)


SPANS = list(spans())


@pytest.mark.parametrize("seed", range(25))
def test_queries_give_what_a_look_at_all_documents_gives(seed: int) -> None:  # noqa: C901  # one branch for each event
    rng = random.Random(seed)
    desk = SpanDesk()
    replica, other = desk.replica("here"), desk.replica("there")
    space = space_of(replica)
    tx: Transaction | None = None
    points: list[Savepoint] = []
    for _ in range(150):
        chance = rng.random()
        doc, made = order(rng.randrange(12)), value(rng.choice("ab"), rng.randrange(7))
        if chance < 0.25:
            who = rng.choice([replica, other])
            marks = [who.read_mark(order(rng.randrange(12)), ())] if rng.random() < 0.3 else []
            who.commit([DeleteDoc(doc) if rng.random() < 0.3 else SetDoc(doc, made)], reads=marks)
        elif chance < 0.35:
            desk.settle()
        elif chance < 0.38:
            desk.decide()
        elif chance < 0.42:
            desk.engine.fold()
        elif chance < 0.45 and not desk.waiting:
            # The store is opened again, when all have been told.
            desk.tell()
            desk.restart()
        elif chance < 0.55:
            if tx is None:
                tx, points = Transaction(replica), []
            elif rng.random() < 0.5:
                tx.commit() if rng.random() < 0.7 else tx.abort()
                tx = None
        elif chance < 0.7 and tx is not None:
            _write(rng, tx, points, doc, made)
        _compare(rng, replica, space, tx)
    assert replica.members is not None


def _write(rng: random.Random, tx: Transaction, points: list[Savepoint], doc: DocKey, made: object) -> None:
    chance = rng.random()
    if chance < 0.2:
        points.append(tx.savepoint())
    elif chance < 0.4 and points:
        tx.roll_back(points.pop())
    elif chance < 0.5:
        tx.delete(doc)
    elif chance < 0.7 and tx.document(doc) is not ABSENT:
        tx.patch(doc, Replace(("cents",), rng.randrange(7)))
    else:
        tx.put(doc, made)  # type: ignore[arg-type]


def _compare(rng: random.Random, replica: Replica, space: SpacePort, tx: Transaction | None) -> None:
    """A query of plain code, and one of a transaction that begins now and has the writes of the open one."""
    model = Model()
    model.docs = {order(number): replica.read(order(number)) for number in range(12)}
    span, limit, reverse = rng.choice(SPANS), rng.choice([None, 1, 2, 5]), rng.random() < 0.5
    with inside(space, None):
        assert list(keys(space, span, limit=limit, reverse=reverse)) == model.keys(span, limit, reverse=reverse)
        assert answer(space, span, COUNT) == len(model.keys(span, None, reverse=False))
    if tx is None:
        return
    fresh = Transaction(replica)
    for doc, tree in tx.written():
        model.docs[doc] = tree
        if tree is ABSENT:
            fresh.delete(doc)
        else:
            fresh.put(doc, tree)
    members = [tree for doc, tree in model.docs.items() for name, key in keys_of(ORDER, doc, tree)
               if name == span.index and span.lo <= key < span.hi]  # fmt: skip
    with inside(space, fresh):
        assert list(keys(space, span, limit=limit, reverse=reverse)) == model.keys(span, limit, reverse=reverse)
        assert answer(space, span, SUM) == sum(int(CENTS.ordered(tree["cents"])) for tree in members)  # type: ignore[index, call-overload, arg-type, misc]
        grouped = answer(space, span, SpanQuestion("count", None, STATE))
        assert grouped == tuple(
            (state, count)
            for state in "ab"
            if (count := sum(tree["state"] == state for tree in members))  # type: ignore[index, call-overload, misc]
        )
        assert answer(space, span, EXISTS) is bool(members)
    fresh.abort()
