"""One server for each folder: the second is told who has it.

Must never know: what is in the folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from headwater.access.private_files import create_private, wait_for_lock
from headwater.errors import SpaceHeldError, UnavailableError

FILE: Final = "server.lock"
WAIT_S: Final = 2.0
"""How long a server that was just told to end is waited for."""
_WORDS_MAX: Final = 400


def check_free(folder: Path) -> None:
    """For whoever could not even listen: the server in the way may be this folder's. Raises SpaceHeldError."""
    path = folder / FILE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return
    try:
        wait_for_lock(descriptor, path, 0)
    except UnavailableError:
        raise _held(folder, descriptor) from None
    finally:
        os.close(descriptor)


def _held(folder: Path, descriptor: int) -> SpaceHeldError:
    who = os.pread(descriptor, _WORDS_MAX, 0).decode(errors="replace").strip() or "another process"
    message = f"{folder} is served already, by {who}; one server has a folder: use that one, or end it first"
    return SpaceHeldError(message, path=str(folder))


class FolderLock:
    """On a folder, as long as the process lives. Raises SpaceHeldError, UnavailableError."""

    def __init__(self, folder: Path, url: str) -> None:
        path = folder / FILE
        try:
            descriptor = create_private(path, os.O_RDWR)
        except OSError as error:
            message = f"cannot lock {path}: {error.strerror or error}; may this user write in {folder}?"
            raise UnavailableError(message, path=str(path)) from error
        try:
            wait_for_lock(descriptor, path, WAIT_S)
        except UnavailableError:
            held = _held(folder, descriptor)
            os.close(descriptor)
            raise held from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} at {url}\n".encode(), 0)
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Somebody else may have it. Once more is no harm. The file stays: removing it would let two in."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
