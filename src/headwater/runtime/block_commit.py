"""Commit of a transaction of plain code: the functions that it has called are made current first.

Their results would otherwise be older than what is committed before it: a function that is not observed does not run by
itself. If one of them gives something else now, the transaction is rejected.
"""

from __future__ import annotations

from contextlib import suppress

from headwater.cells.single_write import commit_alone
from headwater.cells.transaction import Transaction
from headwater.declare.functions.function_port import FunctionPort
from headwater.scheduler.runs.seen_failures import called_in
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.store.commit import Conflict


def commit_block(home: FunctionPort, tx: Transaction) -> None:
    """Commit or reject a transaction."""
    scheduler, replica = home.scheduler, home.replica
    if not tx.wrote or tx.docs.isdisjoint(scheduler.graph.writers.keys()):
        # It has read no result, or depends on none: most blocks.
        if not commit_alone(tx):
            tx.commit()
        return
    called = called_in(tx, scheduler.graph)
    if not called:
        tx.commit()
        return
    conflict: Conflict | None = None
    for _ in range(RUNS_MAX):
        version = replica.version
        for node in called:
            if not (node.spec.is_async or node.removed or scheduler.is_valid(node)):
                # Its error is compared below with what the transaction has seen.
                with suppress(Exception):
                    home.pull(node, in_run=False)
        with replica.lock:
            if version == replica.version:
                conflict = scheduler.other_outcome(tx)
                if conflict is None:
                    tx.commit()
                    return
                break
    tx.reject(conflict or Conflict("what it has called changes faster than it is computed", seq=replica.seq))
