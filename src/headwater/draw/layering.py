"""Columns of boxes.

Edges are added in the given order. An edge that would close a cycle is reversed, so give edges that must keep their
direction first. The columns are longest paths. A point with more edges to its right than to its left then moves right
as far as possible, which makes edges shorter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple


class Layering(NamedTuple):
    """The column of each point, from 0, and for each edge whether it leads to the left."""

    columns: list[int]
    turned: list[bool]


def assign(count: int, edges: Sequence[tuple[int, int]]) -> Layering:
    """Columns for the points 0 to count - 1. An edge from a point to itself is ignored."""
    order = _Order(count)
    turned: list[bool] = []
    for source, target in edges:
        against = source != target and not order.add(source, target)
        if against:
            order.add(target, source)  # it cannot close a cycle either: there would have been one before
        turned.append(against)
    return Layering(_columns(order), turned)


def components(count: int, edges: Sequence[tuple[int, int]]) -> list[list[int]]:
    """The connected parts, each with its points in ascending order, sorted by the first point."""
    beside: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges:
        beside[source].append(target)
        beside[target].append(source)
    seen = [False] * count
    found: list[list[int]] = []
    for start in range(count):
        if not seen[start]:
            part = _reachable(start, beside, lambda point: not seen[point])
            for point in part:
                seen[point] = True
            found.append(sorted(part))
    return found


class _Order:
    """An order of the points in which every edge leads forward, maintained while edges are added.

    Only the points between the two ends of a new edge are visited and moved (Pearce and Kelly, 2006).
    """

    def __init__(self, count: int) -> None:
        self.place = list(range(count))
        self.after: list[list[int]] = [[] for _ in range(count)]
        self.before: list[list[int]] = [[] for _ in range(count)]
        self._edges: set[tuple[int, int]] = set()

    def add(self, source: int, target: int) -> bool:
        """Add an edge, unless it closes a cycle."""
        if (source, target) in self._edges:
            return True
        place = self.place
        low, high = place[target], place[source]
        if low < high:
            behind = _reachable(target, self.after, lambda point: place[point] <= high)
            if source in behind:
                return False
            ahead = _reachable(source, self.before, lambda point: place[point] >= low)
            moved = sorted(ahead, key=place.__getitem__) + sorted(behind, key=place.__getitem__)
            for point, spot in zip(moved, sorted(place[point] for point in moved), strict=True):
                place[point] = spot
        self._edges.add((source, target))
        self.after[source].append(target)
        self.before[target].append(source)
        return True


def _reachable(start: int, following: list[list[int]], may_enter: Callable[[int], bool]) -> set[int]:
    found = {start}
    waiting = [start]
    while waiting:
        for point in following[waiting.pop()]:
            if point not in found and may_enter(point):
                found.add(point)
                waiting.append(point)
    return found


def _columns(order: _Order) -> list[int]:
    points = sorted(range(len(order.place)), key=order.place.__getitem__)
    columns = [0] * len(points)
    for point in points:
        columns[point] = max((columns[other] + 1 for other in order.before[point]), default=0)
    for point in reversed(points):
        if len(order.after[point]) > len(order.before[point]):
            columns[point] = min(columns[other] for other in order.after[point]) - 1
    return columns
