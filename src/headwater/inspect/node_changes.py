"""Which nodes of an opening have changed since an earlier question: their counters are compared at each question.

A program without questions pays nothing: there is no record, and no run does anything for it. A question costs less
than a microsecond for each node, and a view only for those that have changed.
"""

from __future__ import annotations

from typing import Any

from headwater.runtime.inspection_port import InspectedSpace
from headwater.scheduler.graph.node import Node


class NodeChanges:
    """The stamps of one opening at the last look, and the number of the look that saw each node change."""

    def __init__(self) -> None:
        self.looks = 0
        self.structure = 0
        """Grows when nodes come or go, or read something else."""
        self._stamps: dict[Node, tuple[Any, ...]] = {}
        self._shapes: dict[Node, tuple[Any, ...]] = {}
        self._changed: dict[Node, int] = {}
        self._handlers: tuple[Any, ...] = ()

    def look(self, space: InspectedSpace) -> None:
        """Compare all nodes of an opening with the last look."""
        self.looks += 1
        scheduler = space.scheduler
        at_work = {*scheduler.runner.in_flight, *scheduler.runner.stack}
        stamps, shapes, changed = self._stamps, self._shapes, self._changed
        nodes = [node for node in list(scheduler.registry.nodes) if node.spec.home in (None, space)]
        moved = len(nodes) != len(stamps)
        for node in nodes:
            stamp = (node.runs, node.status, node.invalidated, node.live_refs > 0, node.rare.error, node in at_work)
            if stamps.get(node) != stamp:
                stamps[node] = stamp
                changed[node] = self.looks
                shape = (node.reads, node.rank, node.parent, node.outputs)
                if shapes.get(node) != shape:
                    shapes[node] = shape
                    moved = True
        handlers = tuple((each.id, tuple(each.closure)) for each in list(scheduler.streams.handlers.values()))
        if moved or handlers != self._handlers:
            self._handlers = handlers
            self.structure += 1
            for gone in stamps.keys() - set(nodes):
                del stamps[gone], shapes[gone], changed[gone]

    def since(self, look: int) -> list[Node]:
        """The nodes that have changed after a look."""
        return [node for node, changed in self._changed.items() if changed > look]
