"""Commit of the result of a run: the most frequent commit, so it has a fast path."""

from __future__ import annotations

from typing import Final

from headwater.cells.journal import ATTEMPTED_WRITE
from headwater.cells.pending_commit import PendingCommit
from headwater.cells.transaction import NOTHING_NOTED, Transaction
from headwater.store.commit import SetDoc
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.tree import Value, same

_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW


def commit_result(tx: Transaction, doc: DocKey, value: Value) -> bool:
    """Write a result and commit. Returns whether there was anything to write.

    The fast path of `put_result` and `commit`, for a run that has written nothing else. If a document that it has read
    is not the identical object any more, or was read with flags, it calls these two.
    """
    if tx.wrote or not tx.journal.is_plain or tx.spans is not None:
        put_result(tx, doc, value)
        wrote = tx.wrote
        tx.commit()
        return wrote
    replica = tx.replica
    with replica.lock:
        documents = replica._documents
        # The current version: if the run has read an older one, that is detected below.
        output = documents.get(doc) or replica._load(doc)
        if same(output.visible, value) and _is_own(tx, output.layers):
            tx.end()
            return False
        versions = tx.journal.entries
        for key, seen in versions.items():
            record = documents.get(key[0])
            if seen is None or record is None or record.mark is not seen:
                put_result(tx, doc, value)
                tx.commit()
                return True
        tx.wrote = True
        try:
            observes = None if tx.observes is None else (0, tx.observes[1])
            pending = replica.put(SetDoc(doc, value), output, versions, tx, observes)
        except BaseException as error:  # noqa: BLE001  # raised there, unless it is a conflict
            tx._send_failed(error)
        else:
            tx._sent(pending)
            # Its reads are registered, and those that the store may check are with the commit.
            tx.journal = NOTHING_NOTED
        return True


def put_result(tx: Transaction, doc: DocKey, value: Value) -> None:
    """Write the result of a run as a whole document; nothing if it is already stored."""
    draft = tx._draft(doc)
    if draft.whole or draft.ops:
        # The run has written there itself.
        if not same(draft.value, value):
            tx._put(draft, value)
    elif not (same(draft.value, value) and _is_own(tx, draft.mark.layers[: draft.mark.count])):
        tx.journal.record(doc, (), _DEEP, ATTEMPTED_WRITE, draft.mark)
        tx._put(draft, value)


def _is_own(tx: Transaction, layers: list[PendingCommit]) -> bool:
    """A stored result is confirmed, or by the same node, which runs again if it is rejected (I5)."""
    if not layers:
        return True
    source = layers[-1].source
    return type(source) is Transaction and source.node is tx.node
