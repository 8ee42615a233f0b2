"""Two replicas on one small store that decides when it is told to, and transactions on them."""

from __future__ import annotations

from typing import Any

from headwater.cells.transaction import Transaction
from headwater.store.commit import Commit, Operation, PendingRead, Read, Submission
from headwater.values.address import doc_key
from headwater.values.tree import Path
from tests.cells.replica.desk import Desk, see
from tests.support.naive import plain
from tests.support.spaces import put

A, B, C = doc_key("a"), doc_key("b"), doc_key("c")


class Stage(Desk):
    """`here` is where transactions are tried, `there` is somebody else."""

    def __init__(self, **start: object) -> None:
        super().__init__()
        self.error: BaseException | None = None
        self.here, self.there = self.replica("here"), self.replica("there")
        if start:
            self.there.commit([put(name, value) for name, value in start.items()])
            self.settle()
        self.submitted = 0

    def submit(self, submission: Submission) -> None:
        """The door: closed while there is an error to raise."""
        if self.error is not None:
            raise self.error
        super().submit(submission)

    def begin(self, name: str = "", **conditions: Any) -> Transaction:
        return Transaction(self.here, name, **conditions)

    def elsewhere(self, *operations: Operation) -> None:
        """Somebody else commits, the store decides, and nobody has heard of it yet."""
        self.there.commit(operations)
        self.decide()

    def meanwhile(self, *operations: Operation) -> None:
        """Somebody else commits, and it is known here."""
        self.elsewhere(*operations)
        self.tell()

    def last(self) -> Commit:
        """The newest commit that was sent."""
        return self.waiting[-1].name_reads()

    def now(self, name: str) -> Any:
        """What is visible here, as built-in containers."""
        return see(self.here, name)


def reads_of(commit: Commit) -> list[Read | PendingRead]:
    return [*commit.reads, *commit.pending_reads]


def paths_read(commit: Commit) -> list[Path]:
    return [read.path for read in reads_of(commit)]


def seen(tx: Transaction, name: str, *path: str | int) -> Any:
    """What a transaction reads, as built-in containers."""
    return plain(tx.read(doc_key(name), path))
