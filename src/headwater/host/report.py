"""How authors are told of an error that nobody is there to be raised to. Telling never stops whoever tells.

Must never know: what went wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from headwater.errors import UserCodeError

log: Final = logging.getLogger("headwater")

OnError = Callable[[UserCodeError], None]


def log_error(error: UserCodeError) -> None:
    """What happens where nothing else was said."""
    log.error("%s", error, exc_info=error.__cause__)


def tell(on_error: OnError, error: UserCodeError) -> None:
    """Call the author's error handler. If that raises, both errors are logged; an interrupt goes on."""
    try:
        on_error(error)
    except Exception as failed:  # a function of the author's, which stops nothing
        if failed.__context__ is None and failed.__cause__ is not error:
            # So that the traceback shows both.
            failed.__context__ = error
        # There is nobody left to be told that logging fails.
        with suppress(Exception):
            raised = f"{type(failed).__name__}: {failed}"
            log.exception("on_error raised %s. It was told: %s", raised, error)
