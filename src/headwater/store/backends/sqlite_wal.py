"""The write-ahead log at an opening: made durable, and checked for committed transactions that SQLite does not read.

SQLite reads the log up to the first frame with a wrong checksum and takes that for its end. After a power cut that is
right: the last transaction may be incomplete, and was not acknowledged. But a transaction is written only when the one
before it is on disk. So if two transactions end after the frame where SQLite stopped, or one ends and another has
begun, then an acknowledged one is lost, and the log is damaged.

A checkpoint copies a transaction to the file only when it is on disk, too. So if the file has a page of the last
transaction, which SQLite does not read, the log is damaged as well: the other pages would be older than that one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from struct import Struct
from typing import Final

import apsw

_HEADER: Final = Struct(">8I")
_FRAME: Final = Struct(">6I")
_MAGIC: Final = 0x377F0682
"""The last bit is the byte order for the checksum."""

_WORD: Final = 0xFFFFFFFF

_PAGES_MAX: Final = 0xFFFFFFFE
"""The largest number of a page."""

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
    # Pages of them were copied to the file before: without the others, the file is not whole.
    is_copied: bool


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
        return _lost(file.xRead, _frames_read(db), db)
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
    file = _opened(path, vfs)
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


def cut_off(db: apsw.Connection, path: str, vfs: str | None) -> None:
    """Cut off what a transaction has written that was rolled back, for lack of room, and sync the log.

    The next transaction might overwrite only the beginning of it: after a power cut, the ends of both would read as two
    committed transactions.
    """
    file = _opened(path, vfs)
    try:
        end = _end(file.xRead, _frames_read(db))
        if end < file.xFileSize():
            file.xTruncate(end)
            file.xSync(apsw.SQLITE_SYNC_NORMAL)
    finally:
        file.xClose()


def _opened(path: str, vfs: str | None) -> apsw.VFSFile:
    # As SQLite opens it: its first sync then includes its name.
    flags = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    return apsw.VFSFile(vfs or "", f"{path}-wal", [flags, 0])


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


def _lost(read: Read, frames: int, db: apsw.Connection) -> LostTransactions | None:
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
    offset = _HEADER.size + frames * length
    unread = list(_frames(read, offset, length))
    # After them, frames of an earlier log may follow, which had two other salts.
    own = [set(frame.salts) & set(salts) != set() for frame in unread]
    count = max((number for number, is_own in enumerate(own, 1) if is_own), default=0)
    del unread[count:]
    ends = 0
    previous: _Frame | None = None
    goes_on = False
    for frame in unread:
        if frame.salts == salts:
            goes_on = goes_on or _follows(read, frame, previous, page_size, order)
            # Without its last byte, it was never written as a whole: the disk was full.
            ends += bool(frame.size and read(1, frame.offset + length - 1))
        previous = frame if frame.salts == salts else None
    # One in between was never written in this log: that is a power cut.
    copied = _Copies(read, db, page_size, order, sums).of(unread) if all(own[:count]) else set()
    if ends > 1 or (ends and goes_on):
        return LostTransactions(ends, offset, bool(copied))
    # If the file has all of its pages, and the log no older ones, then nothing is lost.
    if copied and unread[-1].size and (len(copied) < count or _pages(read, frames, length) & copied):
        return LostTransactions(1, offset, is_copied=True)
    return None


@dataclass(frozen=True, slots=True)
class _Copies:
    """Finds pages of a transaction that a checkpoint has copied to the file, although one of its frames is damaged."""

    read: Read
    db: apsw.Connection
    page_size: int
    order: str
    # Of the header of the log: the first frame continues it.
    sums: tuple[int, int]

    def of(self, frames: list[_Frame]) -> set[int]:
        """The pages of these frames, which follow each other, whose content is in the file."""
        found: set[int] = set()
        others: set[int] = set()
        for frame, following in zip_longest(frames, frames[1:]):
            page = self._page_in_file(frame, following)
            if page:
                found.add(page)
            elif self._continues(frame, self._sums_before(frame)):
                others.add(frame.page)
        others -= found
        # A checkpoint copies pages in their order. Otherwise the transaction has written pages that it did not change.
        return set() if found and others and min(others) < min(found) else found

    def _page_in_file(self, frame: _Frame, following: _Frame | None) -> int:
        """The page of a frame; 0 if the file does not have its content. It is proved by the checksums."""
        before = self._sums_before(frame)
        if self._continues(frame, before):
            return frame.page if self._in_file(frame.page) == self._body(frame) else 0
        sums = self._sum(frame, before, self._in_file(frame.page))
        if sums == frame.sums:
            # Its content is damaged in the log.
            return frame.page
        if (
            sums is not None
            and following is not None
            and self._sum(following, sums, self._body(following)) == following.sums
        ):
            # Its checksum is damaged.
            return frame.page
        page = self._page_before_damage(frame, before)
        return page if self._in_file(page) == self._body(frame) else 0

    def _continues(self, frame: _Frame | None, before: tuple[int, int]) -> bool:
        return frame is not None and self._sum(frame, before, self._body(frame)) == frame.sums

    def _sums_before(self, frame: _Frame) -> tuple[int, int]:
        offset = frame.offset - _FRAME.size - self.page_size
        if offset < _HEADER.size:
            return self.sums
        *_, one, two = _FRAME.unpack(self.read(_FRAME.size, offset))
        return one, two

    def _body(self, frame: _Frame) -> bytes:
        return self.read(self.page_size, frame.offset + _FRAME.size)

    def _in_file(self, page: int) -> bytes:
        """A page of the file; empty if it has no such page."""
        if not 0 < page <= _PAGES_MAX:
            return b""
        is_whole, found = self.db.read("main", 0, (page - 1) * self.page_size, self.page_size)
        return found if is_whole else b""

    def _sum(self, frame: _Frame, before: tuple[int, int], body: bytes) -> tuple[int, int] | None:
        if len(body) < self.page_size:
            return None
        return _checksum(self.read(8, frame.offset) + body, before, self.order)

    def _page_before_damage(self, frame: _Frame, before: tuple[int, int]) -> int:
        """The page number with which the checksum of a frame was computed, from its content: the sums backwards."""
        body = self._body(frame)
        if len(body) < self.page_size:
            return 0
        one, two = frame.sums
        words = _words(body, self.order)
        for second, first in zip(words[::-2], words[-2::-2], strict=True):
            two = (two - second - one) & _WORD
            one = (one - first - two) & _WORD
        page = (one - before[0] - before[1]) & _WORD
        return int.from_bytes(page.to_bytes(4, "big" if self.order == "big" else "little"), "big")


def _pages(read: Read, frames: int, length: int) -> set[int]:
    """The pages of the frames that SQLite reads."""
    return {_FRAME.unpack(read(_FRAME.size, _HEADER.size + number * length))[0] for number in range(frames)}


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
            return LostTransactions(len(ends), 0, is_copied=False)
    return None


def _frames(read: Read, offset: int, length: int) -> Iterator[_Frame]:
    while len(found := read(_FRAME.size, offset)) == _FRAME.size:
        page, size, *rest = _FRAME.unpack(found)
        yield _Frame(offset, page, size, (rest[0], rest[1]), (rest[2], rest[3]))
        offset += length


def _checksum(data: bytes, start: tuple[int, int], order: str) -> tuple[int, int]:
    """SQLite's checksum, section 4.2 of its file format."""
    one, two = start
    words = _words(data, order)
    for first, second in zip(words[::2], words[1::2], strict=True):
        one = (one + first + two) & _WORD
        two = (two + second + one) & _WORD
    return one, two


def _words(data: bytes, order: str) -> tuple[int, ...]:
    return Struct(f"{'>' if order == 'big' else '<'}{len(data) // 4}I").unpack(data)
