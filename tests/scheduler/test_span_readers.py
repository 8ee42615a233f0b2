"""Which functions run because documents of a collection have changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.cells.span_records import SpanKey
from headwater.cells.spans import answer, document, keys
from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.node import NodeSpec
from headwater.store.commit import DeleteDoc, SetDoc
from headwater.testing.invariants.span_invariants import spans_are_exact
from headwater.values.address import doc_key
from headwater.values.sortkey import AFTER, encode_field
from tests.cells.spans.shelf import (
    BY_STATE,
    COUNT,
    EXISTS,
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
from tests.scheduler.workshop import Workshop


class Shop(Workshop):
    """A workshop with orders."""

    def __init__(self) -> None:
        super().__init__(desk=SpanDesk())
        self.space = space_of(self.replica)
        self.space.storage_key = self.replica

    def reader(self, name: str, read: Callable[[], object]) -> None:
        """A computed that an effect reads."""

        def fn(tx: Transaction) -> object:
            with inside(self.space, tx):
                return read()

        self.computation(name, fn)
        self.show(f"{name}_shown", name)
        self.first_runs = self.run()

    def run(self) -> list[str]:
        """Run, and check the invariants at rest."""
        ran = super().run()
        spans_are_exact(self.scheduler)
        return ran


@pytest.fixture
def shop() -> Shop:
    made = Shop()
    for number, each in enumerate((10, 20, 30, 40)):
        put(made.replica, number, "open", each)
    put(made.replica, 9, "paid", 15)
    made.decide()
    return made


def first(shop: Shop, limit: int | None = None, **options: object) -> Callable[[], object]:
    return lambda: numbers(keys(shop.space, states("open"), limit=limit, **options))  # type: ignore[arg-type]


def test_a_reader_of_a_span_runs_when_a_document_enters_leaves_or_moves_within(shop: Shop) -> None:
    shop.reader("found", first(shop))
    assert shop.see("found") == ["0", "1", "2", "3"]
    put(shop.replica, 5, "open", 25)
    assert shop.run() == ["found", "found_shown"]
    assert shop.see("found") == ["0", "1", "5", "2", "3"]
    put(shop.replica, 5, "paid", 25)
    assert shop.run() == ["found", "found_shown"]
    put(shop.replica, 1, "open", 99)
    assert shop.run() == ["found", "found_shown"]
    assert shop.see("found") == ["0", "2", "3", "1"]
    delete(shop.replica, 0)
    assert shop.run() == ["found", "found_shown"]
    assert shop.see("found") == ["2", "3", "1"]


def test_a_reader_of_a_span_does_not_run_for_changes_outside_or_of_other_fields(shop: Shop) -> None:
    shop.reader("found", first(shop))
    shop.run()
    put(shop.replica, 9, "paid", 16)
    assert shop.run() == []
    put(shop.replica, 0, "open", 10, note="urgent")
    assert shop.run() == []
    put(shop.replica, 10, "draft", 1)
    assert shop.run() == []


def test_a_read_with_a_limit_ends_at_the_last_key_that_was_seen(shop: Shop) -> None:
    shop.reader("found", first(shop, 2))
    shop.run()
    put(shop.replica, 5, "open", 21)
    delete(shop.replica, 3)
    assert shop.run() == []
    put(shop.replica, 6, "open", 19)
    assert shop.run() == ["found", "found_shown"]
    assert shop.see("found") == ["0", "6"]


def test_a_read_backwards_with_a_limit_ends_at_the_last_key_that_was_seen(shop: Shop) -> None:
    shop.reader("found", first(shop, 2, reverse=True))
    shop.run()
    assert shop.see("found") == ["3", "2"]
    put(shop.replica, 5, "open", 29)
    assert shop.run() == []
    put(shop.replica, 5, "open", 31)
    assert shop.run() == ["found", "found_shown"]
    assert shop.see("found") == ["3", "5"]


def test_a_reader_of_fields_runs_when_one_of_them_changes_in_a_member(shop: Shop) -> None:
    def notes() -> list[object]:
        span = states("open")
        return [
            dict(document(shop.space, span, key, ("note",))).get("note", "")  # type: ignore[call-overload]
            for key in keys(shop.space, span, fields=("note",))
        ]

    shop.reader("notes", notes)
    shop.run()
    put(shop.replica, 0, "open", 10, note="urgent")
    assert shop.run() == ["notes", "notes_shown"]
    assert shop.see("notes") == ["urgent", "", "", ""]
    put(shop.replica, 0, "open", 10, note="urgent", colour="red")
    put(shop.replica, 9, "paid", 15, note="late")
    assert shop.run() == []
    put(shop.replica, 9, "open", 15, note="late")
    assert shop.run() == ["notes", "notes_shown"]


def test_a_count_runs_only_if_it_differs(shop: Shop) -> None:
    shop.reader("count", lambda: answer(shop.space, states("open"), COUNT))
    shop.run()
    assert shop.see("count") == 4
    put(shop.replica, 0, "open", 11)
    assert shop.run() == []
    shop.replica.commit((DeleteDoc(order(0)), SetDoc(order(7), value("open", 70))))
    assert shop.run() == []
    put(shop.replica, 0, "open", 1)
    assert shop.run() == ["count", "count_shown"]
    assert shop.see("count") == 5


def test_a_sum_runs_only_if_it_differs_and_takes_deltas(shop: Shop) -> None:
    shop.reader("sum", lambda: answer(shop.space, states("open"), SUM))
    shop.run()
    assert shop.see("sum") == 100
    assert isinstance(shop.desk, SpanDesk)
    spans = shop.desk.spans
    put(shop.replica, 0, "open", 11)
    assert shop.run() == ["sum", "sum_shown"]
    assert shop.see("sum") == 101
    shop.replica.commit((SetDoc(order(1), value("open", 21)), SetDoc(order(2), value("open", 29))))
    assert shop.run() == []
    delete(shop.replica, 3)
    assert shop.run() == ["sum", "sum_shown"]
    assert shop.see("sum") == 61
    assert shop.desk.spans == spans, "the span was read once"


def test_exists_runs_only_if_the_last_goes_or_the_first_comes(shop: Shop) -> None:
    shop.reader("any", lambda: answer(shop.space, cents(20, 40), EXISTS))
    shop.run()
    assert shop.see("any") is True
    delete(shop.replica, 1)
    assert shop.run() == []
    delete(shop.replica, 2)
    assert shop.run() == ["any", "any_shown"]
    assert shop.see("any") is False
    put(shop.replica, 2, "paid", 39)
    assert shop.run() == ["any", "any_shown"]


def test_a_rolled_back_commit_invalidates_the_readers_of_its_span(shop: Shop) -> None:
    shop.reader("found", first(shop))
    shop.reader("count", lambda: answer(shop.space, states("open"), COUNT))
    other = shop.desk.replica("there")
    shop.run()
    put(other, 0, "paid", 10)
    mark = shop.replica.read_mark(order(0), ())
    shop.replica.commit((SetDoc(order(8), value("open", 80)),), reads=[mark])  # type: ignore[list-item]
    assert sorted(shop.run()) == ["count", "count_shown", "found", "found_shown"]
    assert shop.see("count") == 5
    shop.decide()
    assert sorted(shop.run()) == ["count", "count_shown", "found", "found_shown"]
    assert shop.see("found") == ["1", "2", "3"]
    assert shop.see("count") == 3


def test_a_function_is_not_invalidated_by_what_it_writes_into_its_own_span(shop: Shop) -> None:
    def fill(tx: Transaction) -> None:
        with inside(shop.space, tx):
            found = numbers(keys(shop.space, states("open")))
            total = answer(shop.space, states("open"), COUNT)
        assert total == len(found)
        if "88" not in found:
            tx.set(order(88), (), value("open", 88))

    shop.effect("fill", fill)
    assert shop.run() == ["fill"]
    assert shop.run() == []
    shop.decide()
    assert shop.run() == []
    put(shop.replica, 0, "open", 12)
    assert shop.run() == ["fill"]


def test_a_change_during_a_run_runs_it_again(shop: Shop) -> None:
    changed: list[int] = []

    def read() -> list[str]:
        found = numbers(keys(shop.space, states("open")))
        if not changed:
            changed.append(1)
            put(shop.desk.replicas[0], 77, "open", 77)
        return found

    shop.reader("found", read)
    assert shop.first_runs.count("found") == 2
    assert shop.see("found") == ["0", "1", "2", "3", "77"]


def test_removed_functions_leave_nothing_in_the_indexes(shop: Shop) -> None:
    shop.reader("found", first(shop))
    shop.reader("sum", lambda: answer(shop.space, states("open"), SUM))
    shop.run()
    spans = shop.scheduler.graph.spans
    assert len(spans.entries()) == 2
    for node in list(shop.scheduler.registry.nodes):
        shop.scheduler.remove(node)
    assert spans.entries() == []
    assert not spans.kinds
    assert not spans.tallies()


def test_a_moved_key_is_matched_without_a_look_at_the_spans_of_others(shop: Shop) -> None:
    spans = shop.scheduler.graph.spans
    count = 100_000
    for number in range(count):
        node = shop.scheduler.register(NodeSpec(name=f"n{number}", fn=lambda _: 0, outputs=(doc_key(f"n{number}"),)))
        lo = encode_field(f"user{number}")
        spans.apply(node, {SpanKey(BY_STATE, lo, lo + AFTER): b""})
    before = spans.visits
    put(shop.replica, 0, "user777", 1)
    shop.scheduler.invalidation.drain()
    assert 0 < spans.visits - before <= 20
    hit = [node for node in shop.scheduler.registry.nodes if node.invalidated]
    assert [node.name for node in hit] == ["n777"]
