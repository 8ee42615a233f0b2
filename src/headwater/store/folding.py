"""Folding: the rows that the tail of the log adds to the caches (revisions, heads, snapshots, observations)."""

from __future__ import annotations

from collections.abc import Callable

from headwater.store.backend import Fold, HeadRow, ObservationRow, ReplayRow, SnapshotRow
from headwater.store.decided_commit import Revision
from headwater.store.document import Documents
from headwater.store.observations import newest_observation
from headwater.store.state_cache import StateCache
from headwater.store.store_limits import SNAPSHOT_SLACK_BYTES
from headwater.store.tail import Tail
from headwater.values.codec import encode
from headwater.values.ids import BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT


def build_fold(
    documents: Documents,
    states: StateCache,
    head: Seq,
    known: Callable[[BranchId, DocKey], ObservationRow | None],
    others: Seq,
) -> Fold:
    """The rows of the tail for the caches. Call it before anything newer is applied.

    One session made all commits after `others`. The cached states are updated at once; if writing the fold fails, they
    are dropped and read again.
    """
    tail = documents.tail
    fold = Fold(through=head, branches=list(documents.branches.values()), replays=_runs(tail, others))
    for branch, by_doc in tail.by_document().items():
        for doc, revisions in by_doc.items():
            _fold_document(fold, states, branch, doc, revisions)
            found = newest_observation(tail, branch, doc, revisions, known)
            if found is None:
                continue
            seq, row = found
            if row is None:
                fold.unobserved.append((branch, doc, seq))
            else:
                fold.observations.append((branch, row))
    states.after_fold(fold)
    return fold


def _runs(tail: Tail, others: Seq) -> list[ReplayRow]:
    """Accepted commits by session, as runs of consecutive numbers: a session that writes alone takes one row."""
    entries = tail.entries
    if entries and entries[0].seq > others:
        # All of one session, whose numbers rise: without a gap between the ends there is none.
        first, last, steps = entries[0], entries[-1], len(entries) - 1
        start, end = first.entry.local_seq, last.entry.local_seq
        if last.seq - first.seq == end - start == steps:
            return [ReplayRow(first.entry.session, start, end, first.seq)]
    return _runs_of_many(tail)


def _runs_of_many(tail: Tail) -> list[ReplayRow]:
    """The same by going through all of them."""
    rows: list[ReplayRow] = []
    session, first, last, start = SessionId(""), LocalSeq(0), LocalSeq(0), Seq(0)
    for each in tail.entries:
        entry, seq = each.entry, each.seq
        number = entry.local_seq
        if number == last + 1 and entry.session == session and seq - start == number - first:
            last = number
            continue
        if session:
            rows.append(ReplayRow(session, first, last, start))
        session, first, last, start = entry.session, number, number, seq
    if session:
        rows.append(ReplayRow(session, first, last, start))
    return rows


def _fold_document(fold: Fold, states: StateCache, branch: BranchId, doc: DocKey, revisions: list[Revision]) -> None:
    state = states.get(branch, doc)
    seqs = [revisions[0].seq] if len(revisions) == 1 else [revision.seq for revision in revisions]
    fold.revisions.append((branch, doc, seqs))
    size, since = state.size, state.since_bytes
    if since > size + SNAPSHOT_SLACK_BYTES:
        body = None if state.value is ABSENT else encode(state.value)
        size = len(body or b"")
        # With the measured size, rebuilding may read little more than the document itself.
        if since > size + SNAPSHOT_SLACK_BYTES:
            fold.snapshots.append((branch, SnapshotRow(doc, state.seq, body)))
            since = 0
    fold.heads.append((branch, HeadRow(doc, state.seq, state.value is not ABSENT, size, since)))
