"""I3: a node that has run runs again only because a value it read is another, or because an attempt did not count."""

from __future__ import annotations

from headwater.core import Transaction, doc_key
from headwater.scheduler.trace import NodeInvalidated, RunDiscarded, RunStarted
from tests.testing.invariants.rig import Rig, look


def test_write_of_the_same_value_runs_nobody() -> None:
    with Rig() as rig:
        rig.write(x=1)
        rig.effect("show", lambda tx: look(tx, "x"))
        assert rig.settle() == ["show"]
        rig.write(x=1)
        assert rig.settle() == []


def test_change_beside_what_was_read_runs_nobody() -> None:
    with Rig() as rig:
        rig.write(x={"near": 1, "far": 1})
        rig.effect("show", lambda tx: tx.read(doc_key("x"), ("near",)))
        rig.settle()
        rig.write(x={"near": 1, "far": 2})
        assert rig.settle() == []
        rig.write(x={"near": 2, "far": 2})
        assert rig.settle() == ["show"]


def test_result_that_stays_the_same_stops_there() -> None:
    with Rig() as rig:
        rig.write(x=1)
        rig.computation("sign", lambda tx: look(tx, "x") > 0)
        rig.effect("show", lambda tx: look(tx, "sign"))
        rig.settle()
        rig.write(x=5)
        assert rig.settle() == ["sign"]


def test_value_that_changed_and_changed_back_before_anybody_ran_costs_one_run_and_no_more() -> None:
    """Each commit is told; whether the node would see the same again only its run can tell."""
    with Rig() as rig:
        rig.write(x=1)
        rig.computation("twice", lambda tx: look(tx, "x") * 2)
        rig.effect("show", lambda tx: look(tx, "twice"))
        rig.settle()
        rig.write(x=2)
        rig.write(x=1)
        assert rig.settle() == ["twice"]


def test_what_was_read_before_and_is_not_any_more_wakes_nobody() -> None:
    with Rig() as rig:
        rig.write(which=True, a=1, b=1)

        def pick(tx: Transaction) -> object:
            return look(tx, "a") if tx.read(doc_key("which")) else look(tx, "b")

        rig.effect("pick", pick)
        rig.settle()
        rig.write(b=2)
        assert rig.settle() == []
        rig.write(which=False)
        assert rig.settle() == ["pick"]
        rig.write(a=2)
        assert rig.settle() == []
        rig.write(b=3)
        assert rig.settle() == ["pick"]


def test_every_run_but_the_first_has_its_reason_in_the_trace() -> None:
    with Rig() as rig:
        rig.write(x=1, y=1)
        rig.computation("sum", lambda tx: look(tx, "x") + look(tx, "y"))
        rig.effect("show", lambda tx: look(tx, "sum"))
        rig.settle()
        for number in range(2, 6):
            rig.write(x=number)
            rig.settle()
        since: dict[str, bool] = {}
        for record in rig.records:
            if isinstance(record, NodeInvalidated | RunDiscarded):
                since[record.node] = True
            elif isinstance(record, RunStarted):
                assert record.first or since.pop(record.node, False), record
