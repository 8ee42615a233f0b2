"""The one rule for whether a change touches a read, and its two uses.

A read is a path and a depth. Walk both values, before and after, down the path of the read. A side *reaches* if every
value above the end is a container; the end itself may be absent.

- Both reach: a deep read is touched if the values differ, a shallow one if their shapes differ.
- One reaches: touched.
- Neither: touched if the walks stopped at different depths, because then something in between appeared or vanished.

`touches` is the rule. `is_touched` applies it to a change anywhere in a document. `may_touch` is for paths without
values: it is true whenever some change at the path would touch the read. Two indexes apply the rule to many reads or
writes at once: `scheduler.graph.reader_index` and `store.conflict`. Property tests compare both with this module.
"""

from __future__ import annotations

from headwater.values.address import Depth, overlaps
from headwater.values.frozen import FrozenDict
from headwater.values.notifications import Change
from headwater.values.tree import ABSENT, Maybe, Path, child, is_container, same, same_shape


def touches(path: Path, depth: Depth, before: Maybe, after: Maybe) -> bool:
    """The rule itself, for a read `path` below a value that changed from `before` to `after`."""
    if before is after:
        return False
    old, old_depth = walk(before, path)
    new, new_depth = walk(after, path)
    if old_depth < len(path) or new_depth < len(path):
        return old_depth != new_depth
    return not (same(old, new) if depth is Depth.DEEP else same_shape(old, new))


def is_touched(read: Path, depth: Depth, change: Change) -> bool:
    """Whether the change affects a read of this path and depth."""
    start = change.path
    if not overlaps(read, start):
        return False
    # Above the change, only the way down to it matters: everything beside it is the same before and after.
    down = start[len(read) :]
    return touches(read[len(start) :], depth, _hung(down, change.before), _hung(down, change.after))


def _hung(path: Path, value: Maybe) -> Maybe:
    """Containers with nothing but a value, as deep as the path is long. Which steps it has does not matter."""
    for _ in path:
        value = FrozenDict() if value is ABSENT else FrozenDict({"": value})
    return value


def may_touch(read: Path, depth: Depth, write: Path, *, reshaped: bool = True) -> bool:
    """Whether some change at `write` touches the read. `reshaped`: the change may make the place appear or vanish."""
    if depth is Depth.DEEP or len(write) <= len(read):
        return overlaps(read, write)
    # Below a shallow read, only a place that appears or vanishes one step below changes the shape.
    return reshaped and write[:-1] == read


def walk(value: Maybe, path: Path) -> tuple[Maybe, int]:
    """The value at a path, and the number of steps that were possible."""
    for taken, step in enumerate(path):
        if not is_container(value):
            return ABSENT, taken
        value = child(value, step)
    return value, len(path)
