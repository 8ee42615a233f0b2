"""I8: the transaction of every run says whose it is, and which changes are the reason for it."""

from __future__ import annotations

from headwater.core import Notification, RetryImmediately, SetDoc, Transaction, doc_key
from tests.testing.invariants.rig import Rig, look

X, Y = (doc_key("x"), ()), (doc_key("y"), ())


def test_run_carries_its_node_itself_and_the_places_whose_change_called_for_it() -> None:
    with Rig() as rig:
        rig.write(x=1, y=1)
        seen: list[tuple[object, object]] = []

        def total(tx: Transaction) -> object:
            seen.append((tx.node, tx.triggers))
            return look(tx, "x") + look(tx, "y")

        node = rig.computation("total", total, eager=True)
        rig.settle()
        rig.write(x=2, y=2)
        rig.settle()
        assert seen == [(node, ()), (node, (X, Y))]


def test_what_a_run_has_written_is_told_with_its_transaction() -> None:
    with Rig() as rig:
        rig.write(x=1)
        told: list[Notification] = []
        rig.replica.listen(told.append)
        node = rig.computation("twice", lambda tx: look(tx, "x") * 2, eager=True)
        rig.settle()
        [source] = [each.source for each in told if each.changes[0].doc == doc_key("twice")]
        assert isinstance(source, Transaction) and source.node is node


def test_causes_are_taken_by_the_run_they_led_to() -> None:
    with Rig() as rig:
        rig.write(x=1)
        node = rig.effect("show", lambda tx: look(tx, "x"))
        rig.settle()
        rig.write(x=2)
        rig.settle()
        assert (dict(node.invalid_causes), node.last_causes) == ({}, (X,))
        rig.write(x=3)
        rig.settle()
        assert node.last_causes == (X,)


def test_causes_of_an_attempt_that_asks_to_be_made_again_are_those_of_the_next() -> None:
    with Rig() as rig:
        rig.write(x=1)
        seen: list[object] = []

        def show(tx: Transaction) -> None:
            seen.append(tx.triggers)
            if look(tx, "x") == 2 and len(seen) == 2:
                raise RetryImmediately

        rig.effect("show", show)
        rig.settle()
        rig.write(x=2)
        rig.settle()
        assert seen == [(), (X,), (X,)]


def test_causes_of_a_run_that_the_store_rejected_are_those_of_the_next() -> None:
    """Another session is faster: what was read is not so any more when the commit arrives."""
    with Rig() as rig:
        other = rig.storage.attach()
        rig.write(x=1)
        rig.replica.sync()
        seen: list[object] = []

        def twice(tx: Transaction) -> object:
            seen.append(tx.triggers)
            return look(tx, "x") * 2

        rig.computation("twice", twice, eager=True)
        rig.settle()
        rig.replica.sync()
        other.refresh()
        other.commit([SetDoc(doc_key("x"), 10)])
        rig.write(x=2)
        rig.settle()
        rig.replica.sync()
        rig.settle()
        assert rig.read("twice") == rig.read("x") * 2
        assert all(X in causes for causes in seen[1:]), seen  # type: ignore[operator]


def test_what_a_node_wrote_itself_is_never_among_its_causes() -> None:
    with Rig() as rig:
        rig.write(x=1)

        def bump(tx: Transaction) -> None:
            tx.set(doc_key("x"), (), look(tx, "x") + look(tx, "y"))

        rig.write(y=1)
        node = rig.effect("bump", bump)
        rig.settle()
        rig.write(y=2)
        rig.settle()
        assert node.last_causes == (Y,)
