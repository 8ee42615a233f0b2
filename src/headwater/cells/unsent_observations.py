"""What runs have read that had nothing to write: kept here until a commit takes it along.

Must never know: what was read for.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.store.commit import Commit, NewObservation, PendingRead, Read
from headwater.values.ids import BranchId, DocKey, LocalSeq, SessionId


class UnsentObservations:
    """Those of one replica; the last of each document counts."""

    __slots__ = ("_branch", "_found", "_session")

    def __init__(self, session: SessionId, branch: BranchId) -> None:
        self._session = session
        self._branch = branch
        self._found: dict[DocKey, NewObservation] = {}

    def __bool__(self) -> bool:
        return bool(self._found)

    def put(self, doc: DocKey, body: bytes, reads: Iterable[Read | PendingRead]) -> None:
        """Have it kept with the next commit, if what was read is so still."""
        marks = tuple(reads)
        confirmed = tuple(mark for mark in marks if type(mark) is Read)
        pending = tuple(mark for mark in marks if type(mark) is PendingRead)
        basis = Commit(self._session, LocalSeq(0), (), confirmed, pending, (), self._branch)
        self._found[doc] = NewObservation(doc, body, basis)

    def drop(self, doc: DocKey) -> None:
        """Of whom nothing is to be kept."""
        self._found.pop(doc, None)

    def take(self) -> tuple[NewObservation, ...]:
        """All that no commit has taken along."""
        notes, self._found = tuple(self._found.values()), {}
        return notes
