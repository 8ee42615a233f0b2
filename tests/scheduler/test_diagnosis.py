"""Is a computation the same again for the same inputs? And what is wrong with a graph, in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.cells.transaction import Transaction
from headwater.core import ABSENT, RetryImmediately, doc_key, freeze
from tests.scheduler.workshop import Workshop, number, write


@pytest.fixture
def shop() -> Workshop:
    shop = Workshop()
    shop.scheduler.set_idempotency_check(True)
    return shop


def found(shop: Workshop) -> list[tuple[str, str, object, object]]:
    return [(each.node, each.place, each.first, each.second) for each in shop.scheduler.get_idempotency_violations()]


def counter() -> Callable[[], int]:
    count = [0]

    def step() -> int:
        count[0] += 1
        return count[0]

    return step


# --- idempotency ------------------------------------------------------------------------------------------


def test_computation_that_comes_out_the_same_is_not_named(shop: Workshop) -> None:
    shop.sum("sum", "a")
    shop.show("show", "sum")
    shop.put(a=1)
    shop.run()
    shop.put(a=2)
    shop.run()
    assert found(shop) == []


def test_result_that_differs_is_named(shop: Workshop) -> None:
    step = counter()
    shop.computation("sum", lambda tx: number(tx, "a") + step(), eager=True)
    shop.run()
    assert found(shop) == [("sum", "sum", 1, 2)]
    (violation,) = shop.scheduler.get_idempotency_violations()
    line = violation.line
    assert line.startswith("workshop.py:")
    told = str(violation).splitlines()
    assert told[:2] == [
        f"sum() {line} is not idempotent: run again on the same inputs, it came out differently",
        "  sum: first 1, then 2",
    ]
    assert told[2].startswith("fix: a computed may depend on cells and nothing else. Time: read hw.clock(every=...).")


def test_second_run_writes_nothing(shop: Workshop) -> None:
    step = counter()
    shop.computation("sum", lambda _: step(), eager=True)
    shop.run()
    assert (shop.see("sum"), shop.replica.commit_count) == (1, 1)


def test_side_document_that_differs_is_named(shop: Workshop) -> None:
    step = counter()

    def run(tx: Transaction) -> int:
        write(tx, "side", step())
        return int(number(tx, "a"))

    shop.computation("both", run, outputs=(doc_key("both"), doc_key("side")), eager=True)
    shop.run()
    assert found(shop) == [("both", "side", 1, 2)]


def test_side_document_that_grows_with_each_run_is_named(shop: Workshop) -> None:
    def run(tx: Transaction) -> int:
        log = tx.read(doc_key("log"))
        assert isinstance(log, list | tuple)
        tx.set(doc_key("log"), (), freeze([*log, number(tx, "a")]))
        return 0

    shop.put(log=[])
    shop.computation("both", run, outputs=(doc_key("both"), doc_key("log")), eager=True)
    shop.run()
    ((node, place, _, _),) = found(shop)
    assert (node, place, shop.see("log")) == ("both", "log", [0])


def test_side_document_that_is_the_same_again_is_not_named(shop: Workshop) -> None:
    def run(tx: Transaction) -> int:
        write(tx, "side", number(tx, "a") * 2)
        return int(number(tx, "a"))

    shop.computation("both", run, outputs=(doc_key("both"), doc_key("side")), eager=True)
    shop.put(a=4)
    shop.run()
    assert found(shop) == []


def test_write_of_a_materializer_that_differs_is_named(shop: Workshop) -> None:
    step = counter()
    shop.put(big={})
    shop.computation(
        "fill", lambda tx: tx.set(doc_key("big"), (f"k{step()}",), 1), side_write_envelope=((doc_key("big"), ()),)
    )
    shop.run()
    assert found(shop) == [("fill", "big/k1", 1, ABSENT), ("fill", "big/k2", ABSENT, 1)]


def test_write_that_comes_only_sometimes_is_named(shop: Workshop) -> None:
    """What the second run leaves out is there, from the first: only the writes themselves tell."""
    step = counter()

    def run(tx: Transaction) -> int:
        if step() == 1:
            write(tx, "side", 5)
        return 0

    shop.computation("both", run, outputs=(doc_key("both"), doc_key("side")), eager=True)
    shop.run()
    assert found(shop) == [("both", "side", 5, ABSENT)]


def test_what_is_made_only_if_it_is_not_there_is_not_named(shop: Workshop) -> None:
    """On what the first run has seen it is made again; on top of that, it is there."""

    def run(tx: Transaction) -> int:
        if tx.read(doc_key("side")) is ABSENT:
            write(tx, "side", 5)
        return 0

    shop.computation("both", run, outputs=(doc_key("both"), doc_key("side")), eager=True)
    shop.run()
    assert (found(shop), shop.see("side")) == ([], 5)


def test_second_run_sees_what_the_first_has_seen_and_the_third_what_it_wrote(shop: Workshop) -> None:
    seen: list[object] = []

    def run(tx: Transaction) -> int:
        seen.append(tx.read(doc_key("side")))
        write(tx, "side", 5)
        return 0

    shop.computation("both", run, outputs=(doc_key("both"), doc_key("side")), eager=True)
    shop.run()
    assert (seen, found(shop)) == ([ABSENT, ABSENT, 5], [])


def test_run_whose_inputs_move_in_the_middle_of_the_check_is_not_compared(shop: Workshop) -> None:
    step = counter()

    def run(tx: Transaction) -> int:
        value = int(number(tx, "a"))
        if step() == 2:
            shop.put(a=10)
            return value + 1
        return value

    shop.put(a=1)
    shop.computation("sum", run, eager=True)
    shop.run()
    assert (found(shop), shop.see("sum")) == ([], 10)


def test_check_changes_no_count(shop: Workshop) -> None:
    """Runs, commits, and the order they come in are as without it."""
    plain = Workshop()
    for each in (plain, shop):
        each.sum("sum", "a")
        each.computation("top", lambda tx: number(tx, "sum") + 1, eager=True)
        each.show("show", "top")
        each.run()
        each.put(a=2)
        each.run()
    mine, others = shop.scheduler.get_stats(), plain.scheduler.get_stats()
    assert (mine, shop.replica.commit_count) == (others, plain.replica.commit_count)
    assert (shop.scheduler.runner.stack, found(shop)) == ([], [])


def test_error_that_comes_only_once_is_named(shop: Workshop) -> None:
    step = counter()
    shop.computation("bad", lambda _: 1 // (step() - 1), eager=True, has_callers=True)
    shop.run()
    ((node, place, first, second),) = found(shop)
    assert (node, place, type(first), second) == ("bad", "what it raised", ZeroDivisionError, None)


def test_error_that_comes_again_is_not_named(shop: Workshop) -> None:
    shop.computation("bad", lambda tx: 1 // number(tx, "a"), eager=True, has_callers=True)
    shop.run()
    assert found(shop) == []


def test_effects_are_not_run_twice(shop: Workshop) -> None:
    shop.show("show", "a")
    assert shop.run() == ["show"]


def test_computation_that_calls_others_is_compared_too(shop: Workshop) -> None:
    inner = shop.sum("inner", "a")

    def call(tx: Transaction) -> int:
        shop.scheduler.pull(inner)
        return int(number(tx, "inner"))

    shop.computation("outer", call, eager=True)
    shop.put(a=3)
    shop.run()
    assert (found(shop), shop.see("outer")) == ([], 3)


def test_interrupt_in_the_second_run_leaves_the_first_as_it_is(shop: Workshop) -> None:
    step = counter()

    def run(tx: Transaction) -> int:
        if step() == 2:
            raise RetryImmediately
        return int(number(tx, "a"))

    shop.put(a=1)
    shop.computation("sum", run, eager=True)
    shop.run()
    assert (shop.see("sum"), shop.scheduler.runner.stack) == (1, [])
    shop.put(a=2)
    shop.run()
    assert shop.see("sum") == 2


def test_check_can_be_ended(shop: Workshop) -> None:
    step = counter()
    shop.computation("sum", lambda tx: number(tx, "a") + step(), eager=True)
    shop.run()
    shop.scheduler.set_idempotency_check(False)
    shop.put(a=1)
    shop.run()
    assert len(found(shop)) == 1


# --- what is wrong ----------------------------------------------------------------------------------------


def test_nothing_is_wrong_with_a_graph_that_settles() -> None:
    shop = Workshop()
    shop.sum("sum", "a")
    shop.show("show", "sum")
    shop.run()
    assert shop.scheduler.run_diagnosis() == []


def test_diagnosis_names_who_does_not_settle_and_by_what_it_is_woken() -> None:
    shop = Workshop()
    shop.effect("ping", lambda tx: write(tx, "ping", number(tx, "pong") + 1))
    shop.effect("pong", lambda tx: write(tx, "pong", number(tx, "ping")))
    shop.run()
    assert shop.scheduler.run_diagnosis() == [
        "ping() does not settle: it ran 10 times in one pass and rests for 250ms; it was woken by pong"
    ]


def test_diagnosis_names_rings_once_each() -> None:
    shop = Workshop()
    shop.computation("x", lambda tx: max(number(tx, "y"), number(tx, "a")))
    shop.sum("y", "x")
    shop.show("show", "y")
    shop.run()
    assert shop.scheduler.run_diagnosis() == ["x() and y() read each other in a cycle"]


def test_diagnosis_names_who_fails() -> None:
    shop = Workshop()
    shop.effect("bad", lambda tx: 1 // number(tx, "a"))
    shop.run()
    words = "bad() fails: ZeroDivisionError: integer division or modulo by zero"
    assert shop.scheduler.run_diagnosis() == [words]
