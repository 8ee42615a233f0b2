"""A store that decides when the test says so, and a listener that keeps its own copy of what it was told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headwater.cells.pending_commit import Failure
from headwater.cells.replica import Replica
from headwater.errors import HeadwaterError
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.commit import CommitOutcome, Submission
from headwater.store.document import StoredDocument
from headwater.store.engine import Engine
from headwater.testing import SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey, Seq, SessionId
from headwater.values.notifications import Change, Kind, Notification
from tests.support.naive import NOTHING, exact, plain


class Desk:
    """One engine in memory and the replicas around it. Nothing is decided before `decide`, or told before `tell`."""

    def __init__(self) -> None:
        self.engine = Engine(MemoryBackend(), SimClock())
        self.waiting: list[Submission] = []
        self.submitted = 0
        # Documents whose content is not at hand: `load` says None, and `pull` brings them.
        self.remote: set[DocKey] = set()
        self.replicas: list[Replica] = []
        self._untold: list[CommitOutcome | Failure] = []

    def load(self, doc: DocKey, through: Seq) -> StoredDocument | None:
        return None if doc in self.remote else self.engine.documents.at(MAIN, doc, through)

    def submit(self, submission: Submission) -> None:
        self.waiting.append(submission)
        self.submitted += 1

    def replica(self, name: str) -> Replica:
        replica = Replica(self, SessionId(name), seq=self.engine.head)
        self.replicas.append(replica)
        return replica

    def decide(self) -> Sequence[CommitOutcome]:
        """Everything that waits goes through the engine."""
        group, self.waiting = self.waiting, []
        outcomes = self.engine.admit(group)
        self._untold += outcomes
        return outcomes

    def fail(self, error: HeadwaterError) -> None:
        """The oldest that waits cannot be decided."""
        self._untold.append(Failure(self.waiting.pop(0).commit, error))

    def restart(self) -> None:
        """As after an interruption: the log is kept, what was in memory is not, and nobody was told."""
        self.engine = Engine(self.engine.backend, SimClock())
        self._untold = []

    def tell(self) -> None:
        """All replicas hear of everything decided since the last time, as one step."""
        untold, self._untold = self._untold, []
        for replica in self.replicas:
            replica.integrate(untold)

    def settle(self) -> None:
        self.decide()
        self.tell()


class Ear:
    """A listener. `told` holds every notification; `model` is what they come to, starting from nothing."""

    def __init__(self, replica: Replica, **known: object) -> None:
        self.told: list[Notification] = []
        self.model: dict[DocKey, Any] = {doc_key(name): value for name, value in known.items()}
        self.end = replica.listen(self)

    def __call__(self, notification: Notification) -> None:
        self.told.append(notification)
        assert notification.changes, "nothing is told of nothing"
        for change in notification.changes:
            self._replay(change)

    def _replay(self, change: Change) -> None:
        box = [self.model.get(change.doc, NOTHING)]
        holder: Any = box
        path: tuple[Any, ...] = (0, *change.path)
        for step in path[:-1]:
            holder = holder[step]
        last, before, after = path[-1], plain(change.before), plain(change.after)
        there = last in holder if isinstance(holder, dict) else last < len(holder)
        had = holder[last] if there else NOTHING
        assert exact(had) == exact(before), f"told that it was {before}, but it was {had}"
        assert exact(before) != exact(after), f"told of a change that is none: {change}"
        if after is NOTHING and holder is not box:
            assert isinstance(holder, dict), (
                f"an element of a list vanished, and its neighbours were not told: {change}"
            )
            del holder[last]
        elif isinstance(holder, list) and last == len(holder):
            holder.append(after)
        else:
            holder[last] = after
        self.model[change.doc] = box[0]

    def kinds(self) -> list[Kind]:
        return [notification.kind for notification in self.told]

    def heard(self) -> list[tuple[str, tuple[str | int, ...], Any, Any]]:
        """Everything since the last call: kind, path, before, after."""
        told, self.told = self.told, []
        return [
            (notification.kind.value, change.path, plain(change.before), plain(change.after))
            for notification in told
            for change in notification.changes
        ]


def see(replica: Replica, name: str) -> Any:  # of any kind
    """A document as built-in containers, NOTHING if it is not there."""
    return plain(replica.read(doc_key(name)))
