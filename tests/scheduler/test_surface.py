"""Where a computation may write: its result, documents that are named, and places below which it may write anything."""

from __future__ import annotations

import pytest

from headwater.cells.transaction import Transaction
from headwater.core import doc_key
from headwater.errors import WriteError
from headwater.scheduler.graph.node import Node
from headwater.values.tree import Path
from tests.scheduler.workshop import Workshop, number, write
from tests.support.naive import NOTHING

REFUSED = "{}() is computed and may not write {{}}; move the write to a @app.handler"


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


def side_writer(shop: Workshop, name: str = "both", side: str = "side") -> Node:
    """Twice `a` is its result, `a` goes to the side."""

    def run(tx: Transaction) -> int:
        found = int(number(tx, "a"))
        write(tx, side, found)
        return found * 2

    outputs = (doc_key(name), doc_key(side))
    return shop.computation(name, run, outputs=outputs, read_only=REFUSED.format(name))


def materializer(shop: Workshop, *places: tuple[str, Path], name: str = "fill", **spec: object) -> Node:
    """Writes `a` at `big/<key>`, wherever `key` says."""

    def run(tx: Transaction) -> int:
        key = tx.read(doc_key("key"))
        tx.set(doc_key("big"), (str(key),), number(tx, "a"))
        return 0

    envelope = tuple((doc_key(doc), path) for doc, path in places or [("big", ())])
    return shop.computation(name, run, side_write_envelope=envelope, read_only=REFUSED.format(name), **spec)


# --- the result -------------------------------------------------------------------------------------------


def test_result_is_written_to_the_first_output_and_only_if_it_differs(shop: Workshop) -> None:
    node = shop.sum("sum", "a", "b")
    shop.put(a=1)
    shop.scheduler.pull(node)
    assert shop.see("sum") == 1
    count = shop.replica.commit_count
    shop.put(a=0, b=1)
    shop.scheduler.pull(node)
    assert (shop.see("sum"), shop.replica.commit_count) == (1, count + 2), "the two writes, and none of its own"


def test_own_write_is_no_news_to_who_made_it(shop: Workshop) -> None:
    def count(tx: Transaction) -> int:
        number(tx, "a")
        return int(number(tx, "count")) + 1

    shop.computation("count", count)
    shop.show("show", "count")
    shop.run()
    assert shop.see("count") == 1
    shop.put(a=1)
    shop.run()
    assert shop.see("count") == 2


# --- named documents --------------------------------------------------------------------------------------


def test_reader_of_a_side_document_makes_its_writer_live(shop: Workshop) -> None:
    node = side_writer(shop)
    shop.show("show", "side")
    assert shop.run() == ["show", "both", "show"]
    assert node.is_live
    shop.put(a=3)
    assert shop.run() == ["both", "show"], "ordered as by its result"
    assert (shop.see("both"), shop.see("side")) == (6, 3)


def test_side_writer_that_nobody_reads_does_not_run(shop: Workshop) -> None:
    side_writer(shop)
    shop.put(a=3)
    assert shop.run() == []


def test_side_document_is_written_only_if_it_differs(shop: Workshop) -> None:
    def run(tx: Transaction) -> int:
        write(tx, "side", number(tx, "a") // 10)
        return int(number(tx, "a"))

    shop.computation("both", run, outputs=(doc_key("both"), doc_key("side")))
    shop.show("show", "side")
    shop.put(a=10)
    shop.run()
    shop.decide()
    shop.put(a=11)
    assert shop.run() == ["both"]


def test_failed_run_writes_nothing_to_the_side(shop: Workshop) -> None:
    def run(tx: Transaction) -> int:
        write(tx, "side", number(tx, "a"))
        return int(10 // number(tx, "a"))

    shop.computation("both", run, outputs=(doc_key("both"), doc_key("side")))
    shop.show("show", "side")
    shop.run()
    assert shop.see("side") is NOTHING
    shop.put(a=5)
    shop.run()
    assert (shop.see("side"), shop.see("both")) == (5, 2)


def test_caller_of_one_that_reads_a_side_document_gets_what_is_current_the_first_time(shop: Workshop) -> None:
    """That it reads the document is known only when it has run: then its writer has to run, and it once more."""
    side_writer(shop)
    top = shop.sum("top", "side")
    shop.put(a=3)
    shop.scheduler.pull(top)
    assert shop.see("top") == 3
    assert shop.taken() == ["top", "both", "top"]
    shop.put(a=4)
    shop.scheduler.pull(top)
    assert (shop.see("top"), shop.taken()) == (4, ["both", "top"])


@pytest.mark.parametrize("target", ["other", "both2", "a"])
def test_write_outside_of_the_surface_is_refused(shop: Workshop, target: str) -> None:
    def run(tx: Transaction) -> int:
        write(tx, target, number(tx, "a"))
        return 1

    node = shop.computation(
        "both", run, outputs=(doc_key("both"), doc_key("side")), read_only=REFUSED.format("both"), has_callers=True
    )
    with pytest.raises(WriteError, match=rf"HW104: both\(\) is computed and may not write {target}; move the write"):
        shop.scheduler.pull(node)
    assert shop.see(target) is NOTHING


def test_computation_may_not_write_its_own_result_document_itself(shop: Workshop) -> None:
    """What it returns is its result."""

    def run(tx: Transaction) -> int:
        write(tx, "sum", 5)
        return 1

    node = shop.computation("sum", run, read_only=REFUSED.format("sum"), has_callers=True)
    with pytest.raises(WriteError, match="may not write sum"):
        shop.scheduler.pull(node)


# --- materializers ----------------------------------------------------------------------------------------


def test_materializer_runs_although_nobody_reads_it(shop: Workshop) -> None:
    node = materializer(shop)
    shop.put(a=1, key="x", big={})
    assert shop.run() == ["fill"]
    assert shop.see("big") == {"x": 1}
    assert (node.is_live, shop.scheduler.get_graph_snapshot().nodes[0].why_live) == (True, "materializer")


def test_materializer_runs_after_all_primary_work(shop: Workshop) -> None:
    materializer(shop)
    shop.sum("sum", "a")
    shop.show("show", "sum")
    shop.put(a=1, key="x", big={})
    assert shop.run() == ["show", "sum", "show", "fill"]
    shop.put(a=2)
    assert shop.run() == ["sum", "show", "fill"]


def test_invalidations_of_a_materializer_come_together(shop: Workshop) -> None:
    materializer(shop)

    def pump(tx: Transaction) -> None:
        for index in range(number(tx, "n")):
            write(tx, "a", index)

    shop.effect("pump", pump)
    shop.put(a=0, key="x", big={})
    shop.run()
    for count in (3, 5, 7):
        shop.put(n=count)
    assert shop.run() == ["pump", "fill"]


def test_reader_inside_the_envelope_has_the_materializer_run_before_it(shop: Workshop) -> None:
    materializer(shop)
    seen: list[object] = []

    def show(tx: Transaction) -> None:
        number(tx, "a")
        seen.append(tx.read(doc_key("big"), ("x",)))

    shop.put(a=1, key="x", big={})
    shop.effect("show", show)
    shop.run()
    shop.put(a=2)
    assert shop.run() == ["fill", "show"], "promoted"
    assert seen[-1] == 2


def test_reader_outside_of_the_envelope_does_not_wait_for_the_materializer(shop: Workshop) -> None:
    materializer(shop, ("big", ("x",)))

    def show(tx: Transaction) -> None:
        number(tx, "a")
        tx.read(doc_key("big"), ("y",))

    shop.put(a=1, key="x", big={"y": 0})
    shop.effect("show", show)
    shop.run()
    shop.put(a=2)
    assert shop.run() == ["show", "fill"]


def test_reader_above_the_envelope_reads_inside_it(shop: Workshop) -> None:
    materializer(shop, ("big", ("x",)))

    def show(tx: Transaction) -> None:
        number(tx, "a")
        tx.read(doc_key("big"))

    shop.put(a=1, key="x", big={})
    shop.effect("show", show)
    shop.run()
    shop.put(a=2)
    assert shop.run() == ["fill", "show"]


def test_effect_whose_computation_reads_inside_the_envelope_sees_what_is_current_at_once(shop: Workshop) -> None:
    materializer(shop)
    shop.computation("sum", lambda tx: tx.read(doc_key("big"), ("x",)))
    seen: list[object] = []

    def show(tx: Transaction) -> None:
        shop.scheduler.pull(nodes["sum"])
        seen.append((number(tx, "a"), number(tx, "sum")))

    nodes = {node.name: node for node in shop.scheduler.registry.nodes}
    shop.put(a=1, key="x", big={"x": 0})
    shop.effect("show", show)
    shop.run()
    shop.put(a=2)
    shop.run()
    assert seen[-1] == (2, 2)
    assert (2, 1) not in seen, "never a new a with an old sum"


def test_envelope_never_invalidates_by_itself(shop: Workshop) -> None:
    """Only what is really written there does."""
    materializer(shop)
    shop.put(a=1, key="x", big={"y": 1})
    shop.effect("show", lambda tx: tx.read(doc_key("big"), ("y",)))
    shop.run()
    shop.put(a=2)
    assert shop.run() == ["fill"], "it wrote x, and nobody reads that"
    shop.put(key="y")
    assert shop.run() == ["fill", "show"]


def test_materializer_may_write_nowhere_else(shop: Workshop) -> None:
    materializer(shop, ("big", ("x",)))
    shop.put(a=1, key="y", big={})
    shop.run()
    (error,) = shop.errors
    assert isinstance(error.__cause__, WriteError)
    assert error.__cause__.code == "HW104"
    assert "fill() is computed and may not write big/y" in str(error)
    assert shop.see("big") == {}
    shop.put(key="x")
    shop.run()
    assert shop.see("big") == {"x": 1}


def test_materializer_that_fills_what_it_reads_itself_settles(shop: Workshop) -> None:
    def run(tx: Transaction) -> int:
        big = tx.read(doc_key("big"))
        assert isinstance(big, dict)
        for key, value in big.items():
            if value == 0:
                tx.set(doc_key("big"), (str(key),), 1)
        return len(big)

    shop.computation("fill", run, side_write_envelope=((doc_key("big"), ()),))
    shop.put(big={"x": 0, "y": 0})
    assert shop.run() == ["fill"]
    assert shop.see("big") == {"x": 1, "y": 1}


def test_materializer_that_is_removed_writes_no_more(shop: Workshop) -> None:
    node = materializer(shop)
    shop.put(a=1, key="x", big={})
    shop.run()
    shop.scheduler.remove(node)
    shop.put(a=2)
    assert shop.run() == []
    assert shop.scheduler.graph.envelopes == {}


def test_materializer_obeys_its_gates_and_holds_no_reader_up(shop: Workshop) -> None:
    materializer(shop, throttle_ms=1000.0)

    def show(tx: Transaction) -> None:
        number(tx, "a")
        tx.read(doc_key("big"), ("x",))

    shop.put(a=1, key="x", big={})
    shop.effect("show", show)
    shop.run()
    shop.put(a=2)
    assert shop.run() == ["show"]
    assert shop.after(1000) == ["fill", "show"]
