"""The exact rules for whether a change touches a read. The scheduler's index and the store's checks follow them.

A read is a path and a depth. Walk both values, before and after, down the path of the read. A side *reaches* if every
value above the end is a container; the end itself may be absent.

- Both reach: a deep read is touched if the values differ, a shallow one if their shapes differ.
- One reaches: touched.
- Neither: touched if the walks stopped at different depths, because then something in between appeared or vanished.
"""

from __future__ import annotations

from headwater.values.address import Depth
from headwater.values.notifications import Change
from headwater.values.tree import ABSENT, Maybe, Path, child, is_container, same, same_shape


def is_touched(read: Path, depth: Depth, change: Change) -> bool:
    """Whether the change affects a read of this path and depth."""
    start = change.path
    if len(read) < len(start):
        return start[: len(read)] == read and _touched_from_below(read, depth, change)
    if read[: len(start)] != start:
        return False
    return touches(read[len(start) :], depth, change.before, change.after)


def _touched_from_below(read: Path, depth: Depth, change: Change) -> bool:
    """The read is above the change: both sides reach it, and it differs exactly by the change below."""
    if depth is Depth.DEEP:
        return not same(change.before, change.after)
    # The shape one step above changes if the value itself appears or vanishes.
    is_parent = len(read) + 1 == len(change.path)
    return is_parent and (change.before is ABSENT) != (change.after is ABSENT)


def touches(path: Path, depth: Depth, before: Maybe, after: Maybe) -> bool:
    """The rule itself, for a read `path` below a value that changed from `before` to `after`."""
    if before is after:
        return False
    old, old_depth = walk(before, path)
    new, new_depth = walk(after, path)
    if old_depth < len(path) or new_depth < len(path):
        return old_depth != new_depth
    return not (same(old, new) if depth is Depth.DEEP else same_shape(old, new))


def walk(value: Maybe, path: Path) -> tuple[Maybe, int]:
    """The value at a path, and the number of steps that were possible."""
    for taken, step in enumerate(path):
        if not is_container(value):
            return ABSENT, taken
        value = child(value, step)
    return value, len(path)
