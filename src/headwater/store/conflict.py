"""Conflict detection: whether a later write touched what a commit read.

For each document a tree of paths has the newest write at each path, so a read is checked in as many steps as its path
is long, however often the document was written since. Set and delete touch the root and therefore everything. A patch
touches its leaves, and the shape of a container whose keys it changed. May report too much, never too little.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from headwater.store.commit import DeleteDoc, Operation, PatchDoc, SetDoc
from headwater.values.address import Depth, overlaps
from headwater.values.ids import NEVER, Seq
from headwater.values.overlap import may_touch
from headwater.values.patch import Move, PatchOp, Remove, RemoveByValue, Replace, Splice, Touch, Touches
from headwater.values.tree import Path, Step

EVERYTHING: Touches = (Touch((), True),)
"""The touches of set and delete, and of every patch whose effect is not known exactly."""


class _PathNode:
    """One path of the tree: the newest writes at it, to its shape, and at or below it."""

    __slots__ = ("below", "children", "leaf", "shape")

    def __init__(self) -> None:
        self.leaf = NEVER
        self.shape = NEVER
        self.below = NEVER
        self.children: dict[Step, _PathNode] | None = None


class TouchIndex:
    """The newest recorded write at every path of one document.

    `may_touch` of all recorded touches at once: without the index, every read would be compared with every write.
    """

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = _PathNode()

    def record(self, touches: Touches, seq: Seq) -> None:
        """Record that the commit `seq` touched these paths."""
        for touch in touches:
            node = parent = self._root
            node.below = seq
            for step in touch.path:
                parent = node
                if node.children is None:
                    node.children = {}
                below = node.children.get(step)
                if below is None:
                    below = node.children[step] = _PathNode()
                node = below
                node.below = seq
            node.leaf = seq
            if touch.reshaped:
                parent.shape = seq

    def newest(self, path: Path, depth: Depth) -> Seq:
        """The newest write that touches a read of this path and depth; NEVER if there was none."""
        node = self._root
        newest = node.leaf
        for step in path:
            below = None if node.children is None else node.children.get(step)
            if below is None:
                return newest
            node = below
            newest = max(newest, node.leaf)
        return max(newest, node.below if depth is Depth.DEEP else node.shape)


def affects(touches: Iterable[Touch], path: Path, depth: Depth) -> bool:
    """Whether one of the touches affects a read."""
    return any(may_touch(path, depth, each.path, reshaped=each.reshaped) for each in touches)


def possible_touches(operation: Operation) -> Touches:
    """The paths that an operation may have touched, by its text alone: exact effects depend on the document."""
    match operation:
        case SetDoc() | DeleteDoc():
            return EVERYTHING
        case PatchDoc(_, ops):
            touches: list[Touch] = []
            for op in ops:
                match op:
                    case Replace(path) | Splice(path) | RemoveByValue(path):
                        touches.append(Touch(path, False))
                    case Remove(path):
                        touches.append(Touch(path[:-1], False))
                    case _:
                        # The others may have created containers, which changes what is reachable.
                        return EVERYTHING
            return tuple(touches)


Write: TypeAlias = tuple[Seq, Touches, tuple[Operation, ...]]
"""Sequence number, touches and, for a layer of the same session, its operations."""


def first_unseen(path: Path, depth: Depth, writes: Iterable[Write]) -> Seq | None:
    """The first foreign write that affects a read but was not in the view of the read; None if there is none.

    The view was an older document with layers of the same session on top. The writes since then come oldest first, own
    ones with their operations, foreign ones without. A foreign write affects the paths it touched. A layer that
    overlaps it had another effect than in the view (it removed an element of a list that had changed), so from then on
    the foreign write affects the paths of that layer, too.
    """
    strange: list[tuple[Touch, Seq]] = []
    for seq, touches, layer in writes:
        if not layer:
            strange += [(touch, seq) for touch in touches]
        elif strange and type(layer[0]) is not PatchDoc:
            strange = []  # a whole write: view and document are the same again
        elif strange:
            written = [each for operation in layer for each in _written_paths(operation)]
            met = [seq for touch, seq in strange if any(overlaps(touch.path, each) for each in written)]
            if met:
                strange += [(Touch(each, reshaped=True), met[0]) for each in written]
    return next((seq for touch, seq in strange if may_touch(path, depth, touch.path, reshaped=touch.reshaped)), None)


def _written_paths(operation: Operation) -> list[Path]:
    """The paths that an operation depends on or may change."""
    if not isinstance(operation, PatchDoc):
        return [()]
    paths = [_written_path(op, op.path) for op in operation.ops]
    return paths + [_written_path(op, op.source) for op in operation.ops if type(op) is Move]


def _written_path(op: PatchOp, path: Path) -> Path:
    """The path; the whole list for an element of a list, unless the element is replaced in place."""
    return path[:-1] if path and type(path[-1]) is int and type(op) is not Replace else path
