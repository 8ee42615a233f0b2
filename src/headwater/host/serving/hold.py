"""One server for each folder: the second is told who has it.

Must never know: what is in the folder.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from headwater.errors import SpaceHeldError, UnavailableError
from headwater.host.serving.private import create_private, wait_for_lock

FILE: Final = "server.lock"
WAIT_S: Final = 2.0
"""How long a server that was just told to end is waited for."""
_WORDS_MAX: Final = 400


class Hold:
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
            who = os.pread(descriptor, _WORDS_MAX, 0).decode(errors="replace").strip() or "another process"
            os.close(descriptor)
            message = f"{folder} is served already, by {who}; one server has a folder: use that one, or end it first"
            raise SpaceHeldError(message, path=str(folder)) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"process {os.getpid()} at {url}\n".encode(), 0)
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Somebody else may have it. Once more is no harm. The file stays: removing it would let two in."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
