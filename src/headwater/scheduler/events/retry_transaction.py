"""Transactions of the scheduler itself, retried after a conflict."""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.rejection import refusal
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.errors import HeadwaterError
from headwater.store.commit import Conflict, Refused


def commit_with_retries(
    replica: Replica,
    name: str,
    work: Callable[[Transaction], object],
    lost: Callable[[HeadwaterError], None] = lambda _: None,
) -> None:
    """Do some work in a transaction of its own. Raises what the replica raises.

    `lost` is called later with the error, if the store cannot accept it.
    """

    def decided(tx: Transaction) -> None:
        if isinstance(tx.verdict, Conflict):
            try:
                commit_with_retries(replica, name, work, lost)
            except HeadwaterError as broken:
                lost(broken)
        elif isinstance(tx.verdict, Refused):
            lost(refusal(tx.verdict))
        elif tx.error is not None and tx.local_seq is not None:
            lost(tx.error)

    tx = Transaction(replica, name)
    work(tx)
    tx.on_settled(decided)
    tx.commit()
