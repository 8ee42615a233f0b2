"""Checks of this machine: the libraries, SQLite, and the folder with the files of spaces."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Literal, NamedTuple, TypeAlias

import apsw

from headwater._version import __version__
from headwater.access.private_files import opened_up
from headwater.errors import HeadwaterError
from headwater.host.libraries import core_form, library_versions
from headwater.host.space_files import files_of, is_open_here, open_space, spaces_in
from headwater.machine import machine
from headwater.store.backends.sqlite_file import SQLITE_SAFE, holder
from headwater.store.backends.sqlite_peek import peek
from headwater.store.commit import SetDoc
from headwater.store.expiring import EXPIRY_STOPPED
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.text import listed_text, size_text

State: TypeAlias = Literal["ok", "warning", "failed"]

FREE_WARN: Final = 1024**3
"""Bytes. Compacting and backing up need room for a second copy."""

FREE_FAIL: Final = 64 * 1024**2
"""Bytes. Room for one commit of the largest size; below it, writes may fail."""

_NETWORK: Final = re.compile(
    r"nfs\d*|cifs|smb\d*|smbfs|9p|afs|ceph|glusterfs|lustre|fuse\.(sshfs|glusterfs|s3fs|rclone)"
)
"""Network file systems. Their locks and flushes often do not meet the needs of SQLite."""

_PYTHON_OLDEST: Final = (3, 11)

_SHOWN: Final = 3
"""Files that are named in one line."""


class Check(NamedTuple):
    """The result of one check."""

    name: str
    state: State
    found: str


def check_machine(path: Path | None) -> Iterator[Check]:
    """All checks, one after the other. `path`: a file or a folder of spaces; None: the libraries alone."""
    yield from check_libraries()
    if path is None:
        return
    folder = path if path.is_dir() else path.parent
    if path != folder:
        yield _file(path)
        yield from _expiry(path)
    yield _permissions(folder)
    yield _private(path)
    yield _network(folder)
    yield _free(folder)
    yield _works(folder)


# --- libraries ------------------------------------------------------------------------------------------------


def check_libraries() -> Iterator[Check]:
    """The versions of Python, of Headwater and of its libraries."""
    yield Check("headwater", "ok", __version__)
    yield Check("core", "ok", core_form())
    python = sys.version.split()[0]
    yield Check("python", "ok" if sys.version_info >= _PYTHON_OLDEST else "failed", python)
    for name, version in library_versions().items():
        yield Check(name, "ok" if version else "failed", version or "not installed")
    yield _sqlite()


def _sqlite() -> Check:
    text = apsw.sqlite_lib_version()
    if tuple(map(int, text.split("."))) >= SQLITE_SAFE:
        return Check("sqlite", "ok", f"{text}, safe")
    oldest = ".".join(map(str, SQLITE_SAFE))
    return Check("sqlite", "failed", f"{text} can corrupt a write-ahead log; install apsw {oldest} or newer")


# --- the folder -----------------------------------------------------------------------------------------------


def _file(path: Path) -> Check:
    size = size_text(path.stat().st_size)
    if not os.access(path, os.R_OK | os.W_OK):
        return Check("file", "failed", f"{path} may not be read and written by this user")
    pid = holder(str(path))
    return Check("file", "ok", f"{path}, {size}{f', open in process {pid}' if pid is not None else ''}")


def _expiry(path: Path) -> Iterator[Check]:
    """A warning if documents of the space do not expire, as the program that has it open has stored."""
    facts = None if is_open_here(path) else peek(str(path), machine().files.vfs)
    stopped = "" if facts is None else facts.get(EXPIRY_STOPPED, "")
    if stopped:
        found = f"stopped, because the clock has jumped {stopped} forward; set it right, and start the program again"
        yield Check("expiry", "warning", found)


def _permissions(folder: Path) -> Check:
    if not os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return Check("folder", "failed", f"{folder} may not be written by this user; a space needs files beside it")
    if folder.stat().st_mode & stat.S_IWOTH:
        return Check("folder", "warning", f"{folder} can be written by everyone on this machine; chmod o-w it")
    return Check("folder", "ok", f"{folder} is writable, and not by everyone")


def _private(target: Path) -> Check:
    """Whether only this user can use the files of spaces, and a folder with spaces."""
    if target.is_dir():
        spaces = spaces_in(target)
        wide = opened_up(
            [*([target] if spaces and target != Path.cwd() else []), *(p for s in spaces for p in files_of(s))]
        )
    else:
        wide = opened_up(files_of(target))
    if not wide:
        return Check("private", "ok", "only this user can use the files of spaces")
    shown = listed_text(wide, _SHOWN)
    return Check("private", "warning", f"others on this machine can use {shown}; chmod go= them, or share by a server")


def _free(folder: Path) -> Check:
    free = shutil.disk_usage(folder).free
    state: State = "failed" if free < FREE_FAIL else "warning" if free < FREE_WARN else "ok"
    wanted = FREE_FAIL if state == "failed" else FREE_WARN
    return Check("free space", state, size_text(free) + ("" if state == "ok" else f", less than {size_text(wanted)}"))


def _network(folder: Path) -> Check:
    kind = _file_system(folder)
    if kind is None:
        return Check("file system", "ok", "its kind is not known here")
    if _NETWORK.fullmatch(kind):
        return Check("file system", "warning", f"{kind} is shared over a network; keep spaces on a local disk")
    return Check("file system", "ok", f"{kind}, local")


def _file_system(folder: Path) -> str | None:
    """The kind of file system, where the kernel lists it (Linux)."""
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    best, found = -1, None
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        mount = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), before.split()[4])
        # The later of two mounts on the same folder is the visible one.
        if folder.is_relative_to(mount) and len(mount) >= best:
            best, found = len(mount), after.split()[0]
    return found


def _works(folder: Path) -> Check:
    """Create a space on this disk, commit, close, open it again, and verify."""
    try:
        with TemporaryDirectory(prefix=".headwater-doctor-", dir=folder) as scratch:
            url = str(Path(scratch) / "doctor.db")
            with open_space(url) as storage:
                replica = storage.attach()
                replica.commit([SetDoc(doc_key("doctor"), "well")])
                replica.sync()
            with open_space(url, create=False) as storage:
                report = storage.call(verify)
    except (HeadwaterError, OSError) as error:
        return Check("write-ahead log", "failed", f"a space could not be made in {folder}: {error}")
    if report.findings or report.commits != 1:
        return Check("write-ahead log", "failed", f"a new space in {folder} does not hold what was written")
    return Check("write-ahead log", "ok", "works here, with exclusive locking")
