"""Collections in the engine: indexes follow every commit, and spans conflict with what changes them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from zlib import crc32

import msgspec
import pytest

from headwater.errors import (
    DeclarationError,
    DuplicateError,
    HistoryError,
    LocalProtocolError,
    NotFoundError,
)
from headwater.store import branching
from headwater.store.backend import EntryFold, Fold
from headwater.store.collection_record import CollectionRecord, Index, Shift, doc_of, keys_of
from headwater.store.collections import Collections
from headwater.store.commit import (
    Absent,
    Commit,
    Committed,
    Conflict,
    NewObservation,
    Refused,
    SpanRead,
    Verdict,
)
from headwater.store.compaction import compact
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.index_field import IndexField
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, LocalSeq, Seq, SessionId
from headwater.values.sortkey import AFTER, encode_field
from headwater.values.tree import freeze
from tests.support.limits import small_limits
from tests.support.naive import NOTHING
from tests.support.spaces import Space, Writer, admit, drop, edit, put, replace

STATE = Index((IndexField("state"), IndexField("n")))
NUMBER = Index((IndexField("n"),), unique=True)
ORDERS = CollectionRecord("order", indexes=(STATE,))
NUMBERED = CollectionRecord("order", indexes=(STATE, NUMBER))
BY_STATE, BY_ID = "order#state,n", "order#"
BY_NUMBER = NUMBER.name("order")
ALL = (b"", AFTER)


def keys(engine: Engine, index: str = BY_STATE, **options: Any) -> list[bytes]:
    return engine.collections.span(options.pop("branch", MAIN), index, *ALL, **options)


def expected(space: Space, record: CollectionRecord = ORDERS, index: str = BY_STATE, branch: str = MAIN) -> list[bytes]:
    """The keys made anew from the documents."""
    found = [
        key
        for doc, value in space.values(branch).items()
        if doc.startswith("space/order:")
        for name, key in keys_of(record, doc, freeze(value))
        if name == index
    ]
    return sorted(found)


def states(*names: str) -> tuple[bytes, bytes]:
    """The span of one state."""
    start = b"".join(map(encode_field, names))
    return start, start + AFTER


def span(
    state: str, at: int, *fields: str, layers: Iterable[tuple[int, int]] = (), layered: Iterable[str] = ()
) -> SpanRead:
    ranges = tuple((LocalSeq(first), LocalSeq(last)) for first, last in layers)
    docs = tuple(doc_key(name) for name in layered)
    return SpanRead(BY_STATE, *states(state), Seq(at), fields, ranges, docs)


def commit(writer: Writer, *operations: Any, spans: Iterable[SpanRead] = ()) -> Commit:
    return msgspec.structs.replace(writer.build(*operations), spans=tuple(spans))


def order(name: int | str, state: str, n: int = 0, **more: object) -> Any:
    return put(f"order:{name}", {"state": state, "n": n, **more})


@pytest.fixture
def declared(space: Space) -> Space:
    declare(space.engine, ORDERS)
    return space


# --- indexes --------------------------------------------------------------------------------------------------


def test_space_without_collections_has_no_feature_and_no_records(space: Space) -> None:
    space.writer("w").accept(order(1, "open"))
    assert not space.engine.collections.is_used
    assert space.engine.collections.records(MAIN) == {}
    assert space.backend.features() == ""


def test_index_is_built_of_the_documents_that_are_there(space: Space) -> None:
    writer = space.writer("w")
    writer.accept(order(1, "open", 1), order(2, "paid", 2), put("other:1", {"state": "open"}))
    writer.accept(drop("order:2"), order(3, "open", 0))
    record, outcome = declare(space.engine, ORDERS)
    assert record == ORDERS
    assert outcome is not None
    assert [doc_of(ORDERS, key) for key in keys(space.engine)] == [doc_key("order:3"), doc_key("order:1")]
    assert space.backend.features() == "collections=0.1"


def test_declaring_again_writes_nothing_and_only_adds(declared: Space) -> None:
    engine = declared.engine
    head = engine.head
    assert declare(engine, ORDERS) == (ORDERS, None)
    assert engine.head == head
    declared.writer("w").accept(order(1, "open", 7))
    more = CollectionRecord("order", indexes=(NUMBER,), rest=(("totals", 1),))
    record, _ = declare(engine, more)
    assert [each.name for each in record.named] == [BY_ID, BY_STATE, BY_NUMBER]
    assert record.rest == (("totals", 1),)
    assert len(keys(engine, BY_NUMBER)) == 1
    with pytest.raises(DeclarationError, match="scope='user'"):
        declare(engine, CollectionRecord("order", "user"))


def test_span_reads_both_directions_with_limits(declared: Space) -> None:
    writer = declared.writer("w")
    writer.accept(*(order(n, "open" if n % 2 else "paid", n) for n in range(20)))
    declared.engine.fold()
    writer.accept(*(order(n, "open" if n % 2 else "paid", n) for n in range(20, 40)), drop("order:3"))
    engine = declared.engine
    everything = expected(declared)
    opened = [key for key in everything if states("open")[0] <= key < states("open")[1]]
    assert keys(engine) == everything
    for limit in (None, 0, 1, 5, 19, 100):
        found = engine.collections.span(MAIN, BY_STATE, *states("open"), limit=limit)
        assert found == opened[:limit]
        found = engine.collections.span(MAIN, BY_STATE, *states("open"), limit=limit, reverse=True)
        assert found == opened[::-1][:limit]


def test_unknown_index_is_not_found(declared: Space) -> None:
    with pytest.raises(NotFoundError, match="no index 'order#due'"):
        keys(declared.engine, "order#due")


# --- spans and conflicts --------------------------------------------------------------------------------------


def verdict(space: Space, made: Commit) -> Verdict:
    [outcome] = admit(space.engine, made)
    return outcome.verdict


@pytest.mark.parametrize("is_folded", [False, True])
def test_commit_conflicts_with_a_key_that_enters_leaves_or_moves_within_its_span(
    declared: Space, is_folded: bool
) -> None:
    ann, bob = declared.writer("ann"), declared.writer("bob")
    at = bob.accept(order(1, "open", 1), order(2, "paid", 2))

    def after(*operations: Any) -> Verdict:
        seq = declared.engine.head
        bob.accept(*operations)
        if is_folded:
            declared.engine.fold()
        return verdict(declared, commit(ann, put("x", 1), spans=[span("open", seq)]))

    assert isinstance(after(order(3, "open")), Conflict)
    assert isinstance(after(edit("order:3", replace("n", to=5))), Conflict)
    assert isinstance(after(edit("order:3", replace("state", to="paid"))), Conflict)
    assert isinstance(after(edit("order:2", replace("state", to="open"))), Conflict)
    assert isinstance(after(drop("order:2")), Conflict)
    assert isinstance(after(order(4, "paid")), Committed)
    assert isinstance(after(edit("order:4", replace("n", to=9))), Committed)
    assert isinstance(after(put("order", {"state": "open"})), Committed)
    assert isinstance(after(order(1, "open", 1, other=7)), Committed)
    assert isinstance(verdict(declared, commit(ann, put("x", 1), spans=[span("open", at)])), Conflict)


def test_named_fields_of_members_conflict_and_others_do_not(declared: Space) -> None:
    ann, bob = declared.writer("ann"), declared.writer("bob")
    bob.accept(order(1, "open", 1, cents=5, note="a"), order(2, "paid", 2, cents=5))

    def after(*operations: Any) -> Verdict:
        seq = declared.engine.head
        bob.accept(*operations)
        return verdict(declared, commit(ann, put("x", 1), spans=[span("open", seq, "cents")]))

    assert isinstance(after(edit("order:1", replace("cents", to=6))), Conflict)
    assert isinstance(after(edit("order:1", replace("note", to="b"))), Committed)
    assert isinstance(after(edit("order:2", replace("cents", to=6))), Committed)
    # It was changed while it was in the span, and has left since.
    seq = declared.engine.head
    bob.accept(edit("order:1", replace("cents", to=7)))
    bob.accept(edit("order:1", replace("state", to="paid")))
    assert isinstance(verdict(declared, commit(ann, put("x", 1), spans=[span("open", seq, "cents")])), Conflict)


def test_own_layers_are_named_and_must_have_been_accepted(declared: Space) -> None:
    ann, bob = declared.writer("ann"), declared.writer("bob")
    bob.accept(order(1, "open", 1))
    at = declared.engine.head
    ann.accept(order(2, "open", 2))
    layer = ann.last
    named = span("open", at, layers=[(layer, layer)], layered=["order:2"])
    assert isinstance(verdict(declared, commit(ann, put("x", 1), spans=[named])), Committed)
    # An own commit that is not named was not seen in the span.
    assert isinstance(verdict(declared, commit(ann, put("x", 2), spans=[span("open", at)])), Conflict)
    # A named one that was rejected.
    rejected = ann.build(put("order:9", {}), given=[Absent(doc_key("order:1"))])
    assert isinstance(verdict(declared, rejected), Refused)
    resting = span("open", declared.engine.head, layers=[(rejected.local_seq, rejected.local_seq)])
    assert isinstance(verdict(declared, commit(ann, put("x", 3), spans=[resting])), Conflict)


def test_layer_on_a_document_that_another_session_wrote_conflicts(declared: Space) -> None:
    ann, bob = declared.writer("ann"), declared.writer("bob")
    bob.accept(order(1, "open", 1, other=1))
    at = declared.engine.head
    ann.accept(edit("order:1", replace("n", to=3)))
    bob.accept(edit("order:1", replace("other", to=2)))
    layered = span("paid", at, layers=[(ann.last, ann.last)], layered=["order:1"])
    assert isinstance(verdict(declared, commit(ann, put("x", 1), spans=[layered])), Conflict)


def test_spans_of_the_future_and_of_unknown_indexes_are_refused(declared: Space) -> None:
    ann = declared.writer("ann")
    future = span("open", declared.engine.head + 1)
    unknown = msgspec.structs.replace(span("open", 1), index="order#due")
    for each in (future, unknown):
        found = verdict(declared, commit(ann, put("x", 1), spans=[each]))
        assert isinstance(found, Refused)
        assert found.code == LocalProtocolError.code


def test_span_from_before_the_declaration_conflicts(space: Space) -> None:
    bob = space.writer("bob")
    at = bob.accept(put("x", 1))
    declare(space.engine, ORDERS)
    assert isinstance(verdict(space, commit(space.writer("ann"), put("x", 1), spans=[span("open", at)])), Conflict)


def test_observation_is_stored_only_if_its_spans_are_current(declared: Space) -> None:
    bob = declared.writer("bob")
    at = bob.accept(order(1, "open", 1))
    basis = Commit(SessionId("ann"), LocalSeq(1), spans=(span("open", at),))
    note = NewObservation(doc_key("result"), b"", basis)
    assert declared.engine.observe([note]) == 1
    bob.accept(order(2, "open", 1))
    assert declared.engine.observe([note]) == 0


# --- unique ---------------------------------------------------------------------------------------------------


@pytest.fixture
def numbered(space: Space) -> Space:
    declare(space.engine, NUMBERED)
    return space


def test_unique_index_refuses_a_second_document_with_its_values(numbered: Space) -> None:
    ann = numbered.writer("ann")
    ann.accept(order(1, "open", 7))
    for is_folded in (False, True):
        if is_folded:
            numbered.engine.fold()
        refused = ann.commit(order(2, "paid", 7))
        assert isinstance(refused, Refused)
        assert refused.code == DuplicateError.code
        assert refused.doc == doc_key("order:1")
        assert "n 7" in refused.reason
        assert numbered.value("order:2") is NOTHING
    ann.accept(order(2, "paid", 8))
    assert isinstance(ann.commit(edit("order:2", replace("n", to=7))), Refused)


def test_unique_index_looks_at_the_net_of_a_commit(numbered: Space) -> None:
    ann = numbered.writer("ann")
    ann.accept(order(1, "open", 1), order(2, "open", 2))
    ann.accept(edit("order:1", replace("n", to=2)), edit("order:2", replace("n", to=1)))
    ann.accept(drop("order:1"), order(3, "open", 2))
    assert isinstance(ann.commit(order(4, "open", 9), order(5, "open", 9)), Refused)
    ann.accept(put("order:6", {"n": None}), put("order:7", {"n": None}), put("order:8", {}), put("order:9", {}))
    numbered.engine.fold()
    assert verify(numbered.engine).findings == []


def test_unique_index_sees_commits_of_its_own_batch(numbered: Space) -> None:
    ann, bob = numbered.writer("ann"), numbered.writer("bob")
    outcomes = admit(numbered.engine, ann.build(order(1, "open", 5)), bob.build(order(2, "open", 5)))
    assert [type(outcome.verdict) for outcome in outcomes] == [Committed, Refused]


def test_unique_index_over_duplicates_is_refused_and_nothing_is_changed(space: Space) -> None:
    space.writer("w").accept(order(1, "open", 5), order(2, "paid", 5), order(3, "paid", 6))
    head = space.engine.head
    with pytest.raises(DuplicateError, match="order:1 and order:2 have the same n 5"):
        declare(space.engine, NUMBERED)
    assert space.engine.head == head
    assert space.engine.collections.records(MAIN) == {}


# --- branches, the past, opening ------------------------------------------------------------------------------


def test_branch_has_the_keys_of_the_fork_and_its_own_since(declared: Space) -> None:
    ann = declared.writer("ann")
    ann.accept(order(1, "open", 1), order(2, "open", 2))
    branching.fork(declared.engine, declared.clock, "draft")
    ann.accept(order(3, "open", 3))
    bob = declared.writer("bob", "draft")
    bob.accept(drop("order:1"), order(4, "open", 4))
    for _ in range(2):
        assert keys(declared.engine, branch=BranchId("draft")) == expected(declared, branch="draft")
        assert keys(declared.engine) == expected(declared)
        assert len(keys(declared.engine)) == 3
        declared.reopen()
    branching.merge(declared.engine, BranchId("draft"))
    assert keys(declared.engine) == expected(declared)
    assert len(keys(declared.engine)) == 3


def test_span_as_of_each_commit_is_what_it_was_then(declared: Space) -> None:
    ann = declared.writer("ann")
    seen: dict[int, list[bytes]] = {}
    for step in range(30):
        seen[declared.engine.head] = keys(declared.engine)
        ann.accept(
            order(step % 7, "open" if step % 3 else "paid", step),
            *([drop(f"order:{step % 5}")] if step % 4 == 0 else []),
        )
        if step % 11 == 0:
            declared.engine.fold()
    for _ in range(2):
        for seq, then in seen.items():
            assert keys(declared.engine, through=Seq(seq)) == then
            assert keys(declared.engine, through=Seq(seq), limit=2, reverse=True) == then[::-1][:2]
        declared.reopen()
    with pytest.raises(HistoryError, match="are not known any more"):
        keys(declared.engine, through=Seq(0))


@pytest.mark.pure("replaces a method")
def test_a_reader_that_is_behind_goes_over_later_commits_once(declared: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, seq = declared.engine, declared.engine.head
    before, looked = keys(engine), list[int]()

    def shifts_after(found: Collections, branch: BranchId, seq: Seq) -> list[Shift] | None:
        later = original(found, branch, seq)
        looked.append(len(later or ()))
        return later

    original = Collections.shifts_after
    monkeypatch.setattr(Collections, "shifts_after", shifts_after)
    writer = declared.writer("ann")
    for number in range(100):
        writer.accept(order(number, "open", number))
        assert keys(engine, through=seq) == before
    assert sum(looked) == 100, "each of them once, not by every read"


def test_index_outlives_compaction(declared: Space) -> None:
    ann = declared.writer("ann")
    for n in range(10):
        ann.accept(order(n, "open", n))
    compact(declared.engine, Seq(8))
    assert keys(declared.engine) == expected(declared)
    assert verify(declared.engine).findings == []
    declared.reopen()
    assert keys(declared.engine) == expected(declared)
    assert verify(declared.engine).findings == []


def test_record_that_is_no_record_is_refused(declared: Space) -> None:
    refused = declared.writer("w").commit(put("collection:order", {"kind": "order"}))
    assert isinstance(refused, Refused)
    assert "does not hold the record" in refused.reason


def test_index_that_was_taken_away_and_declared_again_is_made_anew(declared: Space) -> None:
    ann = declared.writer("ann")
    ann.accept(order(1, "open", 1))
    declared.engine.fold()
    ann.accept(put("collection:order", CollectionRecord("order").to_value()))
    ann.accept(order(2, "open", 2))
    declare(declared.engine, ORDERS)
    assert keys(declared.engine) == expected(declared)
    declared.reopen()
    assert keys(declared.engine) == expected(declared)


# --- damage ---------------------------------------------------------------------------------------------------


@pytest.fixture
def filled(file_space: Space) -> Space:
    """A declared collection with twenty documents, all folded but the last."""
    declare(file_space.engine, ORDERS)
    writer = file_space.writer("w")
    for n in range(19):
        writer.accept(order(n, "open" if n % 2 else "paid", n))
    file_space.engine.fold()
    writer.accept(order(19, "open", 19))
    return file_space


@pytest.mark.parametrize(
    "sql",
    [
        "drop table entry",
        "drop table shift",
        "drop table entry_index",
        "delete from entry",
        "delete from entry where key in (select key from entry limit 1)",
        "update entry_index set count = count + 1",
        "update entry_index set through = through + 1",
        "delete from entry_index",
    ],
)
def test_damaged_table_is_made_again_at_the_next_query(filled: Space, sql: str) -> None:
    filled.tamper(sql)
    filled.backend = filled._open_file()
    engine = filled.engine = Engine(filled.backend, filled.clock)
    assert keys(engine) == expected(filled)
    assert len(keys(engine)) == 20
    filled.writer("v").accept(order(20, "open", 20))
    engine.fold()
    engine.fold()
    assert verify(engine).findings == []
    filled.reopen()
    assert keys(filled.engine) == expected(filled)


@pytest.mark.parametrize(
    ("sql", "finding"),
    [
        ("update entry set key = x'1000' where key in (select key from entry limit 1)", "does not match its checksum"),
        ("delete from shift where seq = 5", "is damaged"),
        ("update shift set body = x'00' where seq = 5", "is damaged"),
    ],
)
def test_verify_finds_what_a_query_cannot(filled: Space, sql: str, finding: str) -> None:
    filled.tamper(sql)
    filled.backend = filled._open_file()
    engine = Engine(filled.backend, filled.clock)
    [found] = [each for each in verify(engine).findings if finding in each]
    assert found


def test_damaged_feed_makes_old_reads_conflict_and_unknown(filled: Space) -> None:
    filled.tamper("delete from shift where seq = 8")
    filled.backend = filled._open_file()
    engine = filled.engine = Engine(filled.backend, filled.clock)
    assert engine.collections.shifts_after(MAIN, Seq(5)) is None
    later = engine.collections.shifts_after(MAIN, Seq(12))
    assert later is not None
    assert [shift.seq for shift in later] == list(range(13, 22))
    ann = filled.writer("ann")
    assert isinstance(verdict(filled, commit(ann, put("x", 1), spans=[span("gone", 5)])), Conflict)
    assert isinstance(verdict(filled, commit(ann, put("x", 1), spans=[span("gone", 12)])), Committed)


def test_verify_finds_an_index_that_is_not_what_the_documents_say(declared: Space) -> None:
    writer = declared.writer("w")
    writer.accept(order(1, "open", 1))
    engine = declared.engine
    engine.fold()
    [row] = [row for row in declared.backend.index_rows() if row.name == BY_STATE]
    [key] = keys(engine)
    other = b"".join(map(encode_field, ["paid", 1])) + key[len(states("open")[0]) + 10 :]
    change = EntryFold(msgspec.structs.replace(row, digest=crc32(other)), removed=[key], added=[other])
    declared.backend.append((), Fold(engine.documents.folded, entries=[change]))
    declared.reopen()
    [found] = verify(declared.engine).findings
    assert found == f"the index {BY_STATE} of branch main is not what the documents say"


def test_feed_keeps_the_newest_shifts(space: Space) -> None:
    with small_limits(SHIFTS_KEPT=10, SHIFTS_SLACK=2, FOLD_COMMITS=4):
        declare(space.engine, ORDERS)
        writer = space.writer("w")
        for n in range(40):
            writer.accept(order(n % 5, "open", n))
        space.engine.fold()
        engine = space.reopen()
        floor = space.backend.shift_floor()
        assert 20 <= floor <= engine.head - 10
        later = engine.collections.shifts_after(MAIN, floor)
        assert later is not None
        assert [shift.seq for shift in later] == list(range(floor + 1, engine.head + 1))
        assert engine.collections.shifts_after(MAIN, Seq(floor - 1)) is None
        assert keys(engine) == expected(space)
        assert verify(engine).findings == []
        assert engine.collections.rebuilt == []
