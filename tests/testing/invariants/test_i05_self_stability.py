"""I5: what a run writes does not wake the node that ran; and a run that comes to the same as before wakes nobody."""

from __future__ import annotations

from headwater.core import Transaction, doc_key
from tests.testing.invariants.rig import Rig, look


def test_computation_that_reads_its_own_result_runs_once() -> None:
    with Rig() as rig:
        rig.write(x=1)
        rig.computation("count", lambda tx: look(tx, "count") + look(tx, "x"), eager=True)
        assert rig.settle() == ["count"]
        rig.write(x=2)
        assert rig.settle() == ["count"]
        assert rig.read("count") == 3


def test_failure_of_a_computation_that_has_read_its_own_result_is_no_news_to_it_nor_is_the_end_of_it() -> None:
    with Rig() as rig:
        rig.write(x=1)

        def fails(tx: Transaction) -> int:
            if look(tx, "fails") + look(tx, "x") > 0:
                raise ValueError(look(tx, "x"))
            return 0

        rig.computation("fails", fails, eager=True)
        assert rig.settle() == ["fails"]
        rig.write(x=2)
        assert rig.settle() == ["fails"]
        rig.write(x=0)
        assert rig.settle() == ["fails"]


def test_effect_that_writes_what_it_reads_runs_once() -> None:
    with Rig() as rig:
        rig.write(x=1)

        def bump(tx: Transaction) -> None:
            tx.set(doc_key("x"), (), look(tx, "x") + 1)

        rig.effect("bump", bump)
        assert rig.settle() == ["bump"]
        rig.write(x=10)
        assert rig.settle() == ["bump"]
        assert rig.read("x") == 11


def test_two_nodes_of_one_function_wake_each_other() -> None:
    """By identity, not by name: what one wrote is news to the other."""
    with Rig() as rig:
        rig.write(x=1)

        def level(tx: Transaction) -> None:
            tx.set(doc_key("x"), (), min(look(tx, "x") + 1, 5))

        rig.effect("level", level)
        rig.effect("level", level)
        assert rig.settle() == ["level"] * 5
        assert rig.read("x") == 5


def test_run_with_an_equal_result_wakes_nobody_and_writes_nothing() -> None:
    with Rig() as rig:
        rig.write(x=1)
        rig.computation("parity", lambda tx: look(tx, "x") % 2)
        rig.effect("show", lambda tx: look(tx, "parity"))
        rig.settle()
        commits = rig.replica.commit_count
        rig.write(x=3)
        assert rig.settle() == ["parity"]
        assert rig.replica.commit_count == commits + 1, "of the write alone"
