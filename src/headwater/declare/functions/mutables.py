"""Detects lists, dicts and sets that a function uses and the program has changed since the declaration.

The globals of a function count by value in its fingerprint, as they are when the space is opened. A list that the
program changes before that makes the function look changed at each start. This module finds such containers.
"""

from __future__ import annotations

from collections.abc import Callable, Sized
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
    if type(fn) is FunctionType and (used := _used(fn)):
        _declared[fn] = {name: (value, _state_of(value)) for name, value in used}


def changed_containers(fn: Callable[..., object] | None) -> list[str]:
    """The containers that have changed since the declaration, as `calls (a list)`."""
    found = _declared.get(fn, {}) if type(fn) is FunctionType else {}
    return [f"{name} (a {type(value).__name__})" for name, (value, state) in found.items() if _state_of(value) != state]


def _state_of(value: object) -> str:
    length = len(value) if isinstance(value, Sized) else 0
    items = value.items() if isinstance(value, dict) else value
    return f"{length} {safe_repr(list(islice(items, COMPARED_MAX)))}"  # type: ignore[call-overload]  # one of _KINDS


def _used(fn: FunctionType) -> list[tuple[str, object]]:
    """Containers in the closure and the globals of a function, and of the functions of its module that it names."""
    found: list[tuple[str, object]] = []
    todo, seen = [fn], {id(fn.__code__)}
    while todo:
        each = todo.pop()
        code, known = each.__code__, each.__globals__
        values: list[tuple[str, object]] = []
        for name, cell in zip(code.co_freevars, each.__closure__ or (), strict=False):
            try:
                values.append((name, cell.cell_contents))
            except ValueError:  # the name is not assigned yet
                continue
        values += [(name, known[name]) for name in global_names(code) if name in known]
        for name, value in values:
            if type(value) in _KINDS:
                found.append((name, value))
            elif type(value) is FunctionType and value.__globals__ is known and id(value.__code__) not in seen:
                seen.add(id(value.__code__))
                todo.append(value)
    return found
