"""A replica with a lock, and the inbox of outcomes that its own thread integrates."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from contextlib import suppress
from typing import Final, Protocol, TypeAlias

from headwater.cells.pending_commit import Failure, Mark, Pulled
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.machine import machine
from headwater.store.collection_rules import Access
from headwater.store.commit import CommitOutcome, Committed, PendingRead, Read, Submission
from headwater.store.document import StoredDocument
from headwater.values.address import Depth
from headwater.values.ids import BranchId, DocKey, Seq, SessionId
from headwater.values.native import mypyc_attr
from headwater.values.tree import Maybe, Path

Decided: TypeAlias = list[CommitOutcome | Failure]
Delivered: TypeAlias = list[CommitOutcome | Failure | Pulled] | Decided
"""What waits to be taken in. From elsewhere documents may come as they are, too."""


class ReplicaStorage(Protocol):
    """What a replica and its port ask of the storage."""

    def load(self, branch: BranchId, doc: DocKey, through: Seq) -> StoredDocument | None:
        """A document as of a sequence number; None if it does not exist, or will arrive by itself."""

    def load_many(self, branch: BranchId, docs: Sequence[DocKey], through: Seq) -> Mapping[DocKey, StoredDocument]:
        """Documents as of a sequence number, by few lookups for all; none of those that will arrive by themselves."""
        ...

    def span(
        self, branch: BranchId, index: str, lo: bytes, hi: bytes, *, limit: int | None, reverse: bool, through: Seq
    ) -> list[bytes]:
        """The first keys of an index with `lo <= key < hi`, or the last, backwards, as of a sequence number."""
        ...

    def submit(self, submission: Submission, *, helps: bool) -> None:
        """Queue a commit."""

    def wait(self, timeout: float | None = None) -> None:
        """Return when everything submitted before is decided."""

    def detach(self, port: ReplicaPort) -> None:
        """Deliver nothing more to this port."""


FORCED: Final = Access(may_write=True, may_own=True, is_forced=True)
"""What the session of a forced commit may do in a file; a server asks for the right to own the space."""


class OutcomeReceiver(Protocol):
    """A receiver of outcomes."""

    @property
    def sessions(self) -> Collection[SessionId]:
        """The sessions that it commits for."""
        ...

    def deliver(self, decided: Decided) -> None:
        """Called by the deciding thread; must not block."""


class ReplicaPort:
    """A replica's connection to the storage, and the inbox in which its outcomes wait for the replica's thread."""

    def __init__(
        self,
        storage: ReplicaStorage,
        branch: BranchId,
        wake: Callable[[], None] | None,
        sessions: Collection[SessionId] = (),
    ) -> None:
        self._storage = storage
        self.sessions: Collection[SessionId] = sessions
        self._branch = branch
        self._wake = wake
        self.inbox: deque[Delivered] = deque()
        # Values are stored although they do not fit the types of their collection.
        self.forces = False
        # What the commits may do; None: everything, as this process has the file.
        self.access: Access | None = None

    def load(self, doc: DocKey, through: Seq) -> StoredDocument | None:
        """The document as of a sequence number; from the engine's cache if it was not written since."""
        return self._storage.load(self._branch, doc, through)

    def load_many(self, docs: Sequence[DocKey], through: Seq) -> Mapping[DocKey, StoredDocument]:
        """The documents as of the sequence number, by few lookups for all."""
        return self._storage.load_many(self._branch, docs, through)

    def span(self, index: str, lo: bytes, hi: bytes, *, limit: int | None, reverse: bool, through: Seq) -> list[bytes]:
        """The first confirmed keys of an index, or the last, backwards."""
        return self._storage.span(self._branch, index, lo, hi, limit=limit, reverse=reverse, through=through)

    def submit(self, submission: Submission) -> None:
        """Queue a commit. A plain program helps to decide a full group; an event loop is never blocked."""
        access = self.access
        if access is not None:
            # Only owners may force.
            is_forced = self.forces and access.may_own
            submission.access = Access(access.may_write, access.may_own, access.roles, access.actor, is_forced)
        elif self.forces:
            submission.access = FORCED
        self._storage.submit(submission, helps=self._wake is None)

    def deliver(self, decided: Delivered) -> None:
        """Called by the storage's thread."""
        self.inbox.append(decided)
        if self._wake is not None:
            # The event loop is closed, and cannot be woken. The others are notified nevertheless.
            with suppress(Exception):
                self._wake()

    def take(self) -> list[CommitOutcome | Failure | Pulled]:
        """Everything delivered so far, in order."""
        taken: list[CommitOutcome | Failure | Pulled] = []
        while self.inbox:
            taken += self.inbox.popleft()
        return taken


@mypyc_attr(allow_interpreted_subclasses=True)
class AttachedReplica(Replica):
    """A replica whose store is in this process. `refresh` and `sync` take in what was decided since."""

    def __init__(
        self, storage: ReplicaStorage, port: ReplicaPort, session: SessionId, branch: BranchId, seq: Seq
    ) -> None:
        super().__init__(port, session, branch=branch, seq=seq)
        self._storage = storage
        self._port = port
        # A read of a missing document may block until it arrives; not in an event loop.
        self.waits = True
        # Threads that share a replica exclude each other. A listener may commit, so the lock is reentrant.
        self.lock = self._turn = machine().rlock()

    def force(self, forces: bool = True) -> None:  # noqa: FBT001, FBT002  # says what it is
        """From now on, whether to commit values although they do not fit the types of their collection."""
        self._port.forces = forces

    def act_with(self, access: Access) -> None:
        """From now on, what commits may do: they are another user's."""
        self._port.access = access

    def read(self, doc: DocKey) -> Maybe:
        """The document with pending commits applied."""
        with self._turn:
            return super().read(doc)

    def snapshot(self, doc: DocKey) -> Mark:
        """The visible version of a document."""
        record = self._documents.get(doc)
        if record is not None and (mark := record.mark) is not None:
            # Without the lock: a mark is never changed, and another thread that is writing replaces it.
            return mark
        with self._turn:
            return super().snapshot(doc)

    def read_mark(self, doc: DocKey, path: Path, depth: Depth = Depth.DEEP) -> Read | PendingRead:
        """The mark for a commit that is based on what `read` returned."""
        with self._turn:
            return super().read_mark(doc, path, depth)

    def expect_new(self, doc: DocKey) -> None:
        """Whether the document cannot have been written yet."""
        with self._turn:
            super().expect_new(doc)

    def release(self, doc: DocKey) -> None:
        """Release a document from memory."""
        with self._turn:
            super().release(doc)

    @property
    def inbox(self) -> Sized:
        """The outcomes that wait to be taken in."""
        return self._port.inbox

    def has_only_good_news(self) -> bool:
        """Whether nothing is being integrated, and nothing in the inbox was rejected. Called on delivery."""
        if not self._turn.acquire(blocking=False):
            return False
        try:
            return not self.has_bad_news()
        finally:
            self._turn.release()

    def has_bad_news(self) -> bool:
        """Whether something in the inbox was rejected; or is no commit, as after a reconnect."""
        with self._turn:
            # A copy: the deciding thread may append meanwhile.
            waiting = [each for decided in list(self._port.inbox) for each in decided]
            return not all(type(each) is CommitOutcome and type(each.verdict) is Committed for each in waiting)

    def refresh(self) -> None:
        """Take in commits of others, and the verdicts on own commits."""
        with self._turn:
            decided = self._port.take()
            if decided:
                self.integrate(decided)

    def confirm(self) -> None:
        """Take in what was decided first, as far as nothing but the own commits learns of it."""
        inbox = self._port.inbox
        with self._turn:
            while inbox:
                for each in inbox[0]:
                    if not self._is_silent(each):
                        return
                self.integrate(inbox.popleft())

    def _is_silent(self, outcome: CommitOutcome | Failure | Pulled) -> bool:
        """Whether an own commit was accepted, and no code waits for that."""
        if type(outcome) is not CommitOutcome or type(outcome.verdict) is not Committed:
            return False
        commit = outcome.commit
        mine = self._pending.get(commit.local_seq) if commit.session == self._session else None
        if mine is None:
            return False
        tx = mine.source
        if not isinstance(tx, Transaction):
            return not mine.callbacks
        # The only callback of a run is the scheduler's own.
        return not tx.followers and len(tx.callbacks) <= (tx.node is not None)

    def sync(self, timeout: float | None = None) -> None:
        """Return when every commit made so far is decided, and if accepted, on disk."""
        self._storage.wait(timeout)
        self.refresh()

    def poke(self) -> None:
        """Let the thread or event loop of this replica look for due work. Called in any thread."""
        self._port.deliver([])

    def detach(self) -> None:
        """Receive no more outcomes. Submitted commits are still decided."""
        self._storage.detach(self._port)
