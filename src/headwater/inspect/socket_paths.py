"""Where the door of a space's file is: a socket beside it, `x.db-runtime`, that only its owner can use.

The system does not take long paths, nor does every file system take sockets. Then the socket is in a folder of the
user's own, and `x.db-runtime` is a small file that says where.

Who has a space open holds its file alone. So whatever stands there when a door is made was left by a process that has
ended, and is replaced.

Must never know: what is asked.
"""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Final, Self

import msgspec

from headwater.errors import UnavailableError
from headwater.inspect.records import Ask, Reply, Told

PATH_MAX: Final = 100
"""Bytes of a socket's path. Linux takes 107, others a few less."""

_SUFFIX: Final = "-runtime"
_POINTER: Final = b"headwater door 1\n"
"""How the file begins that says where the socket is: no other file is ever replaced."""

_BACKLOG: Final = 16
_CHUNK: Final = 256 * 1024
_SILENCE_S: Final = 20.0
"""A door answers within a few seconds, whatever goes on behind it."""

_reply: Final = msgspec.json.Decoder(Reply)
_told: Final = msgspec.json.Decoder(Told)


def place_of(file: str) -> str:
    """What stands beside a space's file while somebody has it open."""
    return file + _SUFFIX


# --- making ---------------------------------------------------------------------------------------------------


class Doorway:
    """A socket that listens, and the names by which it is found."""

    def __init__(self, listener: socket.socket, names: dict[str, tuple[int, int]]) -> None:
        self.listener = listener
        self._names = names

    def remove(self) -> None:
        """Nobody finds it any more; unless somebody else's stands there by now."""
        for name, identity in self._names.items():
            with suppress(OSError):
                if _identity(name) == identity:
                    Path(name).unlink()
        self._names = {}


def make(file: str) -> Doorway:
    """A door for a file that this process holds. Raises OSError if there can be none."""
    place = place_of(file)
    try:
        if len(os.fsencode(place)) > PATH_MAX:
            raise OSError("the path is too long for a socket")
        listener = _listen(place)
    except OSError:
        return _make_elsewhere(place)
    return Doorway(listener, {place: _identity(place)})


def _make_elsewhere(place: str) -> Doorway:
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
    return Doorway(listener, {place: _identity(place), target: _identity(target)})


def _listen(path: str) -> socket.socket:
    """Nobody can come in between: a socket refuses everyone until it listens."""
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
    """Remove what an earlier process left, and nothing else."""
    try:
        mode = Path(path).lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode) and not (stat.S_ISREG(mode) and _read_pointer(path) is not None):
        raise FileExistsError(f"{path} is in the way")
    Path(path).unlink()


def _own_folder() -> Path:
    """A folder that nobody else can look into, with a short path."""
    from tempfile import gettempdir  # noqa: PLC0415  # seldom needed, and it takes longer than all the rest

    for base in (os.environ.get("XDG_RUNTIME_DIR") or gettempdir(), "/tmp"):  # noqa: S108  # checked below
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
    """Where the socket is, if the file says so."""
    with Path(path).open("rb") as file:
        text = file.read(4096)
    return os.fsdecode(text.removeprefix(_POINTER).strip()) if text.startswith(_POINTER) else None


# --- asking ---------------------------------------------------------------------------------------------------


class Caller:
    """At the door of an open space. A `with` block leaves."""

    def __init__(self, connection: socket.socket, file: str) -> None:
        self._connection = connection
        self._file = file
        self._heard = bytearray()

    def ask(self, request: Ask) -> Reply:
        """The answer. Raises ConnectionError if the space is closed meanwhile, TimeoutError if there is none."""
        self._connection.settimeout(_SILENCE_S + (request.timeout_ms or 0.0) / 1000)
        self._connection.sendall(msgspec.json.encode(request) + b"\n")
        try:
            reply = _reply.decode(self._line())
        except msgspec.MsgspecError as error:
            message = f"the process that has {self._file} open answers in a way that is not understood: {error}"
            raise UnavailableError(message, path=self._file) from None
        if reply.error:
            message = f"the process that has {self._file} open ({reply.pid}) does not answer: {reply.error}"
            raise UnavailableError(message, path=self._file, pid=reply.pid)
        return reply

    def follow(self) -> Iterator[Told]:
        """After a request to follow: what happens, as it does. Ends when the space is closed."""
        self._connection.settimeout(None)
        while True:
            try:
                yield _told.decode(self._line())
            except ConnectionError:
                return

    def _line(self) -> bytes:
        heard, start = self._heard, 0
        while (end := heard.find(b"\n", start)) < 0:
            start = len(heard)
            chunk = self._connection.recv(_CHUNK)
            if not chunk:
                raise ConnectionResetError("the door was closed")
            heard += chunk
        line = bytes(heard[:end])
        del heard[: end + 1]
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()


def knock(file: str) -> Caller | None:
    """Somebody at the door of a file: None if there is no door, or nobody behind it."""
    place = place_of(file)
    try:
        mode = Path(place).stat().st_mode
        target = place if stat.S_ISSOCK(mode) else _read_pointer(place) if stat.S_ISREG(mode) else None
    except OSError:
        return None
    if target is None or not hasattr(socket, "AF_UNIX"):
        return None
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(_SILENCE_S)
        connection.connect(target)
    except OSError:
        connection.close()
        return None
    return Caller(connection, file)
