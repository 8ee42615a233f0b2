"""One opening as other processes see it: through the local socket, and after closing in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from headwater.host.storage import Storage, storage_of
from headwater.inspect import relayed_looks
from headwater.inspect.live_functions import drawn, last_state
from headwater.inspect.node_changes import NodeChanges
from headwater.inspect.snapshot import StoredOpening, store_opening
from headwater.inspect.sockets import socket_registry
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.inspection_port import GraphForm, InspectedSpace
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.values.address import address_text

_END_S: Final = 0.5
"""Seconds that closing waits for a thread that holds the lock."""


class OpeningInspection:
    """One opening. A space in memory has no socket."""

    def __init__(self, space: InspectedSpace, lease: Lease, options: Options, replica: AttachedReplica) -> None:
        self.space = space
        self._replica = replica
        self.app = str(getattr(space.owner, "name", ""))
        self.branch = options.branch
        # The monotonic clock of the scheduler, in milliseconds.
        self.now = options.now
        self.wall = options.wall
        # Called after the lock was released.
        self.after: Callable[[], None] = _nothing
        self._lock = space.lock
        self._lease = lease
        self.changes: NodeChanges | None = None
        """Since the first question of a Studio; None: there was none."""
        self.is_in_memory = lease.path is None
        self.file = lease.path or ""
        self._is_complete = True
        self._last_state: StoredOpening | None = None
        self._names: dict[str, str] = {}
        self._closers: list[Callable[[], None]] = []
        if lease.path is not None:
            self._closers.append(socket_registry().enter(self, lease.path))
        # Of a space of a server, which asks for its owners.
        self._end_looks = relayed_looks.join(lease.storage, self)

    @contextmanager
    def locked(self, wait_s: float) -> Iterator[bool]:
        """Take the lock of the scheduler, or continue without it after `wait_s`. Yields whether it is held."""
        has_lock = self._lock.acquire(timeout=wait_s)
        try:
            yield has_lock
        finally:
            if has_lock:
                self._lock.release()
                self.after()

    def refresh(self) -> None:
        """Integrate commits of other sessions. The caller holds the lock."""
        self._replica.refresh()

    def name_of(self, address: str) -> str:
        """The node that writes a document with a generated name; the address itself if there is none."""
        if address not in self._names:
            nodes = list(self.space.scheduler.registry.nodes)
            self._names = {address_text(node.outputs[0], ()): node.name for node in nodes if node.name.endswith(")")}
        return self._names.setdefault(address, address)

    @property
    def storage(self) -> Storage:
        """The store in this process."""
        return storage_of(self._lease)

    @property
    def is_local(self) -> bool:
        """The space is in a file or in memory, not at a server."""
        return self._lease.storage.connection().state == "local"

    def drawn(self, form: GraphForm) -> str:
        """The graph as it is now."""
        return drawn(self, form)

    def abandon(self) -> None:
        """The opening has failed: its state is not stored."""
        self._is_complete = False

    def close(self) -> None:
        """Refuse further questions, and read the last state. Idempotent."""
        if self._end_looks is not None:
            self._end_looks()
        if self._closers:
            self._closers.pop()()
            with self.locked(_END_S) as has_lock:
                self._last_state = last_state(self) if has_lock and self._is_complete else None

    def keep(self) -> None:
        """Store the last state, before the file is released. Waits for the disk."""
        state, self._last_state = self._last_state, None
        if state is not None:
            store_opening(self.storage, state)

    def end(self) -> None:
        """Close at the end of a program that did not."""
        self.close()
        self.keep()


def _nothing() -> None:
    """Nothing follows."""


def inspection_of(space: InspectedSpace) -> OpeningInspection:
    """The inspection of an open space."""
    found = space.inspection
    assert isinstance(found, OpeningInspection)
    return found
