"""Files that are written atomically: under another name, put in place when complete."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from headwater.machine import machine


class RefusalError(Exception):
    """A request that is understood and possible, but rejected: a conflict, or a file that would be overwritten."""


SIDES: Final = ("-wal", "-journal", "-shm")
"""Suffixes of the files that SQLite may have beside a database."""


def check_free(path: Path, *, force: bool) -> None:
    """Raise if the file exists, or cannot be created."""
    files = machine().files
    if files.is_dir(path):
        raise IsADirectoryError(errno.EISDIR, "is a folder; name a file", str(path))
    if files.exists(path) and not force:
        raise RefusalError(f"{path} exists; --force replaces it")
    if not files.is_dir(path.parent):
        raise FileNotFoundError(errno.ENOENT, "", str(path.parent))


@contextmanager
def unfinished(folder: Path, *, private: bool = True) -> Iterator[Path]:
    """A new, empty file in a folder, removed at the end unless it was put in place. Its name is not that of a space.

    Only this user can use it, as it may have the data of a space. Without `private` it follows the umask.
    """
    path = folder / f".headwater-{machine().token_hex(6)}.part"
    machine().files.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600 if private else 0o666).close()
    try:
        yield path
    finally:
        for name in (path, *beside(path)):
            machine().files.remove(name)


def beside(path: Path) -> list[Path]:
    """The files that SQLite may have beside a database."""
    return [path.with_name(path.name + side) for side in SIDES]


def put_in_place(path: Path, target: Path) -> None:
    """Rename a finished file, and replace the old one. After a power loss, the old or the new file exists."""
    files = machine().files
    with files.open(path, os.O_RDONLY) as file:
        file.sync()
    files.replace(path, target)
    files.sync_folder(target.parent)
