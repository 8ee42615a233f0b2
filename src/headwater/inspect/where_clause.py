"""Conditions on documents, as people write them: `total > 100 and customer = "Ann"`.

`path op literal`, joined by `and`. A path has its steps separated by `/` or `.`; a literal is JSON, or a bare word for
a text. `exists` has no literal; `in` has a list; `contains` looks in a text or a list.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from headwater.errors import UsageError
from headwater.values.codec import to_json
from headwater.values.strict_json import parse_json
from headwater.values.tree import ABSENT, Maybe, Value, get, is_array, is_map

_CONDITION: Final = re.compile(
    r"\s*(?P<path>[^\s=!<>]+)\s*(?P<op>!=|<=|>=|=|<|>|\b(?:in|contains|exists)\b)\s*(?P<rest>.*)", re.DOTALL
)
_AND: Final = re.compile(r"\s+and\s+")
_WHERE_MAX: Final = 2000
"""Characters of all conditions: each is evaluated for each document."""


class WhereCondition(msgspec.Struct, frozen=True):
    """One condition."""

    path: tuple[str, ...]
    op: str
    literal: object = None


def parse_where(text: str) -> tuple[WhereCondition, ...]:
    """The conditions of a text. Raises UsageError."""
    if not text.strip():
        return ()
    if len(text) > _WHERE_MAX:
        raise UsageError(f"a condition of {len(text):,} characters is too long; at most {_WHERE_MAX:,} are read")
    return tuple(map(_condition, _parts(text.strip())))


def _parts(text: str) -> list[str]:
    """The text at each `and` outside of quotes."""
    parts: list[str] = []
    start = 0
    for found in _AND.finditer(text):
        head = text[start : found.start()]
        if _is_closed(head):
            parts.append(head)
            start = found.end()
    return [*parts, text[start:]]


def _is_closed(text: str) -> bool:
    return len(re.findall(r'(?<!\\)"', text)) % 2 == 0


def _condition(text: str) -> WhereCondition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        message = f"{text.strip()[:80]!r} is no condition"
        raise UsageError(f"{message}; `path op value` is expected, op one of = != < <= > >= in contains exists")
    path, op, rest = found["path"], found["op"], found["rest"].strip()
    steps = tuple(step for step in re.split(r"[./]", path) if step)
    if op == "exists":
        if rest:
            raise UsageError(f"`exists` takes no value: {text.strip()[:80]!r}")
        return WhereCondition(steps, op)
    if not rest:
        raise UsageError(f"{text.strip()[:80]!r} has no value after {op}")
    literal = _literal(rest)
    if op == "in" and not isinstance(literal, list):
        raise UsageError(f'`in` takes a list, such as ["new", "paid"], not {rest[:60]}')
    return WhereCondition(steps, op, literal)


def _literal(text: str) -> object:
    try:
        return parse_json(text)
    except UsageError:
        if re.fullmatch(r"[\w:.\-]+", text):
            return text
        raise UsageError(f"{text[:60]!r} is no value; texts are written in quotes") from None


def satisfies(value: Value, conditions: tuple[WhereCondition, ...]) -> bool:
    """Whether a document satisfies all conditions."""
    return all(_holds(value_at(value, each.path), each) for each in conditions)


def value_at(root: Maybe, path: tuple[str, ...]) -> Maybe:
    """The value at a path of names; numbers are positions in a list."""
    found = root
    for step in path:
        if is_map(found):
            found = get(found, (step,))
        elif is_array(found) and step.isdecimal() and int(step) < len(found):
            found = get(found, (int(step),))
        else:
            return ABSENT
    return found


_COMPARED: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _holds(value: Maybe, condition: WhereCondition) -> bool:  # noqa: PLR0911  # one for each operator
    if condition.op == "exists":
        return value is not ABSENT
    if value is ABSENT:
        return condition.op == "!="
    found, literal = to_json(value), condition.literal
    match condition.op:
        case "=":
            return _equal(found, literal)
        case "!=":
            return not _equal(found, literal)
        case "in":
            assert isinstance(literal, list)
            return any(_equal(found, each) for each in literal)
        case "contains":
            if isinstance(found, str):
                return isinstance(literal, str) and literal in found
            return isinstance(found, list) and any(_equal(each, literal) for each in found)
        case op:
            comparable = (_is_number(found) and _is_number(literal)) or (
                isinstance(found, str) and isinstance(literal, str)
            )
            return comparable and _COMPARED[op](found, literal)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _equal(left: object, right: object) -> bool:
    """True and 1 are different; 1 and 1.0 are the same number."""
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def sort_key(value: Maybe) -> tuple[int, Any]:
    """An order over all values: missing, null, false, true, numbers, texts, others."""
    if value is ABSENT:
        return 0, 0
    found = to_json(value)
    if found is None:
        return 1, 0
    if isinstance(found, bool):
        return 2, found
    if isinstance(found, int | float):
        return 3, found
    if isinstance(found, str):
        return 4, found
    return 5, msgspec.json.encode(found)
