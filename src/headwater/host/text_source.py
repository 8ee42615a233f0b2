"""The lines of a file or a stream, read as often as needed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO, Final, TypeAlias

from headwater.errors import UsageError

Progress: TypeAlias = Callable[[int, int], None]

LINE_BYTES_MAX: Final = 128 * 1024 * 1024
"""The largest commit in base64 is shorter, and so is the largest document with every character escaped."""


def _silent(_done: int, _total: int) -> None:
    """No progress to show."""


@contextmanager
def reread(name: str) -> Iterator[BinaryIO]:
    """The input, as a file that can be read again."""
    if name == "-":
        with _spooled(sys.stdin.buffer) as source:
            yield source
        return
    path = Path(name)
    with path.open("rb") as file:
        if file.seekable():
            yield file
        else:
            with _spooled(file) as source:
                yield source


@contextmanager
def _spooled(stream: BinaryIO) -> Iterator[BinaryIO]:
    with TemporaryFile("w+b") as copy:
        copyfileobj(stream, copy)
        yield copy


def lines_of(source: BinaryIO, advance: Progress = _silent) -> Iterator[str]:
    """The lines from the start, as text. Progress is counted in bytes. Raises UsageError."""
    total = source.seek(0, 2)
    position = number = source.seek(0)
    while raw := source.readline(LINE_BYTES_MAX + 1):
        number += 1
        if len(raw) > LINE_BYTES_MAX:
            raise UsageError(f"line {number} is longer than {LINE_BYTES_MAX:,} bytes", line=number)
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            message = f"line {number} is not UTF-8: its byte {error.start} is {raw[error.start]:#04x}"
            raise UsageError(message, line=number) from None
        position += len(raw)
        advance(position, total)
