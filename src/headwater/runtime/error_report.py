"""Reports errors of functions that have no caller to raise them to. Reporting never stops the code that reports."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Final, Literal

from headwater.cells.context import CONTEXT, without_transactions
from headwater.errors import UsageError, UserCodeError
from headwater.runtime.tracebacks import author_calls, shown_to_author
from headwater.values.author_text import calls_of, describe, is_printable, text_of, traceback_text

log: Final = logging.getLogger("headwater")

OnError = Callable[[UserCodeError], None]
ErrorMode = Literal["raise", "log"]
"""The named ways to handle an error: log it; or log it, and raise the first one when the opening ends."""


def log_error(error: UserCodeError) -> None:
    """The default: log the error."""
    log_raised(error.__cause__, text_of(error))


def log_raised(error: BaseException | None, message: str) -> None:
    """Log the error of an author's function with its traceback, even if `logging` cannot show the exception."""
    if error is None:
        log.error("%s", message)
    elif is_printable(error):
        with shown_to_author(error):
            log.error("%s", message, exc_info=(type(error), error, calls_of(error)))
    else:
        log.error("%s\n%s", message, traceback_text(error, author_calls(error)))


def log_rebuilt(space: str, what: str, source: str = "the log") -> None:
    """Log what an opening has found damaged, and has made again."""
    then = "run `headwater verify` to check the rest of the file"
    log.warning("space %r: %s was damaged, and was made again from %s; %s", space, what, source, then)


class RaisedLater:
    """`on_error="raise"`: each error is logged when it happens, and the first is raised when the space is closed.

    Not at the line that triggered the function, and not before the commits are on disk. An event that
    failed is not among them: it is kept, and its ticket raises it.
    """

    def __init__(self) -> None:
        self._first: UserCodeError | None = None
        self._count = 0

    def __call__(self, error: UserCodeError) -> None:
        """Remember the first; log it."""
        if error.facts.get("event") is None:
            self._first = self._first or error
            self._count += 1
        log_error(error)

    def take(self) -> UserCodeError | None:
        """The first, once."""
        first, self._first = self._first, None
        if first is not None:
            if first.__cause__ is not None and not is_printable(first.__cause__):
                # The log has as much of it as can be shown; code that prints this error need not handle that.
                first.__cause__ = None
            rest = self._count - 1
            also = "1 more was" if rest == 1 else f"{rest:,} more were"
            more = f" {also} logged, too." if rest else ""
            first.add_note(
                f"Logged when it happened, and raised now that the space is closed: what was committed is kept.{more} "
                'Open it with on_error="log" to have such errors logged only, or with a function that takes them.'
            )
        return first


def check_on_error(given: object) -> None:
    """Raise UsageError unless this can handle errors."""
    if given not in (None, "raise", "log") and not callable(given):
        raise UsageError(f"on_error={given!r}: 'raise', 'log', or a function that takes an error is expected")
    if iscoroutinefunction(given):
        raise UsageError(f"on_error={given!r}: a plain function is expected; an async one would not be awaited")


def chosen(on_error: OnError | ErrorMode | None) -> OnError:
    """The function to call with each error."""
    if on_error == "raise":
        return RaisedLater()
    return log_error if on_error is None or on_error == "log" else on_error


def raise_later(on_error: OnError, *, unless: bool = False) -> None:
    """At the end of an opening, raise the first error, unless another error is being raised."""
    first = on_error.take() if isinstance(on_error, RaisedLater) else None
    if first is not None and not unless:
        raise first


def tell(on_error: OnError, error: UserCodeError) -> None:
    """Call the author's error handler. If that raises, both errors are logged; an interrupt goes on."""
    # The handler is not part of the run around it: its writes are not writes of that run.
    around = CONTEXT.set(without_transactions(CONTEXT.get()))
    try:
        on_error(error)
    except Exception as failed:  # noqa: BLE001  # a function of the author's, which stops nothing
        # Logging itself fails, or the class of the error refuses a context: nothing more can be reported.
        with suppress(Exception):
            if failed.__context__ is None and failed.__cause__ is not error:
                # So that the traceback shows both.
                failed.__context__ = error
        with suppress(Exception):
            log_raised(failed, f"on_error raised {describe(failed)}. It was called with: {text_of(error)}")
    finally:
        CONTEXT.reset(around)
