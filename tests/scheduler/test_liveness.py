"""Who is looked at: demand flows from effects upwards, and who is not reached by it never runs."""

from __future__ import annotations

import pytest

from headwater.cells.transaction import Transaction
from headwater.core import RetryImmediately, doc_key
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler_limits import BACKOFF_MS
from tests.scheduler.workshop import Workshop, number, write
from tests.support.naive import NOTHING


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


# --- dormant ----------------------------------------------------------------------------------------------


def test_computation_that_nobody_reads_never_runs(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    shop.put(a=1)
    assert shop.run() == []
    shop.put(a=2)
    assert shop.run() == []
    assert not node.is_live
    assert shop.see("sum") is NOTHING


def test_registering_and_removing_dormant_nodes_reads_no_document_and_runs_nothing(shop: Workshop) -> None:
    nodes = [shop.sum(f"n{index}", "a", declared_reads=(doc_key(f"n{index - 1}"),)) for index in range(100)]
    for node in nodes:
        shop.scheduler.remove(node)
    assert shop.run() == []
    stats = shop.scheduler.get_stats()
    assert (stats.computations, stats.reads, stats.live_writes, shop.replica.document_count) == (0, 0, 0, 0)


def test_invalid_dormant_node_holds_nobody_up_and_remembers_why(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    shop.scheduler.pull(node)
    shop.put(a=1)
    shop.run()
    assert shop.scheduler.is_invalid(node)
    assert shop.scheduler.outstanding().is_idle
    assert list(node.invalid_causes) == [(doc_key("a"), ())]


def test_demand_reaches_everything_above_an_effect_and_nothing_beside_it(shop: Workshop) -> None:
    nodes = [shop.sum("one", "a"), shop.sum("two", "one"), shop.sum("beside", "one")]
    shop.show("show", "two")
    shop.run()
    assert [node.is_live for node in nodes] == [True, True, False]


def test_demand_ends_with_the_last_reader(shop: Workshop) -> None:
    one, two = shop.sum("one", "a"), shop.sum("two", "one")
    first, second = shop.show("first", "two"), shop.show("second", "one")
    shop.run()
    shop.scheduler.remove(first)
    assert (one.is_live, two.is_live) == (True, False)
    shop.scheduler.remove(second)
    assert (one.is_live, two.is_live) == (False, False)
    shop.put(a=1)
    assert shop.run() == []


def test_demand_ends_when_a_run_reads_something_else(shop: Workshop) -> None:
    left, right = shop.sum("left", "a"), shop.sum("right", "a")
    shop.effect("show", lambda tx: number(tx, "right" if number(tx, "which") else "left"))
    shop.run()
    assert (left.is_live, right.is_live) == (True, False)
    shop.put(which=1)
    assert shop.run() == ["show", "right", "show"]
    assert (left.is_live, right.is_live) == (False, True)
    shop.put(a=5)
    assert shop.run() == ["right", "show"]
    shop.put(which=0)
    assert shop.run() == ["show", "left", "show"], "it was out of sight, and is current when it is seen again"


def test_node_read_through_two_documents_is_live_until_neither_is_read(shop: Workshop) -> None:
    def both(tx: Transaction) -> int:
        write(tx, "side", number(tx, "a"))
        return int(number(tx, "a"))

    node = shop.computation("both", both, outputs=(doc_key("both"), doc_key("side")))
    one, other = shop.show("one", "both"), shop.show("other", "side")
    shop.run()
    shop.scheduler.remove(one)
    assert node.is_live
    shop.scheduler.remove(other)
    assert not node.is_live


def test_two_writers_of_one_document_are_both_wanted_by_its_reader(shop: Workshop) -> None:
    """As in the moment when one replaces the other."""
    first, second = shop.sum("sum", "a"), shop.sum("sum", "a")
    show = shop.show("show", "sum")
    shop.run()
    assert (first.is_live, second.is_live) == (True, True)
    shop.scheduler.remove(first)
    assert second.is_live
    shop.put(a=1)
    assert shop.run() == ["sum", "show"]
    shop.scheduler.remove(show)
    assert (first.live_refs, second.live_refs) == (0, 0)


# --- eager ------------------------------------------------------------------------------------------------


def test_eager_computation_runs_although_nobody_reads_it(shop: Workshop) -> None:
    node = shop.sum("sum", "a", eager=True)
    assert shop.run() == ["sum"]
    shop.put(a=1)
    assert shop.run() == ["sum"]
    assert shop.scheduler.get_graph_snapshot().nodes[0].why_live == "eager"
    shop.scheduler.remove(node)
    shop.put(a=2)
    assert shop.run() == []


def test_eager_computation_makes_what_it_reads_wanted(shop: Workshop) -> None:
    source = shop.sum("source", "a")
    node = shop.sum("sum", "source", eager=True, declared_reads=(doc_key("source"),))
    assert shop.run() == ["source", "sum"]
    shop.scheduler.remove(node)
    assert not source.is_live


def test_demand_eager_makes_every_computation_eager_and_the_order_is_the_same() -> None:
    shop = Workshop(demand="eager")
    shop.sum("two", "one", declared_reads=(doc_key("one"),))
    shop.sum("one", "a")
    assert shop.run() == ["one", "two"]
    shop.put(a=1)
    assert shop.run() == ["one", "two"]


# --- provisional demand -----------------------------------------------------------------------------------


def maker(shop: Workshop, made: list[Node], *children: str, **spec: object) -> Node:
    """An effect that makes computations in its first run."""

    def make(tx: Transaction) -> None:
        number(tx, "go")
        if not made:
            made.extend(shop.sum(name, "a", **spec) for name in children)

    return shop.effect("maker", make)


def test_computation_made_in_a_live_run_runs_once_in_the_same_pass_and_then_rests(shop: Workshop) -> None:
    made: list[Node] = []
    maker(shop, made, "child")
    shop.scheduler.settle()
    assert shop.taken() == ["maker", "child"]
    (child,) = made
    assert child.parent is not None
    assert (child.parent.name, child.provisional, child.is_live) == ("maker", False, False)
    shop.put(a=1)
    assert shop.run() == []


def test_computation_made_outside_of_any_run_has_no_provisional_demand(shop: Workshop) -> None:
    child = shop.sum("child", "a")
    assert (child.provisional, child.is_live, shop.run()) == (False, False, [])


def test_computation_made_by_one_that_nobody_looks_at_has_none_either(shop: Workshop) -> None:
    made: list[Node] = []

    def make(_: Transaction) -> int:
        made.append(shop.sum("child", "a"))
        return 1

    shop.scheduler.pull(shop.computation("maker", make))
    assert [node.provisional for node in made] == [False]
    assert shop.run() == ["maker"]


def test_provisional_demand_lasts_to_the_end_of_the_pass_so_that_a_later_node_may_read_it(shop: Workshop) -> None:
    """It has run before the reader is even made, and does not run again for it."""
    made: list[Node] = []
    maker(shop, made, "child")

    def later(tx: Transaction) -> None:
        if len(made) == 1:
            assert made[0].is_live
            made.append(shop.show("reader", "child"))
        number(tx, "b")

    shop.effect("later", later)
    shop.scheduler.settle()
    assert shop.taken() == ["maker", "child", "later", "reader"]
    assert (made[0].provisional, made[0].is_live) == (False, True)
    shop.put(a=1)
    assert shop.run() == ["child", "reader"]


def test_provisional_demand_lasts_until_the_first_run_if_a_gate_defers_that(shop: Workshop) -> None:
    """The run that makes it real is never lost."""
    made: list[Node] = []
    ready = False

    def wait(tx: Transaction) -> int:
        if not ready:
            raise RetryImmediately
        return int(number(tx, "a"))

    def make(_: Transaction) -> None:
        if not made:
            made.append(shop.computation("child", wait))

    shop.effect("maker", make)
    shop.scheduler.settle()
    (child,) = made
    assert (shop.taken()[:2], child.runs, child.provisional, child.is_live) == (["maker", "child"], 0, True, True)
    shop.put(b=1)
    assert shop.run() == []
    assert (child.provisional, shop.wake_in()) == (True, BACKOFF_MS)
    ready = True
    assert shop.after(BACKOFF_MS) == ["child"]
    assert (child.provisional, child.is_live) == (False, False)


def test_provisional_demand_of_a_node_that_fails_ends_with_its_first_run(shop: Workshop) -> None:
    made: list[Node] = []

    def make(_: Transaction) -> None:
        if not made:
            made.append(shop.computation("child", lambda tx: 1 // number(tx, "a")))

    shop.effect("maker", make)
    shop.run()
    assert (made[0].provisional, made[0].is_live) == (False, False)
    assert [error.facts["node"] for error in shop.errors] == ["child"]


def test_many_children_run_in_the_pass_that_makes_them_each_once(shop: Workshop) -> None:
    made: list[Node] = []
    maker(shop, made, *(f"child{index}" for index in range(50)))
    shop.scheduler.settle()
    assert sorted(shop.taken()) == sorted(["maker", *(f"child{index}" for index in range(50))])


def test_child_that_its_parent_reads_makes_it_run_again_in_the_same_pass(shop: Workshop) -> None:
    """No continuation: the child's commit is a change of what the parent has read."""
    made: list[Node] = []

    def parent(tx: Transaction) -> None:
        if not made:
            made.append(shop.sum("child", "a"))
        number(tx, "child")

    shop.put(a=1)
    shop.effect("parent", parent)
    shop.scheduler.settle()
    assert shop.taken() == ["parent", "child", "parent"]
    assert (made[0].provisional, made[0].is_live) == (False, True)


# --- cycles ------------------------------------------------------------------------------------------------


def cycle(shop: Workshop, *names: str) -> list[Node]:
    """Computations that read each other in a circle, and settle: the greatest of what is there."""

    def greatest(mine: str, before: str) -> Node:
        return shop.computation(mine, lambda tx: max(number(tx, before), number(tx, "a")))

    return [greatest(name, names[index - 1]) for index, name in enumerate(names)]


def test_ring_settles_and_is_released_when_its_last_reader_leaves(shop: Workshop) -> None:
    nodes = cycle(shop, "x", "y", "z")
    show = shop.show("show", "z")
    shop.put(a=3)
    shop.run()
    assert ([shop.see(name) for name in "xyz"], shop.errors) == ([3, 3, 3], [])
    assert all(node.is_live for node in nodes)
    shop.put(a=4)
    shop.run()
    assert [shop.see(name) for name in "xyz"] == [4, 4, 4]
    shop.scheduler.remove(show)
    assert [node.live_refs for node in nodes] == [0, 0, 0]
    shop.put(a=5)
    assert shop.run() == []


def test_ring_with_two_roots_is_live_until_both_have_left(shop: Workshop) -> None:
    nodes = cycle(shop, "x", "y", "z")
    one, two = shop.show("one", "x"), shop.show("two", "y")
    shop.run()
    shop.scheduler.remove(one)
    assert all(node.is_live for node in nodes)
    shop.scheduler.remove(two)
    assert not any(node.is_live for node in nodes)


def test_what_only_a_ring_reads_is_released_with_it(shop: Workshop) -> None:
    above = shop.sum("a", "base")
    nodes = cycle(shop, "x", "y")
    show = shop.show("show", "y")
    shop.run()
    assert above.is_live
    shop.scheduler.remove(show)
    assert (above.live_refs, [node.live_refs for node in nodes]) == (0, [0, 0])


def test_node_that_leaves_a_ring_is_not_held_by_it(shop: Workshop) -> None:
    nodes = cycle(shop, "x", "y")
    turn = shop.computation("turn", lambda tx: number(tx, "x") if number(tx, "in") else 0)
    shop.put(**{"in": 1})
    show = shop.show("show", "turn")
    shop.run()
    assert all(node.is_live for node in nodes)
    shop.put(**{"in": 0})
    shop.run()
    assert [node.is_live for node in [*nodes, turn]] == [False, False, True]
    shop.scheduler.remove(show)
    assert not turn.is_live


def test_ring_that_opens_is_none_any_more(shop: Workshop) -> None:
    x = shop.computation("x", lambda tx: number(tx, "y") if number(tx, "closed") else 0)
    y = shop.sum("y", "x")
    show = shop.show("show", "y")
    shop.put(closed=1)
    shop.run()
    assert x.rare.cycle is not None
    shop.put(closed=0)
    shop.run()
    assert x.rank < y.rank
    shop.scheduler.remove(show)
    assert (x.live_refs, y.live_refs) == (0, 0)


# --- removed while a pass runs ----------------------------------------------------------------------------


def test_effect_removed_by_another_in_the_same_pass_does_not_run(shop: Workshop) -> None:
    victims: list[Node] = []

    def kill(tx: Transaction) -> None:
        for each in victims if number(tx, "a") else ():
            shop.scheduler.remove(each)

    shop.effect("killer", kill)
    victims.append(shop.show("victim", "a"))
    shop.run()
    shop.put(a=1)
    assert shop.run() == ["killer"]
    assert shop.scheduler.outstanding().is_idle


def test_child_removed_by_its_own_parents_run_does_not_run(shop: Workshop) -> None:
    """Both are woken by the same change; the parent is older, and so goes first."""
    made: list[Node] = []

    def parent(tx: Transaction) -> None:
        for child in made:
            shop.scheduler.remove(child)
        made[:] = [shop.show(f"child{number(tx, 'a')}", "a")]

    shop.effect("parent", parent)
    assert shop.run() == ["parent", "child0"]
    shop.put(a=1)
    assert shop.run() == ["parent", "child1"]
    assert shop.scheduler.get_stats().effects == 2


def test_node_that_removes_itself_while_it_runs_commits_nothing_and_is_gone(shop: Workshop) -> None:
    nodes: list[Node] = []

    def run(tx: Transaction) -> None:
        write(tx, "out", number(tx, "a"))
        shop.scheduler.remove(nodes[0])

    nodes.append(shop.effect("once", run))
    assert shop.run() == ["once"]
    assert shop.see("out") is NOTHING
    shop.put(a=1)
    assert shop.run() == []
    assert (shop.scheduler.get_stats().reads, shop.scheduler.runner.stack) == (0, [])


def test_computation_removed_while_its_reader_runs_leaves_its_value_behind(shop: Workshop) -> None:
    node = shop.sum("sum", "a")
    shop.put(a=1)
    seen: list[object] = []

    def show(tx: Transaction) -> None:
        if number(tx, "end"):
            shop.scheduler.remove(node)
        seen.append(number(tx, "sum"))

    shop.effect("show", show)
    shop.run()
    shop.put(end=1)
    shop.run()
    shop.put(a=2)
    assert shop.run() == []
    assert seen == [0, 1, 1]


def test_removing_twice_is_no_harm(shop: Workshop) -> None:
    node = shop.show("show", "a")
    shop.run()
    shop.scheduler.remove(node)
    shop.scheduler.remove(node)
    assert shop.scheduler.get_stats().effects == 0


# --- replaced ---------------------------------------------------------------------------------------------


def test_node_that_takes_the_place_of_another_is_wanted_by_its_readers_at_once(shop: Workshop) -> None:
    old = shop.sum("sum", "a")
    shop.put(a=1)
    shop.show("show", "sum")
    shop.run()
    shop.scheduler.remove(old)
    new = shop.computation("sum", lambda tx: number(tx, "a") * 10)
    assert (old.live_refs, new.is_live) == (0, True)
    assert shop.run() == ["sum", "show"]
    assert shop.see("sum") == 10


def test_node_that_takes_the_place_of_another_with_the_same_result_wakes_nobody(shop: Workshop) -> None:
    old = shop.sum("sum", "a")
    shop.put(a=1)
    shop.show("show", "sum")
    shop.run()
    shop.scheduler.remove(old)
    shop.sum("sum", "a")
    assert shop.run() == ["sum"]
