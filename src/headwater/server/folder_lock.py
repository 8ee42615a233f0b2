"""The lock on a data folder: one server per folder. A second one gets an error that names the first."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from headwater.access.private_files import create_private, wait_for_lock
from headwater.errors import SpaceHeldError, UnavailableError
from headwater.machine import File, machine

FILE: Final = "server.lock"
WAIT_S: Final = 2.0
"""How long to wait for a server that is about to end."""
_WORDS_MAX: Final = 400


def check_free(folder: Path) -> None:
    """Raise SpaceHeldError if a server has the folder: that may be why a port is taken."""
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
    """Held while the process lives. Raises SpaceHeldError, UnavailableError."""

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
        try:
            file.truncate(0)
            file.write(f"process {machine().process_id()} at {url}\n".encode())
        except OSError as error:
            # The lock lasts as long as the file is open: this process may try again.
            file.close()
            raise UnavailableError(f"cannot write {path}: {error.strerror or error}", path=str(path)) from error
        self._file: File | None = file

    def release(self) -> None:
        """Release the lock. Idempotent. The file stays: deleting it would allow two holders."""
        file, self._file = self._file, None
        if file is not None:
            file.close()
