"""Observations of runs that had nothing to write, until a commit carries them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.cells.pending_commit import layers_named
from headwater.store.commit import Commit, NewObservation, PendingRead, Read, SpanRead
from headwater.values.ids import BranchId, DocKey, LocalSeq, SessionId


class UnsentObservations:
    """Observations of runs that had nothing to write, until a commit carries them; the last one per document."""

    __slots__ = ("_branch", "_session", "found")

    def __init__(self, session: SessionId, branch: BranchId) -> None:
        self._session = session
        self._branch = branch
        # By document. Every commit asks whether there are some.
        self.found: dict[DocKey, NewObservation] = {}

    def put(
        self, doc: DocKey, body: bytes, reads: Iterable[Read | PendingRead], spans: tuple[SpanRead, ...] = ()
    ) -> None:
        """Store an observation with the next commit, if its reads are then still current."""
        marks = tuple(reads)
        confirmed = tuple(mark for mark in marks if type(mark) is Read)
        pending = tuple(mark for mark in marks if type(mark) is PendingRead)
        basis = Commit(self._session, LocalSeq(0), (), confirmed, pending, (), self._branch, None, spans)
        self.found[doc] = NewObservation(doc, body, basis)

    def drop(self, doc: DocKey) -> None:
        """Drop the observation of a document."""
        self.found.pop(doc, None)

    def take(self) -> tuple[NewObservation, ...]:
        """All observations that no commit has carried yet. They are removed here."""
        notes, self.found = tuple(self.found.values()), {}
        return notes

    def take_based_on(self, is_undecided: Callable[[LocalSeq], bool]) -> tuple[NewObservation, ...]:
        """Those of runs that read no undecided commit: the store would reject the others, which stay here."""
        notes, self.found = self.found, {}
        for doc, note in notes.items():
            layers = layers_named(note.basis)
            if any(is_undecided(LocalSeq(each)) for first, last in layers for each in range(first, last + 1)):
                self.found[doc] = note
        return tuple(note for doc, note in notes.items() if doc not in self.found)

    def put_back(self, notes: Iterable[NewObservation]) -> None:
        """The store had no room for these. A later run of the same function has replaced its own."""
        for note in notes:
            self.found.setdefault(note.doc, note)
