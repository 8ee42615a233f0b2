"""The bytecode of a function, independent of the unit that it was compiled in, and the globals that it loads.

CPython compiles `csv.reader(lines)` in two ways: as a call of an attribute if the import of `csv` is in the same unit,
else as a call of a method. A cell of a notebook and a script are different units, and the meaning is the same. So both
forms are read as a call of a method. They leave the same number of values on the stack, so no other pair of functions
is read as equal. The size of caches and of long arguments does not count. A jump counts by the instruction it leads to.
Python 3.13 may copy the end of a function that is `return csv.f()`, in one form only: this difference remains.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator
from dis import hasjrel, opmap, opname
from functools import cache
from types import CodeType
from typing import Final, NamedTuple

_CACHE: Final = 0
_IMPORT: Final = opmap["IMPORT_NAME"]
_EXTENDED: Final = opmap["EXTENDED_ARG"]
_LOAD_ATTR: Final = opmap["LOAD_ATTR"]
_LOAD_GLOBAL: Final = opmap["LOAD_GLOBAL"]
_LOAD_METHOD: Final = opmap["LOAD_METHOD"] if sys.version_info < (3, 12) else -1
"""From Python 3.12 on, the lowest bit of the argument of LOAD_ATTR says the same."""
_PUSH_NULL: Final = opmap["PUSH_NULL"]
_IS_NULL_FIRST: Final = sys.version_info < (3, 13)
"""Whether the empty place of a call without `self` comes before the function."""
_STORE_NAME: Final = opmap["STORE_NAME"]
_JUMPS: Final = frozenset(hasjrel)
_BACKWARD: Final = frozenset(each for each in hasjrel if "BACKWARD" in opname[each] or opname[each] == "END_ASYNC_FOR")


def _known(*names: str) -> frozenset[int]:
    """The operations with these names that this version of Python has."""
    return frozenset(opmap[name] for name in names if name in opmap)


_LOAD_CONSTANT: Final = _known("LOAD_CONST", "RETURN_CONST")
_LOAD_VARIABLE: Final = _known(
    "LOAD_GLOBAL", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_NAME"
)
_LOAD_NAME: Final = _known("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")


class _Step:
    """An instruction: where it begins, in units of two bytes; its operation, and its full argument."""

    __slots__ = ("argument", "operation", "unit")

    def __init__(self, unit: int, operation: int, argument: int) -> None:
        self.unit = unit
        self.operation = operation
        self.argument = argument


def _steps(code: CodeType) -> list[_Step]:
    """The instructions of code, without caches."""
    found: list[_Step] = []
    raw, high, start = code.co_code, 0, -1
    for place in range(0, len(raw), 2):
        operation = raw[place]
        if operation == _CACHE:
            continue
        argument = raw[place + 1] | high
        if start < 0:
            start = place >> 1
        if operation == _EXTENDED:
            high = argument << 8
            continue
        found.append(_Step(start, operation, argument))
        high, start = 0, -1
    return found


def portable_code(code: CodeType) -> list[int]:
    """The instructions and the exception table of code, without nested code, equal for each unit."""
    steps = _steps(code)
    jumps = _jump_targets(steps, len(code.co_code) >> 1)
    steps = _with_methods(steps)
    units = [step.unit for step in steps]
    for step, target in jumps:
        step.argument = bisect_left(units, target)
    found = [number for step in steps for number in (step.operation, step.argument)]
    numbers = _exception_numbers(code)
    for start, length, handler, depth in zip(numbers, numbers, numbers, numbers, strict=True):
        found += (bisect_left(units, start), bisect_left(units, start + length), bisect_left(units, handler), depth)
    return found


def _jump_targets(steps: list[_Step], end: int) -> list[tuple[_Step, int]]:
    """The jumps, each with the unit it leads to."""
    found: list[tuple[_Step, int]] = []
    for index, step in enumerate(steps):
        if step.operation in _JUMPS:
            after = steps[index + 1].unit if index + 1 < len(steps) else end
            distance = -step.argument if step.operation in _BACKWARD else step.argument
            found.append((step, after + distance))
    return found


def _with_methods(steps: list[_Step]) -> list[_Step]:
    """The instructions, with each call of an attribute as a call of a method."""
    found: list[_Step] = []
    for step in steps:
        if step.operation == _LOAD_METHOD:
            step.operation, step.argument = _LOAD_ATTR, step.argument << 1 | 1
        elif step.operation == _LOAD_ATTR:
            if _LOAD_METHOD >= 0:
                step.argument <<= 1
            if not step.argument & 1 and _is_after_null(found):
                del found[-2]
                step.argument |= 1
        elif step.operation == _LOAD_GLOBAL and step.argument & 1 and _IS_NULL_FIRST:
            found.append(_Step(step.unit, _PUSH_NULL, 0))
            step.argument -= 1
        elif step.operation == _PUSH_NULL and _is_after_attribute(found):
            found[-1].argument |= 1
            continue
        found.append(step)
    return found


def _is_after_attribute(found: list[_Step]) -> bool:
    """Whether the last instruction is the load of an attribute that is not a method."""
    has_attribute = not _IS_NULL_FIRST and bool(found) and found[-1].operation == _LOAD_ATTR
    return has_attribute and not found[-1].argument & 1


def _is_after_null(found: list[_Step]) -> bool:
    """Whether the last instructions are an empty place for `self`, and the load of a name."""
    has_null = _IS_NULL_FIRST and len(found) > 1 and found[-2].operation == _PUSH_NULL
    return has_null and found[-1].operation in _LOAD_VARIABLE


def _exception_numbers(code: CodeType) -> Iterator[int]:
    """The numbers of the exception table, four for each entry."""
    number = 0
    for byte in code.co_exceptiontable:
        number = number << 6 | byte & 0x3F
        if not byte & 0x40:
            yield number
            number = 0


def is_first_constant_used(code: CodeType) -> bool:
    """Whether code uses its first constant: a docstring is not used."""
    return any(not step.argument and step.operation in _LOAD_CONSTANT for step in _steps(code))


class CodeNames(NamedTuple):
    """What code, with the code nested in it, loads from outside."""

    loaded: tuple[str, ...]
    """The globals and builtins; in the body of a class also its own names."""
    required: tuple[str, ...]
    """The same without names that the body of a class assigns."""
    importing: tuple[CodeType, ...]
    """The code that imports."""


@cache
def names_of(code: CodeType) -> CodeNames:
    """The names that code loads, found once: all functions that one `def` makes share their code."""
    loaded, required = (tuple(dict.fromkeys(_loaded(code, with_own=own))) for own in (True, False))
    return CodeNames(loaded, required, tuple(_importing(code)))


def global_names(code: CodeType) -> tuple[str, ...]:
    """The globals and builtins that code loads, and nested code; in the body of a class also its own names."""
    return names_of(code).loaded


def _importing(code: CodeType) -> Iterator[CodeType]:
    """Code that imports, and nested code that does."""
    if _IMPORT in code.co_code[::2]:
        yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _importing(constant)


def _loaded(code: CodeType, *, with_own: bool) -> Iterator[str]:
    steps = _steps(code)
    own = () if with_own else {step.argument for step in steps if step.operation == _STORE_NAME}
    for step in steps:
        if step.operation == _LOAD_GLOBAL:
            # The lowest bit is a flag of the call.
            yield code.co_names[step.argument >> 1]
        elif step.operation in _LOAD_NAME and step.argument not in own:
            yield code.co_names[step.argument]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _loaded(constant, with_own=with_own)


__all__ = ["global_names", "is_first_constant_used", "names_of", "portable_code"]
