"""Work on the engine of a storage between two groups of commits: branches, collections, documents to release."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection
from functools import partial
from typing import TypeVar

from headwater.host.without_server import WithoutServer
from headwater.runtime.attached_replica import OutcomeReceiver
from headwater.store import branching
from headwater.store.backend import Progress
from headwater.store.collection_record import CollectionRecord
from headwater.store.collections import Collections
from headwater.store.commit import CommitOutcome
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.expiring import ExpiryRound, expire, has_expiry
from headwater.store.retention import (
    Retention,
    RetentionRound,
    drop_sessions,
    has_old_commits,
    is_retention_due,
    retain,
)
from headwater.values.ids import MAIN, BranchId, DocKey, Seq
from headwater.values.seams import Clock

_T = TypeVar("_T")


class BetweenGroups(WithoutServer):
    """The part of a storage that asks its engine directly."""

    _clock: Clock
    _ports: list[OutcomeReceiver]

    @abstractmethod
    def call(self, work: Callable[[Engine], _T]) -> _T:
        """Use the engine directly, between two groups: for reading, branches and care."""

    @abstractmethod
    def commit(self, work: Callable[[Engine], tuple[_T, CommitOutcome | None]]) -> _T:
        """Use the engine for a commit of the store itself, between two groups. Replicas are notified of it."""

    def let_go(self, branch: BranchId, docs: Collection[DocKey]) -> None:
        """Release documents that will not be read soon."""
        self.call(lambda engine: engine.release(branch, docs))

    def fork(self, name: str, parent: str = MAIN, at: int | None = None) -> Seq:
        """Make a branch."""
        place = None if at is None else Seq(at)
        return self.call(lambda engine: branching.fork(engine, self._clock, name, BranchId(parent), place))

    def merge(self, source: str, into: str = MAIN) -> CommitOutcome:
        """Merge a branch. Replicas of the target are notified as of any commit."""
        return self.commit(lambda engine: (done := branching.merge(engine, BranchId(source), BranchId(into)), done))

    def declare(
        self, record: CollectionRecord, *, branch: str = MAIN, progress: Progress = lambda _done, _total: None
    ) -> CollectionRecord:
        """Add to the record of a collection, and build its new indexes. Returns the record as it is then."""
        return self.commit(lambda engine: declare(engine, record, BranchId(branch), progress))

    def has_expiry(self, branch: BranchId) -> bool:
        """Whether documents of some collection expire."""
        return self.call(lambda engine: has_expiry(engine, branch))

    def expire(self, at: ExpiryRound, now_ms: int) -> tuple[int, bool]:
        """Take the next step of a round of expiry. Returns the number of documents, and whether the round has ended."""
        return self.commit(lambda engine: expire(engine, at, now_ms))

    def needs_retention(self, branch: BranchId, kept: Retention, now_ms: int) -> bool:
        """Whether receipts may be old enough to go, and the last round was a day ago."""
        return self.call(
            lambda engine: is_retention_due(engine, branch, kept, now_ms) and has_old_commits(engine, kept, now_ms)
        )

    def retain(self, at: RetentionRound, kept: Retention, now_ms: int) -> tuple[int, bool]:
        """Take the next step of a round of retention. Returns the number of receipts, and whether it has ended."""
        return self.commit(lambda engine: retain(engine, at, kept, now_ms))

    def drop_sessions(self, kept: Retention, now_ms: int) -> int:
        """Forget sessions that are too old, besides those that are in use. Returns their number."""
        live = {session for receiver in list(self._ports) for session in receiver.sessions}
        return self.call(lambda engine: drop_sessions(engine, kept, live, now_ms))

    def set_property(self, key: str, value: str) -> None:
        """Set a property of the space, unless it is so. Durable when it returns."""

        def work(engine: Engine) -> None:
            if (engine.backend.meta(key) or "") != value:
                engine.backend.set_meta(key, value)

        self.call(work)

    def span(
        self, branch: BranchId, index: str, lo: bytes, hi: bytes, *, limit: int | None, reverse: bool, through: Seq
    ) -> list[bytes]:
        """The first keys of an index with `lo <= key < hi`, or the last, backwards, as of a sequence number."""
        read = partial(Collections.span, limit=limit, reverse=reverse, through=through)
        return self.call(lambda engine: read(engine.collections, branch, index, lo, hi))
