"""Lists, dicts and sets that a function uses and the program may change: as they were when the function was declared.

What a function names in its module counts by value for its fingerprint, as it is when the space is opened. A list that
the program has changed until then makes the function look changed at each start. This module names such lists.

Must never know: what a fingerprint is for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from itertools import islice
from types import CodeType, FunctionType
from typing import Final
from weakref import WeakKeyDictionary

from headwater.values.author_text import safe_repr

COMPARED_MAX: Final = 50
"""Items of a container that are compared, besides its length: it is looked at for each function that names it."""

_KINDS: Final = (list, dict, set, bytearray)

_declared: Final[WeakKeyDictionary[Callable[..., object], dict[str, tuple[object, str]]]] = WeakKeyDictionary()
"""By function, and by the name that it has there: each container, and what it was like."""


def record_containers(fn: Callable[..., object]) -> None:
    """A function is declared: note what the containers that it uses are like."""
    if type(fn) is FunctionType:
        found = {name: (value, _state_of(value)) for name, value in _used(fn)}
        if found:
            _declared[fn] = found


def changed_containers(fn: Callable[..., object] | None) -> list[str]:
    """The containers that have changed since the function was declared, as `calls (a list)`."""
    found = _declared.get(fn, {}) if type(fn) is FunctionType else {}
    return [f"{name} (a {type(value).__name__})" for name, (value, state) in found.items() if _state_of(value) != state]


def _state_of(value: object) -> str:
    length = len(value) if isinstance(value, Sized) else 0
    items = value.items() if isinstance(value, dict) else value
    return f"{length} {safe_repr(list(islice(items, COMPARED_MAX)))}"  # type: ignore[call-overload]  # one of _KINDS


def _used(fn: FunctionType) -> Iterator[tuple[str, object]]:
    """Containers that a function closes over or names in its module, and those that functions of its module do."""
    todo, seen = [fn], {fn.__code__}
    while todo:
        each = todo.pop()
        known = each.__globals__
        closed = zip(each.__code__.co_freevars, each.__closure__ or (), strict=False)
        values = [(name, cell.cell_contents) for name, cell in closed if _is_filled(cell)]
        values += [(name, known[name]) for name in _names(each.__code__) if name in known]
        for name, value in values:
            if type(value) in _KINDS:
                yield name, value
            elif type(value) is FunctionType and value.__globals__ is known and value.__code__ not in seen:
                seen.add(value.__code__)
                todo.append(value)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _is_filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018  # raises if it is empty
    except ValueError:
        return False
    return True
