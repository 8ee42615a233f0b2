"""Positions of boxes and routes of arrows.

Boxes get columns (`layering`). An edge that is longer than one column gets a bend in each column it passes. The
columns are ordered (`ordering`) and get heights (`heights`). Parts without a connection are laid out separately, and
then packed onto shelves.

Pure geometry, in whole numbers: names and sizes in, positions out. It depends neither on the meaning of a box nor on
how it is drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import isqrt
from typing import Final, Literal, NamedTuple

from headwater.draw.heights import ColumnSlot, level
from headwater.draw.layering import assign, components
from headwater.draw.ordering import arrange

GAP: Final = 20
"""Between two boxes of a column: room for a loop of a box."""

BEND: Final = ColumnSlot(height=4, gap=10, is_bend=True)

AISLE: Final = 54
"""Between two columns; more where many edges have to turn."""

AISLE_MAX: Final = 150

APART: Final = 36
"""Between parts without a connection."""

PORT: Final = 11
"""Between two edges on the same side of a box, if there is room."""

BENDS_MAX: Final = 6000
"""Bends of one part. A chain of hundreds with a reader of all would need a hundred thousand. Beyond this limit, the
longest edges run straight behind the boxes."""


class Rect(NamedTuple):
    """A box: its upper left corner and its size."""

    x: int
    y: int
    width: int
    height: int


class Route(NamedTuple):
    """The course of one edge, from its source to its target.

    Points 0 and 1, 2 and 3 and so on are on both sides of an aisle. From 1 to 2, and from 3 to 4, the edge is level
    and crosses a column. A loop has no points.
    """

    points: tuple[tuple[int, int], ...]
    course: Literal["along", "against", "loop"]


class Layout(NamedTuple):
    """All boxes by name, the routes in the order of the edges, and the size of all, from 0, 0."""

    boxes: dict[str, Rect]
    routes: tuple[Route, ...]
    columns: dict[str, int]
    width: int
    height: int


def lay_out(sizes: Mapping[str, tuple[int, int]], edges: Sequence[tuple[str, str]]) -> Layout:
    """Positions for boxes of these sizes. A box becomes as wide as its column.

    Edges that close a cycle lead to the left: of each cycle the last edge in `edges`.
    """
    names = list(sizes)
    number = {name: index for index, name in enumerate(names)}
    numbered = [(number[source], number[target]) for source, target in edges]
    parts = components(len(names), numbered)
    home = {index: part for part, indices in enumerate(parts) for index in indices}
    inside: list[list[int]] = [[] for _ in parts]
    for at, (source, _) in enumerate(numbered):
        inside[home[source]].append(at)
    done: list[_Part] = []
    for indices, own in zip(parts, inside, strict=True):
        local = {index: at for at, index in enumerate(indices)}
        ends = [(local[numbered[at][0]], local[numbered[at][1]]) for at in own]
        done.append(_Part([sizes[names[index]] for index in indices], ends))
    boxes: dict[str, Rect] = {}
    columns: dict[str, int] = {}
    routes: list[Route] = [Route((), "loop")] * len(edges)
    spots, width, height = _pack(done)
    for part, indices, own, (dx, dy) in zip(done, parts, inside, spots, strict=True):
        for at, index in enumerate(indices):
            rect = part.rects[at]
            boxes[names[index]] = rect._replace(x=rect.x + dx, y=rect.y + dy)
            columns[names[index]] = part.column_of[at]
        for at, route in zip(own, part.routes, strict=True):
            routes[at] = route._replace(points=tuple((x + dx, y + dy) for x, y in route.points))
    return Layout({name: boxes[name] for name in names}, tuple(routes), columns, width, height)


class _Part:
    """Connected boxes, laid out from 0, 0. Points are numbers: the boxes first, then the bends."""

    def __init__(self, sizes: list[tuple[int, int]], edges: list[tuple[int, int]]) -> None:
        self.sizes = sizes
        columns, turned = assign(len(sizes), edges)
        self.column_of = columns  # of every point
        self.slots = [ColumnSlot(height, GAP, is_bend=False) for _, height in sizes]
        # Each from left to right; None for a loop.
        self.paths = self._bend(edges, turned)
        links = list(dict.fromkeys(link for path in self.paths for link in pairwise(path) if self._is_short(link)))
        self.columns = self._arrange(links)
        middles = level(self.columns, self.slots, links)
        top = min(middles[point] - (slot.height + 1) // 2 for point, slot in enumerate(self.slots))
        self.middle = [middle - top for middle in middles]
        self._set_columns(links)
        self.rects = [
            Rect(self.left[column], self.middle[at] - height // 2, self.breadth[column], height)
            for at, ((_, height), column) in enumerate(zip(sizes, columns, strict=False))
        ]
        self.width = self.left[-1] + self.breadth[-1]
        self.height = max(rect.y + rect.height for rect in self.rects)
        lowest_bend = max((self.middle[at] + BEND.height for at in range(len(sizes), len(self.slots))), default=0)
        self.height = max(self.height, lowest_bend)
        self.routes = self._route(edges, turned)

    def _is_short(self, link: tuple[int, int]) -> bool:
        return self.column_of[link[1]] - self.column_of[link[0]] == 1

    def _bend(self, edges: list[tuple[int, int]], turned: list[bool]) -> list[list[int]]:
        """The points that each edge passes. Edges out of one box share bends as long as their courses are the same."""
        ends = [(b, a) if against else (a, b) for (a, b), against in zip(edges, turned, strict=True)]
        paths: list[list[int]] = [[] if a == b else [a, b] for a, b in ends]
        trunks: dict[tuple[int, bool, int], int] = {}
        spans = [self.column_of[b] - self.column_of[a] for a, b in ends]
        for at in sorted(range(len(edges)), key=spans.__getitem__):
            (start, end), against = ends[at], turned[at]
            passed = range(self.column_of[start] + 1, self.column_of[end])
            missing = [column for column in passed if (start, against, column) not in trunks]
            if len(trunks) + len(missing) > BENDS_MAX:
                continue
            for column in missing:
                trunks[start, against, column] = len(self.slots)
                self.slots.append(BEND)
                self.column_of.append(column)
            if passed:
                paths[at] = [start, *(trunks[start, against, column] for column in passed), end]
        return paths

    def _arrange(self, links: list[tuple[int, int]]) -> list[list[int]]:
        columns: list[list[int]] = [[] for _ in range(max(self.column_of) + 1)]
        for point, column in enumerate(self.column_of):
            columns[column].append(point)
        left: list[list[int]] = [[] for _ in self.slots]
        right: list[list[int]] = [[] for _ in self.slots]
        for source, target in links:
            left[target].append(source)
            right[source].append(target)
        return arrange(columns, left, right)

    def _set_columns(self, links: list[tuple[int, int]]) -> None:
        """The left and right end of each column: as wide as its widest box."""
        self.breadth = [0] * len(self.columns)
        for (width, _), column in zip(self.sizes, self.column_of, strict=False):
            self.breadth[column] = max(self.breadth[column], width)
        steep = [0] * len(self.columns)
        for source, target in links:
            steep[self.column_of[source]] += abs(self.middle[source] - self.middle[target]) > GAP
        self.left = [0]
        for column, width in enumerate(self.breadth[:-1]):
            self.left.append(self.left[-1] + width + min(AISLE_MAX, AISLE + 3 * steep[column]))

    def _route(self, edges: list[tuple[int, int]], turned: list[bool]) -> list[Route]:
        ports = self._ports(turned)
        routes: list[Route] = []
        for (source, target), path, against in zip(edges, self.paths, turned, strict=True):
            if source == target:
                routes.append(Route((), "loop"))
                continue
            first, last = path[0], path[-1]
            points = [(self._right(first), ports[first, "right", path[1], against])]
            for bend in path[1:-1]:
                points += [(x, self.middle[bend]) for x in (self.left[self.column_of[bend]], self._right(bend))]
            points.append((self.left[self.column_of[last]], ports[last, "left", path[-2], against]))
            routes.append(Route(tuple(reversed(points) if against else points), "against" if against else "along"))
        return routes

    def _right(self, point: int) -> int:
        return self.left[self.column_of[point]] + self.breadth[self.column_of[point]]

    def _ports(self, turned: list[bool]) -> dict[tuple[int, str, int, bool], int]:
        """The heights at which edges touch each side of a box, in the order of their other ends."""
        sides: dict[tuple[int, str], dict[tuple[int, bool], None]] = {}
        for path, against in zip(self.paths, turned, strict=True):
            if path:
                sides.setdefault((path[0], "right"), {})[path[1], against] = None
                sides.setdefault((path[-1], "left"), {})[path[-2], against] = None
        found: dict[tuple[int, str, int, bool], int] = {}
        for (point, side), ends in sides.items():
            room = self.slots[point].height - 2 * PORT
            step = min(PORT, room / max(1, len(ends) - 1))
            for index, (other, against) in enumerate(sorted(ends, key=lambda end: (self.middle[end[0]], end))):
                offset = round((index - (len(ends) - 1) / 2) * step)
                found[point, side, other, against] = self.middle[point] + offset
        return found


def _pack(parts: Sequence[_Part]) -> tuple[list[tuple[int, int]], int, int]:
    """The position of each part: the largest first, side by side while there is room, then on the next shelf."""
    area = sum((part.width + APART) * (part.height + APART) for part in parts)
    room = max([isqrt(area * 2), *(part.width for part in parts)])
    spots = [(0, 0)] * len(parts)
    x = y = shelf = width = 0
    for at in sorted(range(len(parts)), key=lambda at: (-len(parts[at].rects), -parts[at].height, at)):
        part = parts[at]
        if x and x + part.width > room:
            x, y, shelf = 0, y + shelf + APART, 0
        spots[at] = (x, y)
        width = max(width, x + part.width)
        x += part.width + APART
        shelf = max(shelf, part.height)
    return spots, width, y + shelf
