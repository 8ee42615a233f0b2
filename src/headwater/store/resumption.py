"""Observations of earlier openings: which are stored, and what has changed since.

Changes are found as the live index finds them, by their effect on what was read, on any branch and by any session. If
the log does not reach back far enough, nothing can be proven, and the computation runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from headwater.store.applying import apply_operation
from headwater.store.backend import ObservationRow
from headwater.store.commit import DeleteDoc
from headwater.store.engine import Engine
from headwater.store.observations import FarSeen, SeenRead, decode_observation, newest_observation
from headwater.values.address import Depth, overlaps
from headwater.values.ids import NEVER, BranchId, DocKey, Seq
from headwater.values.overlap import touches
from headwater.values.tree import ABSENT, Path

FarRow: TypeAlias = tuple[DocKey, Sequence[tuple[Path, Depth]], Seq]
"""Places of a document, and the sequence number as of which they were read."""

FEW: Final = 500
"""Up to so many rows, documents may be looked up one by one. For more, one scan of all documents is cheaper."""

_WHOLE: Final[Sequence[tuple[Path, Depth]]] = (((), Depth.DEEP),)

HEADS_EACH: Final = 8
"""A space with at most so many documents for each row is listed: a row names two or more, and each of these takes one
to three statements if it is looked up."""


@dataclass(slots=True)
class Listing:
    """The observations of a branch, and the newest commit of each document they name."""

    branch: BranchId
    # As of this commit.
    seq: Seq
    rows: dict[DocKey, ObservationRow]
    # The newest commit of each document, and whether it exists. None: inherited in an older state, so unknown.
    heads: dict[DocKey, tuple[Seq, bool] | None]
    # Documents whose rows are on an ancestor of the branch.
    inherited: frozenset[DocKey] = frozenset()

    def is_newer(self, doc: DocKey, than: Seq) -> bool:
        """Whether it may have been written after a commit."""
        if doc not in self.heads:
            return False
        head = self.heads[doc]
        return head is None or head[0] > than

    def exists(self, doc: DocKey) -> bool:
        """Whether the document exists, or may exist."""
        head = self.heads.get(doc, (NEVER, False))
        return head is None or head[1]


def listing(engine: Engine, branch: BranchId, prefix: str = "", besides: Iterable[DocKey] = ()) -> Listing:
    """The observations of a branch whose results are in documents with this prefix.

    `besides` names other documents that the runs wrote: the heads of unnamed documents may be unknown.

    A branch starts with the observations of its parent as of the fork, if they are still stored unchanged.

    Writes nothing: the tail of the log after the last fold is read from memory.
    """
    documents = engine.documents
    rows: dict[DocKey, ObservationRow] = {}
    inherited: set[DocKey] = set()
    views: list[tuple[BranchId, Seq]] = []
    through = engine.head
    row = documents.branch(branch)
    while True:
        views.append((row.name, through))
        stored = _observations(engine, row.name, prefix)
        if through < engine.head:
            stored = {doc: each for doc, each in stored.items() if each.seq <= through}
        # Own rows hide inherited ones.
        if row.name != branch:
            inherited |= stored.keys() - rows.keys()
        rows = stored | rows if rows else stored
        if row.parent is None:
            break
        through = min(through, row.fork_seq)
        row = documents.branch(row.parent)
    found = Listing(branch, engine.head, rows, {}, frozenset(inherited))
    if len(rows) > FEW:
        found.heads = _all_heads(engine, views)
    elif rows and len(views) == 1 and (known := _listed_heads(engine, branch, HEADS_EACH * len(rows))) is not None:
        found.heads = known
    else:
        # Few rows in a space with many documents.
        for each in rows.values():
            found.heads.update(heads_of(engine, found, each, (each.doc,)).heads)
        if rows:
            found.heads.update((doc, _head_of(engine, branch, doc)) for doc in besides)
    return found


def observation_of(engine: Engine, branch: BranchId, doc: DocKey) -> ObservationRow | None:
    """The newest observation of one computation on the branch itself."""
    return _observations(engine, branch, doc).get(doc)


def _observations(engine: Engine, branch: BranchId, prefix: str) -> dict[DocKey, ObservationRow]:
    """The newest observation of each computation on a branch: from the caches and the unfolded tail."""
    backend = engine.backend
    found = {row.doc: row for row in backend.observations(branch, prefix)}
    tail = engine.documents.tail
    for doc, revisions in tail.by_document().get(branch, {}).items():
        if not doc.startswith(prefix):
            continue
        newest = newest_observation(tail, branch, doc, revisions, backend.observation)
        if newest is None:
            continue
        seq, row = newest
        known = found.get(doc)
        # As in a fold: a row of the same or a later sequence number was written after the commit.
        if known is not None and known.seq >= seq:
            continue
        if row is not None:
            found[doc] = row
        else:
            found.pop(doc, None)
    return found


def _all_heads(engine: Engine, views: Iterable[tuple[BranchId, Seq]]) -> dict[DocKey, tuple[Seq, bool] | None]:
    """The heads of a branch and its ancestors, each up to its fork."""
    heads: dict[DocKey, tuple[Seq, bool] | None] = {}
    for name, through in views:
        found: dict[DocKey, tuple[Seq, bool] | None]
        found = {doc: (seq, live) for doc, seq, live in engine.backend.head_seqs(name)}
        found.update(_tail_heads(engine, name))
        if through < engine.head:
            found = {doc: head if head is not None and head[0] <= through else None for doc, head in found.items()}
        heads = found | heads if heads else found
    return heads


def _listed_heads(engine: Engine, branch: BranchId, most: int) -> dict[DocKey, tuple[Seq, bool] | None] | None:
    """The heads of a branch without ancestors; None if there are more of them. One statement, and each is checked."""
    # Of all branches, as far as it is counted: a listing of a large space begins with counting it.
    if int(engine.backend.meta("heads") or 0) > most:
        return None
    rows = engine.backend.heads(branch, "", DocKey(""), most + 1)
    found: dict[DocKey, tuple[Seq, bool] | None] = {row.doc: (row.seq, row.live) for row in rows}
    found.update(_tail_heads(engine, branch))
    return None if len(found) > most else found


def _tail_heads(engine: Engine, branch: BranchId) -> dict[DocKey, tuple[Seq, bool]]:
    """The heads of documents that were written after the last fold."""
    return {
        doc: (revisions[-1].seq, type(revisions[-1].operations[-1]) is not DeleteDoc)
        for doc, revisions in engine.documents.tail.by_document().get(branch, {}).items()
    }


def heads_of(engine: Engine, listed: Listing, row: ObservationRow, outputs: Sequence[DocKey]) -> Listing:
    """One row, with the current heads of all documents it names."""
    observation = decode_observation(row.body)
    reads = observation.reads if observation else ()
    docs = dict.fromkeys(read[0] if isinstance(read, tuple) else read for read in reads)
    found = heads(engine, listed.branch, (*docs, *outputs))
    return Listing(listed.branch, engine.head, {row.doc: row}, found, listed.inherited)


def heads(engine: Engine, branch: BranchId, docs: Iterable[DocKey]) -> dict[DocKey, tuple[Seq, bool] | None]:
    """The current heads of these documents."""
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
    """Commits after a sequence number that touched one of the reads; None if the log does not reach back."""
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


def changed_since(engine: Engine, branch: BranchId, rows: Sequence[FarRow]) -> list[list[Path]]:
    """For each row, which of its places were changed after its sequence number, or may have been.

    One question for all functions of a space that have read another one. Most documents were not written since: of
    those, only the heads are read.
    """
    docs = dict.fromkeys(doc for doc, _, _ in rows)
    documents = engine.documents
    row = documents.branch(branch)
    if len(docs) > FEW and row.parent is None:
        known = _all_heads(engine, [(branch, engine.head)])
        newest_of = {doc: known.get(doc, (NEVER, False)) for doc in docs}
    else:
        newest_of = heads(engine, branch, docs)
    found: list[list[Path]] = []
    for doc, places, after in rows:
        head = newest_of[doc]
        if after > engine.head:
            # The log was put back.
            found.append([path for path, _ in places])
        elif head is not None and head[0] <= after:
            # Without a head, it may have been there, and have expired.
            is_known = head[0] or after >= documents.purged
            found.append([] if is_known else [path for path, _ in places])
        else:
            found.append(_changed_places(engine, branch, doc, places, after))
    return found


def _changed_places(
    engine: Engine, branch: BranchId, doc: DocKey, places: Sequence[tuple[Path, Depth]], after: Seq
) -> list[Path]:
    """Those of the places of a document that were changed after a sequence number; all if the log begins later."""
    if len(places) > 1 and overlapping_writes(engine, branch, doc, places, after) == []:
        return []
    found: list[Path] = []
    for place in places:
        writes = overlapping_writes(engine, branch, doc, [place], after)
        if writes is None or writes:
            found.append(place[0])
    return found


def readers_of(engine: Engine, branch: BranchId, doc: DocKey, path: Path) -> list[DocKey]:
    """The results of computations that read an address: at, above or below it; a shallow read, at or above it."""
    found: list[DocKey] = []
    for row in listing(engine, branch).rows.values():
        observation = decode_observation(row.body)
        if observation is not None and any(_reads(read, doc, path) for read in observation.reads):
            found.append(row.doc)
    return found


def _reads(read: SeenRead, doc: DocKey, path: Path) -> bool:
    if not isinstance(read, tuple):
        return read == doc
    at, read_path, shallow = read
    # A shallow read includes the keys, one step below.
    near = len(path) <= len(read_path) + 1 or not shallow
    return at == doc and near and overlaps(read_path, path)


def drop_unclaimed(engine: Engine, branch: BranchId, gone: Iterable[DocKey]) -> int:
    """Delete the observations of removed computations. Returns their number."""
    listed = [(branch, doc) for doc in gone]
    if listed:
        # Fold first: otherwise the next fold would restore them from the tail.
        engine.fold()
        engine.backend.drop_observations(listed)
    return len(listed)


def drop_stale(engine: Engine) -> int:
    """Delete useless observations: damaged ones, and those of deleted results. Returns their number.

    Observations of documents that were never written stay: a sink has no result, and a branch inherits results.
    """
    engine.fold()
    dropped = engine.backend.damaged_observations(drop=True)
    for branch in engine.documents.branches:
        gone = {doc for doc, _, live in engine.backend.head_seqs(branch) if not live}
        rows = engine.backend.observations(branch) if gone else []
        dropped += drop_unclaimed(engine, branch, [row.doc for row in rows if row.doc in gone])
    return dropped


def observations_size(engine: Engine, branch: BranchId, prefix: str = "") -> tuple[int, int]:
    """The number of observations of a branch, and their size in bytes."""
    rows = _observations(engine, branch, prefix)
    return len(rows), sum(len(row.body) for row in rows.values())


def far_rows(seen: FarSeen) -> list[FarRow]:
    """What a stored run has read in another space, by document."""
    if len(seen.reads) == 1 and not isinstance(seen.reads[0], tuple):
        # One whole document: most runs.
        return [(seen.reads[0], _WHOLE, seen.seq)]
    places: dict[DocKey, list[tuple[Path, Depth]]] = {}
    for read in seen.reads:
        doc, path, shallow = read if isinstance(read, tuple) else (read, (), False)
        places.setdefault(doc, []).append((path, Depth.SHALLOW if shallow else Depth.DEEP))
    return [(doc, found, seen.seq) for doc, found in places.items()]
