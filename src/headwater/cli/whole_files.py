"""Files that exist whole or not at all: written under another name, put in place when complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headwater.cli.exits import RefusalError
from headwater.machine import machine

SIDES: Final = ("-wal", "-journal", "-shm")
"""Suffixes of the files that SQLite may have beside a database."""


def check_free(path: Path, *, force: bool) -> None:
    """Raise if there is a file already, or cannot be one."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
    if path.exists() and not force:
        raise RefusalError(f"{path} exists; --force replaces it")
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "", str(path.parent))


@contextmanager
def unfinished(folder: Path, *, private: bool = True) -> Iterator[Path]:
    """A new, empty file in a folder, removed in the end unless it was put in place. Its name is no space's.

    Only this user can use it, as it may have the data of a space. Without `private` it follows the umask.
    """
    path = folder / f".headwater-{machine().token_hex(6)}.part"
    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666))
    try:
        yield path
    finally:
        for name in (path, *beside(path)):
            name.unlink(missing_ok=True)


def beside(path: Path) -> list[Path]:
    """The files that SQLite may have beside a database."""
    return [path.with_name(path.name + side) for side in SIDES]


def put_in_place(path: Path, target: Path) -> None:
    """Give a finished file its name, replacing what has it. After a power cut either the old or the new one exists."""
    _sync(path)
    path.replace(target)
    _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
