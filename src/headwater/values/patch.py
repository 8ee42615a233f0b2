"""Patch operations: the small edits a commit is made of, how each is applied, and which places it touched.

`replace`, `add`, `remove`, `splice` and `move` say what they want exactly. `append`, `add_unique`, `increment` and
`remove_by_value` are mergeable: they mean the same whatever landed in between, so they need no read to be safe.

Must never know: documents, commits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from headwater.errors import AddressError
from headwater.values.address import path_text
from headwater.values.codec import adopt
from headwater.values.frozen import FrozenDict
from headwater.values.limits import INT_MAX, INT_MIN
from headwater.values.tree import (
    ABSENT,
    Array,
    Maybe,
    Path,
    Step,
    Value,
    array_of,
    child,
    drop_key,
    is_array,
    is_container,
    is_link,
    is_map,
    map_of,
    put_index,
    put_key,
    same,
    splice,
)

_APPEND_TOUCHES_MAX: Final = 8
"""An append of more elements than this counts as touching the whole list: the list of touches stays short."""


class Touch(msgspec.Struct, frozen=True, gc=False):
    """A place that an operation changed. `reshaped`: it appeared or vanished, so its parent's keys changed too."""

    path: Path
    reshaped: bool


Touches: TypeAlias = tuple[Touch, ...]


if TYPE_CHECKING:
    Carried: TypeAlias = Value
    CarriedItems: TypeAlias = Array
else:
    # msgspec reads the records' annotations at run time, and decodes what is Any into built-in containers.
    Carried = CarriedItems = Any


class Replace(msgspec.Struct, frozen=True, array_like=True, tag="replace", gc=False):
    """Put a value where one stands."""

    path: Path
    value: Carried


class Add(msgspec.Struct, frozen=True, array_like=True, tag="add", gc=False):
    """Set a key, with the maps above it if they are missing; into an array: insert before an index."""

    path: Path
    value: Carried


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="remove", gc=False):
    """Take away what stands there; later elements of an array move up."""

    path: Path


class Splice(msgspec.Struct, frozen=True, array_like=True, tag="splice", gc=False):
    """In the array at `path`, delete a run of elements and insert others in its place."""

    path: Path
    index: int
    delete: int
    items: CarriedItems


class Move(msgspec.Struct, frozen=True, array_like=True, tag="move", gc=False):
    """Remove from one place, then add at another."""

    source: Path
    path: Path


class Append(msgspec.Struct, frozen=True, array_like=True, tag="append", gc=False):
    """At the end of the array at `path`, which is made if it is missing."""

    path: Path
    items: CarriedItems


class AddUnique(msgspec.Struct, frozen=True, array_like=True, tag="add_unique", gc=False):
    """Append those items that are not in the array yet."""

    path: Path
    items: CarriedItems


class Increment(msgspec.Struct, frozen=True, array_like=True, tag="increment", gc=False):
    """Add to the number at `path`; a missing one counts from 0."""

    path: Path
    by: int | float


class RemoveByValue(msgspec.Struct, frozen=True, array_like=True, tag="remove_by_value", gc=False):
    """Remove every element that is the same as one of the items; a missing array stays missing."""

    path: Path
    items: CarriedItems


PatchOp: TypeAlias = Replace | Add | Remove | Splice | Move | Append | AddUnique | Increment | RemoveByValue


def apply_patch(root: Maybe, op: PatchOp) -> tuple[Maybe, Touches]:
    """The tree after one operation, and what it touched. Nothing touched: the very same tree comes back."""
    kind = type(op)
    if kind is Replace:
        return _replace(root, op.path, op.value)  # type: ignore[union-attr]
    return _APPLY[kind](root, op)  # type: ignore[operator,no-any-return]


def adopt_patch(op: PatchOp) -> PatchOp:
    """An operation fresh from the decoder, its values taken into the tree."""
    match op:
        case Replace(path, value):
            return Replace(tuple(path), adopt(value))
        case Add(path, value):
            return Add(tuple(path), adopt(value))
        case Splice(path, index, delete, items):
            return Splice(tuple(path), index, delete, adopt(items))  # type: ignore[arg-type]
        case Append(path, items) | AddUnique(path, items) | RemoveByValue(path, items):
            return type(op)(tuple(path), adopt(items))  # type: ignore[arg-type,call-arg,return-value]
        case _:
            return op


# --- applying -------------------------------------------------------------------------------------------------


def _replace(root: Maybe, path: Path, value: Value) -> tuple[Maybe, Touches]:
    if len(path) == 1 and type(root) is FrozenDict and path[0] in root:
        # The commonest write by far, a field of a document, without the general walk.
        old = root[path[0]]  # type: ignore[index]
        if same(old, value):
            return root, ()
        return put_key(root, path[0], value), (Touch(path, False),)  # type: ignore[arg-type]
    old = _existing(root, path, "replace")
    return (root, ()) if same(old, value) else (_rebuild(root, path, value), (Touch(path, False),))


def _add(root: Maybe, op: Add) -> tuple[Maybe, Touches]:
    path, value = op.path, op.value
    if not path:
        return (root, ()) if same(root, value) else (value, (Touch((), root is ABSENT),))
    node = root
    for depth, step in enumerate(path):
        if node is ABSENT:
            return _rebuild(root, path[:depth], _nest(path[depth:], value)), (Touch(path[:depth], True),)
        parent, node = node, _step_into(node, step, path, depth, "add")
    if is_array(parent):
        index = path[-1]
        assert type(index) is int
        new = splice(parent, index, 0, [value])
        where = Touch(path, True) if index == len(parent) else Touch(path[:-1], False)
        return _rebuild(root, path[:-1], new), (where,)
    if node is not ABSENT and same(node, value):
        return root, ()
    return _rebuild(root, path, value), (Touch(path, node is ABSENT),)


def _step_into(node: Value, step: Step, path: Path, depth: int, verb: str) -> Maybe:
    """One step of an `add`: the container must suit the step; the place itself may be free."""
    if is_map(node) and not is_link(node) and type(step) is str:
        return child(node, step)
    last = depth == len(path) - 1
    if is_array(node) and type(step) is int and 0 <= step < len(node) + last:
        return child(node, step)
    raise _misfit(verb, path, depth, node)


def _nest(path: Path, value: Value) -> Value:
    """A value wrapped in the containers its path asks for."""
    for step in reversed(path):
        if type(step) is int and step != 0:
            message = f"cannot add element {step} to a list that does not exist yet; start with element 0, or append"
            raise AddressError(message, path=path)
        value = map_of({step: value}) if type(step) is str else array_of([value])
    return value


def _remove(root: Maybe, op: Remove) -> tuple[Maybe, Touches]:
    _existing(root, op.path, "remove")
    if not op.path:
        message = "cannot remove the root of a document; delete the document instead"
        raise AddressError(message, path=())
    above, last = op.path[:-1], op.path[-1]
    parent = _existing(root, above, "remove")
    if is_array(parent):
        assert type(last) is int
        return _rebuild(root, above, splice(parent, last, 1, ())), (Touch(above, False),)
    assert is_map(parent)
    return _rebuild(root, above, drop_key(parent, last)), (Touch(op.path, True),)  # type: ignore[arg-type]


def _splice(root: Maybe, op: Splice) -> tuple[Maybe, Touches]:
    array = _existing_array(root, op.path, "splice")
    if op.index < 0 or op.delete < 0 or op.index + op.delete > len(array):
        message = (
            f"cannot splice {path_text(op.path) or 'the root'}: {op.delete} elements from {op.index} "
            f"are asked for, the list has {len(array)}"
        )
        raise AddressError(message, path=op.path, length=len(array))
    if not op.delete and not op.items:
        return root, ()
    if not op.delete and op.index == len(array):
        return _append_items(root, op.path, array, op.items)
    return _rebuild(root, op.path, splice(array, op.index, op.delete, list(op.items))), (Touch(op.path, False),)


def _move(root: Maybe, op: Move) -> tuple[Maybe, Touches]:
    value = _existing(root, op.source, "move")
    if op.source == op.path:
        return root, ()
    if op.path[: len(op.source)] == op.source:
        message = f"cannot move {path_text(op.source) or 'the root'} into itself ({path_text(op.path)})"
        raise AddressError(message, source=op.source, path=op.path)
    assert value is not ABSENT
    without, taken = _remove(root, Remove(op.source))
    moved, placed = _add(without, Add(op.path, value))
    return moved, taken + placed


def _append(root: Maybe, op: Append) -> tuple[Maybe, Touches]:
    array = _array_or_absent(root, op.path, "append to")
    if array is ABSENT:
        return _add(root, Add(op.path, op.items))
    return (root, ()) if not op.items else _append_items(root, op.path, array, op.items)


def _append_items(root: Maybe, path: Path, array: Array, items: Array) -> tuple[Maybe, Touches]:
    start = len(array)
    new = _rebuild(root, path, splice(array, start, 0, list(items)))
    if len(items) > _APPEND_TOUCHES_MAX:
        return new, (Touch(path, False),)
    return new, tuple(Touch((*path, start + i), True) for i in range(len(items)))


def _add_unique(root: Maybe, op: AddUnique) -> tuple[Maybe, Touches]:
    array = _array_or_absent(root, op.path, "append to")
    present = () if array is ABSENT else array
    fresh: list[Value] = []
    for item in op.items:
        if not any(same(item, old) for old in present) and not any(same(item, new) for new in fresh):
            fresh.append(item)
    if array is ABSENT:
        return _add(root, Add(op.path, array_of(fresh)))
    return _append_items(root, op.path, array, array_of(fresh)) if fresh else (root, ())


def _increment(root: Maybe, op: Increment) -> tuple[Maybe, Touches]:
    above = _existing(root, op.path[:-1], "increment") if op.path else root
    old = child(above, op.path[-1]) if op.path else root
    if old is ABSENT:
        return _add(root, Add(op.path, op.by))
    if type(old) is not int and type(old) is not float:
        raise _misfit("increment", op.path, len(op.path), old)
    new = old + op.by
    if new - new != 0 or (type(new) is int and not INT_MIN <= new <= INT_MAX):
        message = f"cannot increment {path_text(op.path)}: {old} + {op.by} is beyond what a number may be"
        raise AddressError(message, path=op.path)
    return (root, ()) if same(old, new) else (_rebuild(root, op.path, new), (Touch(op.path, False),))


def _remove_by_value(root: Maybe, op: RemoveByValue) -> tuple[Maybe, Touches]:
    array = _array_or_absent(root, op.path, "remove from")
    if array is ABSENT:
        return root, ()
    kept = [old for old in array if not any(same(old, item) for item in op.items)]
    if len(kept) == len(array):
        return root, ()
    return _rebuild(root, op.path, array_of(kept)), (Touch(op.path, False),)


_APPLY: Final = {
    Add: _add,
    Remove: _remove,
    Splice: _splice,
    Move: _move,
    Append: _append,
    AddUnique: _add_unique,
    Increment: _increment,
    RemoveByValue: _remove_by_value,
}


# --- walking --------------------------------------------------------------------------------------------------


def _rebuild(root: Maybe, path: Path, value: Value) -> Value:
    """Copy the spine from the root to a place whose parent is a container, and put a value there."""
    spine = []
    node = root
    for step in path:
        spine.append(node)
        node = child(node, step)
    for step, container in zip(reversed(path), reversed(spine), strict=True):
        if type(step) is str:
            value = put_key(container, step, value)  # type: ignore[arg-type]
        else:
            value = put_index(container, step, value)  # type: ignore[arg-type]
    return value


def _existing(root: Maybe, path: Path, verb: str) -> Value:
    """What stands at the path, which must be something."""
    if root is ABSENT:
        message = f"cannot {verb} {path_text(path) or 'the root'}: the document does not exist; add or set it first"
        raise AddressError(message, path=path)
    node: Maybe = root
    for depth, step in enumerate(path):
        below = child(node, step)
        if below is ABSENT:
            raise _misfit(verb, path, depth, node)
        node = below
    assert node is not ABSENT
    return node


def _existing_array(root: Maybe, path: Path, verb: str) -> Array:
    found = _existing(root, path, verb)
    if not is_array(found):
        raise _misfit(verb, path, len(path), found)
    return found


def _array_or_absent(root: Maybe, path: Path, verb: str) -> Array | type[ABSENT] | Maybe:
    node: Maybe = root
    for depth, step in enumerate(path):
        if node is ABSENT:
            return ABSENT
        node = _step_into(node, step, path, depth, verb)
    if node is not ABSENT and not is_array(node):
        raise _misfit(verb, path, len(path), node)
    return node


def _misfit(verb: str, path: Path, depth: int, found: Maybe) -> AddressError:
    """What stood in the way, and where."""
    place = path_text(path[:depth]) or "the root"
    if depth < len(path) and is_container(found):
        what = f"{place} has no {'element' if type(path[depth]) is int else 'key'} {path[depth]!r}"
        if is_array(found):
            what = f"{place} is a list of {len(found)}, which has no {path[depth]!r}"
    else:
        what = f"{place} holds {_describe(found)}"
    return AddressError(f"cannot {verb} {path_text(path) or 'the root'}: {what}", path=path)


def _describe(value: Maybe) -> str:
    if value is None:
        return "null"
    if is_link(value):
        return "a link"
    names: dict[type, str] = {bool: "a truth value", int: "a number", float: "a number", str: "text", bytes: "bytes"}
    return names.get(type(value), "a list" if is_array(value) else "an object")
