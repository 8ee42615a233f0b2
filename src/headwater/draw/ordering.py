"""The order of boxes in a column, with few crossings."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Sequence
from typing import Final

ROUNDS_MAX: Final = 24
"""Sweeps there and back. Most graphs are done after three; each is linear in the links, so that none takes long."""

PATIENCE: Final = 4
"""Rounds without a better order before it is given up: the sweeps run in circles by then."""

EXCHANGE_MAX: Final = 1200
"""Links of a graph in which neighbours change places as well. It mends what sweeps leave, and is dear beyond this."""

Rows = list[list[int]]
Near = Sequence[Sequence[int]]
"""By point: its neighbours on one side."""


def arrange(columns: Rows, left: Near, right: Near) -> Rows:
    """The columns, each in an order that makes few links cross. Links lead from one column to the next only."""
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
    """How many pairs of links cross."""
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
    """By the mean of the neighbours; one without any keeps its place."""
    middle = {
        point: sum(place[other] for other in near[point]) / len(near[point]) if near[point] else place[point]
        for point in column
    }
    column.sort(key=middle.__getitem__)
    for index, point in enumerate(column):
        place[point] = index


def _exchange(column: list[int], sides: tuple[Near, Near], place: list[int]) -> None:
    """Let neighbours change places where that makes fewer links cross."""
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
