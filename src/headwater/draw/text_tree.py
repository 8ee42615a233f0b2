"""A picture as an indented text tree.

A shared node is shown in full once, and by its name with a mark after that. So the tree has at most one line per arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from headwater.draw.node_captions import columns, cut
from headwater.draw.picture import LABELS, Arrow, Box, Picture, picture
from headwater.scheduler.inspect.graph_snapshot import Snapshot

ABOVE: Final = "(shown above)"
CIRCLE: Final = "(a circle: it is made of itself)"
APART: Final = "(shown on its own)"


def text(snapshot: Snapshot, width: int = 100) -> str:
    """The tree, no line wider than `width` columns; it ends with a line break."""
    shown = picture(snapshot)
    lines = [shown.title, *wrap(shown.summary, max(width, 1)), *wrap(shown.note, max(width, 1))]
    for heading, ids, tree in _sections(shown):
        lines += ["", *([heading] if heading else [])]
        for root in ids:
            lines += tree.below(root, width)
    if not shown.boxes:
        lines += ["", "Nothing is declared here, or nothing has run."]
    return "".join(f"{cut(line, width).rstrip()}\n" for line in lines)


def _sections(shown: Picture) -> Iterator[tuple[str, Iterator[str], _Tree]]:
    tree = _Tree(shown)
    roots = {kind: [box.id for box in shown.boxes if box.kind == kind] for kind in ("effect", "handler")}
    for ids in roots.values():
        tree.roots.update(ids)
    for ids in roots.values():
        if ids:
            yield "", iter(ids), tree
    if len(tree.seen) < len(shown.boxes):
        none = "no sink and no handler" if roots["handler"] else "no sink"
        yield f"Read by {none}:", tree.rest(), tree


class _Tree:
    """The nodes that have been shown, and the ways to continue."""

    def __init__(self, shown: Picture) -> None:
        self.boxes = {box.id: box for box in shown.boxes}
        # Edges to children are not edges of data.
        arrows = [arrow for arrow in shown.arrows if arrow.kind != "parent"]
        self.into: dict[str, list[Arrow]] = {}
        self.out: dict[str, set[str]] = {}
        for arrow in arrows:
            self.into.setdefault(arrow.target, []).append(arrow)
            if arrow.source != arrow.target:
                self.out.setdefault(arrow.source, set()).add(arrow.target)
        self.seen: set[str] = set()
        self.roots: set[str] = set()

    def rest(self) -> Iterator[str]:
        """Boxes that have not been shown: first those without a reader, at last cycles."""
        left = [box for box in self.boxes if box not in self.seen]
        for box in left:
            if box not in self.seen and not self.out.get(box, set()).difference(self.seen):
                yield box
        for box in left:
            if box not in self.seen:
                yield box

    def below(self, root: str, width: int) -> Iterator[str]:
        """The lines of one tree. Without recursion: chains may be longer than Python's stack."""
        path: list[str] = []
        # To be shown: the box, the arrow from it, the depth, the text before it and below it.
        waiting: list[tuple[str, Arrow | None, int, str, str]] = [(root, None, 0, "", "")]
        while waiting:
            box, arrow, depth, mark, indent = waiting.pop()
            del path[depth:]
            children = self.into.get(box, [])
            remark = self._remark(box, arrow, path)
            role = "may be written by " if arrow is not None and arrow.kind == "envelope" else ""
            if columns(indent) > width // 2:
                mark = f"…{depth} "
            yield f"{mark}{role}{self.boxes[box].name}  {remark or _said(self.boxes[box])}"
            if remark:
                continue
            self.seen.add(box)
            path.append(box)
            for at in reversed(range(len(children))):
                is_last = at == len(children) - 1
                branch, below = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
                waiting.append((children[at].source, children[at], depth + 1, indent + branch, indent + below))

    def _remark(self, box: str, arrow: Arrow | None, path: list[str]) -> str:
        """Why a box is not shown in full; empty if it is."""
        if arrow is not None and arrow.circle and box in path:
            return CIRCLE
        if box not in self.into:
            return ""
        if arrow is not None and box in self.roots:
            return APART
        return ABOVE if box in self.seen else ""


def _said(box: Box) -> str:
    kind = [LABELS[box.kind]] if box.kind != "computation" and box.count == 1 else []
    special = [word for word, is_so in (("dormant", box.dormant), ("running", box.running)) if is_so]
    return " · ".join([*kind, *special, *([box.facts] if box.facts else []), *box.notes])
