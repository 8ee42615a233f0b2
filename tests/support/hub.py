"""An engine with replicas around it on one thread: nothing happens unless a test says so."""

from __future__ import annotations

from collections import deque
from copy import deepcopy
from typing import Any

from headwater.cells.pending_commit import Failure, PendingCommit
from headwater.cells.replica import Replica
from headwater.errors import HeadwaterError, StoreFullError
from headwater.store.branching import merge
from headwater.store.commit import CommitOutcome, Operation, PendingRead, Precondition, Read, Submission
from headwater.store.document import StoredDocument
from headwater.store.engine import Engine
from headwater.values.address import Depth, doc_key
from headwater.values.ids import MAIN, BranchId, DocKey, Seq, SessionId
from headwater.values.notifications import Change, Notification
from tests.support.naive import NOTHING, exact, plain
from tests.support.spaces import Space


class Hub:
    """Commits wait in a queue until `decide`; outcomes wait in inboxes until `Peer.refresh`."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.queue: deque[Submission] = deque()
        self.peers: list[Peer] = []

    @property
    def engine(self) -> Engine:
        return self.space.engine

    def attach(self, name: str, branch: str = MAIN) -> Peer:
        peer = Peer(self, name, branch)
        self.peers.append(peer)
        return peer

    def decide(self, count: int | None = None) -> None:
        """One group through the engine, and its outcomes to every inbox."""
        group = self._take(count)
        self._deliver(list(self.engine.admit(group)))

    def fail(self, error: HeadwaterError, count: int | None = None) -> None:
        """The disk did not take them."""
        self._deliver([Failure(submission.commit, error) for submission in self._take(count)])

    def interrupt(self, count: int | None = None) -> None:
        """Decided and on disk, but nobody was told: the engine starts anew, and the group is sent again."""
        group = self._take(count)
        self.engine.admit(group)
        self.space.reopen()
        self._deliver(list(self.engine.admit(group)))

    def merge(self, source: str, into: str = MAIN) -> None:
        self._deliver([merge(self.engine, BranchId(source), BranchId(into))])

    def settle(self) -> None:
        """Until nothing is under way."""
        while self.queue:
            self.decide()
        for peer in self.peers:
            peer.refresh()

    def _take(self, count: int | None) -> list[Submission]:
        return [self.queue.popleft() for _ in range(min(len(self.queue), count or len(self.queue)))]

    def _deliver(self, decided: list[CommitOutcome | Failure]) -> None:
        for peer in self.peers:
            peer.inbox += decided


class Peer:
    """A replica, its connection, and everything it ever told."""

    def __init__(self, hub: Hub, name: str, branch: str = MAIN) -> None:
        self._hub = hub
        self.branch = BranchId(branch)
        self.inbox: list[CommitOutcome | Failure] = []
        self.told: list[Notification] = []
        self.settled: list[PendingCommit] = []
        self.submitted: list[Submission] = []
        self.replica = Replica(self, SessionId(name), branch=self.branch, seq=hub.engine.head)
        self.replica.listen(self.told.append)

    # -- what a replica asks of its upstream ---------------------------------------------------------------

    def load(self, doc: DocKey, through: Seq) -> StoredDocument | None:
        return self._hub.engine.documents.at(self.branch, doc, through)

    def submit(self, submission: Submission) -> None:
        self.submitted.append(submission)
        self._hub.queue.append(submission)

    # -- what a test asks of a replica ---------------------------------------------------------------------

    def commit(
        self,
        *operations: Operation,
        reads: list[Read | PendingRead] | None = None,
        given: list[Precondition] | None = None,
        source: object = None,
    ) -> PendingCommit:
        pending = self.replica.commit(operations, reads=reads or [], preconditions=given or [], source=source)
        pending.on_settled(self.settled.append)
        return pending

    def mark(self, name: str, *path: str | int, depth: Depth = Depth.DEEP) -> Read | PendingRead:
        return self.replica.read_mark(doc_key(name), path, depth)

    def read(self, name: str) -> Any:
        return plain(self.replica.read(doc_key(name)))

    def refresh(self) -> None:
        inbox, self.inbox = self.inbox, []
        self.replica.integrate(inbox)

    def changes(self) -> list[tuple[str, str, tuple[str | int, ...], Any, Any]]:
        """What was told since the last call: kind, document, path, before, after."""
        told, self.told[:] = list(self.told), []
        return [
            (n.kind.value, c.doc.removeprefix("space/"), c.path, plain(c.before), plain(c.after))
            for n in told
            for c in n.changes
        ]


class Mirror:
    """Documents kept up to date by notifications alone: what a listener knows."""

    def __init__(self, peer: Peer, names: list[str]) -> None:
        self.documents = {
            doc_key(name): plain(peer._hub.engine.documents.at(peer.branch, doc_key(name), peer.replica.seq).value)
            for name in names
        }
        self.notifications = 0
        peer.replica.listen(self.take)

    def take(self, notification: Notification) -> None:
        self.notifications += 1
        assert notification.changes, "nothing is told of nothing"
        for change in notification.changes:
            self._apply(change)

    def _apply(self, change: Change) -> None:
        before, after = plain(change.before), plain(change.after)
        assert exact(before) != exact(after), f"no change: {change}"
        box = [self.documents.get(change.doc, NOTHING)]
        target: Any = box
        steps: tuple[Any, ...] = (0, *change.path)
        for step in steps[:-1]:
            target = target[step]
        last = steps[-1]
        is_list = isinstance(target, list)
        there = (0 <= last < len(target)) if is_list else last in target
        known = target[last] if there else NOTHING
        assert exact(known) == exact(before), f"it was {known}, not {before}: {change}"
        if change.path and after is NOTHING:
            del target[last]
        elif is_list and not there:
            assert last == len(target), f"a hole: {change}"
            target.append(deepcopy(after))
        else:
            target[last] = deepcopy(after)
        self.documents[change.doc] = box[0]


FULL = StoreFullError("no room")
