r"""The audit log: grants, revocations, logins and refusals, one JSON object per line of `audit.jsonl`.

Each line has the SHA-256 of the one before, so changed, added or removed lines are detected: see `audit_check`. The end
can be cut off undetected; to exclude that, store the last hash elsewhere. Several processes may write.

Lines hold no token and no control character: they are ASCII, everything else is a \u escape.
"""

from __future__ import annotations

import json
import logging
import math
import os
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import msgspec

from headwater.access.private_files import create_private, locked, owners_of, read_private
from headwater.access.tokens import redacted
from headwater.errors import UnavailableError
from headwater.machine import File, machine
from headwater.values.seams import Clock

log: Final = logging.getLogger("headwater.server")

FILE: Final = "audit.jsonl"
LOCK: Final = "audit.lock"
GENESIS: Final = "0" * 64
"""In place of a hash in the first line."""
ROTATED: Final = "rotated"
"""The first line after a rotation: `after` names the previous file, `oldest` the number of the oldest one."""
TORN: Final = "torn"
"""Follows a line that was torn by a crash; `bytes` of it are left."""

BYTES_MAX: Final = 8 * 1024 * 1024
"""Size of one file before rotation. Some 30,000 lines: an editor still opens it."""
FILES_MAX: Final = 32
"""Files before the oldest is deleted. A quarter of a gigabyte: constant refusals must not fill the disk."""
WAIT_S: Final = 2.0
"""How long to wait for another writer. If that process was stopped, the server continues."""
TEXT_MAX: Final = 1000
"""Characters of one fact. Input from strangers may be long; its beginning identifies it."""

OWED_MAX: Final = 1000
"""Lines that wait for disk space. Only events that are allowed on a full disk wait: backups."""

_DURABLE: Final = frozenset({"granted", "revoked"})
"""Synced before the action. Others are written within seconds: strangers must not cause an fsync each."""
_READ_MAX: Final = 4 * BYTES_MAX
_BITS_MAX: Final = 64
_NUMBERED: Final = re.compile(r"audit-([1-9]\d{0,8})\.jsonl", re.ASCII)


class AuditEntry(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """One line."""

    n: int
    at: int
    before: str
    event: str
    facts: dict[str, object]


_entry: Final = msgspec.json.Decoder(AuditEntry)


def read_entry(line: bytes) -> AuditEntry | None:
    """Decode a line; None if it is torn or tampered with: `audit_check` finds out which."""
    try:
        return _entry.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def hash_of(line: bytes) -> str:
    """Hash of a line without its newline."""
    return sha256(line).hexdigest()


def older_files(folder: Path) -> dict[int, Path]:
    """Rotated files by number, oldest first."""
    found = {
        int(match[1]): folder / name for name in machine().files.names(folder) if (match := _NUMBERED.fullmatch(name))
    }
    return dict(sorted(found.items()))


@dataclass(slots=True)
class _Tail:
    """The end of the log."""

    # Identity of the current file after our last line: unchanged if no other process wrote. None: unknown.
    file: tuple[int, ...] | None
    n: int = 0
    before: str = GENESIS
    # Whether the last line lacks its newline, and how many bytes are left of a torn one.
    is_open: bool = False
    torn: int = 0


class AuditLog:
    """The audit log of the server with this data folder. Thread-safe."""

    def __init__(self, folder: Path, clock: Clock, *, bytes_max: int = BYTES_MAX, files_max: int = FILES_MAX) -> None:
        self._folder = folder
        self._clock = clock
        self._bytes_max = bytes_max
        self._files_max = files_max
        self._turn = machine().lock()
        self._tail = _Tail(None)
        # Lines without disk space, with their times: written before the next line.
        self._owed: deque[tuple[str, dict[str, object]]] = deque(maxlen=OWED_MAX)

    def check(self) -> None:
        """Raise UnavailableError unless the log is a file that only this user can write: the server must not start."""
        for path in (self._folder / FILE, self._folder / LOCK):
            if machine().files.is_symlink(path):
                raise UnavailableError(f"{path} is not written: it is a symbolic link", path=str(path))
        with self._turn, locked(self._folder / LOCK, wait_s=WAIT_S):
            try:
                create_private(self._folder / FILE, os.O_WRONLY | os.O_APPEND).close()
            except OSError as error:
                raise self._unwritten(error) from error

    def write_or_owe(self, event: str, /, **facts: object) -> None:
        """Add a line. If it cannot be written now, it stays in memory, and is written before the next line."""
        try:
            self.write(event, **facts)
        except (UnavailableError, OSError) as error:
            log.error("the audit log cannot be written: %s", error)  # noqa: TRY400  # it says all there is to say
            self._owed.append((event, {**facts, "happened": self._clock.now_ms()}))

    def write(self, event: str, /, **facts: object) -> None:
        """Add a line. Raises UnavailableError on failure; at most a torn line is written then."""
        with self._turn, locked(self._folder / LOCK, wait_s=WAIT_S):
            try:
                while self._owed:
                    owed, told = self._owed[0]
                    self._write(owed, told)
                    self._owed.popleft()
                self._write(event, facts)
            except OSError as error:
                self._tail = _Tail(None)
                raise self._unwritten(error) from error
            except BaseException:
                # Some lines may not have been written: the next call finds the end of the log again.
                self._tail = _Tail(None)
                raise

    def _unwritten(self, error: OSError) -> UnavailableError:
        path = self._folder / FILE
        message = f"cannot write {path}: {error.strerror or error}; is there room, and may this user write there?"
        return UnavailableError(message, path=str(path))

    def _write(self, event: str, facts: dict[str, object]) -> None:
        path = self._folder / FILE
        with create_private(path, os.O_WRONLY | os.O_APPEND) as file:
            self._find_end(file)
            tail = self._tail
            lines: list[bytes] = []
            if tail.is_open:
                lines.append(b"")
            if tail.torn:
                lines.append(self._line(TORN, {"bytes": tail.torn}))
            if tail.n and not file.stat().st_size:
                # The process that created this file ended before it wrote a line.
                lines.append(self._line(ROTATED, self._rotation()))
            lines.append(self._line(event, facts))
            self._append(file, lines)
            if event in _DURABLE:
                file.sync()
            is_full = file.stat().st_size >= self._bytes_max
        if is_full:
            self._rotate(path)

    def _append(self, file: File, lines: list[bytes]) -> None:
        tail = self._tail
        # Unknown until written: after a failure the next call finds the end again.
        self._tail = _Tail(None)
        file.write(b"\n".join(lines) + b"\n")
        found = file.stat()
        self._tail = _Tail(_identity(found), tail.n, tail.before)

    def _line(self, event: str, facts: Mapping[str, object]) -> bytes:
        """Encode the next line and advance the tail."""
        tail = self._tail
        plain = {name: _plain(value) for name, value in facts.items()}
        record = {
            "n": tail.n + 1,
            "at": self._clock.now_ms(),
            "before": tail.before,
            "event": _plain(event),
            "facts": plain,
        }
        # Everything except printable ASCII is escaped, DEL included.
        line = json.dumps(record, ensure_ascii=True, separators=(",", ":")).encode("ascii")
        tail.n, tail.before = tail.n + 1, hash_of(line)
        return line

    # --- files ------------------------------------------------------------------------------------------------

    def _find_end(self, file: File) -> None:
        """The end of the log: cached, unless another process wrote."""
        found = file.stat()
        if self._tail.file != _identity(found):
            self._tail = self._end()
            self._tail.file = _identity(found)

    def _end(self) -> _Tail:
        """Search the files, newest first: the last readable line may be in an older one."""
        tail = _Tail(None)
        is_last = True
        for path in (self._folder / FILE, *reversed(older_files(self._folder).values())):
            *lines, rest = read_private(path, owners_of(self._folder), _READ_MAX).split(b"\n")
            lines += [rest] if rest else []
            for line in reversed(lines):
                entry = read_entry(line)
                if is_last:
                    tail.before = hash_of(line)
                    tail.is_open = bool(rest) and path.name == FILE
                    tail.torn = len(line) if tail.is_open and entry is None else 0
                    is_last = False
                if entry is not None:
                    tail.n = entry.n
                    return tail
        return tail

    def _rotate(self, path: Path) -> None:
        """Rename the file to the next number, and begin a new one."""
        number = max(older_files(self._folder), default=0) + 1
        files = machine().files
        files.replace(path, path.with_name(f"audit-{number}.jsonl"))
        with create_private(path, os.O_WRONLY | os.O_APPEND | os.O_EXCL) as file:
            facts = self._rotation()
            self._append(file, [self._line(ROTATED, facts)])
            file.sync()
        files.sync_folder(self._folder)
        # Deleted last: until the new file records the deletion, the check would report them missing.
        for old, name in older_files(self._folder).items():
            if old < facts["oldest"]:
                files.unlink(name)

    def _rotation(self) -> dict[str, int]:
        numbers = list(older_files(self._folder))
        # The current file is one of them.
        kept = numbers[-max(self._files_max - 1, 1) :]
        return {"after": numbers[-1], "oldest": kept[0]}


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def _plain(value: object) -> object:
    """A fact as JSON, shortened, without secrets."""
    match value:
        case None | bool():
            return value
        case int():
            return value if value.bit_length() <= _BITS_MAX else f"a number of {value.bit_length()} bits"
        case float():
            return value if math.isfinite(value) else str(value)
        case _:
            # Shorten first; a token that was cut is still redacted.
            text = redacted(str(value)[: TEXT_MAX + 1])
            # A lone surrogate could not be decoded.
            text = text.encode("utf-8", "backslashreplace").decode()
            return text if len(text) <= TEXT_MAX else text[: TEXT_MAX - 1] + "…"
