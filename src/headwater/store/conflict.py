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
from headwater.values.patch import Move, PatchOp, Remove, RemoveByValue, Replace, Splice, Touch, Touches
from headwater.values.tree import Path, Step

EVERYTHING: Touches = (Touch((), True),)
"""What set and delete touch, and every patch whose effect is not known exactly."""


class _PathNode:
    """One step of the tree: the newest writes at, around and below it."""

    __slots__ = ("below", "children", "leaf", "shape")

    def __init__(self) -> None:
        self.leaf = NEVER
        self.shape = NEVER
        self.below = NEVER
        self.children: dict[Step, _PathNode] | None = None


class TouchIndex:
    """The newest write at every place of one document, among those it was told of."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root = _PathNode()

    def record(self, touches: Touches, seq: Seq) -> None:
        """A commit at this place of the log touched these paths."""
        for touch in touches:
            place = parent = self._root
            place.below = seq
            for step in touch.path:
                parent = place
                if place.children is None:
                    place.children = {}
                below = place.children.get(step)
                if below is None:
                    below = place.children[step] = _PathNode()
                place = below
                place.below = seq
            place.leaf = seq
            if touch.reshaped:
                parent.shape = seq

    def newest(self, path: Path, depth: Depth) -> Seq:
        """The newest write that a read of this path and depth would notice; NEVER if there was none."""
        place = self._root
        newest = place.leaf
        for step in path:
            below = None if place.children is None else place.children.get(step)
            if below is None:
                return newest
            place = below
            newest = max(newest, place.leaf)
        return max(newest, place.below if depth is Depth.DEEP else place.shape)


def notices(path: Path, depth: Depth, touch: Touch) -> bool:
    """Would a read notice this one touch? The rule the index answers for many at once."""
    if depth is Depth.DEEP or len(touch.path) <= len(path):
        return overlaps(path, touch.path)
    return touch.reshaped and touch.path[:-1] == path


def possible_touches(operation: Operation) -> Touches:
    """What an operation may have touched, told from its text alone: exact effects depend on what it met."""
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
                        # The others may have made containers on their way, which changes what is reachable.
                        return EVERYTHING
            return tuple(touches)


Write: TypeAlias = tuple[Seq, Touches, tuple[Operation, ...]]
"""Where in the log, what it touched, and, of an own layer, its operations."""


def first_unseen(path: Path, depth: Depth, writes: Iterable[Write]) -> Seq | None:
    """The first foreign write that shows in a read now, but not in the view it was made from; None if none does.

    The view was an older document with own layers on top. The writes since then come oldest first, own ones with
    their operations, foreign ones with none. A foreign write shows where it touched. An own layer that met it did
    something else than in the view (an element was taken from a list that had moved on), so from then on the foreign
    write shows wherever that layer wrote, too.
    """
    strange: list[tuple[Touch, Seq]] = []
    for seq, touches, layer in writes:
        if not layer:
            strange += [(touch, seq) for touch in touches]
        elif strange and type(layer[0]) is not PatchDoc:
            strange = []  # written whole: the view and the document are one again
        elif strange:
            places = [place for operation in layer for place in _written_paths(operation)]
            met = [seq for touch, seq in strange if any(overlaps(touch.path, place) for place in places)]
            if met:
                strange += [(Touch(place, reshaped=True), met[0]) for place in places]
    return next((seq for touch, seq in strange if notices(path, depth, touch)), None)


def _written_paths(operation: Operation) -> list[Path]:
    """What decides the effect of an operation, and all that it can change."""
    if not isinstance(operation, PatchDoc):
        return [()]
    places = [_written_path(op, op.path) for op in operation.ops]
    return places + [_written_path(op, op.source) for op in operation.ops if type(op) is Move]


def _written_path(op: PatchOp, path: Path) -> Path:
    """Elements of a list depend on those before them: the list as a whole, unless one is replaced by another."""
    return path[:-1] if path and type(path[-1]) is int and type(op) is not Replace else path
