"""I9: of two that have to run, whoever writes what the other reads goes first; rings aside, in which all do both."""

from __future__ import annotations

from headwater.core import Transaction, doc_key
from tests.testing.invariants.rig import Rig, look


def test_writers_run_before_their_readers_whoever_was_registered_first() -> None:
    with Rig() as rig:
        rig.write(x=1)
        rig.effect("show", lambda tx: look(tx, "c"))
        rig.computation("c", lambda tx: look(tx, "b") + 1)
        rig.computation("b", lambda tx: look(tx, "a") + 1)
        rig.computation("a", lambda tx: look(tx, "x"))
        rig.settle()
        rig.write(x=5)
        assert rig.settle() == ["a", "b", "c", "show"]


def test_reader_of_two_ways_runs_once_after_the_longer_one() -> None:
    with Rig() as rig:
        rig.write(x=1)
        rig.computation("both", lambda tx: look(tx, "x") + look(tx, "far"))
        rig.computation("near", lambda tx: look(tx, "x"))
        rig.computation("far", lambda tx: look(tx, "near"))
        rig.effect("show", lambda tx: look(tx, "both"))
        rig.settle()
        rig.write(x=2)
        assert rig.settle() == ["near", "far", "both", "show"]


def test_two_new_reads_of_one_run_that_close_two_circles_end() -> None:
    with Rig() as rig:
        rig.write(flag=0)

        def first(tx: Transaction) -> int:
            return 0 * (look(tx, "deep") + look(tx, "flat")) if look(tx, "flag") else 0

        rig.computation("first", first)
        rig.computation("between", lambda tx: look(tx, "first"))
        rig.computation("deep", lambda tx: look(tx, "between"))
        rig.computation("flat", lambda tx: look(tx, "first"))
        rig.effect("show", lambda tx: (look(tx, "deep"), look(tx, "flat")))
        rig.settle()
        rig.write(flag=1)
        rig.settle()


def test_ring_that_a_node_leaves_while_others_stay_in_it_ends() -> None:
    with Rig() as rig:
        rig.write(flag=1)
        rig.computation("leaver", lambda tx: 0 * look(tx, "b") if look(tx, "flag") else 0)
        rig.computation("a", lambda tx: 0 * (look(tx, "leaver") + look(tx, "b")))
        rig.computation("b", lambda tx: look(tx, "a"))
        rig.effect("show", lambda tx: look(tx, "b"))
        rig.settle()
        rig.write(flag=0)
        rig.settle()
        rig.write(flag=1)
        rig.settle()


def test_reader_of_the_result_of_a_materializer_waits_for_it() -> None:
    """Although materializers otherwise come last."""
    with Rig() as rig:
        rig.write(x=1, big={})
        rig.computation("fill", lambda tx: look(tx, "x"), side_write_envelope=((doc_key("big"), ()),))
        rig.computation("double", lambda tx: look(tx, "x") + look(tx, "fill"))
        rig.effect("show", lambda tx: look(tx, "double"))
        rig.settle()
        rig.write(x=2)
        assert rig.settle() == ["fill", "double", "show"]


def test_materializer_that_is_needed_early_waits_for_what_it_reads() -> None:
    with Rig() as rig:
        rig.write(x=1, big={})

        def fill(tx: Transaction) -> None:
            tx.set(doc_key("big"), ("x",), look(tx, "far") + look(tx, "x"))

        rig.computation("reader", lambda tx: look(tx, "big", {}).get("x", 0) + look(tx, "x"))
        rig.effect("show", lambda tx: look(tx, "reader"))
        rig.computation("near", lambda tx: look(tx, "x"))
        rig.computation("far", lambda tx: look(tx, "near"))
        rig.computation("fill", fill, side_write_envelope=((doc_key("big"), ()),))
        rig.settle()
        rig.write(x=2)
        assert rig.settle() == ["near", "far", "fill", "reader", "show"]


def test_materializer_that_reads_what_its_reader_makes_does_not_hold_it_up() -> None:
    with Rig() as rig:
        rig.write(x=1, big={})

        def fill(tx: Transaction) -> None:
            tx.set(doc_key("big"), ("x",), min(look(tx, "reader"), 3))

        rig.computation("reader", lambda tx: look(tx, "big", {}).get("x", 0) * 0 + look(tx, "x"))
        rig.effect("show", lambda tx: look(tx, "reader"))
        rig.computation("fill", fill, side_write_envelope=((doc_key("big"), ()),))
        rig.settle()
        rig.write(x=2)
        assert rig.settle()[0] == "reader"
