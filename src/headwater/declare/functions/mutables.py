"""Detects lists, dicts and sets that a function uses and the program has changed since the declaration.

The globals of a function count by value in its fingerprint, as they are when the space is opened. A list that the
program changes before that makes the function look changed at each start. This module finds such containers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from itertools import islice
from types import FunctionType
from typing import Final
from weakref import WeakKeyDictionary

from headwater.declare.functions.bytecode import global_names
from headwater.values.author_text import safe_repr

COMPARED_MAX: Final = 50
"""Items of a container that are compared, besides its length. Each function that names it pays for them."""

_KINDS: Final = (list, dict, set, bytearray)

_declared: Final[WeakKeyDictionary[Callable[..., object], dict[str, tuple[object, str]]]] = WeakKeyDictionary()
"""By function and name: each container, and its state at the declaration."""


def record_containers(fn: Callable[..., object]) -> None:
    """Record the state of the containers that a declared function uses."""
    if type(fn) is FunctionType:
        found = {name: (value, _state_of(value)) for name, value in _used(fn)}
        if found:
            _declared[fn] = found


def changed_containers(fn: Callable[..., object] | None) -> list[str]:
    """The containers that have changed since the declaration, as `calls (a list)`."""
    found = _declared.get(fn, {}) if type(fn) is FunctionType else {}
    return [f"{name} (a {type(value).__name__})" for name, (value, state) in found.items() if _state_of(value) != state]


def _state_of(value: object) -> str:
    length = len(value) if isinstance(value, Sized) else 0
    items = value.items() if isinstance(value, dict) else value
    return f"{length} {safe_repr(list(islice(items, COMPARED_MAX)))}"  # type: ignore[call-overload]  # one of _KINDS


def _used(fn: FunctionType) -> Iterator[tuple[str, object]]:
    """Containers in the closure and the globals of a function, and of the functions of its module that it names."""
    todo, seen = [fn], {fn.__code__}
    while todo:
        each = todo.pop()
        known = each.__globals__
        closed = zip(each.__code__.co_freevars, each.__closure__ or (), strict=False)
        values = [(name, cell.cell_contents) for name, cell in closed if _is_filled(cell)]
        values += [(name, known[name]) for name in global_names(each.__code__) if name in known]
        for name, value in values:
            if type(value) in _KINDS:
                yield name, value
            elif type(value) is FunctionType and value.__globals__ is known and value.__code__ not in seen:
                seen.add(value.__code__)
                todo.append(value)


def _is_filled(cell: object) -> bool:
    try:
        cell.cell_contents  # type: ignore[attr-defined]  # noqa: B018  # raises if it is empty
    except ValueError:
        return False
    return True
