"""The stored rows of nodes, in the order in which an opening restores them."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.scheduler.graph.node import Node
from headwater.store.backend import ObservationRow
from headwater.store.resumption import Listing
from headwater.values.ids import NEVER, DocKey, Seq


def row_key(node: Node) -> DocKey:
    """The key of its row."""
    return node.stored_as or node.outputs[0]


def rows_in_turn(nodes: Iterable[Node], listing: Listing) -> list[tuple[ObservationRow | None, Node]]:
    """Take the rows of nodes, in the order of their runs: what ran first is mostly above, so most ranks stay."""
    found: list[tuple[Seq, int, ObservationRow | None, Node]] = []
    take = listing.rows.pop
    for node in nodes:
        if node.fingerprint is not None:
            row = take(row_key(node), None)
            # With its number, so that no two are compared by more than numbers.
            found.append((NEVER if row is None else row.seq, len(found), row, node))
    found.sort()
    return [(row, node) for _, _, row, node in found]
