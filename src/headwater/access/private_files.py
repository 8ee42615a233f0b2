"""Private files: created with owner-only permissions, and checked before they are trusted."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from headwater.errors import UnavailableError
from headwater.machine import File, machine

_MODE: Final = 0o600
_OTHERS: Final = 0o077
_LOCK_WAIT_S: Final = 10.0
"""Time to wait for the lock: its holder writes a small file or two. A disk that takes longer is broken."""
_LOCK_LOOK_S: Final = 0.01
_CHUNK: Final = 1024 * 1024


def owners_of(folder: Path) -> frozenset[int]:
    """Users whose files are trusted in a folder: this user, root, and the folder's owner."""
    return frozenset({os.geteuid(), 0, machine().files.stat(folder).st_uid})


def complaint(found: os.stat_result, owners: Collection[int]) -> str | None:
    """Why a file is not trusted; None if it is."""
    if not stat.S_ISREG(found.st_mode):
        return "it is not a plain file"
    if found.st_uid not in owners:
        return f"it belongs to user {found.st_uid}, not to user {os.geteuid()}, who asks"
    if found.st_mode & _OTHERS:
        return f"others may use it too (mode {stat.S_IMODE(found.st_mode):04o}); `chmod 600` it if it can be trusted"
    return None


def opened_up(paths: Iterable[Path]) -> list[str]:
    """Files that other users can access, each with its permissions."""
    found = []
    for path in paths:
        with suppress(OSError):
            mode = stat.S_IMODE(machine().files.stat(path).st_mode)
            if mode & _OTHERS:
                found.append(f"{path} ({mode:04o})")
    return found


def open_private(path: Path, owners: Collection[int]) -> File:
    """Open for reading. Raises FileNotFoundError; UnavailableError if other users can access it."""
    try:
        # Non-blocking: it may be a named pipe.
        file = machine().files.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise UnavailableError(f"{path} is not read: it is a symbolic link", path=str(path)) from None
    why = complaint(file.stat(), owners)
    if why is not None:
        file.close()
        raise UnavailableError(f"{path} is not read: {why}", path=str(path))
    return file


def read_all(file: File, bytes_max: int) -> bytes | None:
    """Read a file; None if it is larger than the limit."""
    parts: list[bytes] = []
    left = bytes_max + 1
    while left > 0 and (part := file.read(min(left, _CHUNK))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts) if left > 0 else None


def read_private(path: Path, owners: Collection[int], bytes_max: int) -> bytes:
    """Read a small private file, with the same checks."""
    with open_private(path, owners) as file:
        data = read_all(file, bytes_max)
    if data is None:
        raise UnavailableError(f"{path} is not read: it has more than {bytes_max:,} bytes", path=str(path))
    return data


def create_private(path: Path, flags: int) -> File:
    """A file to write to. It is its folder's owner's, also if root makes it, and was never open to others.

    With O_EXCL it must be new; otherwise it may exist.
    """
    files = machine().files
    file = files.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, _MODE)
    try:
        found = file.stat()
        why = complaint(found, owners_of(path.parent))
        if found.st_uid == os.geteuid() and stat.S_ISREG(found.st_mode):
            # Corrects a strict umask, and permissions that were widened.
            if stat.S_IMODE(found.st_mode) != _MODE:
                file.set_mode(_MODE)
            owner = files.stat(path.parent)
            if os.geteuid() == 0 and owner.st_uid != 0:
                file.set_owner(owner.st_uid, owner.st_gid)
        elif why is not None:
            raise UnavailableError(f"{path} is not written: {why}", path=str(path))
    except BaseException:
        file.close()
        raise
    return file


def replace_private(path: Path, data: bytes) -> None:
    """Replace a file atomically, also across a power failure."""
    files = machine().files
    part = path.with_name(f".{path.name}-{machine().token_hex(6)}.part")
    try:
        try:
            with create_private(part, os.O_WRONLY | os.O_EXCL) as file:
                file.write(data)
                file.sync()
            files.replace(part, path)
        except BaseException:
            with suppress(OSError):
                files.unlink(part)
            raise
        files.sync_folder(path.parent)
    except OSError as error:
        message = f"cannot write {path}: {error.strerror or error}; is there room, and may this user write there?"
        raise UnavailableError(message, path=str(path)) from error


@contextmanager
def locked(path: Path, *, wait_s: float = _LOCK_WAIT_S) -> Iterator[None]:
    """Lock for all processes and threads. The file stays: deleting it would allow two holders."""
    try:
        file = create_private(path, os.O_RDWR)
    except OSError as error:
        message = f"cannot lock {path}: {error.strerror or error}; may this user write in {path.parent}?"
        raise UnavailableError(message, path=str(path)) from error
    with file:
        wait_for_lock(file, path, wait_s)
        yield


def wait_for_lock(file: File, path: Path, wait_s: float) -> None:
    """Have a file locked, as long as it is open. Raises UnavailableError."""
    system = machine()
    end = system.monotonic() + wait_s
    while not file.try_lock():
        if system.monotonic() >= end:
            message = f"{path} has been locked by another process for {wait_s:g} seconds; try again"
            raise UnavailableError(message, path=str(path)) from None
        system.sleep(_LOCK_LOOK_S)
