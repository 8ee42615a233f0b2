"""Observations of earlier openings: which are stored, and what has changed since.

Changes are found as the live index finds them, by their effect on what was read, on any branch and by any session. If
the log does not reach back far enough, nothing can be proven, and the computation runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from headwater.store.backend import ObservationRow
from headwater.store.commit import DeleteDoc
from headwater.store.document import apply_operation
from headwater.store.engine import Engine
from headwater.store.observations import SeenRead, decode_observation, newest
from headwater.values.address import Depth, overlaps
from headwater.values.ids import NEVER, BranchId, DocKey, Seq
from headwater.values.overlap import touches
from headwater.values.tree import ABSENT, Path

FEW: Final = 500
"""Rows for which documents are looked at one by one. For more, all documents of the space at once are less."""


@dataclass(slots=True)
class Listing:
    """One look at a branch: its observations, and how new each of its documents is."""

    branch: BranchId
    # As of this place of the log.
    seq: Seq
    rows: dict[DocKey, ObservationRow]
    # The newest place of each document, and whether it is there. Of those inherited in an older state: not known.
    heads: dict[DocKey, tuple[Seq, bool] | None]
    # Whose rows stand on a branch that this one was made from.
    inherited: frozenset[DocKey] = frozenset()

    def is_newer(self, doc: DocKey, than: Seq) -> bool:
        """Whether it may have been written since."""
        if doc not in self.heads:
            return False
        place = self.heads[doc]
        return place is None or place[0] > than

    def exists(self, doc: DocKey) -> bool:
        """Whether there is such a document."""
        place = self.heads.get(doc, (NEVER, False))
        return place is None or place[1]


def listing(engine: Engine, branch: BranchId, prefix: str = "", besides: Iterable[DocKey] = ()) -> Listing:
    """All that is kept of the runs on a branch, whose results stand in documents of this prefix.

    `besides` names what these runs wrote besides: of whatever is not named, how new it is may not be known.

    A branch starts with what its parent knew when it was made, as far as that is still kept as it was then.

    Writes nothing: what the log holds beyond the last fold is looked at in memory.
    """
    documents = engine.documents
    rows: dict[DocKey, ObservationRow] = {}
    inherited: set[DocKey] = set()
    views: list[tuple[BranchId, Seq]] = []
    through = engine.head
    row = documents.branch(branch)
    while True:
        views.append((row.name, through))
        kept = {doc: each for doc, each in _observations(engine, row.name, prefix).items() if each.seq <= through}
        # What is nearer hides what is inherited.
        if row.name != branch:
            inherited |= kept.keys() - rows.keys()
        rows = kept | rows if rows else kept
        if row.parent is None:
            break
        through = min(through, row.fork_seq)
        row = documents.branch(row.parent)
    found = Listing(branch, engine.head, rows, {}, frozenset(inherited))
    if len(rows) > FEW:
        found.heads = _all_heads(engine, views)
    else:
        # In a space with many documents, of which few are read.
        for each in rows.values():
            found.heads.update(heads_of(engine, found, each, (each.doc,)).heads)
        if rows:
            found.heads.update((doc, _head_of(engine, branch, doc)) for doc in besides)
    return found


def observation_of(engine: Engine, branch: BranchId, doc: DocKey) -> ObservationRow | None:
    """The newest that is kept of one computation on a branch itself."""
    return _observations(engine, branch, doc).get(doc)


def _observations(engine: Engine, branch: BranchId, prefix: str) -> dict[DocKey, ObservationRow]:
    """The newest of each computation on a branch: in the caches, or in the part of the log that is not folded."""
    backend = engine.backend
    found = {row.doc: row for row in backend.observations(branch, prefix)}
    for (on, doc), (seq, row) in newest(engine.documents.tail.entries, backend.observation).items():
        if on != branch or not doc.startswith(prefix):
            continue
        known = found.get(doc)
        # As a fold would: a note of the same place, or a later one, came after the commit.
        if known is not None and known.seq >= seq:
            continue
        if row is not None:
            found[doc] = row
        else:
            found.pop(doc, None)
    return found


def _all_heads(engine: Engine, views: Iterable[tuple[BranchId, Seq]]) -> dict[DocKey, tuple[Seq, bool] | None]:
    """Of a branch and those it inherits from, each as far as it does."""
    heads: dict[DocKey, tuple[Seq, bool] | None] = {}
    for name, through in views:
        newest_of = {doc: (seq, live) for doc, seq, live in engine.backend.head_seqs(name)}
        for doc, revisions in engine.documents.tail.by_document().get(name, {}).items():
            newest_of[doc] = (revisions[-1].seq, type(revisions[-1].operations[-1]) is not DeleteDoc)
        found = {doc: head if head[0] <= through else None for doc, head in newest_of.items()}
        heads = found | heads if heads else found
    return heads


def heads_of(engine: Engine, listed: Listing, row: ObservationRow, outputs: Sequence[DocKey]) -> Listing:
    """One row, with how new everything is now that it names."""
    observation = decode_observation(row.body)
    docs = {read[0] if isinstance(read, tuple) else read for read in observation.reads} if observation else set()
    found = heads(engine, listed.branch, (*docs, *outputs))
    return Listing(listed.branch, engine.head, {row.doc: row}, found, listed.inherited)


def heads(engine: Engine, branch: BranchId, docs: Iterable[DocKey]) -> dict[DocKey, tuple[Seq, bool] | None]:
    """How new each of these is now."""
    return {doc: _head_of(engine, branch, doc) for doc in docs}


def _head_of(engine: Engine, branch: BranchId, doc: DocKey) -> tuple[Seq, bool]:
    documents = engine.documents
    through = engine.head
    row = documents.branch(branch)
    while True:
        for revision in reversed(documents.tail.revisions(row.name, doc)):
            if revision.seq <= through:
                return revision.seq, type(revision.operations[-1]) is not DeleteDoc
        head = engine.backend.head(row.name, doc)
        if head is not None:
            found = documents.at(row.name, doc, through) if head.seq > through else None
            return (head.seq, head.live) if found is None else (found.seq, found.value is not ABSENT)
        if row.parent is None:
            return NEVER, False
        through = min(through, row.fork_seq)
        row = documents.branch(row.parent)


def overlapping_writes(
    engine: Engine, branch: BranchId, doc: DocKey, reads: Sequence[tuple[Path, Depth]], after: Seq
) -> list[Seq] | None:
    """Commits after a place of the log that changed one of the places read; None if the log does not reach back."""
    documents = engine.documents
    if after < documents.horizon.seq:
        return None
    found: list[Seq] = []
    before = documents.at(branch, doc, after).value
    for revision in reversed(list(documents.revisions(branch, doc, after, engine.head))):
        now = before
        for operation in revision.operations:
            now, _ = apply_operation(now, operation)
        if now is not before and any(touches(path, depth, before, now) for path, depth in reads):
            found.append(revision.seq)
        before = now
    return found


def readers_of(engine: Engine, branch: BranchId, doc: DocKey, path: Path) -> list[DocKey]:
    """The results of those that have read at, above or below a place; of one whose shape was read, at or above."""
    found: list[DocKey] = []
    for row in listing(engine, branch).rows.values():
        observation = decode_observation(row.body)
        if observation is not None and any(_reads(read, doc, path) for read in observation.reads):
            found.append(row.doc)
    return found


def _reads(read: SeenRead, doc: DocKey, path: Path) -> bool:
    if not isinstance(read, tuple):
        return read == doc
    at, place, shallow = read
    # Of a shape, what is one step further down is a part.
    near = len(path) <= len(place) + 1 or not shallow
    return at == doc and near and overlaps(place, path)


def drop_unclaimed(engine: Engine, branch: BranchId, gone: Iterable[DocKey]) -> int:
    """Forget what is kept of computations that are no more. Returns how many there were."""
    listed = [(branch, doc) for doc in gone]
    if listed:
        # First of all: what the log says of them beyond the last fold would be kept by the next.
        engine.fold()
        engine.backend.drop_observations(listed)
    return len(listed)


def drop_stale(engine: Engine) -> int:
    """Forget what can be of no use to anybody: of results that were deleted, or damaged. Returns how many there were.

    What was never written stays: a sink has no result, and a branch inherits those of its parent.
    """
    engine.fold()
    dropped = engine.backend.damaged_observations(drop=True)
    for branch in engine.documents.branches:
        gone = {doc for doc, _, live in engine.backend.head_seqs(branch) if not live}
        rows = engine.backend.observations(branch) if gone else []
        dropped += drop_unclaimed(engine, branch, [row.doc for row in rows if row.doc in gone])
    return dropped


def observations_size(engine: Engine, branch: BranchId, prefix: str = "") -> tuple[int, int]:
    """How many observations there are of runs on a branch, and how many bytes they are."""
    rows = _observations(engine, branch, prefix)
    return len(rows), sum(len(row.body) for row in rows.values())
