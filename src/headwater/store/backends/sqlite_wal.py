"""The write-ahead log at an opening: made durable, and checked for committed transactions that SQLite does not read.

SQLite reads the log up to the first frame with a wrong checksum and takes that for its end. After a power cut that is
right: the last transaction may be incomplete, and was not acknowledged. But a transaction is written only when the one
before it is on disk. So if two transactions end after the frame where SQLite stopped, or one ends and another has
begun, then an acknowledged one is lost, and the log is damaged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from struct import Struct
from typing import Final

import apsw

_HEADER: Final = Struct(">8I")
_FRAME: Final = Struct(">6I")
_MAGIC: Final = 0x377F0682
"""The last bit is the byte order for the checksum."""

_WORD: Final = 0xFFFFFFFF

_PART: Final = 1 << 16
"""Bytes of the log in one write: SQLite's files take less than 128 KB at once."""

Read = Callable[[int, int], bytes]
"""Reads a number of bytes at an offset; fewer at the end of the file."""


@dataclass(frozen=True, slots=True)
class LostTransactions:
    """The part of the log that SQLite does not read."""

    # Transactions that end after the damage.
    transactions: int
    # The start of the damaged part: truncated here, the log reads as SQLite reads it.
    offset: int


@dataclass(frozen=True, slots=True)
class _Frame:
    offset: int
    page: int
    # Pages of the database, at the end of a transaction; else 0.
    size: int
    salts: tuple[int, int]
    sums: tuple[int, int]


def lost_transactions(db: apsw.Connection, path: str, vfs: str | None) -> LostTransactions | None:
    """The lost part of the write-ahead log of a database that was just opened; None if all of it is read."""
    try:
        file = apsw.VFSFile(vfs or "", f"{path}-wal", [apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READONLY, 0])
    except apsw.CantOpenError:
        # No log: nothing was written since the last checkpoint.
        return None
    try:
        return _lost(file.xRead, _frames_read(db))
    finally:
        file.xClose()


def make_durable(db: apsw.Connection, path: str, vfs: str | None) -> None:
    """Write the log of a database again, as far as SQLite reads it, and sync it. The database is open, and locked.

    After a process died, or a sync failed, SQLite reads transactions from the memory of the system that are not on
    disk. Commits that are confirmed because they are in the log would be lost with the power. And a power cut could
    lose them and keep those that follow in the log, which reads as damage. The system has forgotten that the pages of a
    failed sync are not on disk, so a sync alone would not write them.

    The rest, of a transaction that a power cut has left incomplete, is cut off. The next transaction might overwrite
    only the beginning of it: after a second power cut, the ends of both would read as two committed transactions.
    """
    # As SQLite opens it: its first sync then includes its name.
    flags = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    file = apsw.VFSFile(vfs or "", f"{path}-wal", [flags, 0])
    try:
        size = file.xFileSize()
        end = _end(file.xRead, _frames_read(db))
        if end < size:
            file.xTruncate(end)
        for offset in range(0, min(end, size), _PART):
            file.xWrite(file.xRead(min(_PART, end - offset), offset), offset)
        if size:
            file.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        file.xClose()


def _frames_read(db: apsw.Connection) -> int:
    """The number of frames that SQLite reads."""
    frames, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    return max(frames, 0)


def _end(read: Read, frames: int) -> int:
    """The end of these frames, and of the header, in bytes."""
    if not frames:
        return _HEADER.size
    page_size: int = _HEADER.unpack(read(_HEADER.size, 0))[2]
    return _HEADER.size + frames * (_FRAME.size + page_size)


def _lost(read: Read, frames: int) -> LostTransactions | None:
    """The part after the `frames` that SQLite reads."""
    start = read(_HEADER.size, 0)
    if len(start) < _HEADER.size:
        return None
    magic, _, page_size, _, *rest = _HEADER.unpack(start)
    salts, sums = (rest[0], rest[1]), (rest[2], rest[3])
    order = "big" if magic & 1 else "little"
    if magic & ~1 != _MAGIC or _checksum(start[:24], (0, 0), order) != sums:
        return _headless(read, salts)
    length = _FRAME.size + page_size
    ends = 0
    previous: _Frame | None = None
    goes_on = False
    for frame in _frames(read, _HEADER.size + frames * length, length):
        if frame.salts == salts:
            goes_on = goes_on or _follows(read, frame, previous, page_size, order)
            ends += bool(frame.size)
        previous = frame if frame.salts == salts else None
    if ends > 1 or (ends and goes_on):
        return LostTransactions(ends, _HEADER.size + frames * length)
    return None


def _follows(read: Read, frame: _Frame, previous: _Frame | None, page_size: int, order: str) -> bool:
    """Whether the frame continues the checksum of a transaction that ends with the frame before it."""
    if previous is None or not previous.size:
        return False
    body = read(_FRAME.size + page_size, frame.offset)
    if len(body) < _FRAME.size + page_size:
        # Cut off, as by a full disk: nothing shows that it follows.
        return False
    return _checksum(body[:8] + body[_FRAME.size :], previous.sums, order) == frame.sums


def _headless(read: Read, salts: tuple[int, int]) -> LostTransactions | None:
    """The header is damaged. Both salts change when a log is restarted: frames that share one belong to this header."""
    for page_size in (4096, *(1 << power for power in range(9, 17))):
        ends = [
            frame
            for frame in _frames(read, _HEADER.size, _FRAME.size + page_size)
            if frame.size and (frame.salts[0] == salts[0] or frame.salts[1] == salts[1])
        ]
        if ends:
            return LostTransactions(len(ends), 0)
    return None


def _frames(read: Read, offset: int, length: int) -> Iterator[_Frame]:
    while len(found := read(_FRAME.size, offset)) == _FRAME.size:
        page, size, *rest = _FRAME.unpack(found)
        yield _Frame(offset, page, size, (rest[0], rest[1]), (rest[2], rest[3]))
        offset += length


def _checksum(data: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's checksum, section 4.2 of its file format."""
    one, two = start
    words = Struct(f"{'>' if order == 'big' else '<'}{len(data) // 4}I").unpack(data)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & _WORD
        two = (two + second + one) & _WORD
    return one, two
