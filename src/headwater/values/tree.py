"""The value tree: which values a document can hold, when two values are the same, and edits that share unchanged parts.

A value is None, bool, int, float, str, bytes, a list or a map with string keys. Containers are immutable. An edit
copies the containers on its path and shares the rest, so `before is after` answers "unchanged" in O(1).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from operator import methodcaller
from types import NoneType
from typing import Any, Final, TypeAlias, TypeGuard

import msgspec
from typing_extensions import TypeIs

from headwater.errors import LimitError
from headwater.values.chunked import ChunkedList, ChunkedMap
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.intake import SCALARS, SIZE_SPREAD, RefusedError, as_scalar, check_key, spend
from headwater.values.value_limits import CHUNKED_FROM, CHUNKED_UNTIL, DEPTH_MAX, DOCUMENT_BYTES_MAX

Scalar: TypeAlias = bool | int | float | str | bytes | None
Map: TypeAlias = FrozenDict | ChunkedMap
Array: TypeAlias = FrozenList | ChunkedList
Value: TypeAlias = Scalar | Map | Array
Step: TypeAlias = str | int
Path: TypeAlias = tuple[Step, ...]
"""Keys (str) into maps and indexes (int) into lists; "3" and 3 are different steps."""


class AbsentType(Enum):
    """The type of ABSENT, which is no value. None is a value."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False


ABSENT: Final = AbsentType.ABSENT
Maybe: TypeAlias = Value | AbsentType

set_key: Final = dict.__setitem__
"""Bypasses FrozenDict's refusal, for a map that is still being built."""
LINK_TAG: Final = "/"
LINK_VERSION: Final = "link@1"
"""A link is a map of one key, the tag, with a map that has the version as a key."""


CONTAINERS: Final = frozenset({FrozenDict, FrozenList, ChunkedMap, ChunkedList})


def is_map(value: object) -> TypeIs[Map]:
    """A map of either size."""
    return type(value) is FrozenDict or type(value) is ChunkedMap


def is_array(value: object) -> TypeIs[Array]:
    """An array of either size."""
    return type(value) is FrozenList or type(value) is ChunkedList


def is_link(value: object) -> TypeGuard[FrozenDict]:
    """Whether a value is a link: a map of this one shape. A link is a leaf, not a container."""
    if type(value) is not FrozenDict or LINK_TAG not in value or len(value) != 1:
        return False
    inner = value[LINK_TAG]
    return type(inner) is FrozenDict and LINK_VERSION in inner


def is_container(value: object) -> TypeGuard[Map | Array]:
    """Whether it may have children: maps and arrays, but not links."""
    kind = type(value)
    if kind is FrozenDict:
        return not is_link(value)
    return kind is FrozenList or kind is ChunkedMap or kind is ChunkedList


def child(value: Maybe, step: Step) -> Maybe:
    """The value one step below; ABSENT if there is none, as below a link and at a negative index."""
    if type(value) is FrozenDict:
        if LINK_TAG in value and is_link(value):
            return ABSENT
        return value.get(step, ABSENT)  # type: ignore[arg-type]  # an index is never found
    if type(value) is FrozenList or type(value) is ChunkedList:
        return value[step] if type(step) is int and 0 <= step < len(value) else ABSENT
    if type(value) is ChunkedMap and isinstance(step, str) and step in value:
        return value[step]
    return ABSENT


def get(value: Maybe, path: Path) -> Maybe:
    """The value at a path; ABSENT if there is none."""
    for step in path:
        value = child(value, step)
    return value


def depth_of(value: Maybe) -> int:
    """The nesting depth of containers: 0 for a scalar, 1 for []. Walks the whole value."""
    # Every write of a container pays for this: level by level, with as much as possible in C.
    depth = 0
    level: list[Any] = [value]
    while level := [item for item in level if type(item) in CONTAINERS]:
        depth += 1
        inside: list[Any] = []
        for container in level:
            kind = type(container)
            inside.extend(container.values() if kind is FrozenDict or kind is ChunkedMap else container)
        level = inside
    return depth


# --- sameness -----------------------------------------------------------------------------------------------

_SAME_IF_EQUAL: Final = frozenset({str, int, bool, bytes, NoneType})


def same(a: Maybe, b: Maybe) -> bool:
    """The equality of values. Type-exact: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if a is b:
        return True
    # `==` runs in C and skips shared parts; only equal values need the exact walk.
    return a == b and _exact(a, b)


def _exact(a: Maybe, b: Maybe) -> bool:
    """Whether two values that are `==` also have equal types and signs of zero."""
    kind = type(a)
    if kind in _SAME_IF_EQUAL:
        return kind is type(b)
    pairs: Iterable[tuple[Value, Value]]
    if is_map(a) and is_map(b):
        # The keys of both are sorted, so the values pair up. One of two equal maps may be chunked.
        x, y = unshared(a, b)
        pairs = zip(x.values(), y.values(), strict=True)
    elif type(a) is ChunkedList and type(b) is ChunkedList:
        pairs = (pair for _, mine, theirs in a.unshared(b) for pair in zip(mine, theirs, strict=True))
    elif is_array(a) and is_array(b):
        pairs = zip(a, b, strict=True)
    else:
        return kind is type(b) and str(a) == str(b)  # floats: 0.0 and -0.0
    # No `all(...)`: a generator would take a second stack frame for each level.
    for old, new in pairs:
        if old is not new and not _exact(old, new):
            return False
    return True


def unshared(a: Map, b: Map) -> tuple[Mapping[str, Value], Mapping[str, Value]]:
    """Two maps without the entries of shared chunks, which is far cheaper than comparing each entry."""
    return a.unshared(b) if type(a) is ChunkedMap and type(b) is ChunkedMap else (a, b)


def same_shape(a: Maybe, b: Maybe) -> bool:
    """Equality for a shallow read: a map's keys, an array's length, a link's target, any other value itself."""
    if a is b:
        return True
    if is_container(a) and is_container(b):
        if is_map(a) and is_map(b):
            mine, theirs = unshared(a, b)
            return mine.keys() == theirs.keys()
        return is_array(a) and is_array(b) and len(a) == len(b)
    return same(a, b)


# --- editing ------------------------------------------------------------------------------------------------


def put_key(container: Map, key: str, value: Value) -> Map:
    """The map with one key set."""
    if type(container) is FrozenDict:
        if key in container:
            new = FrozenDict(container)
            set_key(new, key, value)
            return new
        if len(container) < CHUNKED_FROM:
            if not container or key > next(reversed(container)):
                new = FrozenDict(container)
                set_key(new, key, value)
                return new
            items: dict[str, Value] = dict(container)
            items[key] = value
            return FrozenDict(sorted(items.items()))
        return ChunkedMap.of(container).put(key, value)
    return container.put(key, value)


def drop_key(container: Map, key: str) -> Map:
    """The map without a key that it holds."""
    if type(container) is ChunkedMap:
        smaller = container.drop(key)
        return smaller if len(smaller) >= CHUNKED_UNTIL else FrozenDict(smaller.flat())
    items = dict(container)
    del items[key]
    return FrozenDict(items)


def put_index(container: Array, index: int, value: Value) -> Array:
    """The array with one existing element replaced."""
    if type(container) is ChunkedList:
        return container.put(index, value)
    new = list(container)
    new[index] = value
    return FrozenList(new)


def splice(container: Array, index: int, delete: int, items: Sequence[Value]) -> Array:
    """The array with a run of elements replaced by others. The caller checks the bounds."""
    length = len(container) - delete + len(items)
    if type(container) is ChunkedList:
        if length >= CHUNKED_UNTIL:
            return container.splice(index, delete, items)
        flat = container.flat()
    else:
        flat = list(container)
    flat[index : index + delete] = items
    return FrozenList(flat) if length <= CHUNKED_FROM else ChunkedList.of(flat)


def map_of(items: Mapping[str, Value]) -> Map:
    """A map from values that are already frozen."""
    ordered = dict(sorted(items.items())) if len(items) > 1 else dict(items)
    return FrozenDict(ordered) if len(ordered) <= CHUNKED_FROM else ChunkedMap.of(ordered)


def array_of(items: Sequence[Value]) -> Array:
    """An array from values that are already frozen."""
    return FrozenList(items) if len(items) <= CHUNKED_FROM else ChunkedList.of(items)


# --- from the outside ---------------------------------------------------------------------------------------

_sizer: Final = msgspec.msgpack.Encoder(enc_hook=methodcaller("flat"))


def freeze(value: object, at: str = "the value") -> Value:
    """Check a value from outside and convert it to tree types. Frozen parts are shared, not copied."""
    budget = [DOCUMENT_BYTES_MAX]
    try:
        size_of = SCALARS.get(type(value))
        if size_of is not None and size_of(value) * SIZE_SPREAD <= DOCUMENT_BYTES_MAX:
            return value  # type: ignore[return-value]  # its type is a key of SCALARS
        frozen = _freeze(value, 1, budget)
        # The walk has counted minimum sizes, to stop early; a possibly too large value is now encoded.
        least = DOCUMENT_BYTES_MAX - budget[0]
        if least * SIZE_SPREAD > DOCUMENT_BYTES_MAX:
            spend(len(_sizer.encode(frozen)), [DOCUMENT_BYTES_MAX])
    except RefusedError as refused:
        raise refused.explain(at) from None
    except RecursionError:
        message = f"cannot store {at}: the call stack is too deep here to walk a nested value"
        raise LimitError(message, path=(), reason="recursion") from None
    return frozen


def _freeze(value: object, depth: int, budget: list[int]) -> Value:
    size_of = SCALARS.get(type(value))
    if size_of is not None:
        spend(size_of(value), budget)
        return value  # type: ignore[return-value]  # its type is a key of SCALARS
    if is_map(value) or is_array(value):
        _measure(value, depth, budget)
        return value
    # Map and array are handled in this one function: a level of nesting costs one stack frame.
    if isinstance(value, dict | Mapping):
        _enter(depth, budget)
        result: dict[str, Value] = {}
        ordered, last = True, ""
        for key, item in value.items():
            name, size = check_key(key)
            spend(size, budget)
            ordered = ordered and (name > last or not result)
            last = name
            try:
                result[name] = _freeze(item, depth + 1, budget)
            except RefusedError as refused:
                refused.steps.append(name)
                raise
        if not ordered:
            result = dict(sorted(result.items()))
        return FrozenDict(result) if len(result) <= CHUNKED_FROM else ChunkedMap.of(result)
    if isinstance(value, list | tuple):
        _enter(depth, budget)
        items: list[Value] = []
        for index, item in enumerate(value):
            try:
                items.append(_freeze(item, depth + 1, budget))
            except RefusedError as refused:
                refused.steps.append(index)
                raise
        return array_of(items)
    to_value = getattr(type(value), "__headwater_value__", None)
    return _freeze(as_scalar(value) if to_value is None else to_value(value), depth, budget)


def _measure(value: Value, depth: int, budget: list[int]) -> None:
    """A frozen part was checked before, but may now be deeper or in a larger value."""
    if is_map(value):
        _enter(depth, budget)
        for key, item in value.items():
            spend(len(key) + 1, budget)
            _measure(item, depth + 1, budget)
    elif is_array(value):
        _enter(depth, budget)
        for item in value:
            _measure(item, depth + 1, budget)
    else:
        spend(len(value) + 1 if isinstance(value, str | bytes) else 1, budget)


def _enter(depth: int, budget: list[int]) -> None:
    if depth > DEPTH_MAX:
        reason = f"nested deeper than {DEPTH_MAX} levels (does it contain itself?)"
        raise RefusedError(reason, limit=True)
    spend(1, budget)
