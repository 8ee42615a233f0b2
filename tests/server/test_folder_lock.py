"""The lock on the folder of a server."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from headwater.errors import UnavailableError
from headwater.machine import File
from headwater.server.folder_lock import FolderLock


def test_a_lock_that_cannot_be_written_is_told_and_free_for_the_next_attempt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_file: File, _size: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as failing:
        failing.setattr(File, "truncate", fail)
        with pytest.raises(UnavailableError, match=r"cannot write .*server.lock"):
            FolderLock(tmp_path, "ws://127.0.0.1:8400")
    FolderLock(tmp_path, "ws://127.0.0.1:8400").release()
