"""Verdicts, commits and documents, as a client session delivers them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from headwater.cells.pending_commit import Failure, Pulled
from headwater.store.commit import Commit, CommitOutcome, Committed, Operation, Seen
from headwater.store.document import StoredDocument
from headwater.sync import frames
from headwater.values.ids import NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT

Item: TypeAlias = CommitOutcome | Failure | Pulled


class Brought(Pulled, frozen=True, gc=False):
    """A document that the next commit creates, and that was not asked for here: it is watched from now on."""


_ABSENT: Final = StoredDocument(ABSENT, NEVER)


def brought(docs: Iterable[DocKey]) -> list[Item]:
    """They do not exist yet."""
    return [Brought(doc, _ABSENT) for doc in docs]


def pulled(docs: Iterable[frames.FoundDoc]) -> list[Item]:
    """Documents as the server has them."""
    return [Pulled(each.doc, StoredDocument(each.content, each.seq)) for each in docs]


def up_to(seq: Seq, branch: BranchId) -> CommitOutcome:
    """Everything is as of this place: what is fetched later has to be, too."""
    return CommitOutcome(Commit(SessionId(""), LocalSeq(0), branch=branch), Committed(seq))


def part_of(
    operations: tuple[Operation, ...], seen: Seen | None, kept: list[bool]
) -> tuple[tuple[Operation, ...], Seen | None]:
    """Some operations of a commit. What a run has read is told of its result, by its place: it stays if that does."""
    if seen is not None:
        seen = (sum(kept[: seen[0]]), seen[1]) if kept[seen[0]] else None
    return tuple(operation for operation, is_kept in zip(operations, kept, strict=True) if is_kept), seen


def own_of(items: Iterable[Item], session: SessionId) -> list[CommitOutcome | Failure]:
    """What became of the commits of a session."""
    return [each for each in items if not isinstance(each, Pulled) and each.commit.session == session]


def in_order(items: list[Item], session: SessionId) -> list[Item]:
    """As in the log. After a lost connection a later commit may be told of first, and an earlier one when asked."""
    places: dict[LocalSeq, Seq] = {}
    place = NEVER
    for each in sorted(own_of(items, session), key=lambda each: each.commit.local_seq):
        if isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed):
            place = each.verdict.seq
        # What was rejected has no place: it comes right after the one before it.
        places[each.commit.local_seq] = place

    def key(item: Item) -> tuple[Seq, LocalSeq]:
        if isinstance(item, Pulled):
            # As of a place where everything that was missed is in them: what came before is told to no avail.
            return NEVER, LocalSeq(0 if isinstance(item, Brought) else 1)
        if item.commit.session == session:
            # Also a rejected one comes after all documents.
            return max(places[item.commit.local_seq], Seq(1)), item.commit.local_seq
        assert isinstance(item, CommitOutcome) and isinstance(item.verdict, Committed)
        return item.verdict.seq, LocalSeq(0)

    return sorted(items, key=key)
