"""Tracebacks as authors see them: their own lines, without the calls inside Headwater that lie between them.

`HEADWATER_DEBUG=1` shows all calls. An error that Headwater itself is to blame for is shown with all of them in any
case: they are what a report needs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, TypeAlias

from headwater.errors import HeadwaterError, InvariantError
from headwater.values.author_text import calls_of, with_calls

VARIABLE: Final = "HEADWATER_DEBUG"

_ENGINE: Final = str(Path(__file__).parents[1]) + os.sep
_STDLIB: Final = str(Path(os.__file__).parent) + os.sep
_PACKAGES: Final = (os.sep + "site-packages" + os.sep, os.sep + "dist-packages" + os.sep)
_CHAIN_MAX: Final = 100
"""Errors in a chain of causes that are changed."""

_Hook: TypeAlias = Callable[[type[BaseException], BaseException, TracebackType | None], object]


def is_debugging() -> bool:
    """Whether all calls are shown."""
    return os.environ.get(VARIABLE, "0") not in ("", "0")


def author_calls(error: BaseException) -> TracebackType | None:
    """The traceback of an error as its author sees it. The error itself is not changed."""
    calls = calls_of(error)
    if is_debugging() or calls is None:
        return calls
    frames = list(_frames(calls))
    kinds = [_kind(frame) for frame in frames]
    innermost = next((kind for kind in reversed(kinds) if kind != "library"), "author")
    is_expected = isinstance(error, HeadwaterError | KeyboardInterrupt) and not isinstance(error, InvariantError)
    if innermost == "engine" and not is_expected:
        return calls
    shown: TracebackType | None = None
    for frame, is_hidden in reversed(list(zip(frames, _hidden(kinds), strict=True))):
        if not is_hidden:
            shown = TracebackType(shown, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return shown or calls


def _frames(calls: TracebackType | None) -> Iterator[TracebackType]:
    while calls is not None:
        yield calls
        calls = calls.tb_next


def _kind(call: TracebackType) -> str:
    name = call.tb_frame.f_code.co_filename
    if name.startswith(_ENGINE):
        return "engine"
    is_library = name.startswith(("<frozen ", _STDLIB)) and not any(part in name for part in _PACKAGES)
    return "library" if is_library else "author"


def _hidden(kinds: list[str]) -> list[bool]:
    """Files of Headwater, and of Python's library around its calls, such as contextlib and asyncio."""
    hidden = [kind == "engine" for kind in kinds]
    for places in (range(1, len(kinds)), range(len(kinds) - 2, -1, -1)):
        step = -1 if places.step > 0 else 1
        for place in places:
            hidden[place] = hidden[place] or (kinds[place] == "library" and hidden[place + step])
    return hidden


# --- errors that end a program --------------------------------------------------------------------------------


def install() -> None:
    """Show an error that ends the program this way from now on, through the former `sys.excepthook`."""
    if not isinstance(sys.excepthook, _Shown):
        sys.excepthook = _Shown(sys.excepthook)


class _Shown:
    """Replaces `sys.excepthook`: passes on the error with the visible calls, and then restores all of them."""

    def __init__(self, inner: _Hook) -> None:
        self._inner = inner

    def __call__(self, kind: type[BaseException], error: BaseException, calls: TracebackType | None) -> None:
        with shown_to_author(error) as is_shown:
            self._inner(kind, error, calls_of(error) if is_shown else calls)


@contextmanager
def shown_to_author(error: BaseException) -> Iterator[bool]:
    """Inside, the error and all errors of its chain have the visible calls only. Whether that could be done."""
    before: list[tuple[BaseException, TracebackType | None]] = []
    try:
        with suppress(Exception):  # of an author's class, which need not have the attributes of an error
            before = [(each, calls_of(each)) for each in _chain(error)]
            for each, _ in before:
                with_calls(each, author_calls(each))
        yield bool(before)
    finally:
        for each, all_calls in before:
            with_calls(each, all_calls)


def _chain(error: BaseException) -> list[BaseException]:
    """An error, its causes, and those that it was raised while handling."""
    found: list[BaseException] = []
    waiting = [error]
    while waiting and len(found) < _CHAIN_MAX:
        each = waiting.pop()
        if not any(each is other for other in found):
            found.append(each)
            waiting += [other for other in (each.__cause__, each.__context__) if isinstance(other, BaseException)]
            if isinstance(each, BaseExceptionGroup):
                waiting += each.exceptions
    return found
