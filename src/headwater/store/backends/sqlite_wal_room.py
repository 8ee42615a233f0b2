"""Room in the write-ahead log: zeros ahead of its frames, so that a commit does not make the file longer.

A commit that makes the log longer waits for the file system's journal as well, which has to store the new size of the
file: it takes twice the time of a commit within the file. SQLite starts with an empty log at every opening. After the
first checkpoint it writes from the beginning again, and needs no more room.

Zeros are no frames: their salts are not those of the log. SQLite, and the check at an opening, end before them.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Final

import apsw

FRAMES_MIN: Final = 16
"""A log with fewer frames gets no room: a space that is hardly written takes none on the disk."""

FRAMES_STEP: Final = 256
"""The most that is added at once, 1 MB: the next commit waits until it is on disk."""

FRAMES_AHEAD: Final = 8
"""Room is added when there is none for so many frames: a small commit takes three."""

_HEADER: Final = 32
_FRAME: Final = 24
_ZEROS: Final = bytes(1 << 16)
"""Written at once: SQLite's files take less than 128 KB."""


class WalRoom:
    """The room in the log of one open database."""

    def __init__(self, path: str, vfs: str | None, page_size: int) -> None:
        self._path = path
        self._vfs = vfs
        self._frame = _FRAME + page_size
        # The number of frames at which the log needs room.
        self.due_at = FRAMES_MIN

    def add(self, frames: int) -> None:
        """Write zeros behind a log with so many frames, unless the file is long enough. No error is raised.

        On a full disk, the log keeps its size, and gets no more room. A failing disk is reported by the next commit.
        """
        self.due_at = frames + FRAMES_STEP
        with suppress(apsw.Error):
            flags = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE
            file = apsw.VFSFile(self._vfs or "", f"{self._path}-wal", [flags, 0])
            try:
                self._add(file, frames)
            finally:
                file.xClose()

    def _add(self, file: apsw.VFSFile, frames: int) -> None:
        size = file.xFileSize()
        room = (size - _HEADER) // self._frame
        if room < frames + FRAMES_AHEAD:
            room = frames + min(max(frames, FRAMES_MIN), FRAMES_STEP)
            end = _HEADER + room * self._frame
            try:
                for offset in range(size, end, len(_ZEROS)):
                    file.xWrite(_ZEROS[: end - offset], offset)
            except apsw.FullError:
                file.xTruncate(size)
                return
        self.due_at = room - FRAMES_AHEAD

    def restart(self) -> None:
        """The log begins again: at the beginning of the same file, or of an empty one."""
        self.due_at = FRAMES_MIN
