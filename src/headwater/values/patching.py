"""Applying patch operations: the tree after one of them, and which paths it touched.

Every container above a touched path is a container before and after. To ensure that, no edit inside a map may turn the
map into a link, which is a leaf: links are written as a whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias, cast

from headwater.errors import AddressError
from headwater.values.frozen import FrozenDict
from headwater.values.intake import SCALARS, RefusedError
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
    Touch,
    Touches,
)
from headwater.values.spine import (
    check_depth,
    check_keys,
    check_steps,
    existing,
    existing_or_absent,
    misfit,
    rebuild,
    refuse_link,
    shown,
    step_into,
)
from headwater.values.tree import (
    ABSENT,
    CONTAINERS,
    LINK_TAG,
    AbsentType,
    Array,
    Map,
    Maybe,
    Path,
    Value,
    array_of,
    drop_key,
    get,
    is_array,
    map_of,
    same,
    set_key,
    splice,
)

_APPEND_TOUCHES_MAX: Final = 8
"""An append of more elements touches the whole list, to keep the list of touches short."""

_Number: TypeAlias = int | float
"""Both: a compiled function turns an int into a float where a float is declared."""


def apply_patch(root: Maybe, op: PatchOp) -> tuple[Maybe, Touches]:
    """The tree after one operation, and its touches. Without touches the identical tree is returned.

    Raises AddressError if the operation does not fit the tree, LimitError if the result would be nested too deep.
    """
    if type(op) is Replace:
        path = op.path
        if len(path) == 1 and type(root) is FrozenDict:
            # The commonest write, a field of a document, without the general walk.
            key, value = path[0], op.value
            if type(key) is str and key in root and key != LINK_TAG:
                old = root[key]
                if old == value and same(old, value):
                    return root, ()
                if type(value) in CONTAINERS:
                    check_depth(path, value, "replace")
                new = FrozenDict(root)
                set_key(new, key, value)
                return new, (Touch(path, False),)
        return _replace(root, path, op.value)
    return _APPLY[type(op)](root, op)


# --- applying -----------------------------------------------------------------------------------------------


def _replace(root: Maybe, path: Path, value: Value) -> tuple[Maybe, Touches]:
    if same(existing(root, path, "replace"), value):
        return root, ()
    check_depth(path, value, "replace")
    return rebuild(root, path, len(path), value, "replace"), (Touch(path, reshaped=False),)


def _add(root: Maybe, op: Add, verb: str = "add") -> tuple[Maybe, Touches]:
    path, value = op.path, op.value
    length = len(path)
    check_depth(path, value, verb)
    parent: Maybe = ABSENT
    node = root
    for depth, step in enumerate(path):
        if node is ABSENT:
            check_keys(path, max(depth - 1, 0), verb)
            new = rebuild(root, path, depth, _nest(path, depth, value, verb), verb)
            return new, (Touch(path[:depth], reshaped=True),)
        parent, node = node, step_into(node, step, path, depth, verb)
    if is_array(parent):
        index = cast("int", path[-1])  # or the walk would have ended before
        new = rebuild(root, path, length - 1, splice(parent, index, 0, [value]), verb)
        at_end = index == len(parent)
        return new, (Touch(path if at_end else path[:-1], reshaped=at_end),)
    if node is ABSENT:
        check_keys(path, length - 1, verb)
    elif same(node, value):
        return root, ()
    return rebuild(root, path, length, value, verb), (Touch(path, reshaped=node is ABSENT),)


def _nest(path: Path, depth: int, value: Value, verb: str) -> Value:
    """A value wrapped in the containers of the rest of its path, from `depth` on."""
    for step in reversed(path[depth:]):
        if type(step) is str:
            value = map_of({step: value})
        elif type(step) is int and step == 0:
            value = array_of([value])
        else:
            message = (
                f"cannot {verb} {shown(path)}: a list that does not exist yet has no {step!r}; "
                f"start with element 0, or append"
            )
            raise AddressError(message, path=path)
    return value


def _remove(root: Maybe, op: Remove, verb: str = "remove") -> tuple[Maybe, Touches]:
    path = op.path
    existing(root, path, verb)
    if not path:
        raise AddressError(f"cannot {verb} the root of a document; delete the document instead", path=())
    above, last = path[:-1], path[-1]
    parent = existing(root, above, verb)
    if is_array(parent):
        smaller: Value = splice(parent, cast("int", last), 1, ())
        return rebuild(root, path, len(above), smaller, verb), (Touch(above, reshaped=False),)
    smaller = drop_key(cast("Map", parent), cast("str", last))
    refuse_link(smaller, verb, path, len(above))
    return rebuild(root, path, len(above), smaller, verb), (Touch(path, reshaped=True),)


def _splice(root: Maybe, op: Splice) -> tuple[Maybe, Touches]:
    path, items = op.path, op.items
    array = existing(root, path, "splice")
    if not is_array(array):
        raise misfit("splice", path, len(path), array)
    if op.index < 0 or op.delete < 0 or op.index + op.delete > len(array):
        message = (
            f"cannot splice {shown(path)}: {op.delete} elements from {op.index} are asked for, "
            f"the list has {len(array)}"
        )
        raise AddressError(message, path=path, length=len(array))
    if op.index == len(array):
        return _append_items(root, path, array, items, "splice")
    if op.delete == len(items) and same(array_of(array[op.index : op.index + op.delete]), items):
        return root, ()
    check_depth(path, items, "splice")
    new = rebuild(root, path, len(path), splice(array, op.index, op.delete, items), "splice")
    return new, (Touch(path, reshaped=False),)


def _move(root: Maybe, op: Move) -> tuple[Maybe, Touches]:
    source, path = op.source, op.path
    value = existing(root, source, "move")
    check_steps(path, "move")
    if source == path:
        return root, ()
    if path[: len(source)] == source:
        message = f"cannot move {shown(source)} into itself, to {shown(path)}"
        raise AddressError(message, source=source, path=path)
    without, (taken,) = _remove(root, Remove(source), "move")
    moved, placed = _add(without, Add(path, value), "move")
    if not placed:
        return moved, (taken,)
    (put,) = placed
    if put.path[: len(taken.path)] == taken.path:
        # Moved within one list, which is touched as a whole.
        return (root, ()) if same(get(root, taken.path), get(moved, taken.path)) else (moved, (taken,))
    if taken.path[: len(put.path)] == put.path:
        return moved, (put,)
    return moved, (taken, put)


def _append(root: Maybe, op: Append) -> tuple[Maybe, Touches]:
    array = _array_or_absent(root, op.path, "append to")
    if array is ABSENT:
        return _add(root, Add(op.path, op.items), "append to")
    return _append_items(root, op.path, array, op.items, "append to")


def _append_items(root: Maybe, path: Path, array: Array, items: Array, verb: str) -> tuple[Maybe, Touches]:
    if not items:
        return root, ()
    check_depth(path, items, verb)
    start = len(array)
    new = rebuild(root, path, len(path), splice(array, start, 0, items), verb)
    if len(items) > _APPEND_TOUCHES_MAX:
        return new, (Touch(path, reshaped=False),)
    return new, tuple(Touch((*path, start + i), reshaped=True) for i in range(len(items)))


def _add_unique(root: Maybe, op: AddUnique) -> tuple[Maybe, Touches]:
    array = _array_or_absent(root, op.path, "append to")
    present = () if array is ABSENT else array
    fresh: list[Value] = []
    for item in op.items:
        if not any(same(item, old) for old in present) and not any(same(item, new) for new in fresh):
            fresh.append(item)
    return _append(root, Append(op.path, array_of(fresh)))


def _increment(root: Maybe, op: Increment) -> tuple[Maybe, Touches]:
    path = op.path
    # Not checked yet: an operation may carry anything. A compiled function checks what it reads of a declared type.
    unchecked: Any = op
    by: object = unchecked.by
    old = existing_or_absent(root, path, "increment")
    if old is not ABSENT and type(old) is not int and type(old) is not float:
        raise misfit("increment", path, len(path), old)
    try:
        new = _sum(old, by)
    except RefusedError as refused:
        message = f"cannot increment {shown(path)}: {refused.reason}"
        raise AddressError(message, path=path, old=old, by=by) from None
    if old is ABSENT:
        return _add(root, Add(path, new), "increment")
    if same(old, new):
        return root, ()
    return rebuild(root, path, len(path), new, "increment"), (Touch(path, reshaped=False),)


def _sum(old: _Number | AbsentType, by: object) -> _Number:
    if type(by) is not int and type(by) is not float:
        raise RefusedError(f"{by!r} is not a number to add")
    SCALARS[type(by)](by)
    # A missing number plus -0.0 is -0.0.
    new = by if old is ABSENT else old + by
    SCALARS[type(new)](new)
    return new


def _remove_by_value(root: Maybe, op: RemoveByValue) -> tuple[Maybe, Touches]:
    array = _array_or_absent(root, op.path, "remove from")
    if array is ABSENT:
        return root, ()
    rest = [old for old in array if not any(same(old, item) for item in op.items)]
    if len(rest) == len(array):
        return root, ()
    new = rebuild(root, op.path, len(op.path), array_of(rest), "remove from")
    return new, (Touch(op.path, reshaped=False),)


def _array_or_absent(root: Maybe, path: Path, verb: str) -> Array | AbsentType:
    found = existing_or_absent(root, path, verb)
    if found is ABSENT or is_array(found):
        return found
    raise misfit(verb, path, len(path), found)


_APPLY: Final[dict[type[PatchOp], Callable[[Maybe, Any], tuple[Maybe, Touches]]]] = {
    Add: _add,
    Remove: _remove,
    Splice: _splice,
    Move: _move,
    Append: _append,
    AddUnique: _add_unique,
    Increment: _increment,
    RemoveByValue: _remove_by_value,
}
