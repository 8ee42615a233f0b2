"""The history of operations of a disk in memory, and what may be left of it when power fails.

What may survive a power loss: everything synced; of the rest, each write whole, not at all, or torn between
sectors; each truncation or not; and of the changes to the directory the first so many, in order. A rename is one
change. Folders, permissions and times survive: no rule of the product depends on their loss.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, assert_never
from zlib import crc32

import msgspec

SECTOR_BYTES = 512  # The unit a drive promises to write whole; a torn write is torn between these.
SECTOR_CHANCE = 0.5  # Of each sector of a torn write: they reach the platter in any order, or not at all.
KEEPS = (0.0, 0.5, 0.5, 1.0)  # Nothing un-synced; two draws of the lottery; all of it: only the process died.


class LinkOp(msgspec.Struct, frozen=True):
    """A name appeared in the directory."""

    name: str
    file: int


class UnlinkOp(msgspec.Struct, frozen=True):
    """A name left the directory."""

    name: str


class RenameOp(msgspec.Struct, frozen=True):
    """Names were changed, all at once: of a file, or of the files of a folder."""

    names: tuple[tuple[str, str], ...]


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
NameChange = LinkOp | UnlinkOp | RenameOp
Operation = NameChange | DirSyncOp | FileChange | SyncOp | SyncFailedOp | MarkOp


class CrashImage(NamedTuple):
    """The files as they could be after a power failure behind the first `k` operations."""

    k: int
    """The number of operations before the failure."""
    marks: tuple[object, ...]
    """The labels of `Disk.mark` before the failure."""
    files: dict[str, bytes]
    """The content of each file, by name."""


def folder_of(name: str) -> str:
    """The folder of an absolute path."""
    return name.rpartition("/")[0] or "/"


def apply_change(data: bytearray, change: FileChange) -> None:
    """Change the content of a file."""
    if isinstance(change, TruncateOp):
        del data[change.size :]
        data.extend(bytes(change.size - len(data)))
    else:
        data.extend(bytes(max(0, change.offset - len(data))))
        data[change.offset : change.offset + len(change.data)] = change.data


def _rename(directory: dict[str, int], changes: Sequence[NameChange]) -> None:
    for change in changes:
        match change:
            case LinkOp():
                directory[change.name] = change.file
            case UnlinkOp():
                directory.pop(change.name, None)
            case RenameOp():
                moved = [(target, directory.pop(source)) for source, target in change.names]
                directory.update(moved)
            case _:
                assert_never(change)


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
        self._durable = {number: bytearray(image[name]) for name, number in self._directory.items()}
        self._frozen = {number: image[name] for name, number in self._directory.items()}
        self._pending: dict[int, list[FileChange]] = {}
        self._pending_names: list[NameChange] = []

    def apply(self, operation: Operation) -> None:
        """Move on by one operation."""
        match operation:
            case WriteOp() | TruncateOp():
                self._pending.setdefault(operation.file, []).append(operation)
            case SyncOp():
                self._sync(operation.file)
            case SyncFailedOp():
                self._pending.pop(operation.file, None)
            case LinkOp() | UnlinkOp() | RenameOp():
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
        directory = self.directory(rng, keep)
        return {name: self.content(file, rng, keep) for name, file in directory.items()}

    def directory(self, rng: random.Random, keep: float) -> dict[str, int]:
        """The names that survive, and the numbers of their files."""
        directory, changes = dict(self._directory), self._pending_names
        kept = int(keep) * len(changes) if keep in {0.0, 1.0} else rng.randint(0, len(changes))
        _rename(directory, changes[:kept])
        return directory

    def content(self, file: int, rng: random.Random, keep: float) -> bytes:
        """What survives of one file."""
        changes = list(_survivors(self._pending.get(file, ()), rng, keep))
        if not changes:
            # Shared with all other images in which nothing of the file is under way: enumeration stays linear.
            found = self._frozen.get(file)
            if found is None:
                found = self._frozen[file] = bytes(self._durable.get(file, b""))
            return found
        data = bytearray(self._durable.get(file, b""))
        for change in changes:
            apply_change(data, change)
        return bytes(data)

    def _sync(self, file: int) -> None:
        changes = self._pending.pop(file, ())
        if changes or file not in self._durable:
            # In place: a sync costs what was written, not the size of the file.
            data = self._durable.setdefault(file, bytearray())
            for change in changes:
                apply_change(data, change)
            self._frozen.pop(file, None)


def described(operation: Operation) -> tuple[object, ...]:
    """An operation for a digest: a checksum instead of the bytes of a write."""
    if isinstance(operation, WriteOp):
        return ("WriteOp", operation.file, operation.offset, len(operation.data), crc32(operation.data))
    return (type(operation).__name__, *msgspec.structs.astuple(operation))
