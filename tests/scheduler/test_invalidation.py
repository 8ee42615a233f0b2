"""The one channel: what is written here, by others, taken back or only now known wakes exactly who has read it."""

from __future__ import annotations

import sys

import msgspec
import pytest

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.core import IGNORED_FOR_SCHEDULING, Depth, SetDoc, doc_key, freeze
from headwater.errors import AccessError, HeadwaterError, StoreError, StoreFullError
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.scheduler_limits import CAUSES_MAX, FAILURES_MAX
from headwater.scheduler.trace import NodeInvalidated
from headwater.store.commit import OriginCommitted, Refused, Submission
from headwater.store.document import StoredDocument
from headwater.values.ids import Seq
from headwater.values.tree import Path
from tests.scheduler.workshop import Workshop, number, write
from tests.support.naive import NOTHING


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


def put(replica: Replica, name: str, value: object) -> None:
    replica.commit((SetDoc(doc_key(name), freeze(value)),))


def reader(shop: Workshop, name: str, doc: str, path: Path = (), depth: Depth = Depth.DEEP) -> Node:
    return shop.effect(name, lambda tx: tx.read(doc_key(doc), path, depth))


def kinds(shop: Workshop) -> list[str]:
    """By what kinds of news nodes were woken, in order."""
    return [record.change for record in shop.scheduler.get_trace("invalidated") if isinstance(record, NodeInvalidated)]


# --- four kinds of news -----------------------------------------------------------------------------------


def test_what_is_written_here_wakes_its_readers_before_anything_is_decided(shop: Workshop) -> None:
    shop.scheduler.set_trace_enabled("invalidated", True)
    reader(shop, "show", "a")
    shop.run()
    shop.put(a=1)
    assert shop.run() == ["show"]
    assert kinds(shop) == ["commit"]
    shop.decide()
    assert shop.run() == [], "that it was accepted is no news"


def test_what_others_write_wakes_the_readers(shop: Workshop) -> None:
    shop.scheduler.set_trace_enabled("invalidated", True)
    other = shop.desk.replica("other")
    reader(shop, "show", "a")
    shop.run()
    put(other, "a", 1)
    assert shop.run() == []
    shop.decide()
    assert shop.run() == ["show"]
    assert kinds(shop) == ["integrate"]


def test_document_that_had_to_be_fetched_wakes_its_readers_when_it_is_there(shop: Workshop) -> None:
    shop.scheduler.set_trace_enabled("invalidated", True)
    shop.desk.remote.add(doc_key("far"))
    seen: list[object] = []
    shop.effect("show", lambda tx: seen.append(number(tx, "far")))
    shop.run()
    shop.replica.pull(doc_key("far"), StoredDocument(7, Seq(1)))
    assert shop.run() == ["show"]
    assert (seen, kinds(shop)) == ([0, 7], ["pull"])


def test_what_is_taken_back_wakes_its_readers_and_brings_what_won(shop: Workshop) -> None:
    shop.scheduler.set_trace_enabled("invalidated", True)
    other = shop.desk.replica("other")
    seen: list[object] = []
    shop.effect("show", lambda tx: seen.append(number(tx, "a")))
    shop.run()
    put(other, "a", 5)
    shop.desk.decide()
    tx = Transaction(shop.replica)
    write(tx, "a", number(tx, "a") + 1)
    tx.commit()
    shop.run()
    shop.decide()
    shop.run()
    assert tx.is_rejected
    assert (seen, kinds(shop)) == ([0, 1, 5], ["commit", "revert"])


@pytest.mark.parametrize("kind", ["commit", "integrate", "pull", "revert"])
@pytest.mark.parametrize(
    ("path", "depth", "before", "after", "wakes"),
    [
        ((), Depth.DEEP, {"x": 1}, {"x": 2}, True),
        (("x",), Depth.DEEP, {"x": 1}, {"x": 2}, True),
        (("y",), Depth.DEEP, {"x": 1}, {"x": 2}, False),
        (("x", "z"), Depth.DEEP, {"x": {"z": 1}}, {"x": 2}, True),
        (("x", "z"), Depth.DEEP, {"x": {"z": 1}}, {"x": {"z": 1, "w": 2}}, False),
        ((), Depth.SHALLOW, {"x": 1}, {"x": 2}, False),
        ((), Depth.SHALLOW, {"x": 1}, {"x": 1, "y": 1}, True),
        (("x",), Depth.SHALLOW, {"x": [1, 2]}, {"x": [1, 3]}, False),
        (("x",), Depth.SHALLOW, {"x": [1, 2]}, {"x": [1]}, True),
        ((), Depth.DEEP, {"x": 1}, {"x": 1.0}, True),
    ],
)
def test_each_kind_wakes_exactly_who_read_what_is_different(
    shop: Workshop, kind: str, path: Path, depth: Depth, before: object, after: object, wakes: bool
) -> None:
    other = shop.desk.replica("other")
    put(shop.replica, "a", before)
    shop.decide()
    reader(shop, "show", "a", path, depth)
    shop.run()
    match kind:
        case "commit":
            shop.put(a=after)
        case "integrate":
            put(other, "a", after)
            shop.decide()
        case "pull":
            shop.replica.pull(doc_key("a"), StoredDocument(freeze(after), Seq(9)))
        case _:
            # Ours is overtaken, and was never seen by the reader: its going and what won are one step.
            put(other, "a", after)
            shop.desk.decide()
            tx = Transaction(shop.replica)
            tx.read(doc_key("a"))
            tx.set(doc_key("other"), (), 1)
            tx.commit()
            shop.decide()
            assert tx.is_rejected
    assert shop.run() == (["show"] if wakes else [])


def test_read_that_is_ignored_for_scheduling_wakes_nobody(shop: Workshop) -> None:
    shop.effect("show", lambda tx: tx.read(doc_key("a"), (), Depth.DEEP, IGNORED_FOR_SCHEDULING))
    shop.run()
    shop.put(a=1)
    assert shop.run() == []


def test_optimistic_chain_settles_anew_when_its_first_link_is_taken_back(shop: Workshop) -> None:
    other = shop.desk.replica("other")
    shop.sum("one", "a")
    shop.sum("two", "one")
    shop.show("show", "two")
    shop.run()
    shop.decide()
    put(other, "a", 5)
    shop.desk.decide()
    tx = Transaction(shop.replica)
    write(tx, "a", number(tx, "a") + 1)
    tx.commit()
    shop.run()
    assert shop.see("two") == 1
    while shop.desk.waiting or shop.scheduler.outstanding().is_due:
        shop.decide()
        shop.run()
    shop.decide()
    assert ([shop.see(name) for name in ("a", "one", "two")], shop.errors) == ([5, 5, 5], [])


# --- causes -----------------------------------------------------------------------------------------------


def test_causes_are_collected_while_it_is_invalid_and_taken_by_the_run(shop: Workshop) -> None:
    node = shop.sum("sum", "a", "b")
    shop.scheduler.pull(node)
    shop.put(a=1, b=2, c=3)
    shop.run()
    assert list(node.invalid_causes) == [(doc_key("a"), ()), (doc_key("b"), ())]
    shop.scheduler.pull(node)
    assert (node.invalid_causes, node.last_causes) == ({}, ((doc_key("a"), ()), (doc_key("b"), ())))


def test_run_carries_its_node_and_its_causes_in_its_transaction(shop: Workshop) -> None:
    seen: list[tuple[object, object]] = []

    def show(tx: Transaction) -> None:
        number(tx, "a")
        seen.append((tx.node, tx.triggers))

    node = shop.effect("show", show)
    shop.run()
    shop.put(a=1)
    shop.run()
    assert seen == [(node, ()), (node, ((doc_key("a"), ()),))]


def test_causes_are_places_and_not_only_documents(shop: Workshop) -> None:
    node = shop.computation("sum", lambda tx: tx.read(doc_key("a")) is not None)
    shop.put(a={"x": {"y": 1}, "z": 1})
    shop.scheduler.pull(node)
    tx = Transaction(shop.replica)
    tx.set(doc_key("a"), ("x", "y"), 2)
    tx.commit()
    shop.run()
    assert list(node.invalid_causes) == [(doc_key("a"), ("x", "y"))]


def test_causes_of_a_node_that_nobody_looks_at_are_bounded(shop: Workshop) -> None:
    node = shop.computation("sum", lambda tx: len(tx.read(doc_key("a"))))  # type: ignore[arg-type]
    shop.put(a={})
    shop.scheduler.pull(node)
    for index in range(CAUSES_MAX * 3):
        tx = Transaction(shop.replica)
        tx.set(doc_key("a"), (f"k{index}",), index)
        tx.commit()
        shop.run()
        assert len(node.invalid_causes) <= CAUSES_MAX
    assert list(node.invalid_causes) == [(doc_key("a"), ())], "of so many places, the document"


def test_the_thousandth_cause_costs_as_much_as_the_hundredth(shop: Workshop) -> None:
    node = shop.computation("sum", lambda _: 0)
    costs: list[int] = []

    def look(_frame: object, event: str, _argument: object) -> None:
        costs[-1] += event == "call"

    for index in range(1_000):
        costs.append(0)
        sys.setprofile(look)
        Invalidation.add_causes(node, ((doc_key(f"doc{index}"), ("part",)),))
        sys.setprofile(None)
    assert list(node.invalid_causes) == [(doc_key(f"doc{index}"), ()) for index in range(1_000)]
    assert costs[100] == costs[999]


def test_own_writes_are_no_causes(shop: Workshop) -> None:
    node = shop.effect("show", lambda tx: write(tx, "a", number(tx, "a") + 1))
    shop.run()
    assert (shop.see("a"), node.invalid_causes, node.is_clean) == (1, {}, True)


# --- rejected ---------------------------------------------------------------------------------------------


def overtaken(shop: Workshop, other: Replica, name: str, value: object) -> None:
    """Somebody else's write is decided first, and is not known here yet."""
    put(other, name, value)
    shop.desk.decide()


def test_run_whose_commit_is_rejected_is_made_again_for_its_causes(shop: Workshop) -> None:
    other = shop.desk.replica("other")
    node = shop.sum("sum", "a", "b")
    shop.show("show", "sum")
    shop.run()
    shop.decide()
    shop.put(b=1)
    overtaken(shop, other, "a", 10)
    shop.run()
    shop.scheduler.set_trace_enabled("taken-back", True)
    shop.decide()
    assert shop.see("sum") == 0, "taken back"
    assert (doc_key("b"), ()) in node.invalid_causes, "given back"
    assert shop.run() == ["sum", "show"]
    shop.decide()
    assert (shop.see("sum"), shop.run(), shop.errors) == (11, [], [])
    assert [record.node for record in shop.scheduler.get_trace("taken-back")] == ["sum#1"]


def test_rejected_effect_is_made_again(shop: Workshop) -> None:
    other = shop.desk.replica("other")
    shop.effect("copy", lambda tx: write(tx, "out", number(tx, "a")))
    shop.run()
    shop.decide()
    overtaken(shop, other, "a", 10)
    shop.put(a=1)
    shop.run()
    shop.decide()
    shop.run()
    shop.decide()
    assert (shop.see("out"), shop.see("a")) == (1, 1)


def test_conflicts_are_never_counted(shop: Workshop) -> None:
    """However often somebody else is faster, it is tried again."""
    other = shop.desk.replica("other")
    shop.effect("copy", lambda tx: write(tx, "out", number(tx, "a")))
    shop.run()
    for value in range(1, FAILURES_MAX * 3):
        overtaken(shop, other, "a", value)
        shop.decide()
        shop.run()
    shop.decide()
    shop.run()
    shop.decide()
    assert (shop.see("out"), shop.errors) == (FAILURES_MAX * 3 - 1, [])


def test_result_that_an_earlier_run_stored_is_made_again_when_that_run_is_taken_back(shop: Workshop) -> None:
    """The later run had nothing to write, because it came to the same; now nothing stands there."""
    other = shop.desk.replica("other")
    shop.computation("parity", lambda tx: number(tx, "a") % 2)
    shop.show("show", "parity")
    put(shop.replica, "a", 0)
    shop.decide()
    overtaken(shop, other, "a", 100)
    shop.run()
    shop.put(a=2)
    assert shop.run() == ["parity"]
    shop.decide()
    shop.run()
    shop.decide()
    assert (shop.see("a"), shop.see("parity")) == (2, 0)


def fail(shop: Workshop, error: HeadwaterError | None = None) -> None:
    shop.desk.fail(error or StoreFullError("the disk is full"))
    shop.desk.tell()


@pytest.mark.parametrize("is_called", [False, True])
def test_result_that_rests_on_a_failed_commit_is_made_once_more_called_for_or_not(
    shop: Workshop, is_called: bool
) -> None:
    """It was read through an older layer of an input, which failed. The input is as before, the result is gone."""
    first, second = shop.sum("first", "a"), shop.sum("second", "first")
    shop.scheduler.pull(first)
    shop.put(a=1)
    shop.scheduler.pull(second)
    if not is_called:
        shop.show("show", "second")
    shop.run()
    fail(shop)
    assert (shop.see("first"), shop.see("second")) == (1, NOTHING)
    called = []
    if is_called:
        # The verdict is yet to come, and a caller does not wait.
        shop.scheduler.pull(second)
        called = shop.taken()
        assert (called, shop.see("second")) == (["second"], 1)
    ran = [*called, *shop.run()]
    for _ in range(3):
        shop.decide()
        ran += shop.run()
    assert [name for name in ran if name != "show"] == ["second"]
    assert (shop.see("second"), shop.replica.pending_count) == (1, 0)


def use_up(shop: Workshop) -> None:
    """The store fails until the function is not tried again at once."""
    for _ in range(FAILURES_MAX):
        fail(shop)
        assert shop.run() == ["copy"]
    fail(shop)
    assert shop.run() == []


def test_store_that_has_no_room_is_tried_ever_less_often(shop: Workshop) -> None:
    shop.effect("copy", lambda tx: write(tx, "out", number(tx, "a")))
    shop.run()
    use_up(shop)
    waits = []
    for _ in range(6):
        wake_at = shop.scheduler.outstanding().wake_at
        assert wake_at is not None
        waits.append(wake_at - shop.time)
        shop.time = wake_at
        assert shop.run() == ["copy"]
        fail(shop)
        assert shop.run() == []
    assert waits == [250, 500, 1000, 2000, 2000, 2000]
    (error,) = shop.errors
    assert "the result of copy() could not be stored: HW203: the disk is full. It is tried again" in str(error)
    shop.time += 2000
    assert shop.run() == ["copy"]
    shop.decide()
    assert (shop.see("out"), shop.scheduler.outstanding().wake_at) == (0, None)
    shop.put(a=1)
    assert shop.run() == ["copy"], "nothing delays it any more"


def test_time_of_the_next_try_is_known_without_a_write(shop: Workshop) -> None:
    """A verdict comes between two passes: the program that waits is woken, and computes the time."""
    shop.effect("copy", lambda tx: write(tx, "out", number(tx, "a")))
    shop.run()
    for _ in range(FAILURES_MAX):
        fail(shop)
        shop.run()
    shop.ticks.clear()
    fail(shop)
    assert shop.ticks[-1:] == [True]


def test_error_that_every_try_would_give_ends_the_tries(shop: Workshop) -> None:
    shop.effect("copy", lambda tx: write(tx, "out", number(tx, "a")))
    shop.run()
    fail(shop, AccessError("it may not be written"))
    assert (shop.run(), shop.scheduler.outstanding().wake_at) == ([], None)
    (error,) = shop.errors
    assert "It runs again when what it read changes" in str(error)
    shop.put(a=1)
    assert shop.run() == ["copy"]


def test_functions_that_write_what_the_other_reads_wait_when_every_result_is_refused(shop: Workshop) -> None:
    """Each rollback makes the other one run: after a failure of the disk they would run without an end."""

    def follow(source: str, target: str) -> None:
        def run(tx: Transaction) -> None:
            if number(tx, source) < 6 and number(tx, target) != number(tx, source) + 1:
                write(tx, target, number(tx, source) + 1)

        shop.effect(target, run)

    follow("a", "b")
    follow("b", "a")
    runs = []
    for _ in range(FAILURES_MAX + 2):
        runs.append(len(shop.run()))
        while shop.desk.waiting:
            fail(shop, AccessError("it may not be written"))
    assert (runs[0] > 2, runs[-1]) == (True, 0)
    wake_at = shop.scheduler.outstanding().wake_at
    assert wake_at is not None
    assert wake_at > shop.time
    shop.time = wake_at
    assert shop.run() != []
    shop.decide()
    assert (shop.see("a"), shop.see("b")) == (6, 5)
    shop.put(b=0)
    assert shop.run() != [], "nothing delays them any more"


def test_resumed_run_does_not_repeat_a_function_that_waits_for_room_and_plain_code_does(shop: Workshop) -> None:
    """An async function goes on between two passes. Its calls would be refused, and it would be run again at once."""
    shop.put(a=1)
    node = shop.sum("total", "a")
    shop.effect("show", lambda tx: number(tx, "total"))
    shop.run()
    shop.decide()
    shop.put(a=2)
    shop.decide()
    shop.run()
    while shop.desk.waiting:
        fail(shop)
        shop.run()
    runs = node.runs
    shop.scheduler.pull(node, in_run=True)
    assert (node.runs, shop.see("total")) == (runs, 1)
    shop.scheduler.pull(node)
    assert (node.runs, shop.see("total")) == (runs + 1, 2)


def test_observer_of_a_result_that_had_no_room_gets_that_error_until_there_is_room(shop: Workshop) -> None:
    put(shop.replica, "a", 1)
    shop.decide()
    node = shop.sum("total", "a")
    seen: list[object] = []

    def show(tx: Transaction) -> None:
        try:
            shop.scheduler.pull(node)
        except StoreFullError as error:
            tx.read(doc_key("total"), (), Depth.DEEP)
            seen.append(error.message)
        else:
            seen.append(tx.read(doc_key("total"), (), Depth.DEEP))

    shop.effect("show", show)
    shop.run()
    for _ in range(FAILURES_MAX + 1):
        fail(shop)
        shop.run()
    shop.time += 2000
    shop.run()
    shop.decide()
    assert seen[-2:] == ["the result of total() could not be stored: the disk is full. It is tried again", 1]


def test_caller_outside_of_a_pass_gets_the_result_of_now_although_it_had_no_room(shop: Workshop) -> None:
    put(shop.replica, "a", 1)
    shop.decide()
    node = shop.sum("total", "a")
    for _ in range(FAILURES_MAX + 3):
        shop.scheduler.pull(node)
        assert shop.see("total") == 1
        fail(shop)
    shop.put(a=2)
    shop.scheduler.pull(node)
    assert shop.see("total") == 2


def test_store_that_works_again_forgives(shop: Workshop) -> None:
    shop.effect("copy", lambda tx: write(tx, "out", number(tx, "a")))
    shop.run()
    for round_ in range(3):
        for _ in range(FAILURES_MAX):
            shop.desk.fail(StoreError("the disk is full"))
            shop.desk.tell()
            assert shop.run() == ["copy"]
        shop.decide()
        shop.put(a=round_ + 1)
        shop.desk.settle()
        shop.run()
    assert shop.errors == []


def test_result_that_the_server_has_accepted_and_forgotten_is_computed_again(shop: Workshop) -> None:
    """Sent again, its commit must follow from itself. It was elided, so the log does not say that it was accepted."""
    shop.effect("copy", lambda tx: write(tx, "out", number(tx, "a")))
    shop.run()
    (sent,) = shop.desk.waiting
    itself = OriginCommitted(sent.commit.local_seq)
    shop.desk.waiting = [Submission(msgspec.structs.replace(sent.commit, preconditions=(itself,)))]
    (outcome,) = shop.desk.decide()
    assert isinstance(outcome.verdict, Refused)
    shop.desk.tell()
    assert shop.run() == ["copy"]
    shop.decide()
    assert (shop.see("out"), shop.errors) == (0, [])


def test_tries_are_given_back_when_an_error_has_ended_them(shop: Workshop) -> None:
    """The next run, for another reason, may fail as often as the first."""
    shop.effect("copy", lambda tx: write(tx, "out", number(tx, "a")))
    shop.run()
    for _ in range(FAILURES_MAX):
        fail(shop)
        shop.run()
    fail(shop, AccessError("it may not be written"))
    assert len(shop.errors) == 1
    shop.put(a=1)
    shop.desk.settle()
    shop.run()
    for _ in range(FAILURES_MAX):
        fail(shop)
        assert shop.run() == ["copy"], "it is tried again"
    shop.decide()
    assert (shop.see("out"), len(shop.errors)) == (1, 1)


# --- change groups ----------------------------------------------------------------------------------------


def test_what_is_written_in_a_change_group_does_not_wake_its_members(shop: Workshop) -> None:
    shop.show("editor", "a", change_group="editor")
    shop.show("show", "a")
    shop.run()
    tx = Transaction(shop.replica)
    tx.change_group = "editor"
    write(tx, "a", 1)
    tx.commit()
    assert shop.run() == ["show"]
    tx = Transaction(shop.replica)
    tx.change_group = "other"
    write(tx, "a", 2)
    tx.commit()
    assert shop.run() == ["editor", "show"]


def test_what_a_member_of_a_change_group_writes_does_not_wake_the_others(shop: Workshop) -> None:
    shop.effect("one", lambda tx: write(tx, "a", number(tx, "go")), change_group="editor")
    shop.show("two", "a", change_group="editor")
    shop.show("three", "a")
    shop.run()
    shop.put(go=1)
    assert shop.run() == ["one", "three"]
