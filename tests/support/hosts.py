"""Storages to test: on a disk that can fail, and with a thread of their own or none."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from headwater.errors import StoreError
from headwater.host.storage import GROUP_MAX, Storage
from headwater.store.backend import Backend
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.testing import Disk, DiskVFS, SeededEntropy, SimClock

_numbers = itertools.count()


class StillStorage(Storage):
    """Its thread ends at once: commits are decided by whoever waits for them, and by nobody else."""

    def _run(self) -> None:
        pass


def storage_on(backend: Backend, *, still: bool = True, group_max: int = GROUP_MAX) -> Storage:
    kind = StillStorage if still else Storage
    return kind(backend, SimClock(), SeededEntropy(next(_numbers)), name="notes", group_max=group_max)


def in_memory(*, still: bool = True, group_max: int = GROUP_MAX) -> Storage:
    return storage_on(MemoryBackend(), still=still, group_max=group_max)


@contextmanager
def on_disk(disk: Disk, *, still: bool = True, group_max: int = GROUP_MAX) -> Iterator[Storage]:
    """A space on a simulated disk; closed in the end, whatever state it is in."""
    name = f"host-{next(_numbers)}"
    vfs = DiskVFS(name, disk)
    storage = storage_on(SqliteBackend("/space.db", vfs=name), still=still, group_max=group_max)
    try:
        yield storage
    finally:
        with suppress(StoreError):
            storage.close()
        vfs.unregister()


def reopened(disk: Disk) -> Disk:
    """What a new process finds: the same files, on a disk without faults."""
    return Disk(disk.files())
