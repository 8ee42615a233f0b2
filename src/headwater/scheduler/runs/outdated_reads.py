"""Whether a document that a run has read is another value now."""

from __future__ import annotations

from collections.abc import Mapping

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.node import DocPath
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.overlap import touches
from headwater.values.tree import Path


def changed_read(replica: Replica, tx: Transaction, reads: Mapping[tuple[DocKey, Path, int], object]) -> DocPath | None:
    """A read that has changed. Its own writes are ignored."""
    read = replica.read
    for doc, path, bits in reads:
        seen, now = tx.snapshot_of(doc), read(doc)
        if seen is not now and touches(path, Depth.SHALLOW if bits else Depth.DEEP, seen, now):
            return doc, path
    return None
