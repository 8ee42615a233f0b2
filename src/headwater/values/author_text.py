"""Text of objects that belong to an author: exceptions and values. Every function here is total: none of them raises.

An author's `__str__`, `__repr__`, `__notes__` or `message` is code: it may raise anything, return anything, or be
missing. Each module that stores, logs or prints an error takes its text from here; a structure test finds modules that
do not.

`BaseException` is caught too, as in the module `traceback`: a missing text is less harm than an event that is lost on
its way to the list of failed events.
"""

from __future__ import annotations

from traceback import format_exception, format_tb
from types import TracebackType
from typing import Final, cast

from headwater.errors import HeadwaterError

TEXT_MAX: Final = 20_000
"""Characters of an error's text. It is stored with failed events and sent to logs, and may contain a whole file."""

CHAIN_MAX: Final = 20
"""Errors of a chain of causes that are shown if the module `traceback` fails."""


def kind_of(thing: object) -> str:
    """The name of its class, even if a metaclass overrides `__name__`."""
    return clean(cast("str", type.__dict__["__name__"].__get__(type(thing))))


def clean(text: str, limit: int = TEXT_MAX) -> str:
    """A plain `str` that can be stored: no subclass, no lone surrogates, not longer than `limit`."""
    plain = str.__str__(text)
    if len(plain) > limit:
        plain = f"{plain[:limit]}... ({len(plain) - limit:,} more characters)"
    return plain if plain.isascii() else plain.encode("utf-8", "backslashreplace").decode("utf-8")


def text_of(error: BaseException | None) -> str:
    """The text of an error: `str(error)`."""
    try:
        return clean(str(error))
    except BaseException as odd:  # noqa: BLE001  # an author's __str__ may raise anything
        return f"<no text: str() raised {kind_of(odd)}>"


def describe(error: BaseException | None) -> str:
    """The class and the text of an error."""
    return f"{kind_of(error)}: {text_of(error)}"


def message_of(error: BaseException) -> str:
    """As `describe`; for an error of Headwater, the message without the class."""
    if isinstance(error, HeadwaterError):
        try:
            return clean(error.message) or describe(error)
        except BaseException:  # noqa: BLE001  # an author's subclass: the attribute may be no text
            return describe(error)
    return describe(error)


def same_message(one: BaseException | None, other: BaseException | None) -> bool:
    """Whether two errors have the same class and text."""
    if one is None or other is None:
        return one is other
    return type(one) is type(other) and text_of(one) == text_of(other)


def safe_repr(value: object) -> str:
    """`repr(value)`."""
    try:
        return clean(repr(value))
    except BaseException as odd:  # noqa: BLE001  # an author's __repr__ may raise anything
        return f"<{kind_of(value)}: repr() raised {kind_of(odd)}>"


def calls_of(error: BaseException) -> TracebackType | None:
    """The traceback of an error, even if its class overrides the attribute."""
    return cast("TracebackType | None", _raw(error, "__traceback__"))


def with_calls(error: BaseException, calls: TracebackType | None) -> None:
    """Set the traceback of an error."""
    BaseException.with_traceback(error, calls)


def is_printable(error: BaseException | None) -> bool:
    """Whether `traceback` can show it and `logging` can encode that: a lone surrogate cannot be encoded."""
    try:
        "".join(format_exception(error)).encode()
    except BaseException:  # noqa: BLE001  # of an author's class
        return False
    return True


def traceback_text(error: BaseException, calls: TracebackType | None = None, limit: int | None = None) -> str:
    """The traceback with its causes. `calls`: where to start; `limit`: as for `traceback.format_exception`."""
    calls = calls or calls_of(error)
    try:
        found = "".join(format_exception(type(error), error, calls, limit=limit))
        # A lone surrogate in a message cannot be stored either.
        return found if found.isascii() else found.encode("utf-8", "backslashreplace").decode("utf-8")
    except BaseException:  # noqa: BLE001  # notes, causes, attributes of a SyntaxError: all of an author's class
        return _plainly(error, calls, limit)


def add_note(error: BaseException, note: str) -> None:
    """Add a note, if the class of the error allows it."""
    try:
        BaseException.add_note(error, note)
    except BaseException:  # noqa: BLE001  # an author's class may forbid it
        return


def _plainly(error: BaseException, calls: TracebackType | None, limit: int | None) -> str:
    """A traceback of calls and class names, if Python cannot make one for the author's class."""
    parts: list[str] = []
    seen: list[BaseException] = []
    current: BaseException | None = error
    while current is not None and len(seen) < CHAIN_MAX and not any(current is each for each in seen):
        seen.append(current)
        shown = calls if current is error else calls_of(current)
        lines = "".join(format_tb(shown, limit=limit))
        parts.append(f"Traceback (most recent call last):\n{clean(lines)}{describe(current)}\n")
        current = cast("BaseException | None", _raw(current, "__cause__") or _raw(current, "__context__"))
    return "\nwhich came of:\n\n".join(parts)


def _raw(error: BaseException, name: str) -> object:
    return BaseException.__dict__[name].__get__(error)
