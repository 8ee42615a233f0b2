"""Whether a pending commit has read what another commit has just changed, by the rules of the store."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from headwater.cells.members import Members
from headwater.cells.pending_commit import PendingCommit
from headwater.store.collection_record import Shift
from headwater.store.commit import Effect, PendingRead, Read
from headwater.store.conflict import affects
from headwater.values.ids import DocKey, LocalSeq, Seq
from headwater.values.patch import Touches


def has_read(pending: PendingCommit) -> bool:
    """Whether it has read anything. A commit whose reads are not named yet has."""
    commit = pending.commit
    return bool(pending.unnamed or commit.reads or commit.pending_reads or commit.spans)


def is_overtaken(  # noqa: PLR0917  # what has read, what was changed, and what is known here
    pending: PendingCommit,
    effects: Sequence[Effect],
    touched: Mapping[DocKey, Touches],
    seq: Seq,
    undecided: Mapping[LocalSeq, PendingCommit],
    members: Members | None,
    shifts: Sequence[Shift] = (),
) -> bool:
    """Whether the commit at `seq` of another session, with these effects, has changed what a pending one has read."""
    commit = pending.name_reads()
    if _is_changed(commit.reads, touched, seq) or is_undermined(commit.pending_reads, touched, seq, undecided):
        return True
    return members is not None and bool(commit.spans) and members.are_hit(commit.spans, effects, seq, shifts)


def _is_changed(reads: Iterable[Read], touched: Mapping[DocKey, Touches], seq: Seq) -> bool:
    for read in reads:
        touches = touched.get(read.doc)
        if touches is not None and read.seq < seq and affects(touches, read.path, read.depth):
            return True
    return False


def is_undermined(
    reads: Iterable[PendingRead], touched: Mapping[DocKey, Touches], seq: Seq, undecided: Container[LocalSeq]
) -> bool:
    """The same for reads through layers, if all of these are confirmed.

    While one is pending, its place in the log is not known: it may restore what was read.
    """
    for read in reads:
        touches = touched.get(read.doc)
        if touches is None or read.basis >= seq or not affects(touches, read.path, read.depth):
            continue
        if not any(LocalSeq(each) in undecided for first, last in read.layers for each in range(first, last + 1)):
            return True
    return False
