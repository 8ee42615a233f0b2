"""Commit of a block that replaces one document and reads nothing: the commonest block of plain code has a fast path."""

from __future__ import annotations

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.store.commit import SetDoc
from headwater.store.wellformed import check_operation
from headwater.values.tree import ABSENT, same


def commit_alone(tx: Transaction) -> bool:
    """Commit such a block, as `Transaction.commit` would. For another block, or one without a change: False."""
    if tx.status is not Status.OPEN or tx._has_read or len(tx._drafts) != 1 or tx.is_running:
        return False
    if tx._preconditions or tx.table_transaction is not None or tx.keeping is not None or tx.observes is not None:
        return False
    if tx.spans is not None:
        return False
    ((doc, draft),) = tx._drafts.items()
    value, replica = draft.value, tx.replica
    if not draft.whole or value is ABSENT:
        return False
    operation = SetDoc(doc, value)
    try:
        with replica.lock:
            record = replica._documents.get(doc)
            if record is None or (record.visible == value and same(record.visible, value)):
                return False
            check_operation(operation)
            pending = replica.put(operation, record, {}, tx)
    except BaseException as error:  # noqa: BLE001  # raised there, unless it is a conflict
        tx._send_failed(error)
    else:
        tx._sent(pending)
    return True
