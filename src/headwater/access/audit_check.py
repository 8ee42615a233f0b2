"""Reading the audit log, and verifying its hash chain."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final

import msgspec

from headwater.access.audit_log import (
    FILE,
    GENESIS,
    LOCK,
    ROTATED,
    TORN,
    AuditEntry,
    hash_of,
    older_files,
    read_entry,
)
from headwater.access.private_files import locked
from headwater.machine import File, machine

_CHUNK: Final = 1024 * 1024


class BadLine(msgspec.Struct, frozen=True):
    """The first line that breaks the chain."""

    file: str
    line: int
    why: str


class AuditReport(msgspec.Struct, frozen=True):
    """The result of a check."""

    entries: list[AuditEntry]
    """The newest entries, oldest first."""
    lines: int
    torn: int
    """Torn lines that a later line records."""
    bad: BadLine | None


def verify(path: Path) -> BadLine | None:
    """The first bad line of a log, given by its current file or its folder; None if there is none."""
    return examine(path if machine().files.is_dir(path) else path.parent, limit=0).bad


def examine(folder: Path, *, limit: int | None = None) -> AuditReport:
    """Read and check the whole log, and return the newest entries, those after a bad line included."""
    chain = _Chain()
    entries: deque[AuditEntry] = deque(maxlen=limit)
    with ExitStack() as stack:
        files = _open_at_rest(folder, stack)
        for _, name, file in files:
            chain.begin()
            for number, line in _lines(name, file):
                entry = chain.take(name, number, line)
                if entry is not None:
                    entries.append(entry)
    chain.end(min((number for number, _, _ in files if number), default=None))
    return AuditReport(list(entries), chain.lines, chain.torn, chain.bad)


def _open_all(folder: Path, files: ExitStack) -> list[tuple[int, str, File]]:
    """The files with their numbers, the current one last, as 0. Opened together, so that no rotation is in between."""
    found: list[tuple[int, str, File]] = []
    for number, path in (*older_files(folder).items(), (0, folder / FILE)):
        with suppress(FileNotFoundError):  # the chain shows it
            found.append((number, path.name, files.enter_context(machine().files.open(path, os.O_RDONLY))))
    return found


def _lines(name: str, file: File) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(_split(file), 1):
        if not line.endswith(b"\n") and name == FILE:
            return  # being written, or torn: the next writer records it
        yield number, line.removesuffix(b"\n")


def _split(file: File) -> Iterator[bytes]:
    """The lines of a file, with their ends."""
    rest = b""
    while part := file.read(_CHUNK):
        *lines, rest = (rest + part).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _open_at_rest(folder: Path, files: ExitStack) -> list[tuple[int, str, File]]:
    """Hold the lock while reading. Not for a copy without a lock file, or on a read-only disk."""
    lock = folder / LOCK
    if not machine().files.exists(lock):
        found = _open_all(folder, files)
        if not machine().files.exists(lock):
            return found
        # Another process has just started the log.
    elif not machine().files.can_write(lock):
        return _open_all(folder, files)
    with locked(lock):
        return _open_all(folder, files)


class _Chain:
    """The state of the chain while it is read."""

    def __init__(self) -> None:
        self.lines = 0
        self.torn = 0
        self.bad: BadLine | None = None
        # Hash of the line before; None: first line.
        self._before: bytes | None = None
        self._n = 0
        # The unreadable line before, if there is one.
        self._unread: tuple[str, int, bytes] | None = None
        self._is_new_file = True
        # Facts of the last rotation.
        self._oldest: int | None = None

    def begin(self) -> None:
        self._is_new_file = True

    def take(self, file: str, number: int, line: bytes) -> AuditEntry | None:
        """Check the next line. Returns its entry if it can be read."""
        self.lines += 1
        entry = read_entry(line)
        if entry is None:
            if self._unread is not None:
                self._blame(*self._unread[:2], "it cannot be read")
            self._unread = (file, number, line)
            self._before = line
            self._is_new_file = False
            return None
        why = self._complaint(entry)
        if self._unread is not None:
            self._settle(entry)
        if why is not None:
            self._blame(file, number, why)
        if entry.event == ROTATED and isinstance(oldest := entry.facts.get("oldest"), int):
            self._oldest = oldest
        self._before, self._n, self._is_new_file, self._unread = line, entry.n, False, None
        return entry

    def _complaint(self, entry: AuditEntry) -> str | None:
        if self._before is None:
            # After a rotation older files may have been deleted: `end` checks whether that was recorded.
            is_first = (entry.n, entry.before) == (1, GENESIS) or entry.event == ROTATED
            return None if is_first else "it is not the first line of a log, but nothing is before it"
        if entry.before != hash_of(self._before):
            return "it does not follow the line before: one of them was changed, or lines between them are gone"
        if entry.n != self._n + 1:
            return f"it has the number {entry.n}, and {self._n + 1} is expected"
        if self._is_new_file and entry.event != ROTATED:
            return "a file of the log does not begin with it"
        return None

    def _settle(self, entry: AuditEntry) -> None:
        """A torn line is accepted if the next one records it."""
        assert self._unread is not None
        file, number, line = self._unread
        if entry.event == TORN and entry.facts.get("bytes") == len(line) and entry.before == hash_of(line):
            self.torn += 1
        else:
            self._blame(file, number, "it cannot be read")

    def end(self, oldest: int | None) -> None:
        """All lines were read; `oldest` is the number of the oldest file."""
        if self._unread is not None:
            self._blame(*self._unread[:2], "it cannot be read")
        if self._oldest is not None and (oldest is None or oldest > self._oldest):
            self._blame(f"audit-{self._oldest}.jsonl", 1, "the file is gone, and the log did not remove it")

    def _blame(self, file: str, line: int, why: str) -> None:
        if self.bad is None:
            self.bad = BadLine(file, line, why)
