"""How authors are told of an error that nobody is there to be raised to. Telling never stops whoever tells.

Must never know: what went wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from headwater.cells.here import HERE, without_transactions
from headwater.errors import UserCodeError
from headwater.host.tracebacks import author_calls
from headwater.values.describe import describe, is_printable, text_of, traceback_text

log: Final = logging.getLogger("headwater")

OnError = Callable[[UserCodeError], None]


def log_error(error: UserCodeError) -> None:
    """What happens where nothing else was said."""
    log_raised(error.__cause__, text_of(error))


def log_raised(error: BaseException | None, message: str) -> None:
    """Log what an author's function raised, with its traceback: also of an exception that `logging` cannot show."""
    if error is None or is_printable(error):
        log.error("%s", message, exc_info=None if error is None else (type(error), error, author_calls(error)))
    else:
        log.error("%s\n%s", message, traceback_text(error, author_calls(error)))


def tell(on_error: OnError, error: UserCodeError) -> None:
    """Call the author's error handler. If that raises, both errors are logged; an interrupt goes on."""
    # It is no part of a run that happens to be around: what it writes is not that run's.
    around = HERE.set(without_transactions(HERE.get()))
    try:
        on_error(error)
    except Exception as failed:  # noqa: BLE001  # a function of the author's, which stops nothing
        # There is nobody left to be told that logging fails, or that the class of what was raised refuses a context.
        with suppress(Exception):
            if failed.__context__ is None and failed.__cause__ is not error:
                # So that the traceback shows both.
                failed.__context__ = error
        with suppress(Exception):
            log_raised(failed, f"on_error raised {describe(failed)}. It was told: {text_of(error)}")
    finally:
        HERE.reset(around)
