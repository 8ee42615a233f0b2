"""Compaction: drop the log up to a horizon, if asked to, and return free space to the file system."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from hashlib import sha256
from typing import Final

import msgspec

from headwater.errors import CorruptError
from headwater.store.backend import Fold, Horizon, Progress, SnapshotRow
from headwater.store.commit import CommitEntry
from headwater.store.engine import Engine
from headwater.store.expiring import EXPIRY_SESSION
from headwater.store.observations import decode_observation
from headwater.store.resumption import drop_stale
from headwater.values.codec import encode
from headwater.values.ids import NEVER, BranchId, DocKey, Seq
from headwater.values.tree import ABSENT

_PAGE: Final = 512


class Compacted(msgspec.Struct, frozen=True):
    """The result of a compaction. `first` is the earliest sequence number that can still be read."""

    bytes_before: int
    bytes_after: int
    commits_dropped: int
    first: Seq
    observations_dropped: int = 0
    documents_dropped: int = 0


def compact(engine: Engine, before: Seq | None, progress: Progress = lambda _done, _total: None) -> Compacted:
    """Fold, drop commits up to `before` (never past a fork of a branch), and shrink the file.

    Documents that expiry has deleted before are dropped whole: then they were never written. Observations without use
    are dropped, too.
    """
    engine.fold()
    bytes_before = engine.backend.bytes_used()
    forgotten = drop_stale(engine)
    documents = engine.documents
    old = documents.horizon.seq
    dropped = 0
    if before is not None:
        documents.check_available(before, engine.head)
        forks = [row.fork_seq for row in documents.branches.values() if row.parent is not None]
        horizon = Seq(min([before, *forks]))
        if horizon > old:
            dropped = _drop(engine, horizon, progress)
    engine.backend.compact()
    first = documents.horizon.seq
    return Compacted(bytes_before, engine.backend.bytes_used(), first - old, first, forgotten, dropped)


def _drop(engine: Engine, seq: Seq, progress: Progress) -> int:
    """Drop the log up to here, and expired documents. Returns the number of these."""
    row = engine.backend.row(seq)
    if row is None:
        raise CorruptError(f"commit {seq} is missing from the log", seq=seq)
    gone = [(branch, doc) for branch in engine.documents.branches for doc in _expired(engine, branch, seq)]
    skipped = frozenset(gone)
    for branch in engine.documents.branches:
        _snapshot_documents(engine, branch, seq, skipped, progress)
    _forget_reads(engine, {doc for _, doc in gone})
    horizon = Horizon(seq, row.chain, snapshot_digest(engine, seq, skipped))
    engine.backend.drop_log(horizon, gone)
    engine.documents.horizon = horizon
    if gone:
        engine.documents.purged = seq
        engine.states.clear()
    return len(gone)


def _expired(engine: Engine, branch: BranchId, horizon: Seq) -> Iterator[DocKey]:
    """The documents of a branch that expiry or retention deleted, up to the horizon: they may be new again.

    What earlier compactions left was deleted otherwise.
    """
    documents = engine.documents
    after = DocKey("")
    while page := engine.backend.heads(branch, "", after, _PAGE):
        for head in page:
            if not head.live and documents.horizon.seq < head.seq <= horizon:
                entry = documents.entry(head.seq)
                if isinstance(entry, CommitEntry) and entry.session == EXPIRY_SESSION:
                    yield head.doc
        after = page[-1].doc


def _forget_reads(engine: Engine, gone: AbstractSet[DocKey]) -> None:
    """Delete the observations of runs that have read one of these documents: nothing shows that it has changed."""
    for branch in engine.documents.branches if gone else ():
        outdated: list[tuple[BranchId, DocKey]] = []
        for row in engine.backend.observations(branch):
            observation = decode_observation(row.body)
            reads = observation.reads if observation is not None else ()
            if any((read[0] if isinstance(read, tuple) else read) in gone for read in reads):
                outdated.append((branch, row.doc))
        engine.backend.drop_observations(outdated)


def snapshot_digest(engine: Engine, horizon: Seq, gone: AbstractSet[tuple[BranchId, DocKey]] = frozenset()) -> bytes:
    """A digest of all documents as of the horizon, which replace the dropped log, without those that are dropped."""
    digest = sha256()
    for branch in sorted(engine.documents.branches):
        after = DocKey("")
        while page := engine.backend.heads(branch, "", after, _PAGE):
            for head in page:
                is_gone = (branch, head.doc) in gone
                snapshot = None if is_gone else engine.backend.snapshot(branch, head.doc, horizon)
                if snapshot is not None:
                    digest.update(msgspec.msgpack.encode((branch, snapshot.doc, snapshot.seq, snapshot.body)))
            after = page[-1].doc
    return digest.digest()


def _snapshot_documents(
    engine: Engine, branch: BranchId, horizon: Seq, gone: AbstractSet[tuple[BranchId, DocKey]], progress: Progress
) -> None:
    """Write a snapshot of every document of the branch itself, at its newest commit up to the horizon."""
    after = DocKey("")
    done = 0
    while page := engine.backend.heads(branch, "", after, _PAGE):
        fold = Fold(through=engine.documents.folded)
        for head in page:
            if (branch, head.doc) in gone:
                continue
            found = engine.documents.on_branch(branch, head.doc, horizon)
            newest = engine.backend.snapshot(branch, head.doc, horizon)
            if found.seq != NEVER and (newest is None or newest.seq != found.seq):
                body = None if found.value is ABSENT else encode(found.value)
                fold.snapshots.append((branch, SnapshotRow(head.doc, found.seq, body)))
        engine.backend.append((), fold)
        after = page[-1].doc
        done += len(page)
        progress(done, done)
