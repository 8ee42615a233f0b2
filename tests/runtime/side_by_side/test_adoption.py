"""A runtime that hears what another's run came to does not run, if its own run would come to the same."""

from __future__ import annotations

import pytest

from headwater.cells.transaction import Transaction
from headwater.core import NodeSpec, doc_key
from headwater.store.observations import DIGEST_BYTES
from tests.runtime.side_by_side.exchange import Exchange, Runtime, number


def chain(exchange: Exchange, *codes: bytes) -> list[Runtime]:
    """Runtimes with `double` of a cell, `plus` of that, and a sink; all have run once, and hold everything."""
    found = []
    for code in codes:
        runtime = exchange.runtime()
        runtime.computed("double", lambda tx: 2 * number(tx, "cell"), code)
        runtime.sum("plus", "double", "one", code=code)
        runtime.show("show", "plus")
        found.append(runtime)
    found[0].put(cell=1, one=1)
    exchange.settle()
    for runtime in found:
        runtime.adopted()
    return found


def test_peer_that_is_slower_adopts_all_results_and_runs_only_what_shows_them() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    before = exchange.commits
    ann.put(cell=5)
    assert ann.run() == ["double", "plus", "show"]
    ann.send()
    bob.hear()
    assert bob.run() == ["show"]
    assert bob.adopted() == ["double", "plus"]
    assert bob.see("plus") == 11
    exchange.settle()
    assert exchange.commits == before + 3
    bob.check()


def test_what_arrives_one_by_one_is_adopted_as_long_as_nothing_runs_in_between() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    ann.put(cell=5)
    ann.run()
    ann.send()
    for _ in range(3):
        bob.hear(1)
    assert bob.run() == ["show"]
    bob.check()


def test_peer_that_has_run_already_writes_nothing_and_is_left_as_it_is() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    before = exchange.commits
    ann.put(cell=5)
    ann.send()
    bob.hear()
    assert bob.run() == ["double", "plus", "show"]
    ann.hear()
    ann.run()
    ann.send()
    bob.send()
    assert exchange.commits == before + 3
    assert exchange.settle() == []
    assert bob.adopted() == ann.adopted() == []
    assert bob.replica.pending_count == 0
    assert not bob.errors
    bob.check()


def test_outdated_result_of_a_peer_is_computed_again_although_its_reads_came_back_to_what_they_were() -> None:
    """In one step: the net change of the cell is none, and that of the result is not."""
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    ann.put(cell=5)
    ann.run()
    ann.put(cell=1)
    ann.send()
    bob.hear()
    assert bob.run() == ["double", "plus", "show"]
    assert bob.see("plus") == 3
    bob.check()
    exchange.settle()
    ann.check()


def test_outdated_result_without_an_observation_is_computed_again_likewise() -> None:
    exchange = Exchange()
    found = []
    for _ in range(2):
        runtime = exchange.runtime()
        fn = runtime._logged("double", lambda tx: 2 * number(tx, "cell"))
        runtime.scheduler.register(NodeSpec(name="double", fn=fn, outputs=(doc_key("double"),)))
        runtime.show("show", "double")
        found.append(runtime)
    ann, bob = found
    ann.put(cell=1)
    exchange.settle()
    ann.put(cell=5)
    ann.run()
    ann.put(cell=1)
    ann.send()
    bob.hear()
    assert bob.run() == ["double", "show"]
    assert bob.see("double") == 2
    bob.check()


def test_result_of_other_code_is_not_adopted() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"2")
    ann.put(cell=5)
    ann.run()
    ann.send()
    bob.hear()
    assert bob.run() == ["double", "plus", "show"]
    assert bob.adopted() == []


def test_result_of_what_was_changed_here_meanwhile_is_not_adopted() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    ann.put(cell=5)
    ann.run()
    ann.send()
    bob.put(cell=7)
    bob.hear()
    assert "double" in bob.run()
    assert bob.see("double") == 14
    exchange.settle()
    assert (ann.see("plus"), bob.see("plus")) == (15, 15)
    ann.check()
    bob.check()


def test_result_that_is_late_is_not_adopted_over_a_newer_input() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    cyd = exchange.runtime()
    ann.put(cell=5)
    ann.run()
    ann.send()
    cyd.put(cell=8)
    cyd.send()
    bob.hear()
    assert bob.run() == ["double", "plus", "show"]
    assert bob.see("plus") == 17
    exchange.settle()
    assert ann.see("plus") == 17


def test_digest_is_enough_where_the_same_was_read_before() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    for value in (5, 6, 7):
        ann.put(cell=value)
        ann.run()
        ann.send()
        bob.hear()
        assert bob.run() == ["show"]
    newest = exchange.engine.states.get(exchange.engine.documents.branch("main").name, doc_key("double")).recent[-1]
    assert newest.commit.seen is not None
    assert len(newest.commit.seen[1]) == DIGEST_BYTES
    assert bob.see("plus") == 15


def test_other_reads_of_the_peer_are_taken_over_with_its_result() -> None:
    exchange = Exchange()
    runtimes = [exchange.runtime() for _ in range(2)]
    for runtime in runtimes:
        runtime.computed("pick", lambda tx: number(tx, "a") if number(tx, "which") else number(tx, "b"))
        runtime.show("show", "pick", "a", "b")
    ann, bob = runtimes
    ann.put(which=0, a=1, b=2)
    exchange.settle()
    bob.adopted()
    ann.put(which=1)
    ann.run()
    ann.send()
    bob.hear()
    bob.run()
    assert bob.adopted() == ["pick"]
    assert {doc for doc, _, _ in bob.nodes["pick"].reads} == {doc_key("which"), doc_key("a")}
    ann.put(b=9)
    ann.send()
    bob.hear()
    assert bob.run() == ["show"], "b is read no more"
    bob.put(a=4)
    assert bob.run() == ["pick", "show"]
    exchange.settle()
    assert ann.see("pick") == 4
    bob.check()


def test_what_reads_a_document_that_is_not_here_runs() -> None:
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()
    for runtime in (ann, bob):
        runtime.computed("pick", lambda tx: number(tx, "far") if number(tx, "which") else 0)
        runtime.show("show", "pick")
    ann.put(which=0, far=3)
    exchange.settle()
    ann.put(which=1)
    ann.run()
    ann.send()
    bob.hear()
    bob.adopted()
    assert bob.run() == ["pick", "show"]
    assert bob.adopted() == []


def test_one_that_failed_here_runs() -> None:
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()
    broken = [True]

    def fragile(tx: Transaction) -> object:
        value = number(tx, "cell")
        if broken and value:
            raise ValueError("broken")
        return value

    ann.computed("double", lambda tx: number(tx, "cell"))
    bob.computed("double", fragile)
    for runtime in (ann, bob):
        runtime.show("show", "double")
    exchange.settle()
    bob.put(cell=1)
    exchange.settle()
    assert bob.nodes["double"].error is not None
    broken.clear()
    ann.put(cell=2)
    ann.run()
    ann.send()
    bob.hear()
    assert bob.run() == ["double", "show"]
    assert bob.nodes["double"].error is None


def test_one_that_never_ran_is_adopted_if_all_of_it_is_here() -> None:
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()
    for runtime in (ann, bob):
        runtime.sum("total", "cell")
    ann.show("show", "total")
    bob.show("show", "cell")
    assert bob.run() == ["show"]
    bob.see("total")
    ann.put(cell=3)
    ann.run()
    ann.send()
    bob.hear()
    assert bob.run() == ["show"]
    assert bob.adopted() == ["total"]
    assert bob.nodes["total"].is_clean
    bob.check()
    bob.show("look", "total")
    assert bob.run() == ["look"]
    bob.put(cell=4)
    assert sorted(bob.run()) == ["look", "show", "total"]
    bob.check()


def test_own_result_that_is_not_decided_is_not_given_up_for_a_peers() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    bob.put(cell=3)
    bob.run()
    ann.put(cell=5)
    ann.run()
    ann.send()
    bob.hear()
    assert bob.see("double") == 6
    exchange.settle()
    assert ann.see("plus") == bob.see("plus") == 7, "what was sent last is the newest"
    bob.check()


def test_run_that_is_under_way_is_left_alone() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    bob.waits.add("double")
    ann.put(cell=5)
    ann.send()
    bob.hear()
    bob.run()
    ann.run()
    ann.send()
    before = exchange.commits
    bob.hear()
    bob.run()
    assert bob.adopted() == ["plus"], "it has read what was there before, and now reads what came"
    assert len(bob.under_way) == 1
    bob.finish()
    bob.waits.clear()
    assert exchange.settle() == ["double"], "what was under way, and nobody else"
    assert exchange.commits == before
    assert bob.see("plus") == 11
    bob.check()


def test_what_the_function_has_come_to_is_explained() -> None:
    exchange = Exchange()
    ann, bob = chain(exchange, b"1", b"1")
    ann.put(cell=5)
    ann.run()
    ann.send()
    bob.hear()
    bob.run()
    said = bob.scheduler.why(bob.nodes["double"])
    assert "the result of another runtime was adopted" in said


@pytest.mark.parametrize("count", [2, 4, 8])
def test_commits_for_one_change_do_not_grow_with_the_runtimes(count: int) -> None:
    exchange = Exchange()
    runtimes = chain(exchange, *[b"1"] * count)
    before = exchange.commits
    runtimes[0].put(cell=5)
    ran = exchange.settle()
    assert exchange.commits == before + 3
    assert sorted(ran) == ["double", "plus"] + ["show"] * count
    before = exchange.commits
    # Now all of them run before they hear of any result.
    runtimes[0].put(cell=6)
    runtimes[0].send()
    for runtime in runtimes:
        runtime.hear()
        assert runtime.run() == ["double", "plus", "show"]
    assert exchange.settle() == []
    assert exchange.commits == before + 3


def test_two_versions_of_the_code_write_once_each_for_a_change_and_do_not_fight() -> None:
    exchange = Exchange()
    old, new = exchange.runtime(), exchange.runtime()
    old.computed("price", lambda tx: number(tx, "cell") * 2, b"old")
    new.computed("price", lambda tx: number(tx, "cell") * 3, b"new")
    for runtime in (old, new):
        runtime.show("show", "price")
    old.put(cell=1)
    exchange.settle()
    for value in range(2, 6):
        before = exchange.commits
        old.put(cell=value)
        ran = exchange.settle()
        assert exchange.commits - before <= 3
        assert ran.count("price") <= 2
        assert old.see("price") == new.see("price") in {value * 2, value * 3}
        assert exchange.settle() == []
    old.check()
    new.check()


# -- who runs all the same -------------------------------------------------------------------------------------


def change(ann: Runtime, bob: Runtime, **documents: object) -> list[str]:
    """One changes something and runs, the other hears of it all. Returns who ran there."""
    ann.put(**documents)
    ann.run()
    ann.send()
    bob.hear()
    return bob.run()


def test_one_of_whom_nothing_is_kept_runs() -> None:
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()
    ann.sum("total", "cell")
    bob.scheduler.register(NodeSpec(name="total", fn=lambda tx: number(tx, "cell"), outputs=(doc_key("total"),)))
    for runtime in (ann, bob):
        runtime.show("show", "total")
    exchange.settle()
    runs = bob.scheduler.runner.runs
    change(ann, bob, cell=2)
    assert bob.scheduler.runner.runs == runs + 2


def test_two_that_write_the_same_document_run() -> None:
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()
    for runtime in (ann, bob):
        runtime.sum("total", "cell")
    bob.computed("again", lambda tx: number(tx, "cell"), outputs=(doc_key("total"),))
    for runtime in (ann, bob):
        runtime.show("show", "total")
    exchange.settle()
    assert {"total", "again"} <= set(change(ann, bob, cell=2))
    assert bob.adopted() == []


def test_one_that_writes_where_only_a_run_can_tell_runs() -> None:
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()

    def spread(tx: Transaction) -> object:
        value = number(tx, "cell")
        tx.set(doc_key("list"), (f"k{value}",), value)
        return value

    ann.put(list={})
    exchange.settle()
    for runtime in (ann, bob):
        runtime.computed("spread", spread, side_write_envelope=((doc_key("list"), ()),))
        runtime.show("show", "spread")
    exchange.settle()
    assert "spread" in change(ann, bob, cell=2)
    assert bob.adopted() == []
    exchange.settle()
    assert ann.see("list") == bob.see("list") == {"k0": 0, "k2": 2}


def test_second_output_that_somebody_else_has_written_since_means_a_run() -> None:
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()
    outputs = (doc_key("total"), doc_key("notes"))

    def total(tx: Transaction) -> object:
        value = number(tx, "cell")
        tx.set(doc_key("notes"), (), value * 100)
        return value

    for runtime in (ann, bob):
        runtime.computed("total", total, outputs=outputs)
        runtime.show("show", "total", "notes")
    exchange.settle()
    assert change(ann, bob, cell=2) == ["show"]
    assert bob.adopted() == ["total"]
    ann.put(cell=3)
    ann.run()
    ann.put(notes=0)
    ann.send()
    bob.hear()
    assert "total" in bob.run()


def test_digest_is_enough_for_one_that_was_restored() -> None:
    exchange = Exchange()
    ann, _ = chain(exchange, b"1", b"1")
    late = exchange.runtime()
    late.computed("double", lambda tx: 2 * number(tx, "cell"), b"1")
    late.sum("plus", "double", "one", code=b"1")
    late.show("show", "plus")
    late.restore()
    assert late.run() == ["show"]
    for name in ("cell", "double", "one"):
        late.see(name)
    assert change(ann, late, cell=5) == ["show"]
    assert late.see("plus") == 11
    late.check()


def test_digest_that_says_nothing_here_means_a_run() -> None:
    exchange = Exchange()
    ann = exchange.runtime()
    ann.sum("total", "cell")
    ann.show("show", "total")
    ann.put(cell=1)
    exchange.settle()
    late = exchange.runtime()
    late.sum("total", "cell")
    late.show("show", "cell")
    late.run()
    late.see("total")
    change(ann, late, cell=2)
    assert late.adopted() == []
    assert not late.nodes["total"].is_clean


def test_run_that_is_under_way_for_what_is_outdated_ends_first_and_is_made_again() -> None:
    exchange = Exchange()
    ann, bob = exchange.runtime(), exchange.runtime()
    for runtime in (ann, bob):
        runtime.computed("double", lambda tx: 2 * number(tx, "cell"), on_invalid="finish")
        runtime.show("show", "double")
    ann.put(cell=1)
    exchange.settle()
    bob.waits.add("double")
    ann.put(cell=2)
    ann.send()
    bob.hear()
    bob.run()
    bob.begin_reading("cell")
    assert change(ann, bob, cell=3) == ["show"]
    assert bob.adopted() == []
    bob.waits.clear()
    bob.finish()
    exchange.settle()
    assert ann.see("double") == bob.see("double") == 6
    bob.check()
