"""Compaction: drop the log up to a horizon, if asked to, and return free space to the file system."""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from headwater.errors import CorruptError
from headwater.store.backend import Fold, Horizon, Progress, SnapshotRow
from headwater.store.engine import Engine
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


def compact(engine: Engine, before: Seq | None, progress: Progress = lambda _done, _total: None) -> Compacted:
    """Fold, drop commits up to `before` (never past a fork of a branch), and shrink the file.

    Observations without use are dropped, too.
    """
    engine.fold()
    bytes_before = engine.backend.bytes_used()
    forgotten = drop_stale(engine)
    documents = engine.documents
    old = documents.horizon.seq
    if before is not None:
        documents.check_available(before, engine.head)
        forks = [row.fork_seq for row in documents.branches.values() if row.parent is not None]
        horizon = Seq(min([before, *forks]))
        if horizon > old:
            _drop(engine, horizon, progress)
    engine.backend.compact()
    first = documents.horizon.seq
    return Compacted(bytes_before, engine.backend.bytes_used(), first - old, first, forgotten)


def _drop(engine: Engine, seq: Seq, progress: Progress) -> None:
    row = engine.backend.row(seq)
    if row is None:
        raise CorruptError(f"commit {seq} is missing from the log", seq=seq)
    for branch in engine.documents.branches:
        _snapshot_documents(engine, branch, seq, progress)
    horizon = Horizon(seq, row.chain, snapshot_digest(engine, seq))
    engine.backend.drop_log(horizon)
    engine.documents.horizon = horizon


def snapshot_digest(engine: Engine, horizon: Seq) -> bytes:
    """A digest of all documents as of the horizon, which replace the dropped log."""
    digest = sha256()
    for branch in sorted(engine.documents.branches):
        after = DocKey("")
        while page := engine.backend.heads(branch, "", after, _PAGE):
            for head in page:
                snapshot = engine.backend.snapshot(branch, head.doc, horizon)
                if snapshot is not None:
                    digest.update(msgspec.msgpack.encode((branch, snapshot.doc, snapshot.seq, snapshot.body)))
            after = page[-1].doc
    return digest.digest()


def _snapshot_documents(engine: Engine, branch: BranchId, horizon: Seq, progress: Progress) -> None:
    """Write a snapshot of every document of the branch itself, at its newest commit up to the horizon."""
    after = DocKey("")
    done = 0
    while page := engine.backend.heads(branch, "", after, _PAGE):
        fold = Fold(through=engine.documents.folded)
        for head in page:
            found = engine.documents.on_branch(branch, head.doc, horizon)
            newest = engine.backend.snapshot(branch, head.doc, horizon)
            if found.seq != NEVER and (newest is None or newest.seq != found.seq):
                body = None if found.value is ABSENT else encode(found.value)
                fold.snapshots.append((branch, SnapshotRow(head.doc, found.seq, body)))
        engine.backend.append((), fold)
        after = page[-1].doc
        done += len(page)
        progress(done, done)
