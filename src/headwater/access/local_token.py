"""The local token: a server on loopback writes it for programs of its own user, which need no other token.

It is a file named after address and port, in a folder that other users cannot read. Each start of a server makes a new
token, which is removed when the server ends.

Another user of the machine may listen on the same port of another loopback address. So a token is valid for one address
only: a client of `localhost` asks `find_local`, and connects to the address that it returns.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Final, Self

import msgspec

from headwater.access import tokens
from headwater.access.private_files import read_private, replace_private
from headwater.errors import HeadwaterError, UnavailableError, UsageError
from headwater.machine import machine

_LOCALHOST: Final = ("127.0.0.1", "::1")
"""Addresses of localhost, in the order in which servers listen by default."""
_BYTES_MAX: Final = 4096
_OTHERS_WRITE: Final = 0o022
_OTHERS: Final = 0o077

_log: Final = logging.getLogger("headwater")


class _Left(msgspec.Struct, forbid_unknown_fields=True):
    """The contents of the file."""

    token: str
    pid: int
    url: str


_left: Final = msgspec.json.Decoder(_Left)


class LocalServer(msgspec.Struct, frozen=True):
    """A server of this user on this machine. Connect to the address `host`, and to no other."""

    token: str
    host: str
    port: int
    url: str
    pid: int


# --- servers --------------------------------------------------------------------------------------------------


class LocalToken:
    """A new token and its file. Made after the port is bound, so that no other server has the port."""

    def __init__(self, token: str, path: Path) -> None:
        self.token = token
        self.path = path

    @classmethod
    def leave(cls, host: str, port: int, url: str) -> Self:
        """Make one for a server at a loopback address. Raises UsageError, UnavailableError.

        The file of an earlier server on the same port is replaced: only one can have the port.
        """
        address = loopback(host)
        if address is None:
            raise UsageError(
                f"{host} is not a loopback address; a server there leaves no token for its user", host=host
            )
        token = tokens.mint()
        path = _make_folder() / _file_name(address, port)
        replace_private(path, msgspec.json.encode(_Left(token, machine().process_id(), url)) + b"\n")
        return cls(token, path)

    def remove(self) -> None:
        """Remove the file, unless another server has replaced it."""
        with suppress(OSError, HeadwaterError, msgspec.DecodeError):
            if _left.decode(read_private(self.path, {os.geteuid()}, _BYTES_MAX)).token == self.token:
                machine().files.unlink(self.path)


def loopback(host: str) -> str | None:
    """The loopback address in its canonical form; None for other addresses and for names."""
    try:
        address = ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return None
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return str(address) if address.is_loopback else None


def _file_name(address: str, port: int) -> str:
    return f"{address.replace(':', '_')}-{port}.json"


def _folders() -> Iterator[Path]:
    """Folders for tokens, preferred one first. All are searched: a service has another environment than a shell."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_absolute() and _is_own(Path(runtime), _OTHERS):
        yield Path(runtime) / "headwater"
    with suppress(RuntimeError):  # no home
        yield Path.home() / ".local" / "state" / "headwater"


def _is_own(folder: Path, forbidden: int) -> bool:
    """Whether it is a folder of this user, not accessible to others, and not a link."""
    try:
        found = machine().files.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & forbidden


def _make_folder() -> Path:
    files = machine().files
    tried: list[str] = []
    for folder in _folders():
        try:
            files.make_folders(folder.parent)
            with suppress(FileExistsError):
                files.mkdir(folder, 0o700)
            if _is_own(folder, 0):
                # The umask, or a user, changed it.
                files.set_mode(folder, 0o700)
                return folder
            tried.append(f"{folder} is not a folder of this user")
        except OSError as error:
            tried.append(f"{folder}: {error.strerror}")
    message = f"there is no folder for the token of local programs: {'; '.join(tried) or 'this user has no home'}"
    raise UnavailableError(f"{message}. They can be given a token of `headwater token create`")


# --- clients --------------------------------------------------------------------------------------------------


def find_local_token(host: str, port: int) -> str | None:
    """The token of this user's server at a loopback address; None if there is none that can be trusted.

    Only for an address: `localhost` may resolve to several, see `find_local`.
    """
    found = find_local(host, port) if loopback(host) is not None else None
    return None if found is None else found.token


def find_local(host: str, port: int) -> LocalServer | None:
    """This user's server at a loopback address, or at `localhost`; its `host` is what to connect to."""
    name = host.rstrip(".").lower()
    addresses = _LOCALHOST if name == "localhost" or name.endswith(".localhost") else (loopback(host),)
    for address in addresses:
        if address is None:
            continue
        for folder in _folders():
            found = _read(folder, address, port)
            if found is not None:
                return found
    return None


def _read(folder: Path, address: str, port: int) -> LocalServer | None:
    path = folder / _file_name(address, port)
    try:
        data = read_private(path, {os.geteuid()}, _BYTES_MAX)
        left = _left.decode(data)
    except FileNotFoundError:
        return None
    except (OSError, HeadwaterError, msgspec.DecodeError, UnicodeDecodeError) as error:
        _log.warning("the local token for %s port %d is not used: %s", address, port, error)
        return None
    if not _is_own(folder, _OTHERS_WRITE):
        _log.warning("the local token in %s is not used: the folder is not this user's alone", folder)
        return None
    if not machine().is_process(left.pid):
        _log.info("the local token in %s is not used: process %d, which left it, has ended", path, left.pid)
        return None
    if tokens.digest(left.token) is None:
        _log.warning("the local token in %s is not used: it is none", path)
        return None
    return LocalServer(left.token, address, port, left.url, left.pid)
