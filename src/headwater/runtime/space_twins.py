"""Spaces that are open in this program, by id: two files with one id are refused, because one is a copy of the other.

Reads, links and sent events name a space by its id. With two files of one id, they would find one or the other.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

from headwater.errors import ClosedError, SpaceTwinError
from headwater.machine import machine
from headwater.runtime.storage_port import StoragePort
from headwater.values.ids import SpaceId


class _OpenSpace(NamedTuple):
    id: SpaceId
    where: str
    is_file: bool


class _OpenStorages:
    """State of the process."""

    def __init__(self) -> None:
        self.lock = machine().lock()
        self.by_storage: WeakKeyDictionary[StoragePort, _OpenSpace] = WeakKeyDictionary()


def register(storage: StoragePort, where: str, *, is_file: bool) -> None:
    """Register an open storage. Raises SpaceTwinError if another one has its id.

    Two connections to servers are never compared: one server has several addresses. Nor is a file compared with a
    connection to a server that is not reached: it may be the file of that server, which has ended.
    """
    identity = storage.identity
    if identity is None:
        return
    state = machine().state(_OpenStorages)
    with state.lock:
        for each, other in list(state.by_storage.items()):
            if other.id != identity.id or each is storage:
                continue
            if other.is_file or (is_file and _is_reached(each)):
                raise _twins(identity.id, where if is_file else other.where, other.where if is_file else where)
        state.by_storage[storage] = _OpenSpace(identity.id, where, is_file)


def forget(storage: StoragePort) -> None:
    """The storage is closed. Idempotent."""
    state = machine().state(_OpenStorages)
    with state.lock:
        state.by_storage.pop(storage, None)


def forget_all() -> None:
    """In a forked child: the storages belong to the parent."""
    machine().state(_OpenStorages).by_storage.clear()


def _is_reached(storage: StoragePort) -> bool:
    try:
        return storage.connection().state == "live"
    except ClosedError:
        return False


def _twins(space_id: SpaceId, file: str, other: str) -> SpaceTwinError:
    message = (
        f"{file} has the id {space_id}, and so has {other}, which is open in this program: one is a copy of the other. "
        f"`headwater spaces new-id {file}` makes it a space of its own; otherwise open only one of them"
    )
    return SpaceTwinError(message, id=space_id, path=file, other=other)
