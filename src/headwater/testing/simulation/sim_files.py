"""The file system of a simulated process: plain files, and those of SQLite, on one modelled disk.

Plain files and SQLite's files are the same files, so a power loss, a full disk or a failing sync reaches both. Errors
are those of Linux; there are no symbolic links, and the process may read and write everything.
"""
# ruff: noqa: N802  (the x-names are SQLite's)

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from itertools import count
from typing import Final

import apsw

from headwater.machine import File, Files, StrPath
from headwater.testing.disk import Disk, DiskFile, DiskVFS, Inode
from headwater.testing.disk_history import folder_of

_NAME_MAX: Final = 255
_PATH_MAX: Final = 4096
_ACCESS: Final = os.O_RDONLY | os.O_WRONLY | os.O_RDWR
_DEVICE: Final = 7
_MASK: Final = 0o022

_CHANCE_VFS: Final = "simulated-chance"
_SYSTEM_VFS: Final = apsw.vfs_names()[0]
_names = count(1)
# Connections of killed nodes are never closed, so what they use must stay.
_registered: Final[list[apsw.VFS]] = []


class SimFiles(Files):
    """One life of a process on a disk.

    Args:
        disk: The disk. A process that starts after this one died needs the disk's `next_life`.
        clock: A function that returns the seconds since 1970.
        mask: The permissions that new files do not get.
    """

    def __init__(self, disk: Disk, *, clock: Callable[[], float] = lambda: 0.0, mask: int = _MASK) -> None:
        """Registers a VFS with SQLite."""
        self.disk = disk
        self._mask = mask
        disk.clock = clock
        self.vfs = register(disk, clock)

    def open(self, path: StrPath, flags: int, mode: int = 0o600) -> File:
        name, must_be_folder = self._walk(path)
        if must_be_folder and flags & os.O_CREAT:
            raise _error(errno.EISDIR, path)
        disk = self.disk
        folder = disk.folders.get(name)
        if flags & os.O_CREAT and flags & os.O_EXCL and (folder is not None or disk.exists(name)):
            raise _error(errno.EEXIST, path)
        if folder is not None:
            if flags & _ACCESS != os.O_RDONLY or flags & (os.O_CREAT | os.O_TRUNC):
                raise _error(errno.EISDIR, path)
            disk.access("open", name)
            return SimFile(disk, folder, flags)
        found = disk.find(name)
        if found is None and not flags & os.O_CREAT:
            raise _error(errno.ENOENT, path)
        if must_be_folder or (found is not None and flags & os.O_DIRECTORY):
            raise _error(errno.ENOTDIR, path)
        file = disk.open(name, mode=mode & 0o7777 & ~self._mask)
        if found is None:
            disk.folders[folder_of(name)].mtime = disk.clock()
        if flags & os.O_TRUNC and file.data:
            file.truncate(0)
        return SimFile(disk, file, flags)

    def replace(self, source: StrPath, target: StrPath) -> None:
        old, old_is_folder = self._walk(source)
        new, new_is_folder = self._walk(target)
        disk = self.disk
        if old in disk.folders:
            self._replace_folder(old, new, target)
        elif not disk.exists(old):
            raise _error(errno.ENOENT, source)
        elif old_is_folder or new_is_folder:
            raise _error(errno.ENOTDIR, source)
        elif new in disk.folders:
            raise _error(errno.EISDIR, target)
        elif old != new:
            disk.rename([(old, new)])

    def _replace_folder(self, old: str, new: str, target: StrPath) -> None:
        disk = self.disk
        if old == new:
            return
        if old == "/" or new == "/":
            raise _error(errno.EBUSY, target)
        if new.startswith(f"{old}/"):
            raise _error(errno.EINVAL, target)
        if old.startswith(f"{new}/"):
            raise _error(errno.ENOTEMPTY, target)
        if disk.exists(new):
            raise _error(errno.ENOTDIR, target)
        if new in disk.folders and self._inside(new):
            raise _error(errno.ENOTEMPTY, target)
        below = f"{old}/"
        disk.rename([(name, new + name[len(old) :]) for name in disk.names() if name.startswith(below)])
        for name in sorted(disk.folders):
            if name == old or name.startswith(below):
                disk.folders[new + name[len(old) :]] = disk.folders.pop(name)

    def unlink(self, path: StrPath) -> None:
        name, must_be_folder = self._walk(path)
        if name in self.disk.folders:
            raise _error(errno.EISDIR, path)
        if not self.disk.exists(name):
            raise _error(errno.ENOENT, path)
        if must_be_folder:
            raise _error(errno.ENOTDIR, path)
        self.disk.unlink(name)

    def mkdir(self, path: StrPath, mode: int = 0o777) -> None:
        name, _ = self._walk(path)
        if name in self.disk.folders or self.disk.exists(name):
            raise _error(errno.EEXIST, path)
        self.disk.make_folder(name, mode & 0o7777 & ~self._mask)

    def set_mode(self, path: StrPath, mode: int) -> None:
        self._inode(path)[0].mode = mode & 0o7777

    def names(self, folder: StrPath) -> list[str]:
        name, _ = self._walk(folder)
        if name not in self.disk.folders:
            raise _error(errno.ENOTDIR if self.disk.exists(name) else errno.ENOENT, folder)
        return self._inside(name)

    def stat(self, path: StrPath) -> os.stat_result:
        return _stat(*self._inode(path))

    def lstat(self, path: StrPath) -> os.stat_result:
        return self.stat(path)

    def resolve(self, path: StrPath) -> str:
        return _normal(os.fspath(path))

    def can_write(self, path: StrPath) -> bool:
        try:
            self._inode(path)
        except OSError:
            return False
        return True

    def _inside(self, folder: str) -> list[str]:
        found = [*self.disk.names(), *self.disk.folders]
        return sorted(name.rpartition("/")[2] for name in found if name != "/" and folder_of(name) == folder)

    def _inode(self, path: StrPath) -> tuple[Inode, DiskFile | None]:
        name, must_be_folder = self._walk(path)
        folder = self.disk.folders.get(name)
        if folder is not None:
            return folder, None
        file = self.disk.find(name)
        if file is None:
            raise _error(errno.ENOENT, path)
        if must_be_folder:
            raise _error(errno.ENOTDIR, path)
        return file.inode, file

    def _walk(self, path: StrPath) -> tuple[str, bool]:
        """The absolute name, of which all but the last part are folders; and whether the last part must be one."""
        text = os.fspath(path)
        if "\0" in text:
            raise ValueError("embedded null byte")
        if not text:
            raise _error(errno.ENOENT, path)
        if len(text) >= _PATH_MAX:
            raise _error(errno.ENAMETOOLONG, path)
        name, parts = "/", [part for part in text.split("/") if part and part != "."]
        for index, part in enumerate(parts):
            if len(part.encode(errors="surrogateescape")) > _NAME_MAX:
                raise _error(errno.ENAMETOOLONG, path)
            name = folder_of(name) if part == ".." else f"{name.rstrip('/')}/{part}"
            if index < len(parts) - 1 and name not in self.disk.folders:
                raise _error(errno.ENOTDIR if self.disk.exists(name) else errno.ENOENT, path)
        return name, text.endswith(("/", "/."))


class SimFile(File):
    """An opening of a file or folder. It holds no descriptor of the system."""

    def __init__(self, disk: Disk, what: DiskFile | Inode, flags: int) -> None:
        """At its beginning."""
        self._disk = disk
        self._file = what if isinstance(what, DiskFile) else None
        self._inode = what.inode if isinstance(what, DiskFile) else what
        self._flags = flags
        self._at = 0
        self._is_open = True

    def read(self, size: int) -> bytes:
        _check(size)
        data = self._readable().read(size, self._at)
        self._at += len(data)
        return data

    def read_at(self, size: int, at: int) -> bytes:
        _check(size, at)
        return self._readable().read(size, at)

    def write(self, data: bytes) -> None:
        if not data:
            return  # as the real one, which calls the system for nothing
        file = self._of_kind(os.O_WRONLY)
        assert file is not None  # folders are only opened for reading
        at = len(file.data) if self._flags & os.O_APPEND else self._at
        try:
            file.write(data, at)
        finally:
            # Also after a first part, for which there was room.
            self._at = min(at + len(data), max(at, len(file.data)))

    def truncate(self, size: int) -> None:
        _check(size)
        self._inode_when_open()
        if self._file is None or self._flags & _ACCESS == os.O_RDONLY:
            raise _error(errno.EINVAL)
        self._file.truncate(size)

    def sync(self) -> None:
        self._inode_when_open()
        if self._file is not None:
            self._file.sync()
            return
        self._disk.access("sync", "/")
        self._disk.sync_directory()
        self._disk.after_io("sync", "/")

    def stat(self) -> os.stat_result:
        return _stat(self._inode_when_open(), self._file)

    def set_mode(self, mode: int) -> None:
        self._inode_when_open().mode = mode & 0o7777

    def set_owner(self, user: int, group: int) -> None:
        inode = self._inode_when_open()
        inode.user, inode.group = user, group

    def try_lock(self) -> bool:
        number = self._inode_when_open().number
        return self._disk.locks.setdefault(number, self) is self

    def close(self, _close: Callable[[int], None] | None = None) -> None:
        number = self._inode_when_open().number
        self._is_open = False
        if self._disk.locks.get(number) is self:
            del self._disk.locks[number]

    def _inode_when_open(self) -> Inode:
        if not self._is_open:
            raise _error(errno.EBADF)
        return self._inode

    def _of_kind(self, other: int) -> DiskFile | None:
        self._inode_when_open()
        if self._flags & _ACCESS not in {os.O_RDWR, other}:
            raise _error(errno.EBADF)
        return self._file

    def _readable(self) -> DiskFile:
        file = self._of_kind(os.O_RDONLY)
        if file is None:
            raise _error(errno.EISDIR)
        return file


class SimVFS(DiskVFS):
    """SQLite's files, in the folders of the disk."""

    def xFullPathname(self, name: str) -> str:
        return _normal(name)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else None if name is None else _normal(name)
        if path is not None and (path in self.disk.folders or folder_of(path) not in self.disk.folders):
            raise apsw.CantOpenError(f"cannot open {path}: it is a folder, or its folder does not exist")
        return super().xOpen(path, flags)


class _Chance(apsw.VFS):
    """The default VFS of a process with worlds: SQLite's randomness. A file that is opened through it is a mistake."""

    def __init__(self) -> None:
        self.disk = Disk()
        super().__init__(name=_CHANCE_VFS, base="")

    def xFullPathname(self, name: str) -> str:
        return name

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        raise apsw.CantOpenError(f"{name}: opened through no VFS of the world's nodes (flags {flags})")

    def xRandomness(self, numbytes: int) -> bytes:
        return self.disk.rng.randbytes(numbytes)

    def xCurrentTimeInt64(self) -> int:
        return 0


_chance: list[_Chance] = []


def seed_sqlite(seed: object) -> None:
    """Call this at the start of each world: all randomness of SQLite in this process follows from the seed.

    Args:
        seed: The seed.
    """
    if not _chance:
        _chance.append(_Chance())
    apsw.set_default_vfs(_CHANCE_VFS)
    _chance[0].disk.rng.seed(f"sqlite-{seed}")
    # SQLite asks for a new seed when it needs the next random number.
    apsw.randomness(0)


def unseed_sqlite() -> None:
    """SQLite uses the files and the randomness of the system again."""
    apsw.set_default_vfs(_SYSTEM_VFS)
    apsw.randomness(0)


def register(disk: Disk, clock: Callable[[], float]) -> str:
    """Make a disk known to SQLite.

    Args:
        disk: The disk.
        clock: A function that returns the seconds since 1970.

    Returns:
        The name of the VFS.
    """
    name = f"simulated-{next(_names)}"
    _registered.append(SimVFS(name, disk, clock=clock))
    return name


def _normal(path: str) -> str:
    """The absolute path. Two slashes at its beginning would stay two."""
    return "/" + os.path.normpath(f"/{path}").lstrip("/")


def _stat(inode: Inode, file: DiskFile | None) -> os.stat_result:
    kind, size, links = (stat.S_IFDIR, 4096, 2) if file is None else (stat.S_IFREG, len(file.data), int(file.is_linked))
    user = os.geteuid() if inode.user is None else inode.user
    group = os.getegid() if inode.group is None else inode.group
    whole = int(inode.mtime)
    times = {f"st_{name}time": inode.mtime for name in "amc"}
    times |= {f"st_{name}time_ns": int(inode.mtime * 1_000_000_000) for name in "amc"}
    return os.stat_result(
        (kind | inode.mode, inode.number, _DEVICE, links, user, group, size, whole, whole, whole), times
    )


def _check(*numbers: int) -> None:
    """Before anything else, as the system does."""
    if min(numbers) < 0:
        raise _error(errno.EINVAL)


def _error(number: int, path: StrPath | None = None) -> OSError:
    if path is None:
        return OSError(number, os.strerror(number))
    return OSError(number, os.strerror(number), os.fspath(path))
