"""Real files whose unsynced writes are lost with the process.

A kill alone proves nothing about fsync, because the writes of a dead process stay with the operating system. Under
`PowerLossVFS` writes and truncations stay in the memory of this process until SQLite syncs the file. A process that
ends in order flushes them.

Owns the memory between SQLite and the real file. The product does not import it; `headwater.testing.powercut` runs a
program on it. Creating and deleting files is not delayed; `headwater.testing.disk` models that. All connections to one
file must be in this process, because no other one sees unsynced writes.
"""
# ruff: noqa: N802, PTH116  (the x-names are SQLite's; and so are the file names, which are not Paths)

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Iterator
from itertools import groupby

import apsw
from typing_extensions import Buffer

NAME = "powerloss"
PAGE_BYTES = 4096  # SQLite's usual page: then most writes to a database replace a held page, and load none.
# SQLite's own Unix VFS reports a full disk when asked to write 128 KiB at once, or any multiple of that.
RUN_PAGES_MAX = 16

# These would grow or map the real file behind the buffer's back. They are hints: SQLite does without them.
HINTS = {apsw.SQLITE_FCNTL_SIZE_HINT, apsw.SQLITE_FCNTL_CHUNK_SIZE, apsw.SQLITE_FCNTL_MMAP_SIZE}

Identity = tuple[int, int]  # Device and inode.


class WriteBuffer:
    """The changes to one file since its last sync. All connections share it, and it outlives them.

    `real` is the file below. It is called through the class, as in `apsw.VFSFile.xWrite(real, ...)`, to reach the
    operating system even if `real` is a `PowerLossFile`, whose own methods lead back here.
    """

    def __init__(self, identity: Identity, size: int) -> None:
        """Begin with a real file of that size, and no changes."""
        # Another file put in this one's place must not inherit what was written to this one.
        self.identity = identity
        self.size = size
        # How many have the file open; kept by PowerLossVFS.
        self.user_count = 0
        # Page number -> the page as it should be, with zeros beyond the end of the file.
        self._pages: dict[int, bytearray] = {}
        self._real_size = size
        # The real file was cut here since the last sync: what it still holds from here on reads as zeros.
        self._real_visible = size
        # SQLite's locks keep writers apart, but a reader may come while another thread syncs.
        self._lock = threading.Lock()

    def is_dirty(self) -> bool:
        """Whether a power loss would lose changes."""
        return bool(self._pages) or not self._real_visible == self._real_size == self.size

    def read(self, real: apsw.VFSFile, amount: int, offset: int) -> bytes:
        """The bytes as SQLite wrote them; short at the end of the file."""
        with self._lock:
            end = min(offset + amount, self.size)
            if offset >= end:
                return b""
            first, last = offset // PAGE_BYTES, (end - 1) // PAGE_BYTES
            held = [number for number in range(first, last + 1) if number in self._pages]
            if len(held) == last - first + 1:
                data = bytearray(end - offset)
            else:
                data = self._read_real(real, end - offset, offset)
            for number in held:
                base = number * PAGE_BYTES
                start, stop = max(offset, base), min(end, base + PAGE_BYTES)
                data[start - offset : stop - offset] = self._pages[number][start - base : stop - base]
            return bytes(data)

    def write(self, real: apsw.VFSFile, data: bytes, offset: int) -> None:
        """Keep the bytes in memory."""
        with self._lock:
            start, end = offset, offset + len(data)
            while start < end:
                number, within = divmod(start, PAGE_BYTES)
                piece = data[start - offset : start - offset + PAGE_BYTES - within]
                if len(piece) == PAGE_BYTES:
                    self._pages[number] = bytearray(piece)
                else:
                    if number not in self._pages:
                        self._pages[number] = self._read_real(real, PAGE_BYTES, number * PAGE_BYTES)
                    self._pages[number][within : within + len(piece)] = piece
                start += len(piece)
            self.size = max(self.size, end)

    def truncate(self, size: int) -> None:
        """Cut the file, in memory only, or grow it with zeros."""
        with self._lock:
            for number in [number for number in self._pages if number * PAGE_BYTES >= size]:
                del self._pages[number]
            number, within = divmod(size, PAGE_BYTES)
            if number in self._pages:
                self._pages[number][within:] = bytes(PAGE_BYTES - within)
            self._real_visible = min(self._real_visible, size)
            self.size = size

    def flush(self, real: apsw.VFSFile, sync_flags: int | None) -> None:
        """Write everything to the operating system; unless `sync_flags` is None, sync it."""
        with self._lock:
            # The cut comes first, so that what grows back behind it is zeros and not the old bytes.
            if self._real_visible < self._real_size:
                apsw.VFSFile.xTruncate(real, self._real_visible)
            reached = self._real_visible
            for offset, data in self._runs():
                apsw.VFSFile.xWrite(real, data, offset)
                reached = max(reached, offset + len(data))
            if reached < self.size:
                apsw.VFSFile.xTruncate(real, self.size)
            if sync_flags is not None:
                apsw.VFSFile.xSync(real, sync_flags)
            # Forget only now: after an error all of it is still here, for the next attempt.
            self._pages.clear()
            self._real_size = self._real_visible = self.size

    def _read_real(self, real: apsw.VFSFile, amount: int, offset: int) -> bytearray:
        """Return exactly `amount` bytes, with zeros where the real file ends or was cut."""
        data = bytearray(amount)
        wanted = min(amount, self._real_visible - offset)
        if wanted > 0:
            # APSW strips the zeros at the end of a short read, so even this may be less than there is.
            found = apsw.VFSFile.xRead(real, wanted, offset)
            data[: len(found)] = found
        return data

    def _runs(self) -> Iterator[tuple[int, bytes]]:
        """Join neighboring pages, and clip the last to the size of the file: fewer, larger writes."""
        # Numbers that follow each other keep their distance to their place in the sorted list.
        order = enumerate(sorted(self._pages))
        for _, run in groupby(order, key=lambda item: (item[1] - item[0], item[1] // RUN_PAGES_MAX)):
            numbers = [number for _, number in run]
            offset = numbers[0] * PAGE_BYTES
            yield offset, b"".join(self._pages[number] for number in numbers)[: self.size - offset]


class PowerLossVFS(apsw.VFS):
    """The files of the operating system, with a write buffer that a power cut loses.

    Each database, journal and write-ahead log has one.

    Args:
        name: The name of the VFS, registered with SQLite. Keep a reference to the object.
    """

    def __init__(self, name: str) -> None:
        """Register with SQLite. Keep a reference: APSW withdraws a VFS without one."""
        self._base = apsw.vfs_names()[0]
        # Path -> buffer, of files that are open or would lose something.
        self._buffers: dict[str, WriteBuffer] = {}
        self._lock = threading.Lock()
        super().__init__(name=name, base=self._base)
        atexit.register(self.hand_over)

    def hand_over(self) -> None:
        """Write everything to the operating system, without a sync: this process ends, the machine does not."""
        for path, buffer in list(self._buffers.items()):
            if buffer.is_dirty() and _identity(path) == buffer.identity:
                flags = [apsw.SQLITE_OPEN_MAIN_DB | apsw.SQLITE_OPEN_READWRITE, 0]
                real = apsw.VFSFile(self._base, path, flags)
                buffer.flush(real, None)
                real.xClose()

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or flags[0] & apsw.SQLITE_OPEN_DELETEONCLOSE:
            return apsw.VFSFile(self._base, name, flags)
        return PowerLossFile(self, self._base, name, path, flags)

    def xAccess(self, pathname: str, flags: int) -> bool:
        buffer = self._buffers.get(pathname)
        if flags == apsw.SQLITE_ACCESS_EXISTS and buffer is not None and _identity(pathname) is not None:
            # As on Unix, an empty file does not count; but the real one may be empty only for want of a sync.
            return buffer.size > 0
        return super().xAccess(pathname, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001
        super().xDelete(filename, syncdir)
        self._buffers.pop(filename, None)

    def attach(self, path: str, before: Identity | None) -> WriteBuffer:
        """Find the buffer of a file just opened, or make one. `before` is what the path led to until then."""
        with self._lock:
            buffer = self._buffers.get(path)
            # A file that open created has a new life, even if it was given the inode of a deleted one.
            if buffer is None or buffer.identity != before:
                # Not the size that SQLite reports: it takes a file of one byte for an empty one.
                stat = os.stat(path)
                buffer = self._buffers[path] = WriteBuffer((stat.st_dev, stat.st_ino), stat.st_size)
            buffer.user_count += 1
            return buffer

    def detach(self, path: str, buffer: WriteBuffer) -> None:
        """Forget the buffer of a closed file, unless it holds what the real file does not."""
        with self._lock:
            buffer.user_count -= 1
            if buffer.user_count == 0 and not buffer.is_dirty() and self._buffers.get(path) is buffer:
                del self._buffers[path]


class PowerLossFile(apsw.VFSFile):
    """One open file; locks and shared memory are the operating system's."""

    def __init__(
        self, vfs: PowerLossVFS, base: str, name: str | apsw.URIFilename | None, path: str, flags: list[int]
    ) -> None:
        before = _identity(path)
        super().__init__(base, name, flags)
        self._vfs = vfs
        self._path = path
        self._is_open = True
        self._buffer = vfs.attach(path, before)

    def xRead(self, amount: int, offset: int) -> bytes:
        return self._buffer.read(self, amount, offset)

    def xWrite(self, data: Buffer, offset: int) -> None:
        self._buffer.write(self, bytes(data), offset)

    def xTruncate(self, newsize: int) -> None:
        self._buffer.truncate(newsize)

    def xFileSize(self) -> int:
        return self._buffer.size

    def xSync(self, flags: int) -> None:
        self._buffer.flush(self, flags)

    def xFileControl(self, op: int, ptr: int) -> bool:
        return op not in HINTS and super().xFileControl(op, ptr)

    def xDeviceCharacteristics(self) -> int:
        return apsw.SQLITE_IOCAP_POWERSAFE_OVERWRITE

    def xClose(self) -> None:
        if self._is_open:
            self._is_open = False
            self._vfs.detach(self._path, self._buffer)
        super().xClose()


def _identity(path: str) -> Identity | None:
    try:
        stat = os.stat(path)
    except FileNotFoundError:
        return None
    return stat.st_dev, stat.st_ino


_registered: list[PowerLossVFS] = []
_registering = threading.Lock()


def register() -> str:
    """Make the VFS known to SQLite, once per process, and return the name to open connections with."""
    with _registering:
        if not _registered:
            _registered.append(PowerLossVFS(NAME))
    return NAME
