"""Documents and operations by the thousand, from a seeded random source.

For edits of trees numbers count more than variety: most faults need a certain operation at a certain place, not a
certain value. So trees are small, keys and values few, and most operations fit, but not all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from headwater.errors import AddressError
from headwater.values.patch import (
    Add,
    AddUnique,
    Append,
    Increment,
    Move,
    PatchOp,
    Remove,
    RemoveByValue,
    Replace,
    Splice,
    Touches,
)
from headwater.values.patching import apply_patch
from headwater.values.tree import ABSENT, Array, Maybe, Path, Step, freeze, is_array
from tests.values.oracle import look, paths_of, thaw

if TYPE_CHECKING:
    from collections.abc import Iterator
    from random import Random

EDITS = 16
"""Operations in a row on one document."""

KINDS: list[type[PatchOp]] = [Replace, Add, Remove, Splice, Move, Append, AddUnique, Increment, RemoveByValue]

sources = st.randoms(use_true_random=True)

_SCALARS = [None, True, False, 0, 1, 2, 1.0, 0.0, -0.0, "", "a", "1", b"", b"a"]
_KEYS = ["a", "b", "c", "d", "", "0", "a/b"]
_LINKS: list[Any] = [{"/": {"link@1": {}}}, {"/": {"link@1": {"id": "d", "path": ["a", 0]}}}, {"/": {"link@1": 5}}]
_ALMOST_LINKS: list[Any] = [{"/": {}}, {"/": 1}, {"/": {"link@1": {}}, "a": 1}, {"link@1": {}}, {"/": {"a": {}}}]


def some_value(random: Random, room: int = 6) -> Any:  # a tree in built-in containers
    """A value as an author has it; `room` is about how many parts it may have."""
    pick = random.random()
    if room <= 1 or pick < 0.25:
        return random.choice(_SCALARS)
    if pick < 0.33:
        return random.choice(_LINKS + _ALMOST_LINKS)
    parts = [some_value(random, room // 2) for _ in range(random.randint(0, room))]
    if pick < 0.62:
        return parts
    return {random.choice(_KEYS): part for part in parts}


def some_document(random: Random) -> Maybe:
    """A document; one in fifteen does not exist."""
    if random.random() < 0.07:
        return ABSENT
    if random.random() < 0.1:
        return freeze(some_value(random, 12))
    return freeze({random.choice(_KEYS): some_value(random, 8) for _ in range(random.randint(0, 6))})


def some_path(random: Random, *plains: Any) -> Path:
    """A path to something in one of these trees, or near such a place, or to nowhere."""
    known = [path for plain in plains for path in paths_of(plain)]
    path = random.choice(known) if known else ()
    if random.random() < 0.4:
        end = look(random.choice(plains), path)
        likely: list[Step] = [len(end)] if isinstance(end, list) else [*_KEYS]
        odd: list[Step] = ["/", "link@1", "0", -1, True, 0, 1, 7]
        path += tuple(random.choice(likely * 3 + odd) for _ in range(random.choice([1, 1, 1, 2, 3])))
    return path


def some_read(random: Random, *plains: Any) -> Path:
    """A path that may be read at. True is no step, though Python holds it for 1 when paths are compared."""
    return tuple(step for step in some_path(random, *plains) if type(step) is not bool)


def some_op(random: Random, root: Maybe) -> PatchOp:  # noqa: C901  # one for each operation
    """An operation that mostly fits the tree."""
    plain = thaw(root)
    kind = random.choice(KINDS)
    path = some_path(random, plain)
    if random.random() < 0.7:
        path = _suited(random, plain, kind) or path
    found = look(plain, path)
    if kind is Replace or kind is Add:
        again = found is not ABSENT and random.random() < 0.15
        return kind(path, freeze(found if again else some_value(random)))
    if kind is Remove:
        return Remove(path)
    if kind is Move:
        target = some_path(random, plain)
        beside: list[Step] = [0, 1, 2, "a", "b"]
        if path and random.random() < 0.3:
            target = (*path[:-1], random.choice(beside))
        return Move(path, target)
    if kind is Increment:
        numbers: list[Any] = [0, 1, -1, 0.5, -0.0, 2**63, -(2**63), 1.7e308, True, 2**64, float("nan"), "1"]
        return Increment(path, random.choice(numbers))
    length = len(found) if isinstance(found, list) else 2
    items = _items(random, found)
    if kind is Splice:
        index = random.randint(0, length)
        delete = random.randint(0, length - index)
        if random.random() < 0.15:
            index, delete = random.randint(-1, length + 1), random.randint(-1, length + 1)
        if isinstance(found, list) and random.random() < 0.2:
            items = _frozen_list(found[index : index + delete])
        return Splice(path, index, delete, items)
    if kind is Append:
        return Append(path, items)
    return AddUnique(path, items) if kind is AddUnique else RemoveByValue(path, items)


def _suited(random: Random, plain: Any, kind: type[PatchOp]) -> Path | None:
    """A place that holds what an operation of this kind wants."""
    wanted: dict[type[PatchOp], Any] = {Increment: (int, float)}
    wanted |= dict.fromkeys([Splice, Append, AddUnique, RemoveByValue], list)
    suits = wanted.get(kind, object)
    places = [path for path in paths_of(plain) if isinstance(look(plain, path), suits)]
    return random.choice(places) if places else None


def _items(random: Random, found: Any) -> Array:
    """New elements, and some that are in the list already."""
    present = found if isinstance(found, list) else []
    count = random.choice([0, 1, 1, 2, 3, 9])
    return _frozen_list(
        [random.choice(present) if present and random.random() < 0.4 else some_value(random, 2) for _ in range(count)]
    )


def _frozen_list(plain: list[Any]) -> Array:
    items = freeze(plain)
    assert is_array(items)
    return items


class Edit(NamedTuple):
    """One operation that was applied, with all that came of it."""

    before: Maybe
    op: PatchOp
    after: Maybe
    touches: Touches


def some_attempts(random: Random) -> Iterator[tuple[Maybe, PatchOp]]:
    """Documents and operations to be tried on them; some will be refused."""
    root = some_document(random)
    for _ in range(EDITS):
        op = some_op(random, root)
        yield root, op
        try:
            root, _touches = apply_patch(root, op)
        except AddressError:
            root = root if random.random() < 0.8 else some_document(random)
        if len(paths_of(thaw(root))) > 40:
            root = some_document(random)


def some_edits(random: Random) -> Iterator[Edit]:
    """Operations that fit, and what they did."""
    for root, op in some_attempts(random):
        try:
            after, touches = apply_patch(root, op)
        except AddressError:
            continue
        yield Edit(root, op, after, touches)
