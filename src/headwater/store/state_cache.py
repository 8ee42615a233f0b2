"""The newest state of documents in use, with their recent writes and authors. A cache: it can be read again."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Final

from headwater.store.backend import Backend, Fold
from headwater.store.commit import Commit, Effect, PatchDoc, PendingRead, Submission
from headwater.store.conflict import EVERYTHING, TouchIndex, Write
from headwater.store.decided_commit import Recent
from headwater.store.document import Documents, StoredDocument
from headwater.store.sessions import NO_SESSION, Session
from headwater.store.store_limits import CACHE_BYTES
from headwater.values.address import Depth
from headwater.values.codec import encode
from headwater.values.ids import NEVER, BranchId, DocKey, Seq, SessionId
from headwater.values.shrink import shrunk
from headwater.values.tree import ABSENT, Maybe, Path

_STATE_BYTES: Final = 600
"""The measured cost of a cached document without its value."""

_BLOWUP: Final = 4
"""Approximate bytes in memory per encoded byte of a value."""


_NEWEST: Final = Seq(2**63 - 1)
_NONE_RECENT: Final[list[Recent]] = []
"""Shared by all documents that were only read, and therefore never appended to."""
_NO_STATES: Final[Mapping[DocKey, DocState]] = {}


_seq_of: Final = attrgetter("seq")


@dataclass(slots=True, eq=False)
class DocState:
    """A document on a branch, as of the newest commit decided."""

    value: Maybe
    # Its newest revision; NEVER if it has none.
    seq: Seq
    # An upper bound of its encoded size: whole writes set it, patches add to it, a measurement corrects it.
    bound: int
    # Encoded size when last measured for a snapshot; 0: not measured since the last whole write.
    size: int
    # Log bytes that a rebuild reads.
    since_bytes: int
    # Writes up to here are only in the log.
    floor: Seq
    # The newest write of another session than `author`, which made all writes since.
    others: Seq
    author: SessionId = NO_SESSION
    # Writes after `floor`, oldest first; the index contains the first `indexed` of them.
    recent: list[Recent] = field(kw_only=True)
    indexed: int = 0
    index: TouchIndex | None = None
    # Set by every use, cleared by the eviction sweep.
    used: bool = True

    def write(self, seq: Seq, commit: Commit, effect: Effect, weight: int) -> None:
        """Apply the effect of a commit."""
        if commit.session != self.author:
            self.others, self.author = self.seq, commit.session
        self.value = effect.after
        self.seq = seq
        if effect.touches is EVERYTHING:
            self.bound = self.since_bytes = weight
            self.size = 0
        else:
            self.bound += weight
            self.since_bytes += weight
        recent = Recent(seq, commit, effect.touches)
        if self.recent:
            self.recent.append(recent)
        else:
            self.recent = [recent]

    def trim(self, through: Seq) -> None:
        """Drop writes up to here: they are in the log."""
        recent = self.recent
        if not recent or recent[-1].seq <= through:
            self.recent = _NONE_RECENT
        else:
            # In place: a fold trims all documents of the one before, and a new list for each would be looked through.
            del recent[: bisect_right(recent, through, key=_seq_of)]
        self.floor = max(self.floor, min(through, self.seq))
        self.index, self.indexed = None, 0

    def newest_touch(self, path: Path, depth: Depth) -> Seq:
        """The newest write since `floor` that touches a read of this path."""
        return self._index_recent().newest(path, depth)

    def _index_recent(self) -> TouchIndex:
        """Most writes are never queried: they are indexed at the first query."""
        index = self.index
        if index is None:
            index = self.index = TouchIndex()
        for recent in self.recent[self.indexed :]:
            index.record(recent.touches, recent.seq)
        self.indexed = len(self.recent)
        return index

    def since(self, seq: Seq) -> list[Recent] | None:
        """Writes after a sequence number, newest first; None if not all of them are here."""
        if seq < self.floor:
            return None
        later = []
        for recent in reversed(self.recent):
            if recent.seq <= seq:
                break
            later.append(recent)
        return later


class StateCache:
    """Document states by branch and key, bounded by an estimate of their memory."""

    def __init__(self, backend: Backend, documents: Documents) -> None:
        self._backend = backend
        self._documents = documents
        self._states: dict[BranchId, dict[DocKey, DocState]] = {}
        self._bytes = 0
        # Commits that are about to be decided. At the first miss, all their new documents are looked up together.
        self.upcoming: Sequence[Submission] = ()
        # The states of the last fold: the next fold drops their writes before it.
        self._folded: list[DocState] = []
        self._folded_through = NEVER

    def get(self, branch: BranchId, doc: DocKey) -> DocState:
        """The state of a document, loaded on demand."""
        states = self._states.get(branch)
        if states is None:
            states = self._states[branch] = {}
        state = states.get(doc)
        if state is None:
            if self.upcoming:
                self._add_new(branch, states)
                state = states.get(doc)
            if state is None:
                state = states[doc] = self._load(branch, doc)
                self._bytes += _STATE_BYTES + _BLOWUP * state.bound
        state.used = True
        return state

    def many(self, branch: BranchId, docs: Sequence[DocKey], through: Seq) -> dict[DocKey, StoredDocument]:
        """Documents as of a sequence number, those that are not here by few lookups. They do not become states.

        Without those that are not available as of then: whether they have changed since is known of each alone.
        """
        states = self._states.get(branch, _NO_STATES)
        found: dict[DocKey, StoredDocument] = {}
        for doc in docs:
            state = states.get(doc)
            if state is not None and state.seq <= through:
                found[doc] = StoredDocument(state.value, state.seq)
        rest = [doc for doc in docs if doc not in found]
        if rest and through >= self._documents.horizon.seq:
            found.update(self._documents.many(branch, rest, through))
        return found

    def _add_new(self, branch: BranchId, states: dict[DocKey, DocState]) -> None:
        """Add those documents that upcoming commits create and that were never written, by one lookup for all."""
        upcoming, self.upcoming = self.upcoming, ()
        new: dict[DocKey, None] = {}
        for submission in upcoming:
            for effect in submission.effects:
                if effect.before is ABSENT and effect.doc not in states and submission.commit.branch == branch:
                    new[effect.doc] = None
        written = self._documents.tail.by_document().values()
        for doc in self._backend.never_written(list(new)):
            if not any(doc in by_doc for by_doc in written):
                states[doc] = DocState(ABSENT, NEVER, 0, 0, 0, NEVER, NEVER, recent=_NONE_RECENT)
                self._bytes += _STATE_BYTES

    def _load(self, branch: BranchId, doc: DocKey) -> DocState:
        row = self._backend.head(branch, doc)
        later = self._documents.tail.revisions(branch, doc)
        is_inherited = self._documents.branch(branch).parent is not None
        if row is None and not later and not is_inherited:
            # Never written: the first read of most results, and of most cells.
            return DocState(ABSENT, NEVER, 0, 0, 0, NEVER, NEVER, recent=_NONE_RECENT)
        found = self._documents.at(branch, doc, _NEWEST)
        size, since = (row.size, row.since) if row is not None and found.seq else (0, 0)
        if (row is None or not found.seq) and found.value is not ABSENT and is_inherited:
            # No row of this branch has its size.
            size = len(encode(found.value))
        weight = sum([revision.weight for revision in later])
        return DocState(
            value=found.value,
            seq=found.seq,
            bound=size + since + weight,
            size=size,
            since_bytes=since + weight,
            floor=found.seq,
            others=found.seq,
            recent=_NONE_RECENT,
        )

    def drop(self, branch: BranchId, doc: DocKey) -> None:
        """Drop an invalid state; it is read again on demand."""
        state = self._states.get(branch, {}).pop(doc, None)
        if state is not None:
            self._bytes -= _STATE_BYTES

    def release(self, branch: BranchId, docs: Iterable[DocKey]) -> None:
        """Drop valid states that are not needed soon."""
        states = self._states.get(branch, {})
        gone = {id(state): doc for doc in docs if (state := states.get(doc)) is not None}
        self._folded = [state for state in self._folded if id(state) not in gone]
        for doc in gone.values():
            state = states.pop(doc)
            self._bytes -= _STATE_BYTES + _BLOWUP * state.bound
        self._states[branch] = shrunk(states)

    @property
    def count(self) -> int:
        """How many documents are here."""
        return sum(map(len, self._states.values()))

    def clear(self) -> None:
        """Drop all states, after a fold: what they hold is on disk."""
        self._states, self._folded, self._bytes = {}, [], 0

    def after_fold(self, fold: Fold) -> None:
        """Snapshots were written: a rebuild starts there. Recent writes stay until the next fold."""
        for state in self._folded:
            state.trim(self._folded_through)
        self._folded, self._folded_through = [], fold.through
        for branch, row in fold.heads:
            # It is here: the fold was made from it.
            state = self._states[branch][row.doc]
            state.size, state.since_bytes = row.size, row.since
            state.bound = min(state.bound, row.size + row.since)
            self._folded.append(state)

    def evict(self) -> None:
        """If the cache is too large, drop the states that were not used since the last sweep."""
        if self._bytes <= CACHE_BYTES:
            return
        self._bytes = 0
        for states in self._states.values():
            for doc in [doc for doc, state in states.items() if not state.used]:
                del states[doc]
            for state in states.values():
                state.used = False
                self._bytes += _STATE_BYTES + _BLOWUP * state.bound
        # If everything was in use, the next sweep drops what was not used since this one.


def are_all_writes(session: Session, state: DocState, read: PendingRead) -> bool:
    """Whether one or two layers are accepted and are all writes since the basis: the commonest pending read."""
    recent, layers, basis = state.recent, read.layers, read.basis
    count = len(layers)
    if count > len(recent) or count > 2 or state.author != session.id or state.others > basis:  # noqa: PLR2004
        return False
    newest = recent[-1].commit.local_seq
    if layers[-1] != (newest, newest):
        return False
    if count > 1:
        older = recent[-2].commit
        if older.session != session.id or layers[0] != (older.local_seq, older.local_seq):
            return False
    return (recent[-count - 1].seq if len(recent) > count else state.floor) <= basis


def ends_with_whole_layer(session: Session, state: DocState, read: PendingRead) -> bool:
    """Whether the newest write is the newest layer and wrote the whole document: no other write was missed."""
    if not state.recent or not read.layers:
        return False
    newest = state.recent[-1].commit
    if newest.session != session.id or newest.local_seq != read.layers[-1][1]:
        return False
    first = next((operation for operation in newest.operations if operation.doc == read.doc), None)
    return first is not None and type(first) is not PatchDoc


def layered_writes(later: Iterable[Recent], session: Session, read: PendingRead) -> Iterator[Write]:
    """Writes of a document as `first_unseen` takes them: oldest first, named layers with their operations.

    Writes before a layer that wrote the whole document have no effect, and are left out.
    """
    writes: list[Write] = []
    for recent in later:
        commit = recent.commit
        named = commit.session == session.id and any(a <= commit.local_seq <= b for a, b in read.layers)
        layer = tuple(operation for operation in commit.operations if operation.doc == read.doc) if named else ()
        writes.append((recent.seq, recent.touches, layer))
        if layer and type(layer[0]) is not PatchDoc:
            break
    return reversed(writes)
