"""The failing computations, and the failures their readers have seen.

A failure is no document: the result of an earlier run stays. So the observation of a reader has the fingerprint of the
error beside its reads, and an opening compares it with the last run of the failing function. If both are valid and
equal, the reader need not run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import NO_FAILURES, Node
from headwater.store.observations import Called, Observation, fingerprint_of
from headwater.values.ids import DocKey

FAILING_MIN: Final = 100
"""The number of failed nodes above which removed nodes are dropped from the list."""


class FailingNodes:
    """The failing nodes of one scheduler."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        # Nodes that failed in this opening, or in their last stored run; some have recovered.
        self._nodes: dict[Node, None] = {}
        # Whether there are none. A field, because every run asks.
        self.is_empty: bool = True
        self._prune_at = FAILING_MIN

    def add(self, node: Node) -> None:
        """Add a node whose last run failed."""
        self._nodes[node] = None
        self.is_empty = False
        if len(self._nodes) > self._prune_at:
            self._nodes = {each: None for each in self._nodes if not each.removed}
            self._prune_at = max(2 * len(self._nodes), FAILING_MIN)

    def drop(self, node: Node) -> None:
        """Remove a node that no longer fails."""
        if node.rare.known_failure is not None:
            node.rare.known_failure = None
        self._nodes.pop(node, None)
        self.is_empty = not self._nodes

    def not_seen_by(self, node: Node, failure: bytes) -> list[Node]:
        """The readers that ran here while the failed run was suspended, and were not given a result."""
        if not node.spec.is_async:
            return []
        doc = node.outputs[0]
        readers = (each for each in self._graph.readers_of(doc) if each.runs and not each.running)
        return [
            each
            for each in readers
            if each is not node and (each.rare.seen_failures or NO_FAILURES).get(doc) != failure
        ]

    def above(self, node: Node) -> dict[DocKey, bytes]:
        """The results that a node has read and whose functions fail, with the fingerprints of their errors."""
        return self.among(node.above, node) if self._nodes and node.above else NO_FAILURES

    def among(self, docs: Iterable[DocKey], reader: Node) -> dict[DocKey, bytes]:
        """The same for these documents."""
        found: dict[DocKey, bytes] = {}
        for doc in docs if self._nodes else ():
            for writer in self._graph.writers_of(doc):
                if writer in self._nodes and writer is not reader and doc == writer.outputs[0]:
                    failure = failure_of(writer)
                    if failure is not None:
                        found[doc] = failure
        return found or NO_FAILURES


def failure_of(node: Node) -> bytes | None:
    """The fingerprint of its last error, here or in the restored run; None without one."""
    if node.rare.error is not None:
        return fingerprint_of(node.rare.error)
    return None if node.is_retried else node.rare.known_failure


def recorded_failures(observation: Observation) -> dict[DocKey, bytes]:
    """The results whose functions failed when they were read, and how they did."""
    calls = () if observation.extra is None else observation.extra.calls
    if not calls:
        return NO_FAILURES
    found = {called_doc(observation, call): call.error for call in calls if call.error is not None}
    return found or NO_FAILURES


def called_doc(observation: Observation, call: Called) -> DocKey:
    """The result that a call was for."""
    read = observation.reads[call.read]
    return read[0] if isinstance(read, tuple) else read


def set_seen(node: Node, failures: dict[DocKey, bytes]) -> None:
    """Note the failures that a run has read: mostly none, as before."""
    if failures or node.rare.seen_failures is not None:
        node.own_rare().seen_failures = failures or None
