"""The edges of a graph that are part of a cycle."""

from __future__ import annotations

from collections.abc import Iterable


def circular(edges: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The edges that are part of a cycle: a path leads from their target back to their source.

    Kosaraju's algorithm: the first walk records when each point is finished. The second walk, backwards and in that
    order, finds the points that can be reached from both sides.
    """
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for source, target in edges:
        for near, start, end in ((after, source, target), (before, target, source)):
            near.setdefault(start, []).append(end)
            near.setdefault(end, [])
    home: dict[str, int] = {}
    for number, point in enumerate(reversed(_finished(after))):
        waiting = [point]
        while waiting:
            found = waiting.pop()
            if found not in home:
                home[found] = number
                waiting += before[found]
    return {(source, target) for source, targets in after.items() for target in targets if home[source] == home[target]}


def _finished(after: dict[str, list[str]]) -> list[str]:
    """All points, each after the points that can be reached from it, except along cycles."""
    done: list[str] = []
    seen: set[str] = set()
    for start, ends in after.items():
        if start in seen:
            continue
        seen.add(start)
        walk = [(start, iter(ends))]
        while walk:
            point, rest = walk[-1]
            step = next((end for end in rest if end not in seen), None)
            if step is None:
                done.append(point)
                walk.pop()
            else:
                seen.add(step)
                walk.append((step, iter(after[step])))
    return done
