"""Differences of two trees, as the shallowest paths that changed. Shared parts are skipped without comparing them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from headwater.values.chunked import ChunkedList
from headwater.values.frozen import FrozenDict
from headwater.values.ids import DocKey
from headwater.values.notifications import Change
from headwater.values.patch import Touch
from headwater.values.tree import ABSENT, Array, Maybe, Path, Value, get, is_array, is_container, is_map, same, unshared


def differences(  # noqa: C901  # one function: one stack frame for each level of nesting
    before: Maybe, after: Maybe, path: Path = ()
) -> Iterator[tuple[Path, Maybe, Maybe]]:
    """Every shallowest changed path, with its value before and after.

    A list whose length changed is one path. All values above each path are containers on both sides.
    """
    if before is after:
        return
    if is_container(before) and is_container(after):
        if is_map(before) and is_map(after):
            mine, theirs = unshared(before, after)
            for key, old in mine.items():
                yield from differences(old, theirs.get(key, ABSENT), (*path, key))
            for key, new in theirs.items():
                if key not in mine:
                    yield (*path, key), ABSENT, new
            return
        if is_array(before) and is_array(after) and len(before) == len(after):
            for start, run, other in _runs(before, after):
                for index, (old, new) in enumerate(zip(run, other, strict=True), start):
                    if old is not new:
                        yield from differences(old, new, (*path, index))
            return
    if not same(before, after):
        yield path, before, after


def _runs(before: Array, after: Array) -> list[tuple[int, Array | list[Value], Array | list[Value]]]:
    """The parts of two lists of equal length that can differ, with the index each starts at."""
    if type(before) is ChunkedList and type(after) is ChunkedList:
        return [*before.unshared(after)]
    return [(0, before, after)]


def changes_between(doc: DocKey, before: Maybe, after: Maybe) -> list[Change]:
    """The differences of two versions of a document, as changes."""
    return [Change(doc, path, old, new) for path, old, new in differences(before, after)]


def changes_of(doc: DocKey, before: Maybe, after: Maybe, touches: Sequence[Touch]) -> list[Change]:
    """The net changes at the touched paths, which are the only ones that can differ. Equal values are no change."""
    if len(touches) == 1:
        # One touch is one change: an operation that changes nothing touches nothing.
        path = touches[0].path
        if len(path) == 1 and type(before) is FrozenDict and type(after) is FrozenDict:
            key = path[0]
            # The commonest write, a field of a document; an index is never found.
            return [Change(doc, path, before.get(key, ABSENT), after.get(key, ABSENT))]  # type: ignore[arg-type]
        return [Change(doc, path, get(before, path), get(after, path))]
    changes: list[Change] = []
    for path in _outermost(touch.path for touch in touches):
        old, new = get(before, path), get(after, path)
        if not same(old, new):
            changes.append(Change(doc, path, old, new))
    return changes


def _outermost(paths: Iterable[Path]) -> list[Path]:
    """The paths that are below no other."""
    found: dict[Path, None] = {}
    for path in sorted(paths, key=len):
        if not any(path[:length] in found for length in range(len(path) + 1)):
            found[path] = None
    return list(found)
