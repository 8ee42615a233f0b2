"""Vertical positions of boxes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

SWEEPS: Final = 12
"""Sweeps in both directions. After about eight, positions move by less than a pixel."""

_STIFF: Final = 8.0
"""The weight of a straight course of a long link, compared with its two ends."""

_KINK: Final = 24
"""A link with a smaller slope is made straight, if there is room."""

_LOOSE: Final = 0.01
"""The weight of a point without neighbors: it yields to others."""


class ColumnSlot(NamedTuple):
    """One point of a column: its height, and its distance to the next one."""

    height: int
    gap: int
    is_bend: bool
    """Whether it is only a place where a link passes."""


def level(columns: Sequence[Sequence[int]], slots: Sequence[ColumnSlot], links: Sequence[tuple[int, int]]) -> list[int]:
    """The middle of each point, in whole numbers. The order within columns does not change."""
    left: list[list[tuple[int, float]]] = [[] for _ in slots]
    right: list[list[tuple[int, float]]] = [[] for _ in slots]
    for source, target in links:
        weight = _STIFF if slots[source].is_bend and slots[target].is_bend else 1.0
        left[target].append((source, weight))
        right[source].append((target, weight))
    steps = [_steps(column, slots) for column in columns]
    middle = [0.0] * len(slots)
    for column, step in zip(columns, steps, strict=True):
        for point, offset in zip(column, step, strict=True):
            middle[point] = offset - step[-1] / 2
    both = [a + b for a, b in zip(left, right, strict=True)]
    pairs = list(zip(columns, steps, strict=True))
    for sweep in range(SWEEPS):
        # First from one end to the other, so that each point finds its region; at last with both sides.
        there, back = (left, right) if sweep < SWEEPS // 2 else (both, both)
        for column, step in pairs:
            _settle(column, step, there, middle)
        for column, step in reversed(pairs):
            _settle(column, step, back, middle)
    for column in columns[1:]:
        _straighten(column, slots, left, middle)
    return [round(value) for value in middle]


def _steps(column: Sequence[int], slots: Sequence[ColumnSlot]) -> list[float]:
    """The smallest distance of each point below the first one."""
    found = [0.0]
    for upper, lower in pairwise(column):
        found.append(found[-1] + _apart(slots[upper], slots[lower]))
    return found[: len(column)]


def _apart(upper: ColumnSlot, lower: ColumnSlot) -> float:
    return (upper.height + lower.height) / 2 + min(upper.gap, lower.gap)


def _settle(
    column: Sequence[int], steps: Sequence[float], near: Sequence[list[tuple[int, float]]], middle: list[float]
) -> None:
    """Each point as near as possible to the mean of its neighbors: least squares, by pooling neighbors."""
    pools: list[tuple[float, float, int]] = []  # the best position of the first one, its weight, the number of points
    for point, step in zip(column, steps, strict=True):
        weight = sum(weight for _, weight in near[point])
        wanted = sum(middle[other] * w for other, w in near[point]) / weight if weight else middle[point]
        pool = (wanted - step, weight or _LOOSE, 1)
        while pools and pools[-1][0] > pool[0]:
            place, other, count = pools.pop()
            total = other + pool[1]
            pool = ((place * other + pool[0] * pool[1]) / total, total, count + pool[2])
        pools.append(pool)
    at = 0
    for place, _, count in pools:
        for index in range(at, at + count):
            middle[column[index]] = place + steps[index]
        at += count


def _straighten(
    column: Sequence[int], slots: Sequence[ColumnSlot], left: Sequence[list[tuple[int, float]]], middle: list[float]
) -> None:
    """Move each bend to the height of the one before it: least squares leave slopes in lines that could be level."""
    for at, point in enumerate(column):
        if not slots[point].is_bend or not left[point] or not slots[left[point][0][0]].is_bend:
            continue
        wanted = middle[left[point][0][0]]
        if abs(wanted - middle[point]) > _KINK:
            continue
        if at > 0:
            wanted = max(wanted, middle[column[at - 1]] + _apart(slots[column[at - 1]], slots[point]))
        if at + 1 < len(column):
            wanted = min(wanted, middle[column[at + 1]] - _apart(slots[point], slots[column[at + 1]]))
        middle[point] = wanted
