"""Who runs first: writers before readers, then as registered; each once for a change, however the graph looks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cells.transaction import Transaction
from headwater.core import RetryImmediately, doc_key
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler_limits import RUNS_MAX
from tests.scheduler.workshop import Workshop, number, write


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


# --- in a pass --------------------------------------------------------------------------------------------


def test_deep_chain_that_was_never_run_settles_in_one_ordered_pass_if_its_reads_are_declared(shop: Workshop) -> None:
    for index in reversed(range(10)):
        shop.sum(f"n{index + 1}", f"n{index}", declared_reads=(doc_key(f"n{index}"),))
    shop.show("show", "n10", declared_reads=(doc_key("n10"),))
    shop.put(n0=7)
    shop.scheduler.settle()
    assert shop.taken() == [f"n{index}" for index in range(1, 11)] + ["show"]


def test_reads_that_were_not_declared_cost_one_more_run(shop: Workshop) -> None:
    shop.show("show", "top")
    shop.sum("top", "a")
    shop.put(a=1)
    shop.scheduler.settle()
    assert shop.taken() == ["show", "top", "show"]


def test_declared_read_that_the_first_run_does_not_make_is_forgotten(shop: Workshop) -> None:
    other = shop.sum("other", "a")
    shop.show("show", "b", declared_reads=(doc_key("other"),))
    assert shop.run() == ["other", "show"]
    assert not other.is_live
    shop.put(a=1)
    assert shop.run() == []


def test_declared_read_wakes_nobody(shop: Workshop) -> None:
    node = shop.sum("sum", "b", declared_reads=(doc_key("a"),))
    shop.put(a=1)
    shop.run()
    assert node.invalid_causes == {}


def test_diamond_runs_each_node_once(shop: Workshop) -> None:
    shop.sum("left", "a")
    shop.sum("right", "a")
    shop.sum("both", "left", "right")
    shop.show("show", "both", "left")
    shop.put(a=1)
    shop.run()
    shop.put(a=2)
    assert shop.run() == ["left", "right", "both", "show"]


def test_clean_effect_below_a_computation_that_comes_out_the_same_is_not_run(shop: Workshop) -> None:
    shop.computation("parity", lambda tx: number(tx, "a") % 2)
    shop.show("show", "parity")
    shop.run()
    shop.put(a=2)
    assert shop.run() == ["parity"]


def test_several_changes_before_a_pass_are_one_run(shop: Workshop) -> None:
    shop.show("show", "a", "b")
    shop.run()
    shop.put(a=1, b=2)
    shop.put(a=3)
    assert shop.run() == ["show"]


def test_change_that_is_taken_back_before_the_pass_runs_once_all_the_same(shop: Workshop) -> None:
    """It was told of a change; whether it came to anything, only a run could say."""
    shop.show("show", "a")
    shop.run()
    shop.put(a=1)
    shop.put(a=0)
    assert shop.run() == ["show"]


def test_nodes_of_one_rank_run_as_they_were_registered(shop: Workshop) -> None:
    for name in ("d", "b", "c"):
        shop.sum(name, "a")
    shop.show("show", "b", "c", "d")
    shop.run()
    shop.put(a=1)
    assert shop.run() == ["d", "b", "c", "show"]


def test_effects_run_after_computations_and_as_they_were_registered(shop: Workshop) -> None:
    shop.show("first", "a", "late")
    shop.show("second", "a")
    shop.sum("early", "a")
    shop.sum("late", "early")
    shop.run()
    shop.put(a=1)
    assert shop.run() == ["early", "late", "first", "second"]


def test_rank_that_rises_in_the_middle_of_a_pass_is_obeyed(shop: Workshop) -> None:
    """`top` reads `low`; when it turns to `far`, which has waited behind it, it comes after that."""
    shop.computation("top", lambda tx: number(tx, "far" if number(tx, "which") else "low"))
    shop.sum("low", "a")
    shop.sum("mid", "a")
    shop.sum("far", "mid")
    shop.show("show", "top", "far")
    shop.run()
    shop.put(which=1, a=1)
    shop.run()
    assert shop.see("top") == 1
    shop.put(a=2)
    assert shop.run() == ["mid", "far", "top", "show"]


def test_parent_goes_before_its_child_in_a_ring(shop: Workshop) -> None:
    """The parent reads what the child makes, and the child what the parent writes."""
    children: list[Node] = []

    def parent(tx: Transaction) -> int:
        if not children:
            children.append(shop.computation("child", lambda tx: min(number(tx, "parent"), 5)))
        number(tx, "child")
        return int(number(tx, "a"))

    shop.computation("parent", parent)
    shop.show("show", "parent", "child")
    shop.put(a=1)
    shop.run()
    shop.put(a=2)
    assert shop.run()[:2] == ["parent", "child"]


def test_ring_goes_after_all_that_its_members_read_when_several_of_them_have_to_rise(shop: Workshop) -> None:
    """What `turn` reads when it is told to raises one of the two by one rank, and the other, by `between`, by two."""
    shop.computation("turn", lambda tx: number(tx, "deep" if number(tx, "which") else "a"))
    shop.computation("one", lambda tx: max(number(tx, "turn"), number(tx, "two")))
    shop.computation("two", lambda tx: max(number(tx, "between"), number(tx, "one")))
    shop.sum("between", "turn")
    shop.sum("base", "a")
    shop.sum("deep", "base")
    shop.show("show", "two", "deep")
    shop.put(a=1)
    shop.run()
    shop.put(which=1)
    shop.run()
    shop.put(a=2)
    assert shop.run()[:5] == ["base", "deep", "turn", "between", "one"]


def test_ring_keeps_a_member_of_which_another_reads_two_documents_when_it_grows(shop: Workshop) -> None:
    """With `a` the last two are a cycle; with `b`, which the second writes as well, the first is part of it."""
    a, b, c = map(doc_key, "abc")
    first = shop.computation("first", print, outputs=(b,), declared_reads=(c,))
    second = shop.computation("second", print, outputs=(a, b), declared_reads=(c,))
    last = shop.computation("last", print, outputs=(c,), declared_reads=(a, b))
    assert last.rare.cycle is not None
    assert set(last.rare.cycle) == {first, second, last}
    assert first.rare.cycle is second.rare.cycle is last.rare.cycle


# --- bounds -----------------------------------------------------------------------------------------------


def test_node_that_asks_to_be_run_again_is_in_the_same_pass_and_counts_as_one_run(shop: Workshop) -> None:
    tries: list[int] = []

    def run(tx: Transaction) -> None:
        number(tx, "a")
        write(tx, "out", len(tries))
        tries.append(1)
        if len(tries) < 4:
            raise RetryImmediately

    node = shop.effect("show", run)
    shop.scheduler.settle()
    assert (len(tries), node.runs, shop.see("out")) == (4, 1, 3)


def test_node_that_always_asks_to_be_run_again_is_bounded(shop: Workshop) -> None:
    def run(_: Transaction) -> None:
        raise RetryImmediately

    shop.effect("show", run)
    assert len(shop.run()) == RUNS_MAX
    assert [error.facts["nodes"] for error in shop.errors] == [("show",)]


def test_pass_is_bounded_for_each_node_and_ends(shop: Workshop) -> None:
    """Everybody wakes everybody else."""
    for index in range(5):

        def run(tx: Transaction, index: int = index) -> None:
            total = sum(number(tx, f"out{other}") for other in range(5) if other != index)
            write(tx, f"out{index}", total + 1)

        shop.effect(f"n{index}", run)
    shop.scheduler.settle()
    counts = [shop.taken().count(f"n{index}") for index in range(5)]
    assert max(counts) <= RUNS_MAX


def test_settling_inside_a_run_does_nothing(shop: Workshop) -> None:
    shop.effect("outer", lambda tx: (number(tx, "a"), shop.scheduler.settle(), shop.scheduler.idle()))
    shop.show("other", "a")
    assert shop.run() == ["outer", "other"]
    shop.put(a=1)
    assert shop.run() == ["outer", "other"]


# --- any graph --------------------------------------------------------------------------------------------


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """For each node, the nodes before it that it reads."""
    return [draw(st.lists(st.integers(0, index - 1), max_size=3, unique=True)) if index else [] for index in range(12)]


@given(graphs(), st.permutations(range(12)))
def test_each_node_runs_once_and_after_all_it_reads_however_they_were_registered(
    reads: list[list[int]], order: list[int]
) -> None:
    shop = Workshop()
    for index in order:
        sources = [f"n{other}" for other in reads[index]] + [f"c{index}", "all"]
        shop.sum(f"n{index}", *sources, declared_reads=tuple(doc_key(source) for source in sources))
    everybody = [f"n{index}" for index in range(12)]
    shop.show("show", *everybody, declared_reads=tuple(doc_key(name) for name in everybody))
    changes: list[dict[str, int]] = [{}, {"all": 1}, {"c3": 5}]
    for change in changes:
        shop.put(**change)
        ran = shop.run()
        assert len(ran) == len(set(ran))
        for index in range(12):
            for other in reads[index]:
                if f"n{index}" in ran and f"n{other}" in ran:
                    assert ran.index(f"n{other}") < ran.index(f"n{index}")
