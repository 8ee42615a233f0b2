"""The rules once more, slowly and plainly, over built-in dicts and lists: what the fast code is compared with.

Written from the rules, not from the code: nothing here shares anything, skips anything or is sorted.
"""

from __future__ import annotations

from contextlib import contextmanager
from copy import deepcopy
from itertools import takewhile
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from headwater.values.chunked import ChunkedList, ChunkedMap
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
)
from headwater.values.tree import ABSENT, Path
from headwater.values.value_limits import INT_MAX, INT_MIN

if TYPE_CHECKING:
    from collections.abc import Iterator

Plain: TypeAlias = Any
"""A tree of built-in containers, or ABSENT."""


class DoesNotFitError(Exception):
    """The operation is to be refused."""


def thaw(value: object) -> Plain:
    """A value in built-in containers, deeply."""
    if isinstance(value, dict | ChunkedMap):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, list | ChunkedList):
        return [thaw(item) for item in value]
    return value


def canon(plain: Plain) -> object:
    """Equal for values that are the same, and for no others: types and zero signs count, the order of keys not."""
    if isinstance(plain, dict):
        return ("map", frozenset((key, canon(item)) for key, item in plain.items()))
    if isinstance(plain, list):
        return ("array", tuple(map(canon, plain)))
    return (type(plain).__name__, repr(plain))


def is_link(plain: Plain) -> bool:
    return isinstance(plain, dict) and list(plain) == ["/"] and isinstance(plain["/"], dict) and "link@1" in plain["/"]


def is_container(plain: Plain) -> bool:
    return isinstance(plain, dict | list) and not is_link(plain)


def look(plain: Plain, path: Path) -> Plain:
    """What stands at a path, ABSENT if nothing does. Nothing stands in a link."""
    for step in path:
        if not is_container(plain):
            return ABSENT
        if isinstance(plain, dict):
            plain = plain[step] if type(step) is str and step in plain else ABSENT
        else:
            plain = plain[step] if type(step) is int and 0 <= step < len(plain) else ABSENT
    return plain


def paths_of(plain: Plain) -> list[Path]:
    """Every place in a tree, the root first; none in a document that does not exist."""
    if plain is ABSENT:
        return []
    found: list[Path] = [()]
    if is_container(plain):
        inside = plain.items() if isinstance(plain, dict) else enumerate(plain)
        found += [(step, *rest) for step, item in inside for rest in paths_of(item)]
    return found


def shape(plain: Plain) -> object:
    """What a shallow read sees."""
    if is_link(plain):
        return ("link", canon(plain))
    if isinstance(plain, dict):
        return ("map", frozenset(plain))
    if isinstance(plain, list):
        return ("array", len(plain))
    return canon(plain)


# --- trigger matching -----------------------------------------------------------------------------------------


def walked(plain: Plain, path: Path) -> int:
    """How many of the places above the end of a path, from the root on, are containers."""
    above = [path[:length] for length in range(len(path))]
    return len(list(takewhile(lambda place: is_container(look(plain, place)), above)))


def is_triggered(before: Plain, after: Plain, path: Path, *, deep: bool) -> bool:
    """The whole rule from the root, for a document that went from one value to another."""
    stops = walked(before, path), walked(after, path)
    reaches = [stop == len(path) for stop in stops]
    if all(reaches):
        what = canon if deep else shape
        return what(look(before, path)) != what(look(after, path))
    if any(reaches):
        return True
    return stops[0] != stops[1]


# --- operations -----------------------------------------------------------------------------------------------


def apply_slowly(before: Plain, op: PatchOp) -> Plain:
    """The tree after an operation, made by changing a copy. Raises DoesNotFitError."""
    return _apply(deepcopy(before), op)


def _apply(root: Plain, op: PatchOp) -> Plain:  # noqa: C901, PLR0912  # one for each operation
    match op:
        case Replace(path, value):
            _found(root, path)
            return _put(root, path, thaw(value))
        case Add(path, value):
            return _add(root, path, thaw(value))
        case Remove(path):
            return _remove(root, path)
        case Splice(path, index, delete, items):
            array = _found(root, path, list)
            if index < 0 or delete < 0 or index + delete > len(array):
                raise DoesNotFitError
            array[index : index + delete] = thaw(items)
            return root
        case Move(source, path):
            value = _found(root, source)
            if any(type(step) not in (str, int) for step in path):
                raise DoesNotFitError
            if source == path:
                return root
            if path[: len(source)] == source:
                raise DoesNotFitError
            return _add(_remove(root, source), path, value)
        case Append(path, items):
            return _extend(root, path, thaw(items))
        case AddUnique(path, items):
            known = [canon(item) for item in thaw(_found_or_free(root, path, list) or [])]
            fresh = []
            for item in thaw(items):
                if canon(item) not in known:
                    known.append(canon(item))
                    fresh.append(item)
            return _extend(root, path, fresh)
        case Increment(path, by):
            return _increment(root, path, by)
        case RemoveByValue(path, items):
            unwanted = [canon(item) for item in thaw(items)]
            if _found_or_free(root, path, list) is not ABSENT:
                array = look(root, path)
                array[:] = [item for item in array if canon(item) not in unwanted]
            return root


def _found(root: Plain, path: Path, kind: type = object) -> Plain:
    found = look(root, path)
    if found is ABSENT or not isinstance(found, kind):
        raise DoesNotFitError
    return found


def _found_or_free(root: Plain, path: Path, *kinds: type) -> Plain:
    """What stands there, which must be of a kind; ABSENT if something could be added there."""
    found = look(root, path)
    if found is ABSENT:
        _check_free(root, path)
    elif not isinstance(found, kinds):
        raise DoesNotFitError
    return found


def _check_free(root: Plain, path: Path) -> None:
    """Of the places on the way that are missing, the first must be the root, a free key, or the end of a list."""
    if any(type(step) not in (str, int) for step in path):
        raise DoesNotFitError
    missing = next(length for length in range(len(path) + 1) if look(root, path[:length]) is ABSENT)
    if missing:
        above, step = look(root, path[: missing - 1]), path[missing - 1]
        is_key = isinstance(above, dict) and not is_link(above) and type(step) is str
        is_end = isinstance(above, list) and type(step) is int and step == len(above) and missing == len(path)
        if not is_key and not is_end:
            raise DoesNotFitError


def _put(root: Plain, path: Path, value: Plain) -> Plain:
    """Over what stands there, or as a new key."""
    if not path:
        return value
    with _no_new_link(root, path):
        look(root, path[:-1])[path[-1]] = value
    return root


@contextmanager
def _no_new_link(root: Plain, path: Path) -> Iterator[None]:
    """An edit inside a map must not make it a link."""
    above = [look(root, path[:length]) for length in range(len(path))]
    yield
    if any(map(is_link, above)):
        raise DoesNotFitError


def _add(root: Plain, path: Path, value: Plain) -> Plain:
    if look(root, path) is ABSENT:
        _check_free(root, path)
    above = look(root, path[:-1]) if path else {}
    if isinstance(above, list):
        above.insert(path[-1], value)  # type: ignore[arg-type]  # checked above
        return root
    if above is not ABSENT:
        return _put(root, path, value)
    # The container above is missing as well: it is added, with this value in it.
    if type(path[-1]) is str:
        return _add(root, path[:-1], {path[-1]: value})
    if type(path[-1]) is int and path[-1] == 0:
        return _add(root, path[:-1], [value])
    raise DoesNotFitError


def _remove(root: Plain, path: Path) -> Plain:
    _found(root, path)
    if not path:
        raise DoesNotFitError
    with _no_new_link(root, path):
        del look(root, path[:-1])[path[-1]]
    return root


def _extend(root: Plain, path: Path, items: list[Plain]) -> Plain:
    if _found_or_free(root, path, list) is ABSENT:
        return _add(root, path, items)
    look(root, path).extend(items)
    return root


def _increment(root: Plain, path: Path, by: float) -> Plain:
    old = _found_or_free(root, path, int, float)
    if isinstance(old, bool) or not _is_number(by):
        raise DoesNotFitError
    new = by if old is ABSENT else old + by
    if not _is_number(new):
        raise DoesNotFitError
    return _add(root, path, new) if old is ABSENT else _put(root, path, new)


def _is_number(number: object) -> bool:
    if type(number) is int:
        return INT_MIN <= number <= INT_MAX
    return type(number) is float and isfinite(number)
