"""Values without a declared type: whether they round-trip unchanged, and the type hint to declare instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headwater.errors import SchemaError

_SHOWN_MAX: Final = 4
"""Elements of a tuple that the hint names one by one."""
_CHECKED_MAX: Final = 100
"""Elements of a list or dict that are read for the hint."""


def check_untyped(name: str, value: object) -> None:
    """Refuse a result that does not round-trip, and name the type to declare."""
    if isinstance(value, list | tuple | dict) and not round_trips(value):
        message = (
            f"the result of {name}() would not be read as it was returned: without a type, tuples become lists, and "
            f"keys are text. Write its type: def {name}(...) -> {hint_text(value)}"
        )
        raise SchemaError(message, name=name)


def round_trips(value: object) -> bool:
    """Whether it is read as it was stored without a type: a tuple is read as a list, and keys must be text."""
    level: list[object] = [value]
    while level:
        below: list[object] = []
        for item in level:
            if isinstance(item, tuple):
                return False
            if isinstance(item, dict):
                if any(not isinstance(key, str) for key in item):
                    return False
                below.extend(item.values())
            elif isinstance(item, list):
                below.extend(item)
        level = [item for item in below if isinstance(item, list | tuple | dict)]
    return True


def hint_text(value: object) -> str:
    """The type hint of a value."""
    if value is None:
        return "None"
    if isinstance(value, tuple) and type(value) is tuple:
        if not value or len(value) > _SHOWN_MAX:
            return f"tuple[{_united(value)}, ...]"
        return f"tuple[{', '.join(map(hint_text, value))}]"
    if isinstance(value, list):
        return f"list[{_united(value)}]"
    if isinstance(value, dict):
        return f"dict[{_united(value)}, {_united(value.values())}]"
    return type(value).__name__


def _united(items: Iterable[object]) -> str:
    found = dict.fromkeys(hint_text(item) for item, _ in zip(items, range(_CHECKED_MAX), strict=False))
    return " | ".join(found) or "Any"
