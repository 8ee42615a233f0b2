"""Commit of the result of a run: the most frequent commit, so it has a fast path."""

from __future__ import annotations

from typing import Final

from headwater.cells.journal import ATTEMPTED_WRITE, Mark
from headwater.cells.pending_commit import ranges
from headwater.cells.transaction import Transaction
from headwater.store.commit import PendingRead, Read, SetDoc
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe, Value, same

_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW


def commit_result(tx: Transaction, doc: DocKey, value: Value) -> bool:
    """Write a result and commit. Returns whether there was anything to write.

    The fast path of `put_result` and `commit`, for a run that has written nothing else. If a document that it has read
    is not the identical object any more, or was read with flags, it calls these two.
    """
    if tx.wrote or not tx.journal.is_plain:
        put_result(tx, doc, value)
        wrote = tx.wrote
        tx.commit()
        return wrote
    replica, held = tx.replica, tx._held
    with replica.lock:
        # The current version: if the run has read an older one, that is detected below.
        base, mark = replica.snapshot(doc)
        if _is_current(tx, base, mark, value):
            tx.end()
            return False
        seen_reads: list[Read] = []
        resting: list[PendingRead] = []
        documents = replica._documents
        for (read, path, bits), seen in tx.journal.entries.items():
            record = documents.get(read)
            if (
                seen is None
                or record is None
                or record.visible is not held[read].base
                or record.layers is not seen.layers
                or len(seen.layers) != seen.count
            ):
                put_result(tx, doc, value)
                tx.commit()
                return True
            depth = _SHALLOW if bits else _DEEP
            if not seen.count:
                seen_reads.append(Read(read, path, seen.seq, depth))
            elif seen.count == 1:
                number = seen.layers[0].commit.local_seq
                resting.append(PendingRead(read, path, seen.seq, ((number, number),), depth))
            else:
                resting.append(PendingRead(read, path, seen.seq, ranges(seen.layers), depth))
        tx.wrote = True
        try:
            observes = None if tx.observes is None else (0, tx.observes[1])
            pending = replica.put(SetDoc(doc, value), base, (seen_reads, resting), tx, observes)
        except BaseException as error:  # noqa: BLE001  # raised there, unless it is a conflict
            tx._send_failed(error)
        else:
            tx._sent(pending)
        return True


def put_result(tx: Transaction, doc: DocKey, value: Value) -> None:
    """Write the result of a run as a whole document; nothing if it is already stored."""
    held = tx._held.get(doc)
    if held is None:
        held = tx._hold(doc, "write")
    if held.whole or held.ops:
        # The run has written there itself.
        if not same(held.value, value):
            tx._put(held, value)
    elif not _is_current(tx, held.base, held.mark, value):
        tx.journal.record(doc, (), _DEEP, ATTEMPTED_WRITE, held.mark)
        tx._put(held, value)


def _is_current(tx: Transaction, base: Maybe, mark: Mark, value: Value) -> bool:
    """The result is already stored, confirmed or by the same node, which runs again if it is rejected (I5)."""
    if not same(base, value):
        return False
    if not mark.count:
        return True
    source = mark.layers[mark.count - 1].source
    return type(source) is Transaction and source.node is tx.node
