"""The graph as it is drawn: boxes and routes with positions, by structure. A change of states moves no box."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from headwater.draw.layout import lay_out
from headwater.draw.node_captions import columns
from headwater.draw.picture import Picture, picture
from headwater.scheduler.inspect.graph_snapshot import Snapshot
from headwater.studio import answers
from headwater.studio.limits import ROUTES, SHARED_FROM

_HEIGHT: Final = 48
_WIDTH_MIN: Final = 132
_LETTER: Final = 7.4
_INSET: Final = 44

_GRAPHS: Final = 8
"""Layouts that are remembered: those of the tabs that are open."""


class Drawing(msgspec.Struct, frozen=True):
    """A laid out picture, and the box of each node."""

    structure: str
    boxes: tuple[answers.GraphBox, ...]
    routes: tuple[answers.GraphRoute, ...]
    members: tuple[tuple[str, ...], ...]
    box_of: dict[str, int]
    width: int
    height: int
    note: str
    folded: int


class Drawings:
    """The layouts of one space, by structure: a change of states moves no box."""

    def __init__(self) -> None:
        self._known: dict[str, Drawing] = {}
        self._shapes: dict[tuple[tuple[object, ...], int], Drawing] = {}

    def drawing(self, snapshot: Snapshot, boxes: int, shape: tuple[object, ...]) -> Drawing:
        """The drawing of a snapshot, made if its nodes or edges have changed. `shape`: equal for equal ones."""
        if (shape, boxes) in self._shapes:
            return self._shapes[shape, boxes]
        found = self._drawn(snapshot, boxes)
        while len(self._shapes) >= _GRAPHS:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[shape, boxes] = found
        return found

    def _drawn(self, snapshot: Snapshot, boxes: int) -> Drawing:
        structure = _structure(snapshot, boxes)
        found = self._known.pop(structure, None) or _draw(snapshot, boxes, structure)
        while len(self._known) >= _GRAPHS:
            del self._known[next(iter(self._known))]
        self._known[structure] = found
        return found


def _structure(snapshot: Snapshot, boxes: int) -> str:
    nodes = [(node.id, node.name, node.piece, node.kind, node.rank) for node in snapshot.nodes]
    sources = [source.id for source in snapshot.sources]
    return sha256(msgspec.msgpack.encode((boxes, nodes, sources, snapshot.edges))).hexdigest()[:16]


def _draw(snapshot: Snapshot, boxes: int, structure: str) -> Drawing:
    shown: Picture = picture(snapshot, boxes, ROUTES, SHARED_FROM)
    sizes = {box.id: (max(_WIDTH_MIN, round(_LETTER * columns(box.name)) + _INSET), _HEIGHT) for box in shown.boxes}
    layout = lay_out(sizes, [(arrow.source, arrow.target) for arrow in shown.arrows])
    number = {box.id: at for at, box in enumerate(shown.boxes)}
    members = tuple(box.members or (box.id,) for box in shown.boxes)
    address = {source.id: source.address for source in snapshot.sources}
    made = []
    for box in shown.boxes:
        rect = layout.boxes[box.id]
        node = "" if box.count > 1 else address.get(box.id, box.id)
        made.append(
            answers.GraphBox(box.id, box.name, box.kind, box.count, rect.x, rect.y, rect.width, rect.height, node)
        )
    routes = tuple(
        answers.GraphRoute(
            number[arrow.source],
            number[arrow.target],
            arrow.kind,
            tuple(each for point in route.points for each in point),
            route.course,
        )
        for arrow, route in zip(shown.arrows, layout.routes, strict=True)
    )
    box_of = {member: at for at, each in enumerate(members) for member in each}
    functions = {node.id for node in snapshot.nodes}
    folded = sum(len(each) for each in members if len(each) > 1 and each[0] in functions)
    return Drawing(structure, tuple(made), routes, members, box_of, layout.width, layout.height, shown.note, folded)
