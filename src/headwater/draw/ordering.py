"""The order of boxes in a column, with few crossings."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Final

ROUNDS_MAX: Final = 24
"""Sweeps in both directions. Most graphs need three. Each is linear in the number of links."""

PATIENCE: Final = 4
"""Rounds without a better order before the search ends: the sweeps then repeat themselves."""

EXCHANGE_MAX: Final = 1200
"""The largest graph, in links, in which neighbors are also swapped. Swapping improves on sweeps, and costs more."""

Rows = list[list[int]]
Near = Sequence[Sequence[int]]
"""The neighbors of each point on one side."""


def arrange(columns: Rows, left: Near, right: Near) -> Rows:
    """The columns, each in an order with few crossings. Links lead from one column to the next only."""
    best = [list(column) for column in columns]
    place = _places(best, len(left))
    fewest = crossings(best, right)
    current = best
    since = 0
    thorough = sum(len(near) for near in right) <= EXCHANGE_MAX
    for _ in range(ROUNDS_MAX):
        if fewest == 0 or since == PATIENCE:
            break
        current = [list(column) for column in current]
        for column in current[1:]:
            _sort(column, left, place)
        for column in reversed(current[:-1]):
            _sort(column, right, place)
        if thorough:
            for column in current:
                _exchange(column, (left, right), place)
        count = crossings(current, right)
        since += 1
        if count < fewest:
            best, fewest, since = current, count, 0
    return best


def crossings(columns: Rows, right: Near) -> int:
    """The number of pairs of links that cross."""
    place = _places(columns, len(right))
    total = 0
    for column in columns:
        ends: list[int] = []
        for point in column:
            targets = sorted(place[other] for other in right[point])
            total += sum(len(ends) - bisect_right(ends, target) for target in targets)
            for target in targets:
                insort(ends, target)
    return total


def _places(columns: Rows, count: int) -> list[int]:
    place = [0] * count
    for column in columns:
        for index, point in enumerate(column):
            place[point] = index
    return place


def _sort(column: list[int], near: Near, place: list[int]) -> None:
    """Sort by the mean of the neighbors. A point without neighbors keeps its place."""
    middle = {
        point: sum(place[other] for other in near[point]) / len(near[point]) if near[point] else place[point]
        for point in column
    }
    column.sort(key=middle.__getitem__)
    for index, point in enumerate(column):
        place[point] = index


def _exchange(column: list[int], sides: tuple[Near, Near], place: list[int]) -> None:
    """Swap neighbors in a column where that removes crossings."""
    for index in range(len(column) - 1):
        upper, lower = column[index], column[index + 1]
        gain = 0
        for near in sides:
            for a in near[upper]:
                for b in near[lower]:
                    gain += (place[a] > place[b]) - (place[a] < place[b])
        if gain > 0:
            column[index], column[index + 1] = lower, upper
            place[lower], place[upper] = index, index + 1
