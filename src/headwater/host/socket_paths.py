"""The path of the local socket of a space: beside its file, `x.db-runtime`, for the owner of the file only.

A long path, or a file system without sockets, is not possible. Then the socket is in a folder of the user, and
`x.db-runtime` is a small file with its path.

A process that has a space open holds its file alone. So a socket that exists when a new one is made was left by a
process that has ended, and is replaced.
"""

from __future__ import annotations

import os
import socket
import stat
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

PATH_MAX: Final = 100
"""Bytes of the path of a socket. Linux allows 107, other systems a few less."""

_SUFFIX: Final = "-runtime"
_POINTER: Final = b"headwater door 1\n"
"""The prefix of a pointer file. Other files are never replaced."""

_BACKLOG: Final = 16


def path_beside(file: str) -> str:
    """The path beside the file of a space."""
    return file + _SUFFIX


def place_in_own_folder(name: str) -> str:
    """A path for something without a file, such as a space in a database: its socket is beside that."""
    digest = sha256(name.encode()).hexdigest()[:24]
    try:
        return str(_own_folder() / digest)
    except OSError:
        return digest


# --- making ---------------------------------------------------------------------------------------------------


class ListeningSocket:
    """A socket, and its paths."""

    def __init__(self, listener: socket.socket, names: dict[str, tuple[int, int]]) -> None:
        self.listener = listener
        self._names = names

    def remove(self) -> None:
        """Remove its paths, unless they belong to another socket now."""
        for name, identity in self._names.items():
            with suppress(OSError):
                if _identity(name) == identity:
                    Path(name).unlink()
        self._names = {}


def make(file: str) -> ListeningSocket:
    """Create the socket of a file that this process holds. Raises OSError."""
    place = path_beside(file)
    try:
        if len(os.fsencode(place)) > PATH_MAX:
            raise OSError("the path is too long for a socket")
        listener = _listen(place)
    except OSError:
        return _make_elsewhere(place)
    return ListeningSocket(listener, {place: _identity(place)})


def _make_elsewhere(place: str) -> ListeningSocket:
    name = f"{sha256(os.fsencode(place)).hexdigest()[:24]}.sock"
    target = str(_own_folder() / name)
    listener = _listen(target)
    try:
        _clear(place)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(_POINTER + os.fsencode(target) + b"\n")
    except BaseException:
        listener.close()
        Path(target).unlink(missing_ok=True)
        raise
    return ListeningSocket(listener, {place: _identity(place), target: _identity(target)})


def _listen(path: str) -> socket.socket:
    """Create a socket. Its mode is set before it listens and accepts connections."""
    _clear(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(path)
        Path(path).chmod(0o600)
        listener.setblocking(False)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _clear(path: str) -> None:
    """Remove the socket or pointer of an earlier process, and nothing else."""
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode) and not (stat.S_ISREG(mode) and _read_pointer(path) is not None):
        raise FileExistsError(f"{path} is in the way")
    Path(path).unlink()


def _own_folder() -> Path:
    """A folder that only this user can read, with a short path."""
    # Not by `tempfile`: it takes longer to load than all the rest.
    bases = (os.environ.get("XDG_RUNTIME_DIR"), os.environ.get("TMPDIR"), "/tmp")  # noqa: S108  # checked below
    for base in [base for base in bases if base and Path(base).is_dir()]:
        folder = Path(base) / f"headwater-{os.getuid()}"
        if len(os.fsencode(folder)) > PATH_MAX - 32:
            continue
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            return folder
    raise OSError("there is no folder for sockets that is only ours")


def _identity(path: str) -> tuple[int, int]:
    found = Path(path).lstat()
    return found.st_dev, found.st_ino


def _read_pointer(path: str) -> str | None:
    """The path of the socket in a pointer file; None if it is another file."""
    with Path(path).open("rb") as file:
        text = file.read(4096)
    return os.fsdecode(text.removeprefix(_POINTER).strip()) if text.startswith(_POINTER) else None


# --- finding --------------------------------------------------------------------------------------------------


def socket_of(file: str) -> str | None:
    """The path of the socket of a file; None if there is none."""
    place = path_beside(file)
    try:
        mode = Path(place).stat().st_mode
        target = place if stat.S_ISSOCK(mode) else _read_pointer(place) if stat.S_ISREG(mode) else None
    except OSError:
        return None
    return target if hasattr(socket, "AF_UNIX") else None
