"""Where the commits of an open space go: a storage in this process, or a server."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from headwater.errors import HeadwaterError
from headwater.machine import Lock
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.connection import Connection
from headwater.runtime.run_cache import EnginePort, RunCache
from headwater.store.collection_record import CollectionRecord
from headwater.store.commit import TableTransaction
from headwater.store.expiring import ExpiryRound
from headwater.store.retention import Retention, RetentionRound
from headwater.store.space_identity import SpaceIdentity
from headwater.values.ids import BranchId, DocKey


class StoragePort(Protocol):
    """A storage, as an open space sees it."""

    @property
    def name(self) -> str:
        """The name of the space."""
        ...

    @property
    def identity(self) -> SpaceIdentity | None:
        """The id and the lineage of the space; None if the server does not tell them."""
        ...

    @property
    def groups(self) -> int:
        """How many groups of commits were written."""
        ...

    @property
    def run_cache(self) -> RunCache:
        """What is stored of runs."""
        ...

    def attach(self, *, branch: str = ..., wake: Callable[[], None] | None = None) -> AttachedReplica:
        """A new replica. `wake` is called from another thread when there is something to `refresh`."""

    def shows(self, is_derived: Callable[[DocKey], bool]) -> None:
        """Which documents are results of functions: a reader without the right to write keeps these locally."""

    def wait(self, timeout: float | None = None) -> None:
        """Return when everything submitted before is decided."""

    def ending(self, *, in_haste: bool = False) -> None:
        """The opening is about to end: observations for the next opening need not be decided before.

        In haste, after an error: do not wait for a server that is not reached, whatever is lost by that.
        """

    def when_decided(self, then: Callable[[BaseException | None], None]) -> None:
        """Call when everything submitted before is decided, or cannot be. The callback must not block."""

    def let_go(self, branch: BranchId, docs: Collection[DocKey]) -> None:
        """Release documents from memory."""

    def bring(self, docs: Collection[DocKey], done: Callable[[HeadwaterError | None], None], follow: int) -> float:
        """Fetch documents, and at most `follow` that they link to; `done` is called from another thread.

        Returns the seconds to wait.
        """
        ...

    def connection(self) -> Connection:
        """The state of the connection to the server."""

    def on_connection(self, callback: Callable[[Connection], None]) -> Callable[[], None]:
        """Call on every change of the connection, from its thread. Returns a function that unsubscribes."""

    def close(self) -> None:
        """Close it. Idempotent."""


class LocalStorage(StoragePort, EnginePort, Protocol):
    """A storage in this process: its engine can be asked, and table transactions go with its commits."""

    along: dict[str, object]
    """Objects that live as long as the storage, by the name of their owner."""

    def declare(self, record: CollectionRecord, *, branch: str = ...) -> CollectionRecord:
        """Add to the record of a collection, and build its new indexes. Replicas are notified as of any commit."""
        ...

    def has_expiry(self, branch: BranchId) -> bool:
        """Whether documents of some collection expire."""
        ...

    def expire(self, at: ExpiryRound, now_ms: int) -> tuple[int, bool]:
        """Take the next step of a round of expiry. Returns the number of documents, and whether the round has ended."""
        ...

    def needs_retention(self, branch: BranchId, kept: Retention, now_ms: int) -> bool:
        """Whether receipts may be old enough to go, and the last round was a day ago."""
        ...

    def retain(self, at: RetentionRound, kept: Retention, now_ms: int) -> tuple[int, bool]:
        """Take the next step of a round of retention. Returns the number of receipts, and whether it has ended."""
        ...

    def drop_sessions(self, kept: Retention, now_ms: int) -> int:
        """Forget sessions that are too old, besides those that are in use. Returns their number."""
        ...

    def set_property(self, key: str, value: str) -> None:
        """Set a property of the space, unless it is so. Durable when it returns."""

    def submit_tables(self, transaction: TableTransaction) -> None:
        """Queue a table transaction."""

    def serve(self, ended: Lock) -> None:
        """Decide commits until a lock is released."""

    def nudge(self) -> None:
        """Decide what is queued soon."""
