"""A disk in memory that records operations and shows every state after a power loss.

`DiskVFS` lets SQLite keep its files on a `Disk`. The disk records what reached it, so one recorded run gives
every crash point of that run: `crash_images` builds, for each, the files as they could be when power returns.

What may survive a power loss: everything synced; of the rest, each write whole, not at all, or torn between
sectors; each truncation or not; and of the changes to the directory the first so many, in order.

Owns the model of the disk and its faults. It does not judge whether an image is good. One thread, and one connection
per file: there are no locks and no shared memory here, so SQLite grants WAL only under `locking_mode=EXCLUSIVE`,
which is how the product runs.

Length: one model of a disk, whose parts share its history of operations.
"""
# ruff: noqa: N802  (the x-names are SQLite's)

from __future__ import annotations

import random
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, assert_never, cast

import apsw
import msgspec
from typing_extensions import Buffer

SECTOR_BYTES = 512  # The unit a drive promises to write whole; a torn write is torn between these.
SECTOR_CHANCE = 0.5  # Of each sector of a torn write: they reach the platter in any order, or not at all.
KEEPS = (0.0, 0.5, 0.5, 1.0)  # Nothing un-synced; two draws of the lottery; all of it: only the process died.
EPOCH_MS = 210_866_760_000_000  # 1970-01-01 in SQLite's calendar, which starts at noon on Julian day 0.
JOURNALS = apsw.SQLITE_OPEN_MAIN_JOURNAL | apsw.SQLITE_OPEN_SUPER_JOURNAL | apsw.SQLITE_OPEN_WAL

IoKind = Literal["open", "read", "write", "truncate", "sync", "unlink"]
IoHook = Callable[[IoKind, str], None]


class LinkOp(msgspec.Struct, frozen=True):
    """A name appeared in the directory."""

    name: str
    file: int


class UnlinkOp(msgspec.Struct, frozen=True):
    """A name left the directory."""

    name: str


class DirSyncOp(msgspec.Struct, frozen=True):
    """All changes to the directory so far are durable."""


class WriteOp(msgspec.Struct, frozen=True):
    """Bytes were handed to the file."""

    file: int
    offset: int
    data: bytes


class TruncateOp(msgspec.Struct, frozen=True):
    """The file was cut, or grown with zeros."""

    file: int
    size: int


class SyncOp(msgspec.Struct, frozen=True):
    """All changes to the file so far are durable."""

    file: int


class SyncFailedOp(msgspec.Struct, frozen=True):
    """The kernel reported an error and forgot the dirty pages: no later sync brings them to the platter."""

    file: int


class MarkOp(msgspec.Struct, frozen=True):
    """A label for this moment, such as "commit 7 was acknowledged"."""

    label: object


FileChange = WriteOp | TruncateOp
Operation = LinkOp | UnlinkOp | DirSyncOp | FileChange | SyncOp | SyncFailedOp | MarkOp


class CrashImage(NamedTuple):
    """The files as they could be after a power failure behind the first `k` operations."""

    k: int
    """The number of operations before the failure."""
    marks: tuple[object, ...]
    """The labels of `Disk.mark` before the failure."""
    files: dict[str, bytes]
    """The content of each file, by name."""


def _apply(data: bytearray, change: FileChange) -> None:
    if isinstance(change, TruncateOp):
        del data[change.size :]
        data.extend(bytes(change.size - len(data)))
    else:
        data.extend(bytes(max(0, change.offset - len(data))))
        data[change.offset : change.offset + len(change.data)] = change.data


def _rename(directory: dict[str, int], changes: Sequence[LinkOp | UnlinkOp]) -> None:
    for change in changes:
        if isinstance(change, LinkOp):
            directory[change.name] = change.file
        else:
            directory.pop(change.name, None)


def _survivors(changes: Sequence[FileChange], rng: random.Random, keep: float) -> Iterator[FileChange]:
    """Draw which un-synced changes of one file reached the platter; a write that did not may yet be torn."""
    for change in changes:
        if rng.random() < keep:
            yield change
        elif isinstance(change, WriteOp) and rng.random() < keep:
            start, end = change.offset, change.offset + len(change.data)
            while start < end:
                stop = min(end, (start // SECTOR_BYTES + 1) * SECTOR_BYTES)
                if rng.random() < SECTOR_CHANCE:
                    yield WriteOp(change.file, start, change.data[start - change.offset : stop - change.offset])
                start = stop


class Platter:
    """What is durable, and what is still under way, after a prefix of the operations."""

    def __init__(self, image: Mapping[str, bytes]) -> None:
        """Begin with files that are already durable, numbered 1, 2, 3... as on the `Disk` itself."""
        self._directory = {name: number for number, name in enumerate(image, start=1)}
        self._durable = {number: image[name] for name, number in self._directory.items()}
        self._pending: dict[int, list[FileChange]] = {}
        self._pending_names: list[LinkOp | UnlinkOp] = []

    def apply(self, operation: Operation) -> None:
        """Move on by one operation."""
        match operation:
            case WriteOp() | TruncateOp():
                self._pending.setdefault(operation.file, []).append(operation)
            case SyncOp():
                file = operation.file
                self._durable[file] = self._changed(file, self._pending.pop(file, ()))
            case SyncFailedOp():
                self._pending.pop(operation.file, None)
            case LinkOp() | UnlinkOp():
                self._pending_names.append(operation)
            case DirSyncOp():
                _rename(self._directory, self._pending_names)
                self._pending_names.clear()
            case MarkOp():
                pass
            case _:
                assert_never(operation)

    def image(self, rng: random.Random, keep: float) -> dict[str, bytes]:
        """Pull the plug. `keep` is the chance of each un-synced change: 0 loses all of them and 1 none."""
        directory, changes = dict(self._directory), self._pending_names
        kept = int(keep) * len(changes) if keep in {0.0, 1.0} else rng.randint(0, len(changes))
        _rename(directory, changes[:kept])
        # A file with nothing under way shares its bytes with all other images: enumeration stays linear.
        return {
            name: self._changed(file, list(_survivors(self._pending.get(file, ()), rng, keep)))
            for name, file in directory.items()
        }

    def _changed(self, file: int, changes: Sequence[FileChange]) -> bytes:
        before = self._durable.get(file, b"")
        if not changes:
            return before
        data = bytearray(before)
        for change in changes:
            _apply(data, change)
        return bytes(data)


class Disk:
    """A simulated disk: files in memory, with the history of their operations and switches that make them fail.

    Args:
        image: The files at the beginning, such as a crash image of another disk.
        seed: The seed of the randomness of SQLite.
    """

    def __init__(self, image: Mapping[str, bytes] | None = None, *, seed: int = 0) -> None:
        """Start from `image`, such as a crash image of another disk; `seed` feeds SQLite's own randomness."""
        self.operations: list[Operation] = []
        self.sync_count = 0
        # Syncs succeed and change nothing, like a drive that answers from its volatile cache.
        self.lying_fsync = False
        # Which syncs fail, counted from 1: {3} fails exactly once, range(3, sys.maxsize) from then on.
        self.failing_syncs: Container[int] = ()
        # Growing the files beyond this many bytes in all raises FullError. None lifts the limit.
        self.capacity_bytes: int | None = None
        # Called before each access with its kind and the file's name: may be slow, pull the plug, or raise.
        self.on_io: IoHook = lambda _kind, _name: None
        self.rng = random.Random(seed)
        self._powered = True
        self._file_count = 0
        self._base = dict(image or {})
        self._files: dict[str, DiskFile] = {}
        for name, data in self._base.items():
            self._files[name] = self._new_file(name)
            self._files[name].data[:] = data

    def mark(self, label: object) -> None:
        """Remember this moment. The images of later crash points carry the label.

        Args:
            label: Any value, such as the number of an acknowledged commit.
        """
        self.record(MarkOp(label))

    def power_off(self) -> None:
        """Let no more operation reach the disk. Calls go on working, so that the dead process can be closed."""
        self._powered = False

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

    def crash_images(self, rng: random.Random, keeps: Sequence[float] = KEEPS) -> Iterator[CrashImage]:
        """Yield an image for each crash point and each of `keeps`, in one walk over the history.

        Args:
            rng: The randomness that decides which unsynced writes survive.
            keeps: The parts of the unsynced writes that survive.
        """
        platter, marks = Platter(self._base), tuple[object, ...]()
        for k, operation in enumerate([MarkOp(None), *self.operations]):
            if k and isinstance(operation, MarkOp):
                marks += (operation.label,)
            platter.apply(operation)
            for keep in keeps:
                yield CrashImage(k, marks, platter.image(rng, keep))

    def exists(self, name: str) -> bool:
        """Tell whether running processes see the name."""
        return name in self._files

    def open(self, name: str | None, *, create: bool = True, is_journal: bool = False) -> DiskFile:
        """Find or create a file. Without a name, it is temporary, and in no directory and no history."""
        if name is None:
            return self._new_file("(temporary)", recorded=False)
        self.on_io("open", name)
        if name not in self._files:
            if not create:
                raise apsw.CantOpenError(f"cannot open {name}: no such file, and not asked to create it")
            self._files[name] = self._new_file(name, syncs_directory=is_journal)
            self.record(LinkOp(name, self._files[name].number))
        return self._files[name]

    def unlink(self, name: str) -> None:
        """Take the name away; who has the file open goes on with it."""
        self.on_io("unlink", name)
        if name not in self._files:
            raise _io_error(f"cannot delete {name}: no such file", apsw.SQLITE_IOERR_DELETE_NOENT)
        del self._files[name]
        self.record(UnlinkOp(name))

    def sync_directory(self) -> None:
        """Make links and unlinks durable."""
        if not self.lying_fsync:
            self.record(DirSyncOp())

    def check_space(self, file: DiskFile, size: int) -> None:
        """Raise FullError if the file cannot grow to `size`; overwriting is always possible."""
        growth, limit = size - len(file.data), self.capacity_bytes
        used = sum(len(other.data) for other in self._files.values())
        if limit is not None and growth > 0 and used + growth > limit:
            raise apsw.FullError(f"cannot grow {file.name} by {growth} bytes: {used} of {limit} are in use")

    def record(self, operation: Operation) -> None:
        """Append to the history, while there is power."""
        if self._powered:
            self.operations.append(operation)

    def _new_file(self, name: str, *, recorded: bool = True, syncs_directory: bool = False) -> DiskFile:
        self._file_count += 1
        return DiskFile(self, name, self._file_count, recorded=recorded, syncs_directory=syncs_directory)


class DiskFile:
    """One file as running processes see it, whatever of it is durable; also the object that SQLite holds."""

    def __init__(self, disk: Disk, name: str, number: int, *, recorded: bool, syncs_directory: bool) -> None:
        self.name = name
        self.number = number
        self.data = bytearray()
        self._disk = disk
        self._recorded = recorded
        # As on Unix: the first sync of a new journal syncs the directory too, that of a new database not.
        self._syncs_directory = syncs_directory

    def change(self, change: FileChange) -> None:
        """Make a change that is visible at once, and durable at the next sync."""
        _apply(self.data, change)
        if self._recorded:
            self._disk.record(change)

    def xRead(self, amount: int, offset: int) -> bytes:
        # Short at the end of the file: APSW fills up with zeros and tells SQLite that the read was short.
        self._disk.on_io("read", self.name)
        return bytes(self.data[offset : offset + amount])

    def xWrite(self, data: Buffer, offset: int) -> None:
        written = bytes(data)
        self._disk.on_io("write", self.name)
        self._disk.check_space(self, offset + len(written))
        self.change(WriteOp(self.number, offset, written))

    def xTruncate(self, newsize: int) -> None:
        self._disk.on_io("truncate", self.name)
        self._disk.check_space(self, newsize)
        self.change(TruncateOp(self.number, newsize))

    def xSync(self, _flags: int) -> None:
        disk = self._disk
        disk.on_io("sync", self.name)
        disk.sync_count += 1
        if disk.sync_count in disk.failing_syncs:
            disk.record(SyncFailedOp(self.number))
            raise _io_error(f"cannot sync {self.name}: sync {disk.sync_count} fails", apsw.SQLITE_IOERR_FSYNC)
        if self._recorded and not disk.lying_fsync:
            disk.record(SyncOp(self.number))
        if self._syncs_directory:
            disk.sync_directory()
            self._syncs_directory = False

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
        create, is_journal = bool(wanted & apsw.SQLITE_OPEN_CREATE), bool(wanted & JOURNALS)
        # APSW asks only for the methods; not being a VFSFile is what says that there is no shared memory.
        return cast("apsw.VFSFile", self.disk.open(path, create=create, is_journal=is_journal))

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001
        self.disk.unlink(filename)
        if syncdir:
            self.disk.sync_directory()

    def xAccess(self, pathname: str, _flags: int) -> bool:
        return self.disk.exists(pathname)

    def xRandomness(self, numbytes: int) -> bytes:
        return self.disk.rng.randbytes(numbytes)

    def xCurrentTimeInt64(self) -> int:
        return EPOCH_MS + int(self._clock() * 1000)
