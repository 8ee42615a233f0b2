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
    """What it came to. `first` is the earliest place that can still be read at."""

    bytes_before: int
    bytes_after: int
    commits_dropped: int
    first: Seq
    observations_dropped: int = 0


def compact(engine: Engine, before: Seq | None, progress: Progress = lambda _done, _total: None) -> Compacted:
    """Fold, drop commits up to `before` (never past a place where a branch was forked), and shrink the file.

    What is kept of runs goes, where it is of no use any more.
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
    """Stands for all documents as of the horizon: what the log was needed for before it was dropped."""
    digest = sha256()
    for branch in sorted(engine.documents.branches):
        after = DocKey("")
        while page := engine.backend.heads(branch, "", after, _PAGE):
            for head in page:
                kept = engine.backend.snapshot(branch, head.doc, horizon)
                if kept is not None:
                    digest.update(msgspec.msgpack.encode((branch, kept.doc, kept.seq, kept.body)))
            after = page[-1].doc
    return digest.digest()


def _snapshot_documents(engine: Engine, branch: BranchId, horizon: Seq, progress: Progress) -> None:
    """A snapshot of every document the branch itself wrote by then, where it last wrote it."""
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
