"""The reads of runs in indexes of collections: registered with the graph, and compared with what is there now."""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.span_records import SpanKey
from headwater.cells.span_tallies import Tally
from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import DocPath, Node
from headwater.store.collection_record import kind_of_index, record_doc


def register_spans(graph: Graph, node: Node, tx: Transaction) -> None:
    """Register the reads of a run, instead of those of its last one."""
    graph.spans.apply(node, {} if tx.spans is None else tx.spans.dependencies())


def span_overtaken(graph: Graph, tx: Transaction, drain: Callable[[], None]) -> DocPath | None:
    """The cause, if a registered read has changed during the run: the record of the collection.

    `drain` takes in what has changed. What comes later is in the inbox, and invalidates the node.
    """

    def tally_now(key: SpanKey) -> Tally | None:
        drain()
        return graph.spans.tally_of(key)

    entry = None if tx.spans is None else tx.spans.overtaken(tx._drafts, tally_now)  # noqa: SLF001  # its own writes
    return None if entry is None else (record_doc(kind_of_index(entry.basis.named.name)), ())
