"""Observations of the functions of stopped pieces: if a piece is started again and they still hold, none runs.

The store has the same after it has decided their runs. Restarting a piece does not wait for that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from headwater.cells.pending_commit import ReadKey
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.declare.functions.computed import Computed
from headwater.runtime.pieces.piece_host import PieceHost
from headwater.scheduler.graph.node import NO_FAILURES, Node
from headwater.values.address import Depth
from headwater.values.ids import DocKey
from headwater.values.overlap import touches
from headwater.values.tree import Maybe


@dataclass(slots=True, frozen=True, eq=False)
class Seen:
    """Reads and result of one function, with the documents as of its run."""

    print: bytes
    rank: int
    reads: tuple[ReadKey, ...]
    recorded: bytes
    docs: dict[DocKey, Maybe]
    results: dict[DocKey, Maybe]
    # The failures that it read.
    told: dict[DocKey, bytes]
    # The commit of its run, if that has no verdict yet.
    commit: Transaction | None

    def is_so(self, replica: Replica) -> bool:
        """Whether a run would read the same."""
        if any(replica.read(doc) is not before for doc, before in self.results.items()):
            return False
        for doc, path, bits in self.reads:
            before, now = self.docs[doc], replica.read(doc)
            if before is not now and touches(path, Depth.SHALLOW if bits else Depth.DEEP, before, now):
                return False
        return True


def seen_by(space: PieceHost, function: Computed[..., Any]) -> Seen | None:
    """The observation of a function that is being retired; None if it could not save a run."""
    node = space.nodes[function]
    space.scheduler.invalidation.drain()
    recorded = node.recorded
    if not node.is_clean or node.rare.error is not None or node.attempt is not None or node.is_materializer:
        return None
    if recorded is None:
        # It has children, or other state that is not part of the observation.
        return None
    read = space.replica.read
    docs = {doc: read(doc) for doc, _, _ in node.reads}
    results = {doc: read(doc) for doc in node.outputs}
    code, failures = function.fingerprint_in(space), node.rare.seen_failures or NO_FAILURES
    return Seen(code, node.rank, node.reads, recorded, docs, results, failures, node.commit)


def take_over(space: PieceHost, found: dict[Computed[..., Any], Seen]) -> None:
    """Restore nodes of these functions whose observations still hold."""
    for function, seen in sorted(found.items(), key=lambda each: each[1].rank):
        node: Node = space.nodes[function]
        persistence = space.scheduler.persistence
        if node.has_value or not seen.is_so(space.replica) or function.fingerprint_in(space) != seen.print:
            continue
        if persistence.failing.among(seen.docs, node) == seen.told:
            persistence.take_up(node, seen.reads, seen.recorded, seen.told)
            if seen.commit is not None:
                seen.commit.on_settled(partial(_decided, space, node))


def _decided(space: PieceHost, node: Node, tx: Transaction) -> None:
    """The adopted run of a node is decided. If it was rolled back, the node runs itself."""
    if tx.is_rejected and not node.removed and not node.runs:
        space.scheduler.persistence.rejected(node)
        space.scheduler.runner.repeat(node, tx)
