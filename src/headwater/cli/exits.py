"""The exit code and the message of each error."""

from __future__ import annotations

import errno
import os
import sys
from enum import IntEnum
from typing import Final

import click

from headwater import errors
from headwater.host.postgres.database_url import hide_passwords
from headwater.host.whole_files import RefusalError
from headwater.values.author_text import describe, text_of, traceback_text
from headwater.values.text import inert


class Exit(IntEnum):
    """The exit codes that scripts can rely on."""

    DONE = 0
    FAILED = 1
    USED_WRONGLY = 2
    NOT_FOUND = 3
    REFUSED = 4
    WAITS_FOR_PERSON = 5
    TIMED_OUT = 6
    INTERRUPTED = 130


EXITS: Final[dict[type[BaseException], Exit]] = {
    BaseException: Exit.FAILED,
    click.UsageError: Exit.USED_WRONGLY,
    click.Abort: Exit.INTERRUPTED,
    KeyboardInterrupt: Exit.INTERRUPTED,
    FileNotFoundError: Exit.NOT_FOUND,
    TimeoutError: Exit.TIMED_OUT,
    RefusalError: Exit.REFUSED,
    errors.HeadwaterError: Exit.FAILED,
    errors.UsageError: Exit.USED_WRONGLY,
    errors.LimitError: Exit.REFUSED,
    errors.NotFoundError: Exit.NOT_FOUND,
    errors.EventRefusedError: Exit.REFUSED,
    errors.EventTimeoutError: Exit.TIMED_OUT,
    errors.EventRejectedError: Exit.REFUSED,
    errors.EventReusedError: Exit.REFUSED,
    errors.HistoryError: Exit.NOT_FOUND,
    errors.SpaceHeldError: Exit.REFUSED,
    errors.MergeConflictError: Exit.REFUSED,
    errors.RejectedError: Exit.REFUSED,
    errors.TransitionError: Exit.REFUSED,
}
"""The exit codes by class. The nearest base class of an error counts."""


def exit_of(kind: type[BaseException]) -> Exit:
    """The exit code for a class of errors."""
    return next(EXITS[above] for above in kind.__mro__ if above in EXITS)


def report(error: BaseException) -> Exit:
    """Print the error on stderr, in one line, and return the exit code. HEADWATER_DEBUG=1 adds the traceback."""
    if os.environ.get("HEADWATER_DEBUG", "0") not in ("", "0"):
        sys.stderr.write(hide_passwords(traceback_text(error)))
    if isinstance(error, click.UsageError):
        click.UsageError(hide_passwords(error.format_message()), error.ctx).show()
    else:
        click.echo(inert(hide_passwords(_line(error))), err=True)
    return exit_of(type(error))


def _line(error: BaseException) -> str:
    match error:
        case click.Abort() | KeyboardInterrupt():
            return "interrupted"
        case errors.InvariantError():
            return f"{_named(error)} {_ASK}"
        case errors.HeadwaterError():
            return _named(error)
        case RefusalError() | click.ClickException():
            return f"refused: {text_of(error)}" if isinstance(error, RefusalError) else error.format_message()
        case OSError() | MemoryError():
            return _system(error) if isinstance(error, OSError) else "not enough memory for this"
        case _:
            return f"{describe(error)}. This is a bug in Headwater. {_ASK}"


_ASK: Final = (
    "Please report it with what you ran, the output of `headwater version --json`, "
    "and that of the same command with HEADWATER_DEBUG=1 set."
)


def _named(error: errors.HeadwaterError) -> str:
    return f"{type(error).__name__} {error}"


def _system(error: OSError) -> str:
    """An error of the operating system without its number; the file comes first."""
    reason = error.strerror or str(error)
    if error.errno == errno.ENOENT:
        reason = "there is no such file or folder"
    return f"{error.filename}: {reason}" if error.filename else f"cannot go on: {reason}"
