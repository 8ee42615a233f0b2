"""From a snapshot to boxes and arrows.

A box represents a node or a document. If there are too many, the nodes of one function share a box (`row x 412`), the
most numerous first. If that is not enough, nodes of the same rank share one, then those of neighboring ranks. The
picture says so.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Final, Literal

import msgspec

from headwater.draw import node_captions
from headwater.draw.cycles import circular
from headwater.errors import InvariantError
from headwater.scheduler.inspect.graph_snapshot import Edge, EdgeKind, NodeStatusName, NodeView, Snapshot, SourceView

BOXES_MAX: Final = 800
"""A picture with more boxes is not readable, and the layout of thousands takes too long."""

ARROWS_MAX: Final = 4000
"""The same for arrows: beyond this, boxes are merged."""

BoxKind = Literal["computation", "effect", "handler", "document"]

LABELS: Final[dict[BoxKind, str]] = {
    "computation": "computed",
    "effect": "sink",
    "handler": "handler",
    "document": "document",
}
"""The kinds as authors declare them."""

_STRENGTH: Final[dict[EdgeKind, int]] = {"data": 0, "envelope": 1, "parent": 2}


class Box(msgspec.Struct, frozen=True, kw_only=True):
    """One node, one document, or several of a kind."""

    id: str
    kind: BoxKind
    name: str
    count: int = 1
    status: NodeStatusName | Literal["document"] = "document"
    failed: bool = False
    running: bool = False
    waiting: bool = False
    """Of a handler: whether its events have to wait."""
    dormant: bool = False
    facts: str = ""
    notes: tuple[str, ...] = ()
    tip: str = ""
    space: str = ""
    """The name of the other space that it belongs to."""
    members: tuple[str, ...] = ()
    """The ids of all that it represents, if these are several."""


class Arrow(msgspec.Struct, frozen=True):
    """All edges between two boxes, drawn as the strongest of them: data, then envelope, then parent."""

    source: str
    target: str
    kind: EdgeKind
    count: int
    circle: bool
    """Whether one of them is part of a cycle of data in the snapshot. Shared boxes may seem to close other cycles."""


class Picture(msgspec.Struct, frozen=True):
    """Everything to be drawn. The arrows of data come first."""

    title: str
    summary: str
    note: str
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


class _Group(msgspec.Struct, frozen=True):
    """The members of a shared box: nodes of one kind, or documents."""

    kind: BoxKind
    family: str
    rank: int
    members: tuple[NodeView | SourceView, ...]

    @property
    def space(self) -> str:
        """The other space that all of them belong to: boxes are not shared across a border."""
        return self.members[0].space


def picture(
    snapshot: Snapshot, boxes: int = BOXES_MAX, arrows: int = ARROWS_MAX, shared_from: int | None = None
) -> Picture:
    """The picture of a snapshot. Boxes keep the order of the snapshot: documents, then nodes.

    `shared_from`: so many instances of one function share a box, also if there is room for a box each.
    """
    groups = [_Group("document", _family(source.address, ":"), -1, (source,)) for source in snapshot.sources]
    groups += [_Group(node.kind, _family(node.name, "("), node.rank, (node,)) for node in snapshot.nodes]
    total = len(groups)
    if len({group.members[0].id for group in groups}) < total:
        raise InvariantError(f"two nodes of a snapshot of {snapshot.space!r} have the same id", space=snapshot.space)
    circles = circular((edge.source, edge.target) for edge in snapshot.edges if edge.kind == "data")
    if shared_from is not None:
        groups = _share(groups, shared_from)
    groups = _fold(groups, boxes)
    found, strays = _arrows(snapshot, groups, circles)
    while len(found) > arrows and boxes > 1:
        boxes = min(boxes, len(groups)) // 2
        groups = _fold(groups, boxes)
        found, strays = _arrows(snapshot, groups, circles)
    notes = []
    if len(groups) < total:
        notes.append(
            f"{total:,} nodes and documents in {several_boxes(len(groups))}: those of one function, or of one rank, "
            "share a box, and what leads from one to another inside a box is not drawn."
        )
    if strays:
        notes.append(f"{node_captions.several(strays, 'edge')} to or from what is not in the snapshot: left out.")
    names = {node.id: node_captions.titled(node) for node in snapshot.nodes}
    return Picture(
        node_captions.inert(snapshot.space),
        node_captions.summary(snapshot),
        " ".join(notes),
        tuple(_box(group, names) for group in groups),
        tuple(found),
    )


def several_boxes(count: int) -> str:
    """1 box, 2 boxes."""
    return "1 box" if count == 1 else f"{count:,} boxes"


def _family(name: str, mark: str) -> str:
    """The function of `row(3)`, the class of `person:8f3a`; nothing for any other name."""
    family, found, _ = name.partition(mark)
    return family if found else ""


def _share(groups: list[_Group], least: int) -> list[_Group]:
    """Merge the instances of each function that has at least so many."""
    counts: dict[Hashable, int] = {}
    family = next(_keys(groups))
    for group in groups:
        key = family(group)
        counts[key] = counts.get(key, 0) + 1
    return _merge(groups, lambda group: key if counts[key := family(group)] >= least else None, 0)


def _fold(groups: list[_Group], limit: int) -> list[_Group]:
    for key in _keys(groups):
        if len(groups) <= limit:
            break
        groups = _merge(groups, key, limit)
    return groups


def _keys(groups: list[_Group]) -> Iterator[Callable[[_Group], Hashable | None]]:
    """The keys for sharing a box, from fine to coarse. None: the box is not shared."""
    yield lambda group: (group.kind, group.family, group.space) if group.family else None
    step = {rank: at for at, rank in enumerate(sorted({group.rank for group in groups}))}
    for families_too in (False, True):  # the box of a function is merged last: it has a name
        band = 1
        while band < 2 * len(step):
            yield _Band(step, band, families_too).key
            band *= 2


class _Band(msgspec.Struct, frozen=True):
    """The members of one kind in so many neighboring ranks."""

    step: dict[int, int]
    size: int
    families_too: bool

    def key(self, group: _Group) -> Hashable | None:
        if group.family and len(group.members) > 1 and not self.families_too:
            return None
        return group.kind, self.step[group.rank] // self.size, group.space


def _merge(groups: list[_Group], key: Callable[[_Group], Hashable | None], limit: int) -> list[_Group]:
    """Merge boxes with the same key, the most numerous first, until there are few enough."""
    alike: dict[Hashable, list[int]] = {}
    for at, group in enumerate(groups):
        if (found := key(group)) is not None:
            alike.setdefault(found, []).append(at)
    merged: list[_Group | None] = list(groups)
    count = len(groups)
    for places in sorted(alike.values(), key=lambda places: (-len(places), places[0])):
        if count <= limit or len(places) == 1:
            break
        parts = [groups[at] for at in places]
        families = {part.family for part in parts}
        for at in places:
            merged[at] = None
        merged[places[0]] = _Group(
            parts[0].kind,
            families.pop() if len(families) == 1 else "",
            min(part.rank for part in parts),
            tuple(member for part in parts for member in part.members),
        )
        count -= len(places) - 1
    return [group for group in merged if group is not None]


def _arrows(snapshot: Snapshot, groups: list[_Group], circles: set[tuple[str, str]]) -> tuple[list[Arrow], int]:
    """The arrows between boxes, and the number of edges with an end that is not drawn."""
    box_of = {member.id: group.members[0].id for group in groups for member in group.members}
    shared = {group.members[0].id for group in groups if len(group.members) > 1}
    between: dict[tuple[str, str], list[Edge]] = {}
    strays = 0
    for edge in snapshot.edges:
        source, target = box_of.get(edge.source), box_of.get(edge.target)
        if source is None or target is None:
            strays += 1
        elif source != target or source not in shared:
            between.setdefault((source, target), []).append(edge)
    found: list[Arrow] = []
    for ends, edges in between.items():
        kind = min((edge.kind for edge in edges), key=_STRENGTH.__getitem__)
        circle = any(edge.kind == "data" and (edge.source, edge.target) in circles for edge in edges)
        found.append(Arrow(*ends, kind, len(edges), circle))
    return sorted(found, key=lambda arrow: _STRENGTH[arrow.kind]), strays


def _box(group: _Group, names: dict[str, str]) -> Box:
    first = group.members[0]
    if len(group.members) > 1:
        return _shared_box(group)
    if isinstance(first, SourceView):
        return Box(
            id=first.id,
            kind="document",
            name=node_captions.label(first.address),
            tip=node_captions.inert(first.address) + "\n" + (_of_space(first.space) or "document, written by no node"),
            space=node_captions.inert(first.space),
        )
    parent = "" if first.parent is None else names.get(first.parent, first.parent)
    return Box(
        id=first.id,
        kind=first.kind,
        name=node_captions.label(node_captions.titled(first)),
        status=first.status,
        failed=bool(first.error),
        running=first.in_flight,
        waiting=first.waiting > 0,
        dormant=not first.live,
        facts=node_captions.facts(first),
        notes=node_captions.notes(first),
        tip=node_captions.tip(first, parent) + (f"\n{_of_space(first.space)}" if first.space else ""),
        space=node_captions.inert(first.space),
    )


def _of_space(space: str) -> str:
    return f"document of the space {node_captions.inert(space)}" if space else ""


def _shared_box(group: _Group) -> Box:
    """The worst state of several nodes: a failure must be visible."""
    nodes = [member for member in group.members if isinstance(member, NodeView)]
    count = len(group.members)
    family = node_captions.label(group.family) if group.family else f"{group.kind}s"
    name = f"{family} x {count:,}"
    states = node_captions.states(nodes)
    found = {node.status for node in nodes}
    status: NodeStatusName = "invalid" if "invalid" in found else "clean" if "clean" in found else "never-ran"
    ranks = sorted({node.rank for node in nodes})
    span = f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {ranks[0]} to {ranks[-1]}" if ranks else ""
    all_names = [node_captions.titled(each) if isinstance(each, NodeView) else each.address for each in group.members]
    return Box(
        id=group.members[0].id,
        kind=group.kind,
        name=name,
        count=count,
        status=status if nodes else "document",
        failed=any(node.error for node in nodes),
        running=any(node.in_flight for node in nodes),
        waiting=any(node.waiting for node in nodes),
        dormant=bool(nodes) and not any(node.live for node in nodes),
        facts=(", ".join(states) or "all clean") if nodes else "",
        notes=() if group.family or not nodes else (span,),
        tip=node_captions.group_tip(name, [*states, span] if nodes else ["documents, written by no node"], all_names),
        space=node_captions.inert(group.space),
        members=tuple(member.id for member in group.members),
    )
