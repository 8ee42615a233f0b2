"""One opening as other processes see it: while it is open through the local socket, and after it in the file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from headwater.host.storage import Storage, storage_of
from headwater.inspect.live_functions import drawn, last_state
from headwater.inspect.snapshot import StoredOpening, store_opening
from headwater.inspect.sockets import socket_registry
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.inspection_port import GraphForm, InspectedSpace
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.values.address import address_text

_END_S: Final = 0.5
"""How long the end of an opening waits for another thread that has its turn."""


class OpeningInspection:
    """One opening. Its `turn` is the lock of its scheduler. A space in memory has no socket."""

    def __init__(self, space: InspectedSpace, lease: Lease, options: Options, replica: AttachedReplica) -> None:
        self.space = space
        self._replica = replica
        self.app = str(getattr(space.owner, "name", ""))
        self.branch = options.branch
        # The monotonic clock of the scheduler, in milliseconds.
        self.now = options.now
        self.wall = options.wall
        # Called when the lock was released.
        self.after: Callable[[], None] = _nothing
        self._turn = space.lock
        self._lease = lease
        self.is_in_memory = lease.path is None
        self._is_complete = True
        self._last_state: StoredOpening | None = None
        self._names: dict[str, str] = {}
        self._closers: list[Callable[[], None]] = []
        if lease.path is not None:
            self._closers.append(socket_registry().enter(self, lease.path))

    @contextmanager
    def in_turn(self, wait_s: float) -> Iterator[bool]:
        """Take the lock of the scheduler, or go on without it after that long. Says which."""
        has_turn = self._turn.acquire(timeout=wait_s)
        try:
            yield has_turn
        finally:
            if has_turn:
                self._turn.release()
                self.after()

    def refresh(self) -> None:
        """Take in what others have written to the file. The caller has the turn."""
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
        """Answer no more, and read the last state while there is a scheduler. Idempotent."""
        if self._closers:
            self._closers.pop()()
            with self.in_turn(_END_S) as has_turn:
                self._last_state = last_state(self) if has_turn and self._is_complete else None

    def keep(self) -> None:
        """Store the last state, before the file is released. Waits for the disk."""
        state, self._last_state = self._last_state, None
        if state is not None:
            store_opening(self.storage, state)

    def end(self) -> None:
        """The program ends and has not closed it."""
        self.close()
        self.keep()


def _nothing() -> None:
    """Nothing follows."""


def inspection_of(space: InspectedSpace) -> OpeningInspection:
    """The inspection of an open space."""
    found = space.inspection
    assert isinstance(found, OpeningInspection)
    return found
