"""Standard output and standard error: what happens when they cannot be written.

A command whose output has no reader any more (`| head`) ends: its output is all it is for. A process that stays, as
`headwater serve`, `headwater run` and `app.run()` do, goes on without that reader, and every command goes on without a
reader of its remarks on standard error. In no case is there anything left to fail when the interpreter ends.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_STANDARD: Final = 3
"""Descriptors below this one are standard input, output and error."""


class ReaderGoneError(BrokenPipeError):
    """The reader of standard output has gone. Not raised for any other pipe or socket."""


class Outlet(io.BufferedWriter):
    """The buffer of a standard stream. While `is_lasting`, no write fails: text that cannot be written is lost.

    A disk that is full for a minute loses the lines of that minute; what is written afterwards arrives. This is a
    buffer and not the raw stream below it: an interrupt in the middle of a raw stream that is written in Python comes
    after the text was written and before the buffer knows, and the text would be written twice.
    """

    def __init__(self, descriptor: int, *, is_lasting: bool, is_unbuffered: bool = False) -> None:
        super().__init__(io.FileIO(descriptor, "wb", closefd=False))
        self.is_lasting = is_lasting
        self._is_unbuffered = is_unbuffered

    def write(self, data: ReadableBuffer, /) -> int:
        try:
            written = super().write(data)
            if self._is_unbuffered:
                super().flush()
            return written
        except OSError as error:
            self._fails(error)
            return memoryview(data).nbytes

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._fails(error)

    def _fails(self, error: OSError) -> None:
        if self.is_lasting:
            self.drop()
        elif isinstance(error, BrokenPipeError):
            raise ReaderGoneError(error.errno, error.strerror) from None
        else:
            raise error

    def drop(self) -> None:
        """Discard the buffered text."""
        with suppress(OSError), io.FileIO(os.devnull, "wb") as nowhere, io.FileIO(os.dup(self.fileno()), "wb") as where:
            os.dup2(nowhere.fileno(), self.fileno())
            try:
                super().flush()
            finally:
                os.dup2(where.fileno(), self.fileno())


def set_up() -> None:
    """For a process that is the command: replace both streams, and leave no standard descriptor closed.

    A file that is opened while descriptor 2 is closed becomes descriptor 2, and gets every message written to it.
    """
    for descriptor in range(_STANDARD):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest that is free: this one
    for name, is_lasting in (("stdout", False), ("stderr", True)):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):  # else closed from the start, or put there by a test
            setattr(sys, name, _over_outlet(stream, "backslashreplace", is_lasting=is_lasting))


def last() -> None:
    """For a process that stays: from now on write standard output line by line, as far as possible."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(line_buffering=True)
        if isinstance(stream.buffer, Outlet):
            stream.buffer.is_lasting = True


def abandon() -> None:
    """Standard output has no reader, or no room: discard the rest, and everything after it."""
    stream = sys.stdout
    if isinstance(stream, io.TextIOWrapper) and isinstance(stream.buffer, Outlet):
        stream.buffer.is_lasting = True
        stream.flush()


def finish(code: int) -> int:
    """Write the rest, so that the interpreter has nothing to write at its end. Returns the exit code."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except ValueError:
        pass  # it is closed
    except ReaderGoneError:
        # As `| head`: what the reader wanted is done.
        abandon()
    except OSError:
        # It was reported when it was written first.
        abandon()
        return code or 1
    return code


@contextmanager
def lasting() -> Iterator[None]:
    """For a program that stays: meanwhile no output fails because a reader or room is missing.

    Only the original streams of Python are wrapped, not those that other code has installed.
    """
    taken: list[tuple[str, io.TextIOWrapper, io.TextIOWrapper]] = []
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and stream is getattr(sys, f"__{name}__"):
            with suppress(OSError, ValueError):  # it is closed, or its descriptor is: nothing is printed there
                ours = _over_outlet(stream, stream.errors, is_lasting=True)
                setattr(sys, name, ours)
                taken.append((name, stream, ours))
    try:
        yield
    finally:
        for name, stream, ours in taken:
            ours.flush()
            if getattr(sys, name) is ours:
                setattr(sys, name, stream)


def _over_outlet(stream: io.TextIOWrapper, errors: str | None, *, is_lasting: bool) -> io.TextIOWrapper:
    """The same stream over an `Outlet`. With "backslashreplace", what its encoding does not have is escaped."""
    with suppress(OSError, ValueError):
        stream.flush()
    return io.TextIOWrapper(
        # Under `python -u` text is written through to a stream without a buffer; here to one that does not keep it.
        Outlet(stream.fileno(), is_lasting=is_lasting, is_unbuffered=stream.write_through),
        encoding=stream.encoding,
        errors=errors,
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )
