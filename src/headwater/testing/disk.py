"""A disk in memory that records operations and shows every state after a power loss.

`DiskVFS` lets SQLite keep its files on a `Disk`. The disk records what reached it, so one recorded run gives
every crash point of that run: `crash_images` builds, for each, the files as they could be when power returns.

`disk_history` says what may survive a power loss.

Owns the model of the disk and its faults. It does not judge whether an image is good. One thread, and one connection
per file: there are no locks and no shared memory here, so SQLite grants WAL only under `locking_mode=EXCLUSIVE`,
which is how the product runs.

Length: one model of a disk, whose parts share its history of operations.
"""
# ruff: noqa: N802  (the x-names are SQLite's)

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, cast

import apsw
from typing_extensions import Buffer

from headwater.testing.disk_history import (
    KEEPS,
    CrashImage,
    DirSyncOp,
    FileChange,
    LinkOp,
    MarkOp,
    Operation,
    Platter,
    RenameOp,
    SyncFailedOp,
    SyncOp,
    TruncateOp,
    UnlinkOp,
    WriteOp,
    apply_change,
    described,
    folder_of,
)

EPOCH_MS = 210_866_760_000_000  # 1970-01-01 in SQLite's calendar, which starts at noon on Julian day 0.
JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL

IoKind = Literal["open", "read", "write", "truncate", "sync", "unlink", "rename", "mkdir"]
IoHook = Callable[[IoKind, str], None]

_RESULTS: Final[dict[str, int]] = {
    "read": apsw.SQLITE_IOERR_READ,
    "write": apsw.SQLITE_IOERR_WRITE,
    "truncate": apsw.SQLITE_IOERR_TRUNCATE,
    "sync": apsw.SQLITE_IOERR_FSYNC,
    "unlink": apsw.SQLITE_IOERR_DELETE,
}
_MODE: Final = 0o600


@dataclass(slots=True, eq=False)
class Inode:
    """What a file system knows of a file besides its content. It is the same one after a restart."""

    number: int
    mode: int = _MODE
    mtime: float = 0.0
    user: int | None = None
    group: int | None = None


class Disk:
    """A simulated disk: files in memory, with the history of their operations and switches that make them fail.

    Args:
        image: The files at the beginning, such as a crash image of another disk.
        seed: The seed of the randomness of SQLite.

    Plain files raise OSError; SQLite's are the same files, and raise errors of apsw.
    """

    def __init__(self, image: Mapping[str, bytes] | None = None, *, seed: object = 0) -> None:
        """Start from `image`, such as a crash image of another disk; `seed` feeds SQLite's own randomness."""
        self.operations: list[Operation] = []
        self.sync_count = 0
        # Syncs succeed and change nothing, like a drive that answers from its volatile cache.
        self.lying_fsync = False
        # Which syncs fail, counted from 1: {3} fails exactly once, range(3, sys.maxsize) from then on.
        self.failing_syncs: Container[int] = ()
        # How many of the next accesses of a kind fail with EIO.
        self.failing: dict[IoKind, int] = {}
        # Growing the files beyond this many bytes in all fails with ENOSPC. None lifts the limit.
        self.capacity_bytes: int | None = None
        # Called before each access with its kind and the file's name: may be slow, pull the plug, or raise.
        self.on_io: IoHook = lambda _kind, _name: None
        # Called after each access that changed something.
        self.after_io: IoHook = lambda _kind, _name: None
        # Called with a line for each change that reaches the disk: two runs with the same lines have the same bytes.
        self.note: Callable[[str], None] | None = None
        self.rng = random.Random(f"{seed}")
        # Seconds since 1970, for the times of files.
        self.clock: Callable[[], float] = lambda: 0.0
        self.used_bytes = 0
        # Openings that have a file locked, by the number of its inode.
        self.locks: dict[int, object] = {}
        self._powered = True
        self._file_count = 0
        self._inode_count = 0
        self._inodes: dict[int, Inode] = {}
        self._base = dict(image or {})
        self._files: dict[str, DiskFile] = {}
        self.folders: dict[str, Inode] = {"/": self._new_inode(0o755)}
        for name, data in self._base.items():
            self._link(name, self._new_file(name), data)

    def mark(self, label: object) -> None:
        """Remember this moment. The images of later crash points carry the label.

        Args:
            label: Any value, such as the number of an acknowledged commit.
        """
        self.record(MarkOp(label))

    def power_off(self) -> None:
        """Let no more operation reach the disk. Calls go on working, so that the dead process can be closed."""
        self._powered = False

    def retire(self) -> None:
        """The process that used the disk is gone: nothing reaches the disk, and no hook is called any more."""
        self.power_off()
        self.on_io = self.after_io = lambda _kind, _name: None
        self.note = None
        self.capacity_bytes, self.failing_syncs, self.failing = None, (), {}

    def flip_bit(self, name: str, offset: int, bit: int = 0) -> None:
        """Damage one bit of a file.

        Args:
            name: The name of the file.
            offset: The byte.
            bit: The bit in the byte.
        """
        file = self._files[name]
        file.change(WriteOp(file.number, offset, bytes([file.data[offset] ^ 1 << bit])))

    def files(self) -> dict[str, bytes]:
        """The files as running processes see them, and as they stay if only a process dies.

        Returns:
            The content of each file, by name.
        """
        return {name: bytes(file.data) for name, file in self._files.items()}

    def next_life(self, rng: random.Random, keep: float) -> Disk:
        """The disk that a new process finds after this one died. Nothing reaches this one any more.

        Args:
            rng: The randomness that decides which unsynced writes survive.
            keep: The part of the unsynced writes that survives a power failure. 1: there was none, and only the
                process died. What it had not synced is then still not synced.

        Returns:
            Another disk, with the same hooks and limits.
        """
        if keep >= 1.0:
            other = Disk()
            other._base, other.operations = self._base, self.operations
            # Also of files that have no name any more: a later power failure may undo their unlinking.
            other._inodes.update(self._inodes)
            contents = {name: (file.number, bytes(file.data)) for name, file in self._files.items()}
        else:
            platter = Platter(self._base)
            for operation in self.operations:
                platter.apply(operation)
            directory = platter.directory(rng, keep)
            contents = {name: (number, platter.content(number, rng, keep)) for name, number in directory.items()}
            other = Disk({name: data for name, (_, data) in contents.items()})
        self._hand_over(other, contents)
        self.retire()
        return other

    def _hand_over(self, other: Disk, contents: Mapping[str, tuple[int, bytes]]) -> None:
        other.sync_count, other.lying_fsync = self.sync_count, self.lying_fsync
        other.failing_syncs, other.failing, other.capacity_bytes = self.failing_syncs, self.failing, self.capacity_bytes
        other.on_io, other.after_io, other.note, other.clock = self.on_io, self.after_io, self.note, self.clock
        other.rng = self.rng
        other._inode_count = self._inode_count
        other.folders = dict(self.folders)
        for name, (number, data) in contents.items():
            if name not in other._files:
                file = DiskFile(other, name, number, recorded=True)
                other._link(name, file, data)
            file = other._files[name]
            file.inode = other._inodes[file.number] = self._inodes[number]
            above = folder_of(name)
            while above not in other.folders:
                # The folder was renamed, and the names of its files were not.
                other.folders[above] = other._new_inode(0o755)
                above = folder_of(above)
        if other._base is self._base:
            other._file_count = self._file_count
            # Also those without a name: a power failure may bring it back.
            other._inodes = self._inodes

    def crash_image(self, k: int, rng: random.Random, keep: float = 0.5) -> dict[str, bytes]:
        """The files as they could be if power failed behind the first `k` operations.

        Args:
            k: The number of operations before the failure.
            rng: The randomness that decides which unsynced writes survive.
            keep: The part of the unsynced writes that survives, from 0 to 1.

        Returns:
            The content of each file, by name.
        """
        platter = Platter(self._base)
        for operation in self.operations[:k]:
            platter.apply(operation)
        return platter.image(rng, keep)

    def crash_images(
        self, rng: random.Random, keeps: Sequence[float] = KEEPS, part: float = 1.0
    ) -> Iterator[CrashImage]:
        """Yield an image for each crash point and each of `keeps`, in one walk over the history.

        Args:
            rng: The randomness that decides which unsynced writes survive.
            keeps: The parts of the unsynced writes that survive.
            part: The chance of each image, from 0 to 1: to build all of a long history takes long.
        """
        platter, marks = Platter(self._base), tuple[object, ...]()
        for k, operation in enumerate([MarkOp(None), *self.operations]):
            if k and isinstance(operation, MarkOp):
                marks += (operation.label,)
            platter.apply(operation)
            for keep in keeps:
                if part >= 1.0 or rng.random() < part:
                    yield CrashImage(k, marks, platter.image(rng, keep))

    def exists(self, name: str) -> bool:
        """Tell whether running processes see the name."""
        return name in self._files

    def find(self, name: str) -> DiskFile | None:
        """The file of a name."""
        return self._files.get(name)

    def names(self) -> list[str]:
        """The names of all files, sorted."""
        return sorted(self._files)

    def open(
        self, name: str | None, *, create: bool = True, is_journal: bool = False, mode: int | None = None
    ) -> DiskFile:
        """Find or create a file. Without a name, it is temporary, and in no directory and no history."""
        if name is None:
            return self._new_file("(temporary)", recorded=False)
        self.access("open", name)
        file = self._files.get(name)
        if file is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, f"cannot open {name}: no such file, and not asked to create it")
            file = self._new_file(name)
            file.inode.mtime = self.clock()
            if mode is not None:
                file.inode.mode = mode
            self._link(name, file, b"")
            self.record(LinkOp(name, file.number))
            self.after_io("open", name)
        if is_journal:
            file.syncs_directory = True
        return file

    def unlink(self, name: str) -> None:
        """Take the name away; a process that has the file open goes on with it."""
        self.access("unlink", name)
        if name not in self._files:
            raise FileNotFoundError(errno.ENOENT, f"cannot delete {name}: no such file")
        self._drop(name)
        self.record(UnlinkOp(name))
        self.after_io("unlink", name)

    def rename(self, names: Sequence[tuple[str, str]]) -> None:
        """Give files other names, in the place of those that have them, all in one change."""
        self.access("rename", names[0][1] if names else "")
        moved = [(target, self._drop(source)) for source, target in names]
        for target, file in moved:
            if target in self._files:
                self._drop(target)
            file.name = target
            self._link(target, file, None)
        if names:
            self.record(RenameOp(tuple(names)))
            self.after_io("rename", names[0][1])

    def make_folder(self, name: str, mode: int) -> None:
        """Add a folder. It is durable at once."""
        self.access("mkdir", name)
        self.folders[name] = self._new_inode(mode)
        self.folders[name].mtime = self.clock()
        self._note("mkdir", name)
        self.after_io("mkdir", name)

    def sync_directory(self) -> None:
        """Make links and unlinks durable."""
        if not self.lying_fsync:
            self.record(DirSyncOp())

    def access(self, kind: IoKind, name: str) -> None:
        """Tell the hook of an access, and raise the OSError that is to happen there."""
        self.on_io(kind, name)
        left = self.failing.get(kind, 0)
        if left:
            self.failing[kind] = left - 1
            raise OSError(errno.EIO, f"cannot {kind} {name}: the disk fails")

    def room(self, file: DiskFile, size: int) -> int:
        """How far a file can grow towards `size`; overwriting is always possible."""
        growth, limit = size - len(file.data), self.capacity_bytes
        if limit is None or growth <= 0:
            return size
        return min(size, len(file.data) + max(0, limit - self.used_bytes))

    def no_room(self, file: DiskFile, size: int) -> OSError:
        """The error of a file that cannot grow to `size`."""
        message = f"cannot grow {file.name} by {size - len(file.data)} bytes: "
        return OSError(errno.ENOSPC, f"{message}{self.used_bytes} of {self.capacity_bytes} are in use")

    def record(self, operation: Operation) -> None:
        """Append to the history, while there is power."""
        if self._powered:
            self.operations.append(operation)
            if self.note is not None:
                self._note(*described(operation))

    def _note(self, *words: object) -> None:
        if self.note is not None and self._powered:
            self.note(" ".join(map(str, words)))

    def _link(self, name: str, file: DiskFile, data: bytes | None) -> None:
        if data is not None:
            file.data[:] = data
        file.is_linked = True
        self._files[name] = file
        self.used_bytes += len(file.data)

    def _drop(self, name: str) -> DiskFile:
        file = self._files.pop(name)
        file.is_linked = False
        self.used_bytes -= len(file.data)
        return file

    def _new_file(self, name: str, *, recorded: bool = True) -> DiskFile:
        self._file_count += 1
        file = DiskFile(self, name, self._file_count, recorded=recorded)
        self._inodes[file.number] = file.inode = self._new_inode(_MODE)
        return file

    def _new_inode(self, mode: int) -> Inode:
        self._inode_count += 1
        return Inode(self._inode_count, mode)


class DiskFile:
    """One file as running processes see it, whatever of it is durable; also the object that SQLite holds."""

    def __init__(self, disk: Disk, name: str, number: int, *, recorded: bool) -> None:
        self.name = name
        self.number = number
        self.data = bytearray()
        self.inode: Inode
        # Whether it has a name. One without takes no room.
        self.is_linked = False
        self._disk = disk
        self._recorded = recorded
        # As on Unix: the first sync of a journal that may be created syncs the directory too, that of a database not.
        self.syncs_directory = False

    # -- for plain files: OSError --------------------------------------------------------------------------

    def read(self, size: int, at: int) -> bytes:
        """At most so many bytes from a position."""
        self._disk.access("read", self.name)
        return bytes(memoryview(self.data)[at : at + size])

    def write(self, data: bytes, at: int) -> None:
        """All of it; or, without room, a first part of it and an error."""
        disk, end = self._disk, at + len(data)
        disk.access("write", self.name)
        room = disk.room(self, end)
        if room > at:
            self.change(WriteOp(self.number, at, data[: room - at]))
        if room < end:
            raise disk.no_room(self, end)
        disk.after_io("write", self.name)

    def truncate(self, size: int) -> None:
        """Cut, or grow with zeros."""
        disk = self._disk
        disk.access("truncate", self.name)
        if disk.room(self, size) < size:
            raise disk.no_room(self, size)
        self.change(TruncateOp(self.number, size))
        disk.after_io("truncate", self.name)

    def sync(self) -> None:
        """Make it durable. After an error it never will be."""
        disk = self._disk
        disk.sync_count += 1
        try:
            disk.access("sync", self.name)
            if disk.sync_count in disk.failing_syncs:
                raise OSError(errno.EIO, f"cannot sync {self.name}: sync {disk.sync_count} fails")
        except OSError:
            if self._recorded:
                disk.record(SyncFailedOp(self.number))
            raise
        if self._recorded and not disk.lying_fsync:
            disk.record(SyncOp(self.number))
        if self.syncs_directory:
            disk.sync_directory()
            self.syncs_directory = False
        disk.after_io("sync", self.name)

    def change(self, change: FileChange) -> None:
        """Make a change that is visible at once, and durable at the next sync."""
        before = len(self.data)
        apply_change(self.data, change)
        disk = self._disk
        if self.is_linked:
            disk.used_bytes += len(self.data) - before
        self.inode.mtime = disk.clock()
        if self._recorded:
            disk.record(change)

    # -- for SQLite ----------------------------------------------------------------------------------------

    def xRead(self, amount: int, offset: int) -> bytes:
        # Short at the end of the file: APSW fills up with zeros and tells SQLite that the read was short.
        with _as_sqlite("read"):
            return self.read(amount, offset)

    def xWrite(self, data: Buffer, offset: int) -> None:
        with _as_sqlite("write"):
            self.write(bytes(data), offset)

    def xTruncate(self, newsize: int) -> None:
        with _as_sqlite("truncate"):
            self.truncate(newsize)

    def xSync(self, _flags: int) -> None:
        with _as_sqlite("sync"):
            self.sync()

    def xFileSize(self) -> int:
        return len(self.data)

    def xLock(self, _level: int) -> None: ...

    def xUnlock(self, _level: int) -> None: ...

    def xCheckReservedLock(self) -> bool:
        return False

    def xFileControl(self, _op: int, _ptr: int) -> bool:
        return False

    def xDeviceCharacteristics(self) -> int:
        # What the Unix VFS claims too: a torn write harms no byte outside its own range.
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None: ...


@contextmanager
def _as_sqlite(kind: IoKind) -> Iterator[None]:
    """Raise the errors of the disk as SQLite expects them."""
    try:
        yield
    except OSError as error:
        message = error.strerror or str(error)
        if error.errno == errno.ENOSPC:
            raise apsw.FullError(message) from None
        if error.errno == errno.ENOENT and kind == "unlink":
            raise _io_error(message, apsw.SQLITE_IOERR_DELETE_NOENT) from None
        if kind == "open":
            raise apsw.CantOpenError(message) from None
        raise _io_error(message, _RESULTS[kind]) from None


def _io_error(message: str, extended_result: int) -> apsw.IOError:
    error = apsw.IOError(message)
    error.extendedresult = extended_result  # type: ignore[attr-defined]  # documented, missing in the stubs
    return error


class DiskVFS(apsw.VFS):
    """A `Disk` registered with SQLite under a name. Call `unregister` at the end.

    SQLite draws randomness from the default VFS. Where a run must repeat to the byte, pass `makedefault=True` and call
    `apsw.randomness(0)`, which makes SQLite ask for a new seed.

    Args:
        name: The name of the VFS. It replaces another one of that name.
        disk: The disk.
        clock: A function that returns the seconds since 1970.
        makedefault: Whether it becomes the default VFS.
    """

    def __init__(
        self, name: str, disk: Disk, *, clock: Callable[[], float] = lambda: 0.0, makedefault: bool = False
    ) -> None:
        """Register the disk, in place of any other of that name; call `unregister` when done."""
        self.disk = disk
        self._clock = clock
        super().__init__(name=name, base="", makedefault=makedefault)

    def xFullPathname(self, name: str) -> str:
        return name if name.startswith("/") else f"/{name}"

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        flags[1] = wanted = flags[0]
        create = bool(wanted & apsw.SQLITE_OPEN_CREATE)
        is_journal = create and bool(wanted & JOURNALS)
        # APSW asks only for the methods; not being a VFSFile is what says that there is no shared memory.
        with _as_sqlite("open"):
            return cast("apsw.VFSFile", self.disk.open(path, create=create, is_journal=is_journal))

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001
        with _as_sqlite("unlink"):
            self.disk.unlink(filename)
        if syncdir:
            self.disk.sync_directory()

    def xAccess(self, pathname: str, _flags: int) -> bool:
        return self.disk.exists(pathname)

    def xRandomness(self, numbytes: int) -> bytes:
        return self.disk.rng.randbytes(numbytes)

    def xCurrentTimeInt64(self) -> int:
        return EPOCH_MS + int(self._clock() * 1000)
