"""Where an open space's commits go, whatever that is: a store in this process, or a server.

Must never know: which of the two it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

from headwater.errors import HeadwaterError
from headwater.machine import Lock
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.connection import Connection
from headwater.runtime.run_cache import RunCache
from headwater.store.commit import TableTransaction
from headwater.store.engine import Engine
from headwater.values.ids import BranchId, DocKey

T = TypeVar("T")


class EnginePort(Protocol):
    """An engine that one thread at a time uses."""

    def call(self, work: Callable[[Engine], T]) -> T:
        """Call a function with the engine, between two groups of commits."""


class StoragePort(Protocol):
    """What an open space asks of it."""

    @property
    def name(self) -> str:
        """The space's."""
        ...

    @property
    def groups(self) -> int:
        """How often something was written to the disk together."""
        ...

    @property
    def run_cache(self) -> RunCache:
        """What is kept of runs."""
        ...

    def attach(self, *, branch: str = ..., wake: Callable[[], None] | None = None) -> AttachedReplica:
        """A new replica. `wake` is called when there is something to `refresh`, by whoever brings it."""

    def shows(self, is_derived: Callable[[DocKey], bool]) -> None:
        """Which documents are what functions here have come to: who may only read is shown these, and keeps them."""

    def wait(self, timeout: float | None = None) -> None:
        """Return when everything submitted before is decided."""

    def ending(self, *, in_haste: bool = False) -> None:
        """The opening is about to end: what is kept for the next needs not be decided before.

        In haste, after an error: who is not reached is not waited for, whatever is lost by that.
        """

    def when_decided(self, then: Callable[[BaseException | None], None]) -> None:
        """Call when everything submitted before is decided, or cannot be; not to be held up."""

    def let_go(self, branch: BranchId, docs: Collection[DocKey]) -> None:
        """Hold documents no longer that nobody is going to ask for soon."""

    def bring(self, docs: Collection[DocKey], done: Callable[[HeadwaterError | None], None]) -> float:
        """Fetch documents, and what they lead to; `done` is told by whoever brings them. Returns how long to wait."""
        ...

    def connection(self) -> Connection:
        """How it stands with the server."""

    def on_connection(self, callback: Callable[[Connection], None]) -> Callable[[], None]:
        """Call when that is otherwise, from a thread of its own. Returns what ends it."""

    def close(self) -> None:
        """Let go of it. Once more is no harm."""


class LocalStorage(StoragePort, EnginePort, Protocol):
    """A storage in this process: its engine can be asked, and table transactions go with its commits."""

    along: dict[str, object]
    """Objects that live as long as the storage, by the name of their owner."""

    def submit_tables(self, transaction: TableTransaction) -> None:
        """Queue a table transaction."""

    def serve(self, ended: Lock) -> None:
        """Decide commits until a lock is released."""

    def nudge(self) -> None:
        """Decide what is queued soon."""
