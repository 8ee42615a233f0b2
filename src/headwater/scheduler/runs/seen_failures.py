"""What a transaction has seen of functions that fail: a failure is no document, and the commit does not check it.

A function that begins to fail keeps its result document. A transaction that has called it before would commit what it
made of the earlier result, and the store would accept that.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node
from headwater.store.commit import Conflict
from headwater.values.address import address_text
from headwater.values.ids import DocKey

NOT_READY: Final = -1
"""In place of the time of a failure: the function was under way, and the caller got neither a result nor an error."""


def note_call(tx: Transaction, node: Node) -> None:
    """A function was called in a transaction, and gave its result or its error.

    Noted only if that is another outcome than before the transaction: `other_outcome` knows the others by their time.
    """
    if node.failed_at > tx.failures:
        _note(tx, node, node.failed_at)


def note_waiting(tx: Transaction, node: Node) -> None:
    """A function was called in a transaction, and has no result yet."""
    _note(tx, node, NOT_READY)


def _note(tx: Transaction, node: Node, failed_at: int) -> None:
    if tx.called is None:
        tx.called = {}
    tx.called.setdefault(node, failed_at)


def has_news(tx: Transaction, failures: int) -> bool:
    """Whether a function may have failed or recovered since the transaction began."""
    return tx.called is not None or tx.failures != failures


def other_outcome(tx: Transaction, docs: Iterable[DocKey], graph: Graph) -> DocKey | None:
    """A result that a transaction has read, and whose function fails since, no longer, or in another way."""
    called = tx.called or {}
    for doc in docs:
        for node in graph.writers_of(doc):
            if doc != node.outputs[0]:
                continue
            seen = called.get(node, 0)
            if node.attempt is None if seen == NOT_READY else node.failed_at > tx.failures and node.failed_at != seen:
                return doc
    return None


def failure_conflict(tx: Transaction, graph: Graph, failures: int) -> Conflict | None:
    """The conflict of a transaction with a function that it has called, and that fails since, or no longer."""
    doc = other_outcome(tx, tx.docs, graph) if has_news(tx, failures) else None
    if doc is None:
        return None
    reason = f"whether {address_text(doc)} fails, or how, changed while the transaction was open"
    return Conflict(reason, doc, seq=tx.replica.seq)


def called_in(tx: Transaction, graph: Graph) -> list[Node]:
    """The computations whose results a transaction of plain code has read."""
    found: list[Node] = []
    writers, docs = graph.writers, tx.docs
    if docs.isdisjoint(writers.keys()):
        # Most blocks call none.
        return found
    for doc in docs:
        if doc in writers:
            found += [node for node in graph.writers_of(doc) if doc == node.outputs[0] and node.spec.has_callers]
    return found
