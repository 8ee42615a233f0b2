"""Patch operations: the records of the small edits of a commit, and of the paths that they touch.

`replace`, `add`, `remove`, `splice` and `move` are exact. `append`, `add_unique`, `increment` and `remove_by_value` are
mergeable: they mean the same whatever was committed in between, so they need no read to be safe.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import msgspec

from headwater.values.codec import adopt
from headwater.values.tree import (
    Array,
    Path,
    Value,
)


class Touch(msgspec.Struct, frozen=True, gc=False):
    """A path that an operation changed. `reshaped`: it appeared or vanished, so its parent's shape changed, too.

    A list with shifted elements is touched as a whole.
    """

    path: Path
    reshaped: bool


Touches: TypeAlias = tuple[Touch, ...]


if TYPE_CHECKING:
    Carried: TypeAlias = Value
    CarriedItems: TypeAlias = Array
else:
    # msgspec evaluates the annotations at run time, and decodes these into built-in containers.
    Carried = Any
    CarriedItems = list[Any]


class Replace(msgspec.Struct, frozen=True, array_like=True, tag="replace", gc=False):
    """Replace an existing value."""

    path: Path
    value: Carried


class Add(msgspec.Struct, frozen=True, array_like=True, tag="add", gc=False):
    """Set a key, and create missing maps above it; in an array: insert before an index."""

    path: Path
    value: Carried


class Remove(msgspec.Struct, frozen=True, array_like=True, tag="remove", gc=False):
    """Remove a value; later elements of an array move up."""

    path: Path


class Splice(msgspec.Struct, frozen=True, array_like=True, tag="splice", gc=False):
    """In the array at `path`, replace a run of elements by others."""

    path: Path
    index: int
    delete: int
    items: CarriedItems


class Move(msgspec.Struct, frozen=True, array_like=True, tag="move", gc=False):
    """Remove at one path, then add at another, which is a path in the tree after the removal."""

    source: Path
    path: Path


class Append(msgspec.Struct, frozen=True, array_like=True, tag="append", gc=False):
    """Append to the array at `path`. A missing array, and missing maps above it, are created."""

    path: Path
    items: CarriedItems


class AddUnique(msgspec.Struct, frozen=True, array_like=True, tag="add_unique", gc=False):
    """Append the items that are not in the array yet, each once."""

    path: Path
    items: CarriedItems


class Increment(msgspec.Struct, frozen=True, array_like=True, tag="increment", gc=False):
    """Add to the number at `path`; a missing one is 0, and is created as by `Add`."""

    path: Path
    by: int | float


class RemoveByValue(msgspec.Struct, frozen=True, array_like=True, tag="remove_by_value", gc=False):
    """Remove every element that is the same as one of the items; a missing array stays missing."""

    path: Path
    items: CarriedItems


PatchOp: TypeAlias = Replace | Add | Remove | Splice | Move | Append | AddUnique | Increment | RemoveByValue


def adopt_patch(op: PatchOp, take: Callable[[object], Value] = adopt) -> PatchOp:  # noqa: PLR0911  # one for each
    """A decoded operation with its values converted to tree types; untrusted ones by `freeze`."""
    match op:
        case Replace(path, value):
            return Replace(path, take(value))
        case Add(path, value):
            return Add(path, take(value))
        case Splice(path, index, delete, items):
            return Splice(path, index, delete, cast("Array", take(items)))
        case Append(path, items):
            return Append(path, cast("Array", take(items)))
        case AddUnique(path, items):
            return AddUnique(path, cast("Array", take(items)))
        case RemoveByValue(path, items):
            return RemoveByValue(path, cast("Array", take(items)))
        case Remove() | Move() | Increment():  # pragma: no branch
            return op
