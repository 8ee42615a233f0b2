"""Checks of scalars and keys that come from outside, and the refusal that collects the path to the bad part."""

from __future__ import annotations

from collections.abc import Callable
from types import NoneType
from typing import Any, Final

from headwater.errors import AddressError, LimitError
from headwater.values.author_text import kind_of
from headwater.values.value_limits import DOCUMENT_BYTES_MAX, INT_MAX, INT_MIN, KEY_BYTES_MAX

_PATH_STEPS_MAX: Final = 8
"""Steps of a path that a message shows; the middle of longer ones is left out."""


def step_text(step: str | int) -> str:
    """A step as people write it: ~1 for a slash in it, ~0 for a tilde, and ~ alone for the empty key."""
    return str(step).replace("~", "~0").replace("/", "~1") or "~"


class RefusedError(Exception):
    """The refusal of a part of a value. Collects the path backwards on its way up. Caught before it reaches authors."""

    def __init__(self, reason: str, *, limit: bool = False) -> None:
        self.reason = reason
        self.limit = limit
        self.steps: list[str | int] = []

    def explain(self, at: str) -> AddressError | LimitError:
        """The error for the author, with the path within the value named `at`."""
        path = tuple(reversed(self.steps))
        shown = [step_text(step) for step in path]
        if len(shown) > _PATH_STEPS_MAX:
            shown[_PATH_STEPS_MAX // 2 : 1 - _PATH_STEPS_MAX // 2] = ["..."]
        where = f"{'/'.join(shown)} in {at}" if shown else at
        error = LimitError if self.limit else AddressError
        return error(f"cannot store {where}: {self.reason}", path=path, reason=self.reason)


def spend(size: int, budget: list[int]) -> None:
    """Subtract bytes from the remaining budget of a document."""
    budget[0] -= size
    if budget[0] < 0:
        raise RefusedError(f"larger than a document may be ({DOCUMENT_BYTES_MAX:,} bytes)", limit=True)


def _text_size(text: str) -> int:
    try:
        return len(text if text.isascii() else text.encode()) + 1
    except UnicodeEncodeError as error:
        bad = ord(text[error.start])
        reason = f"the text holds a lone surrogate (U+{bad:04X} at {error.start}), which UTF-8 cannot carry"
        raise RefusedError(reason) from None


def _int_size(number: int) -> int:
    if not INT_MIN <= number <= INT_MAX:
        raise RefusedError("an integer beyond 64 bits; store it as text or bytes")
    return 1


def _float_size(number: float) -> int:
    if number - number != 0.0:  # NaN and the infinities, without importing math
        raise RefusedError(f"{number} is not a number that JSON has; use None or text")
    return 9


SCALARS: Final[dict[type, Callable[[Any], int]]] = {
    str: _text_size,
    int: _int_size,
    float: _float_size,
    bytes: lambda data: len(data) + 2,
    bool: lambda _: 1,
    NoneType: lambda _: 1,
}
"""The check of each scalar type. It returns the minimum number of encoded bytes of the value."""

SIZE_SPREAD: Final = 9
"""No value takes more than nine times that minimum: an integer takes one to nine bytes."""


def check_key(key: object) -> tuple[str, int]:
    """A key as plain text, and its minimum number of encoded bytes."""
    if not isinstance(key, str):
        raise RefusedError(f"the key {key!r} is {type(key).__name__}; keys are text")
    name = key if type(key) is str else str.__str__(key)
    size = _text_size(name) if len(name) <= KEY_BYTES_MAX else len(name) + 1
    if size > KEY_BYTES_MAX + 1:
        reason = f"a key of more than {KEY_BYTES_MAX:,} bytes (it starts {name[:20]!r})"
        raise RefusedError(reason, limit=True)
    return name, size


def as_scalar(value: object) -> str | int | float | bytes:
    """An enum member, or another instance of a subclass of a scalar type, as the plain type."""
    # The unbound methods return the plain content, whatever the subclass overrides.
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    hint = "; make it a list first" if isinstance(value, set | frozenset) else ""
    raise RefusedError(
        f"{kind_of(value)} is not a value: None, bool, int, float, str, bytes, list or dict is expected{hint}"
    )
