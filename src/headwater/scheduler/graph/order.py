"""Ranks of nodes, and the queue of nodes that have to run.

A node's rank is greater than that of every node it reads. It is raised when an edge requires it, together with the
nodes after it; or lowered, if there is room. It is never computed for the whole graph. The nodes of a cycle share one
rank. Nodes of one rank run in the order of registration: parents before children.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from typing import Final, Protocol

from headwater.scheduler.graph.liveness import Liveness
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler_limits import LOWERED_MAX


class RankEdges(Protocol):
    """What ranks need of the graph."""

    liveness: Liveness

    def sources(self, node: Node) -> Iterator[Node]:
        """The writers of its reads."""
        ...

    def readers(self, node: Node) -> list[Node]:
        """The readers of its outputs."""
        ...


class Ranks:
    """The only writer of `rank` and `cycle`."""

    def __init__(self, edges: RankEdges, on_lowered: Callable[[Node], None]) -> None:
        self._edges = edges
        self._on_lowered = on_lowered
        self._cycles = 0
        # Edges that are not processed yet: the processing of other edges ignores them.
        self._untied: set[tuple[Node, Node]] = set()
        # The number of visited nodes: the cost of keeping the order.
        self.visits = 0

    def link(self, source: Node, target: Node) -> None:
        """Add an edge: the target reads an output of the source, so it comes later. Without recursion."""
        if _is_in_order(source, target):
            return
        if self._lower(source, target.rank - 1):
            return
        raised = self._raised([(target, source.rank + 1)], source)
        if raised is None:
            self._join(source, target)
        else:
            for node, rank in raised.items():
                node.rank = rank

    def _lower(self, node: Node, rank: int) -> bool:
        """Lower a source with few inputs instead of raising its readers.

        Otherwise each edge of a chain that is built from its end would cost the length of the chain.
        """
        if node.rare.cycle is not None or len(node.above) > LOWERED_MAX:
            return False
        for source in self._edges.sources(node):
            if source.rank >= rank:
                return False
        node.rank = rank
        self.visits += 1
        self._on_lowered(node)
        return True

    def link_all(self, edges: list[tuple[Node, Node]]) -> None:
        """Add several edges, one after the other: a search must not pass an edge without a rank."""
        # An edge in order stays so, and may exist through another document: a growing cycle may lead over it.
        self._untied = {edge for edge in edges if not _is_in_order(*edge)}
        for source, target in edges:
            self._untied.discard((source, target))
            self.link(source, target)

    def _readers(self, node: Node) -> list[Node]:
        found = self._edges.readers(node)
        return [reader for reader in found if (node, reader) not in self._untied] if self._untied else found

    def _raised(self, todo: list[tuple[Node, int]], source: Node | None) -> dict[Node, int] | None:
        """The new ranks if these are raised; None if the source itself would be raised: there is a cycle.

        In the order of the old ranks, so that a node is visited after all nodes before it.
        """
        raised: dict[Node, int] = {}
        heap: list[tuple[int, int, Node]] = []

        def ask(node: Node, rank: int) -> None:
            if raised.get(node, node.rank) < rank:
                raised[node] = rank
                heappush(heap, (node.rank, node.order, node))

        for node, rank in todo:
            ask(node, rank)
        while heap:
            node = heappop(heap)[2]
            cycle = node.rare.cycle
            # Several nodes of a cycle may be raised: the highest rank counts for all.
            rank = raised[node] if cycle is None else max(raised.get(member, member.rank) for member in cycle)
            self.visits += 1
            for member in cycle or (node,):
                if member is source:
                    return None
                raised[member] = rank
            for member in cycle or (node,):
                for reader in self._readers(member):
                    if cycle is None or reader.rare.cycle is not cycle:
                        ask(reader, rank + 1)
        return raised

    def _join(self, source: Node, target: Node) -> None:
        """Join two nodes that read each other, and all nodes between them, to one cycle with one rank."""
        below = self._reach(target, source.rank)
        cycle = [node for node in self._leading_to(source, below) if node in below]
        cycle = list(dict.fromkeys([*cycle, source, target]))
        joined = {id(node.rare.cycle) for node in cycle if node.rare.cycle is not None}
        self._cycles += 1 - len(joined)
        self._edges.liveness.has_cycles = True
        rank = max(node.rank for node in cycle)
        for node in cycle:
            node.rank, node.own_rare().cycle = rank, cycle
        after = [
            (reader, rank + 1)
            for node in cycle
            for reader in self._readers(node)
            if reader.rare.cycle is not cycle and reader.rank <= rank
        ]
        for node, higher in (self._raised(after, None) or {}).items():
            node.rank = higher

    def _reach(self, node: Node, rank: int) -> dict[Node, None]:
        """The nodes after it, up to a rank."""
        found = {node: None}
        todo = [node]
        while todo:
            for reader in self._readers(todo.pop()):
                if reader.rank <= rank and reader not in found:
                    found[reader] = None
                    todo.append(reader)
        return found

    def _leading_to(self, node: Node, among: dict[Node, None]) -> dict[Node, None]:
        found = {node: None}
        todo = [node]
        while todo:
            target = todo.pop()
            for source in self._edges.sources(target):
                if source in among and source not in found and (source, target) not in self._untied:
                    found[source] = None
                    todo.append(source)
        return found

    def loosen(self, node: Node) -> None:
        """A node reads less than before: check whether its cycle still exists."""
        cycle = node.rare.cycle
        if cycle is None:
            return
        self._cycles -= 1
        for member in cycle:
            member.rare.cycle = None
        inside = set(cycle)
        self.link_all(
            [(source, member) for member in cycle for source in self._edges.sources(member) if source in inside]
        )
        self._edges.liveness.has_cycles = self._cycles > 0


class Queue:
    """The nodes that have to run.

    Computations by rank; when none of them waits, effects as they were registered; then materializers without a waiting
    reader.
    """

    def __init__(self) -> None:
        # A heap of integers, which compare fastest: tier, rank and order in one. A raised rank is
        # found when its entry is taken; a lowered rank has a second entry. Without entries, no node is queued.
        self.heap: list[int] = []
        self._waiting: dict[int, Node] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, node: Node) -> None:
        """Queue a node. Idempotent."""
        if not node.queued:
            node.queued = True
            self._waiting[node.position] = node
            # As `_turn`, without the call.
            turn = node.spec.tier << _TIER_SHIFT if node.spec.tier else node.rank << _ORDER_BITS
            heappush(self.heap, turn | node.position)

    def lowered(self, node: Node) -> None:
        """The rank of a node was lowered: it is due earlier."""
        if node.queued and not node.spec.tier:
            heappush(self.heap, _turn(node))

    def take(self) -> Node | None:
        """The next node; None if the queue is empty."""
        heap = self.heap
        while heap:
            turn = heappop(heap)
            node = self._waiting.pop(turn & _ORDER, None)
            if node is None:
                # It was taken with an earlier entry.
                continue
            if not node.spec.tier and (rank := turn >> _ORDER_BITS) != node.rank:
                self._waiting[node.position] = node
                if rank < node.rank:
                    heappush(heap, _turn(node))
                continue
            node.queued = False
            return node
        return None

    def is_before(self, rank: int) -> bool:
        """Whether a computation of a lower rank may be waiting."""
        heap = self.heap
        return bool(heap) and heap[0] >> _ORDER_BITS < rank

    def nodes(self) -> list[Node]:
        """The queued nodes, in no order."""
        return list(self._waiting.values())

    def clear(self) -> None:
        """Empty the queue."""
        for node in self._waiting.values():
            node.queued = False
        self.heap.clear()
        self._waiting.clear()


def _is_in_order(source: Node, target: Node) -> bool:
    if target.rank > source.rank or source is target:
        return True
    cycle = source.rare.cycle
    return cycle is not None and cycle is target.rare.cycle


def _turn(node: Node) -> int:
    """The position of a node: lower goes first."""
    if node.spec.tier:
        return node.spec.tier << _TIER_SHIFT | node.position
    return node.rank << _ORDER_BITS | node.position


_ORDER_BITS: Final = 40
_ORDER: Final = (1 << _ORDER_BITS) - 1
_TIER_SHIFT: Final = 80
"""Room for a million million nodes in the life of a scheduler, and for as many ranks: then the tiers."""
