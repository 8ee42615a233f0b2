"""Reference counts: which nodes are live.

Counted, not searched: a node holds one reference for each reason of its own and for each document that a live node
reads of it. A node grants references only when it becomes live, and withdraws them when it ceases to be. Nodes in
a cycle could keep each other alive: in a graph with cycles, a node that loses a reference searches for a root.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from headwater.scheduler.graph.node import Node


class LivenessEdges(Protocol):
    """What liveness needs of the graph."""

    def sources(self, node: Node) -> Iterator[Node]:
        """The writers of its reads; once for each document."""
        ...

    def readers(self, node: Node) -> list[Node]:
        """The readers of its outputs."""
        ...


class Liveness:
    """The only writer of `demand`, `live_refs`, `provisional` and `resting`."""

    def __init__(
        self, edges: LivenessEdges, on_live: Callable[[Node], None], on_dormant: Callable[[Node], None]
    ) -> None:
        self._edges = edges
        self._on_live = on_live
        self._on_dormant = on_dormant
        # Some nodes form a cycle: a count alone is not enough. Set by the ranks.
        self.has_cycles = False
        # The number of changes of `live_refs`: the cost.
        self.writes = 0

    def demand(self, node: Node) -> None:
        """Add a reason of its own to be live."""
        node.demand += 1
        self.grant(node)

    def release(self, node: Node) -> None:
        """Remove a reason of its own."""
        node.demand -= 1
        self.withdraw(node)

    def rest(self, node: Node) -> None:
        """Suspend its own reason to be live: the node that made it is not observed."""
        if node.demand and not node.resting:
            node.resting = True
            self.release(node)

    def rouse(self, node: Node) -> None:
        """Restore the suspended reason."""
        if node.resting:
            node.resting = False
            self.demand(node)

    def lend(self, node: Node) -> None:
        """Make it live because its maker is: until it has run and the current pass is over."""
        if not node.provisional:
            node.provisional = True
            self.demand(node)

    def expire(self, node: Node) -> None:
        """End the provisional reference: from now on it needs a reader."""
        if node.provisional:
            node.provisional = False
            self.release(node)

    def grant(self, node: Node) -> None:
        """Add a reference. A node that becomes live passes it to its sources, without recursion: chains may be long."""
        todo = [node]
        while todo:
            current = todo.pop()
            current.live_refs += 1
            self.writes += 1
            if current.live_refs == 1:
                todo += self._edges.sources(current)
                self._on_live(current)

    def withdraw(self, node: Node) -> None:
        """Remove a reference."""
        todo = [node]
        while todo:
            current = todo.pop()
            if not current.live_refs:
                # It was found to have no root together with the node that withdraws now.
                continue
            current.live_refs -= 1
            self.writes += 1
            if not current.live_refs:
                todo += self._edges.sources(current)
                self._on_dormant(current)
            elif self.has_cycles and not current.demand:
                todo += self._drop_if_rootless(current)

    def forget(self, node: Node) -> None:
        """The node is removed. Its reads, and the references they granted, are removed before."""
        node.demand = node.live_refs = 0
        node.provisional = node.resting = False

    def _drop_if_rootless(self, node: Node) -> list[Node]:
        """If no reader below has a reason of its own, all become dormant. Returns the sources they release."""
        found = {node: None}
        todo = [node]
        while todo:
            for reader in self._edges.readers(todo.pop()):
                if reader.live_refs and reader not in found:
                    if reader.demand:
                        return []
                    found[reader] = None
                    todo.append(reader)
        held = [source for member in found for source in self._edges.sources(member) if source not in found]
        for member in found:
            member.live_refs = 0
            self.writes += 1
            self._on_dormant(member)
        return held
