"""I2: a node that nobody looks at does not run, and costs nothing but its record."""

from __future__ import annotations

from headwater.core import Node, Transaction
from tests.testing.invariants.rig import Rig, look


def test_node_that_is_removed_while_a_caller_waits_is_not_run_any_more() -> None:
    with Rig() as rig:
        rig.write(keep=1)
        kids: list[Node] = []

        def parent(tx: Transaction) -> int:
            if look(tx, "keep"):
                return look(tx, "kid")  # type: ignore[no-any-return]
            rig.scheduler.remove(kids[0])
            return 0

        node = rig.computation("parent", parent)
        kids.append(rig.computation("kid", lambda tx: look(tx, "keep") + 0 * look(tx, "parent")))
        rig.scheduler.pull(node)
        runs = kids[0].runs
        rig.write(keep=0)
        rig.scheduler.pull(node)
        rig.scheduler.pull(kids[0])
        assert kids[0].removed and kids[0].runs == runs
