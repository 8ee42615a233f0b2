"""The nodes that must be current before an event is handled.

Most nodes are current, and a handler reads results that depend on few of them. So two walks alternate, one step each:
down from the nodes that are not current, up from the reads. The first walk that ends has found them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node, NodeStatus
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.runner import Runner
from headwater.values.address import overlaps
from headwater.values.ids import DocKey


class Preflight:
    """Finds the nodes that an event has to wait for."""

    def __init__(self, graph: Graph, invalidation: Invalidation, runner: Runner) -> None:
        self._graph = graph
        self._invalidation = invalidation
        self._runner = runner
        # The number of visited nodes: the cost.
        self.visits = 0

    def is_written(self, doc: DocKey) -> bool:
        """Whether a node writes the document. Otherwise it is always current."""
        return doc in self._graph.writers or doc in self._graph.envelopes

    def blockers(self, docs: Iterable[DocKey]) -> list[Node]:
        """The nodes above these documents that are not current, or suspended; sources first."""
        if self._runner.look is not None:
            self._runner.look()
        self._invalidation.drain()
        last = self._writers_of(docs)
        if not last:
            return []
        first = [node for node in last if not node.is_clean]
        if not first and not self._invalidation.invalid and not self._runner.in_flight:
            return []
        found = self._meet(last)
        # Nodes that never ran are not counted as invalid before their result is read.
        found.update(dict.fromkeys(first))
        for _ in self._walk(found, first, lambda node: [each for each in self._above(node) if _is_new(each)]):
            """One step at a time."""
        return sorted(found, key=lambda node: (node.rank, node.position))

    def _is_unsure(self, node: Node) -> bool:
        return node in self._invalidation.invalid or node in self._runner.in_flight

    def _writers_of(self, docs: Iterable[DocKey]) -> dict[Node, None]:
        graph = self._graph
        found: dict[Node, None] = {}
        for doc in docs:
            found.update(dict.fromkeys(graph.writers_of(doc)))
            if graph.envelopes:
                found.update((writer, None) for _, writer in graph.envelopes.get(doc, ()))
        return found

    def _meet(self, last: dict[Node, None]) -> dict[Node, None]:
        """The nodes that are not current, among these or above them."""
        up: dict[Node, None] = dict(last)
        down: dict[Node, None] = {}
        upward = self._walk(up, list(last), self._above)
        downward = self._walk_down(down)
        while True:
            if next(upward, None) is None:
                return {node: None for node in up if self._is_unsure(node)}
            if next(downward, None) is None:
                break
        # Everything below them is known: of that, the part that leads to the reads.
        reached: dict[Node, None] = {node: None for node in last if node in down}
        for _ in self._walk(reached, list(reached), lambda node: [each for each in self._above(node) if each in down]):
            """One step at a time."""
        return {node: None for node in reached if self._is_unsure(node)}

    def _walk_down(self, found: dict[Node, None]) -> Iterator[Node]:
        for node in chain(self._invalidation.invalid, self._runner.in_flight):
            if node not in found:
                found[node] = None
                yield from self._walk(found, [node], self._below)

    def _walk(self, found: dict[Node, None], todo: list[Node], onward: Callable[[Node], list[Node]]) -> Iterator[Node]:
        while todo:
            node = todo.pop()
            self.visits += 1
            yield node
            for other in onward(node):
                if other not in found:
                    found[other] = None
                    todo.append(other)

    def _above(self, node: Node) -> list[Node]:
        return [*self._graph.sources(node), *self._graph.materializers(node)]

    def _below(self, node: Node) -> list[Node]:
        """The readers of its outputs and of its envelope."""
        graph = self._graph
        found = graph.readers(node)
        for doc, place in node.spec.side_write_envelope:
            for reader in graph.readers_of(doc):
                if reader is not node and any(at == doc and overlaps(place, path) for at, path, _ in reader.reads):
                    found.append(reader)
        return found


def _is_new(node: Node) -> bool:
    return node.status is NodeStatus.NEVER_RAN
