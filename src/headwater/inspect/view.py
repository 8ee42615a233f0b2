"""What others can see of an open space, while it is open and after it was closed.

Spaces in memory have nothing to be seen from outside.

Must never know: who looks, and what is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from headwater.host.storage import Storage, storage_of
from headwater.inspect.live_functions import drawn, last_state
from headwater.inspect.snapshot import StoredOpening, store_opening
from headwater.inspect.sockets import doors
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.inspection_port import GraphForm
from headwater.runtime.lease import Lease
from headwater.runtime.options import Options
from headwater.values.address import address_text

if TYPE_CHECKING:
    from headwater.runtime.space_runtime import BaseSpace

_END_S: Final = 0.5
"""How long the end of an opening waits for another thread that has its turn."""


class Window:
    """Of one opening. `turn` is the lock by which threads take turns with its scheduler."""

    def __init__(self, space: BaseSpace, lease: Lease, options: Options, replica: AttachedReplica) -> None:
        self.space = space
        self._replica = replica
        self.app = str(getattr(space.owner, "name", ""))
        self.branch = options.branch
        # A clock in milliseconds that never goes back: the scheduler's.
        self.now = options.now
        # Called when a turn is over in which nothing was done.
        self.after: Callable[[], None] = _nothing
        self._turn = space.turn
        self._lease = lease
        self.is_in_memory = lease.path is None
        self._whole = True
        self._word: StoredOpening | None = None
        self._names: dict[str, str] = {}
        self._closers: list[Callable[[], None]] = []
        if lease.path is not None:
            self._closers.append(doors().enter(self, lease.path))

    @contextmanager
    def in_turn(self, wait_s: float) -> Iterator[bool]:
        """Look when it is our turn; or without one, after that long. Says which."""
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
        """Of the node that writes a document which is named by nobody; the address itself if there is none."""
        if address not in self._names:
            nodes = list(self.space.scheduler.registry.nodes)
            self._names = {address_text(node.outputs[0], ()): node.name for node in nodes if node.name.endswith(")")}
        return self._names.setdefault(address, address)

    @property
    def storage(self) -> Storage:
        """The store in this process. Only who came by its file looks in."""
        return storage_of(self._lease)

    def drawn(self, form: GraphForm) -> str:
        """The graph as it is now."""
        return drawn(self, form)

    def abandon(self) -> None:
        """It could not be opened to the end: what is seen of it is not worth keeping."""
        self._whole = False

    def close(self) -> None:
        """Nobody looks in any more. What is known is noted while there is a scheduler. Once more is no harm."""
        if self._closers:
            self._closers.pop()()
            with self.in_turn(_END_S) as has_turn:
                self._word = last_state(self) if has_turn and self._whole else None

    def keep(self) -> None:
        """Write it down, before the file is let go. Waits for the disk."""
        word, self._word = self._word, None
        if word is not None:
            store_opening(self.storage, word)

    def end(self) -> None:
        """The program ends and has not closed it."""
        self.close()
        self.keep()


def _nothing() -> None:
    """Nobody minds."""


def view_of(space: BaseSpace) -> Window:
    """The view of an open space."""
    view = space.window
    assert isinstance(view, Window)
    return view
