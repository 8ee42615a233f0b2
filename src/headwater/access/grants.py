"""Grants, and `access.json`, the file that stores them: secrets, spaces and rights.

The file is read strictly. A file that cannot be understood grants nothing.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Final, Literal

import msgspec

from headwater.access.private_files import open_private, owners_of, read_all, replace_private
from headwater.access.rights import EVERY_SPACE, WORDS, Right
from headwater.errors import CorruptError, LimitError, MigrationError, NameRefusedError
from headwater.machine import File
from headwater.store.collection_rules import check_role
from headwater.values.ids import Millis

FILE: Final = "access.json"
GRANTS_MAX: Final = 10_000
"""Grants of one server. The file is read as a whole after each change: a few hundredths of a second at this size."""
BYTES_MAX: Final = 64 * 1024 * 1024
"""Size of the file. The maximum number of grants with the longest names and notes fits."""

_VERSION: Final = 2
"""2: a grant without an actor has no actor, unless `any_actor` is set. Grants of version 1 without an actor are read
so, too: none of them allowed every actor explicitly."""

RESERVED: Final = frozenset({"work", "clears", "lowers"})
"""Fields of later versions. Ignoring one would ignore a restriction."""

_SECRETS: Final = {
    "token": re.compile(r"[0-9a-f]{64}", re.ASCII),
    "key": re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII),
}


class Grant(msgspec.Struct, frozen=True):
    """The rights of one token or key."""

    id: str
    kind: Literal["token", "key"]
    secret: str
    """The SHA-256 of the token, in hex; or the public key, in base64url."""
    space: str
    """A name, or `*` for every space."""
    can: Right
    actor: str | None
    """The actor. None: no actor, without documents of a user; or, with `any_actor`, the actor that the client names."""
    created: Millis
    expires: Millis | None
    note: str = ""
    any_actor: bool = False
    roles: tuple[str, ...] = ()
    """What the rules of collections allow to these roles, it may do."""

    def is_live(self, now: Millis) -> bool:
        """Whether it has not expired. Only the server's clock counts, so there is no leeway."""
        return self.expires is None or now < self.expires

    def right(self, space: str) -> Right:
        """Its right in a space, while it is live."""
        return self.can if self.space in (EVERY_SPACE, space) else Right.NONE


# --- the file -------------------------------------------------------------------------------------------------


class _Stored(msgspec.Struct, forbid_unknown_fields=True):
    """A grant in the file. Rights are words: the file is readable."""

    id: str
    kind: Literal["token", "key"]
    secret: str
    space: str
    can: Literal["read", "write", "own"]
    actor: str | None
    created: int
    expires: int | None
    note: str = ""


class _Stored2(_Stored, forbid_unknown_fields=True):
    """A grant of version 2."""

    any_actor: bool = False
    roles: list[str] | msgspec.UnsetType = msgspec.UNSET
    """Left out if there are none: a program that does not know them refuses the file."""


class _File1(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    grants: list[_Stored]


class _File2(msgspec.Struct, forbid_unknown_fields=True):
    version: int
    grants: list[_Stored2]


class _Loose(msgspec.Struct):
    grants: list[dict[str, object]]


class _Version(msgspec.Struct):
    version: int


_file_1: Final = msgspec.json.Decoder(_File1)
_file_2: Final = msgspec.json.Decoder(_File2)
_loose: Final = msgspec.json.Decoder(_Loose)
_version: Final = msgspec.json.Decoder(_Version)


class GrantsFile:
    """The contents of the file. The file is kept open, so that no other file can get its identity."""

    def __init__(self, file: File, path: Path) -> None:
        self._file = file
        self.identity = identity(file.stat())
        data = read_all(file, BYTES_MAX)
        if data is None:
            raise _damaged(path, f"it has more than {BYTES_MAX:,} bytes")
        self.grants = decode(data, path)

    def __del__(self) -> None:
        self._file.close()


def identity(found: os.stat_result) -> tuple[int, ...]:
    """Equal identities mean equal contents.

    Every write makes a new file; its inode number differs while the old file is open. An edit in place changes the
    times.
    """
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def open_file(folder: Path) -> GrantsFile | None:
    """Read the grants; None if there is no file. Raises CorruptError, MigrationError, UnavailableError, OSError."""
    path = folder / FILE
    try:
        return GrantsFile(open_private(path, owners_of(folder)), path)
    except FileNotFoundError:
        return None


def write_file(folder: Path, grants: list[Grant]) -> None:
    """Replace the grants in the file. The caller holds the lock."""
    if len(grants) > GRANTS_MAX:
        message = (
            f"a server keeps at most {GRANTS_MAX:,} tokens and keys; revoke some (`headwater token ls` lists them)"
        )
        raise LimitError(message, limit=GRANTS_MAX)
    stored = [
        _Stored2(
            each.id,
            each.kind,
            each.secret,
            each.space,
            _word(each.can),
            each.actor,
            each.created,
            each.expires,
            each.note,
            each.any_actor,
            list(each.roles) or msgspec.UNSET,
        )
        for each in grants
    ]
    encoded = msgspec.json.encode(_File2(_VERSION, stored))
    replace_private(folder / FILE, msgspec.json.format(encoded, indent=1) + b"\n")


def decode(data: bytes, path: Path) -> list[Grant]:
    """Decode the grants of a file. `path` is for messages."""
    try:
        version = _version.decode(data).version
        if version > _VERSION:
            message = f"{path} is of version {version}, and this program knows up to {_VERSION}; use a newer Headwater"
            raise MigrationError(message, path=str(path), version=version)
        if version < 1:
            raise _damaged(path, f"there is no version {version}")
        if version == 1:
            return _checked([_of_version_1(each) for each in _file_1.decode(data).grants], path)
        return _checked(_file_2.decode(data).grants, path)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if later := _reserved_in(data):
            message = f"{path} restricts grants by {later!r}, which this program does not know; use a newer Headwater"
            raise MigrationError(message, path=str(path), field=later) from None
        raise _damaged(path, str(error)) from None


def _of_version_1(grant: _Stored) -> _Stored2:
    return _Stored2(**{name: getattr(grant, name) for name in grant.__struct_fields__})


def _reserved_in(data: bytes) -> str:
    """A field of a later version in any grant; empty if there is none."""
    try:
        names = {name for grant in _loose.decode(data).grants for name in grant}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return min(names & RESERVED, default="")


def _checked(found: list[_Stored2], path: Path) -> list[Grant]:
    ids: set[str] = set()
    for each in found:
        if each.id in ids:
            raise _damaged(path, f"two grants are called {each.id!r}")
        ids.add(each.id)
        if _SECRETS[each.kind].fullmatch(each.secret) is None:
            raise _damaged(path, f"the secret of {each.id!r} is none of a {each.kind}")
        if not each.space or each.actor == "":
            raise _damaged(path, f"{each.id!r} has an empty name")
        if each.any_actor and each.actor is not None:
            raise _damaged(path, f"{each.id!r} acts as {each.actor!r} and as any actor")
        for role in each.roles or ():
            _check_role(role, path)
    return [
        Grant(
            each.id,
            each.kind,
            each.secret,
            each.space,
            WORDS[each.can],
            each.actor,
            Millis(each.created),
            None if each.expires is None else Millis(each.expires),
            each.note,
            each.any_actor,
            tuple(each.roles or ()),
        )
        for each in found
    ]


def _check_role(role: str, path: Path) -> None:
    try:
        check_role(role)
    except NameRefusedError as error:
        raise _damaged(path, error.message) from None


def _word(right: Right) -> Literal["read", "write", "own"]:
    match right:
        case Right.READ:
            return "read"
        case Right.WRITE:
            return "write"
        case Right.OWN:
            return "own"
        case Right.NONE:
            raise AssertionError("nothing is not granted")


def _damaged(path: Path, why: str) -> CorruptError:
    remedy = "put a copy back, or remove it and create the tokens anew"
    message = f"{path} is damaged: {why}. Its tokens and keys are refused; {remedy}"
    return CorruptError(message, path=str(path))
