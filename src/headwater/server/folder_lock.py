"""One server for each folder: the second is told who has it.

Must never know: what is in the folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from headwater.access.private_files import create_private, wait_for_lock
from headwater.errors import SpaceHeldError, UnavailableError
from headwater.machine import File, machine

FILE: Final = "server.lock"
WAIT_S: Final = 2.0
"""How long a server that was just told to end is waited for."""
_WORDS_MAX: Final = 400


def check_free(folder: Path) -> None:
    """For whoever could not even listen: the server in the way may be this folder's. Raises SpaceHeldError."""
    path = folder / FILE
    try:
        file = machine().files.open(path, os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return
    with file:
        if not file.try_lock():
            raise _held(folder, file)


def _held(folder: Path, file: File) -> SpaceHeldError:
    who = file.read_at(_WORDS_MAX, 0).decode(errors="replace").strip() or "another process"
    message = f"{folder} is served already, by {who}; one server has a folder: use that one, or end it first"
    return SpaceHeldError(message, path=str(folder))


class FolderLock:
    """On a folder, as long as the process lives. Raises SpaceHeldError, UnavailableError."""

    def __init__(self, folder: Path, url: str) -> None:
        path = folder / FILE
        try:
            file = create_private(path, os.O_RDWR)
        except OSError as error:
            message = f"cannot lock {path}: {error.strerror or error}; may this user write in {folder}?"
            raise UnavailableError(message, path=str(path)) from error
        try:
            wait_for_lock(file, path, WAIT_S)
        except UnavailableError:
            held = _held(folder, file)
            file.close()
            raise held from None
        file.truncate(0)
        file.write(f"process {os.getpid()} at {url}\n".encode())
        self._file: File | None = file

    def release(self) -> None:
        """Somebody else may have it. Once more is no harm. The file stays: removing it would let two in."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
