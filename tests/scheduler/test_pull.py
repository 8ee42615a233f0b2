"""Callers: what is made valid for them, and what they are told."""

from __future__ import annotations

import pytest

from headwater.cells.transaction import Transaction
from headwater.core import RetryImmediately, SetDoc, doc_key
from headwater.errors import UserCodeError
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler_limits import RUNS_MAX
from tests.scheduler.workshop import Workshop, number, write


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


# --- pull -------------------------------------------------------------------------------------------------


def test_pull_runs_what_is_invalid_above_from_the_top_and_nothing_else(shop: Workshop) -> None:
    shop.sum("one", "a")
    shop.sum("beside", "b")
    two = shop.sum("two", "one", "beside", declared_reads=(doc_key("one"), doc_key("beside")))
    shop.scheduler.pull(two)
    assert shop.taken() == ["one", "beside", "two"]
    shop.put(a=1)
    shop.scheduler.pull(two)
    assert shop.taken() == ["one", "two"]
    shop.scheduler.pull(two)
    assert shop.taken() == []


def test_pull_stops_where_a_result_is_as_it_was(shop: Workshop) -> None:
    shop.computation("parity", lambda tx: number(tx, "a") % 2)
    top = shop.sum("top", "parity", declared_reads=(doc_key("parity"),))
    shop.scheduler.pull(top)
    shop.put(a=2)
    shop.taken()
    shop.scheduler.pull(top)
    assert shop.taken() == ["parity"]


def test_pull_leaves_no_demand_behind(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    shop.scheduler.pull(node)
    assert not node.is_live
    shop.put(a=1)
    assert shop.run() == ["sum"], "for the caller, before; not for the change"


def test_pull_of_one_that_failed_raises_each_time_and_runs_it_once(shop: Workshop) -> None:
    node = shop.computation("bad", lambda tx: 1 // number(tx, "a"), has_callers=True)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            shop.scheduler.pull(node)
    assert (shop.taken(), shop.errors) == (["bad"], [])
    shop.put(a=1)
    shop.scheduler.pull(node)
    assert shop.see("bad") == 1


def test_pull_of_one_whose_reads_change_while_it_runs_runs_it_until_they_do_not(shop: Workshop) -> None:
    def read(tx: Transaction) -> int:
        found = int(number(tx, "a"))
        if found < 3:
            shop.replica.commit((SetDoc(doc_key("a"), found + 1),))
        return found

    node = shop.computation("late", read)
    shop.scheduler.pull(node)
    assert (shop.see("late"), shop.taken()) == (3, ["late"] * 4)


def test_pull_of_one_whose_reads_always_change_is_given_up(shop: Workshop) -> None:
    def read(tx: Transaction) -> int:
        found = int(number(tx, "a"))
        shop.replica.commit((SetDoc(doc_key("a"), found + 1),))
        return found

    node = shop.computation("never", read)
    with pytest.raises(UserCodeError, match=r"never\(\) does not settle"):
        shop.scheduler.pull(node)
    assert len(shop.taken()) == RUNS_MAX


def test_pull_of_one_that_asks_to_be_run_again(shop: Workshop) -> None:
    tries = [1, 1]

    def read(tx: Transaction) -> int:
        if tries:
            tries.pop()
            raise RetryImmediately
        return int(number(tx, "a"))

    node = shop.computation("again", read)
    shop.scheduler.pull(node)
    assert (node.runs, shop.taken()) == (1, ["again"] * 3)


def test_pull_of_a_ring_that_settles(shop: Workshop) -> None:
    shop.computation("x", lambda tx: max(number(tx, "y"), number(tx, "a")))
    y = shop.sum("y", "x")
    shop.put(a=4)
    shop.scheduler.pull(y)
    shop.scheduler.pull(y)
    assert shop.see("y") == 4


def test_pull_in_a_run_of_what_that_run_is_made_of_is_told(shop: Workshop) -> None:
    nodes: dict[str, Node] = {}

    def call(other: str) -> object:
        def run(tx: Transaction) -> int:
            shop.scheduler.pull(nodes[other])
            return int(number(tx, other))

        return run

    for name, other in (("x", "y"), ("y", "x")):
        nodes[name] = shop.computation(name, call(other), has_callers=True)  # type: ignore[arg-type]
    with pytest.raises(UserCodeError, match="a value cannot be made of itself"):
        shop.scheduler.pull(nodes["x"])
    assert shop.scheduler.runner.stack == []


def test_interrupt_in_a_pulled_run_leaves_it_as_if_it_had_not_been_started(shop: Workshop) -> None:
    def read(tx: Transaction) -> int:
        if number(tx, "a") == 0:
            raise KeyboardInterrupt
        return 1

    node = shop.computation("sum", read)
    with pytest.raises(KeyboardInterrupt):
        shop.scheduler.pull(node)
    assert (node.runs, node.is_clean, shop.scheduler.runner.stack) == (0, False, [])
    shop.put(a=1)
    shop.scheduler.pull(node)
    assert shop.see("sum") == 1


# --- pull_once --------------------------------------------------------------------------------------------


def test_pull_once_gives_what_is_current_and_is_gone(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    shop.put(a=3)
    assert shop.scheduler.pull_once(lambda tx: number(tx, "sum")) == 3
    assert (shop.taken(), node.is_live, shop.scheduler.get_stats().effects) == (["sum"], False, 0)
    shop.put(a=4)
    assert shop.run() == []


def test_pull_once_raises_what_it_raised_to_its_caller_and_to_nobody_else(shop: Workshop) -> None:
    with pytest.raises(ZeroDivisionError):
        shop.scheduler.pull_once(lambda tx: 1 // number(tx, "a"))
    assert (shop.errors, shop.scheduler.get_stats().effects) == ([], 0)


def test_pull_once_that_fails_until_what_it_reads_is_there_does_not_fail(shop: Workshop) -> None:
    shop.computation("sum", lambda _: 4)
    assert shop.scheduler.pull_once(lambda tx: 8 // number(tx, "sum")) == 2


def test_pull_once_runs_the_others_that_are_due_as_well(shop: Workshop) -> None:
    shop.show("show", "a")
    assert shop.scheduler.pull_once(lambda tx: number(tx, "a")) == 0
    assert shop.taken() == ["show"]


def test_pull_once_inside_a_run_is_refused_in_words(shop: Workshop) -> None:
    def run(tx: Transaction) -> None:
        number(tx, "a")
        shop.scheduler.pull_once(lambda tx: number(tx, "b"))

    shop.effect("show", run)
    shop.run()
    (error,) = shop.errors
    assert "pull_once() cannot be used inside a run" in str(error)


def test_pull_once_that_writes_does_so_once(shop: Workshop) -> None:
    shop.scheduler.pull_once(lambda tx: write(tx, "out", number(tx, "out") + 1))
    assert shop.see("out") == 1
