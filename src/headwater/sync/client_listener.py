"""Verdicts, commits and documents, as a client session delivers them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from headwater.cells.pending_commit import Failure, Pulled
from headwater.cells.span_records import KeyQuestion, span_mark
from headwater.errors import HeadwaterError, UnconfirmedError
from headwater.store.collection_record import Shift
from headwater.store.commit import Commit, CommitOutcome, Committed, Operation, Seen
from headwater.store.document import StoredDocument
from headwater.sync import frames
from headwater.values.ids import NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT

Item: TypeAlias = CommitOutcome | Failure | Pulled


class Brought(Pulled, frozen=True, gc=False):
    """A document that the next commit creates and that the client did not request. It is watched from now on."""


_ABSENT: Final = StoredDocument(ABSENT, NEVER)


class SpanArrived(Pulled, frozen=True, gc=False):
    """The keys of a span, as of `answer.seq`; the document is the name that stands for the question.

    An answer with `at` has what has changed since, for a reader that has the keys as of then already.
    """

    asked: frames.WatchSpan
    """The question, with the number of the span."""
    answer: frames.SpanKeys | None
    """None: nothing is known of the span any more."""
    error: HeadwaterError | None = None
    """Why there is no answer."""


def arrived(
    asked: frames.WatchSpan, answer: frames.SpanKeys | None, error: HeadwaterError | None = None
) -> SpanArrived:
    """The answer to a question about a span."""
    return SpanArrived(span_name(asked), _ABSENT, asked, answer, error)


def span_name(asked: frames.WatchSpan) -> DocKey:
    """The name that stands for the answer to a question: the same for all who ask it."""
    return span_mark(KeyQuestion(asked.index, asked.lo, asked.hi, asked.limit, asked.reverse, asked.docs))


def known_part(asked: frames.WatchSpan, answer: frames.SpanKeys) -> tuple[bytes, bytes]:
    """The part of a span that is known and watched from an answer on."""
    if not answer.end:
        return asked.lo, asked.hi
    return (answer.end, asked.hi) if asked.reverse else (asked.lo, answer.end)


def unconfirmed(commit: Commit, space: str, why: HeadwaterError) -> UnconfirmedError:
    """The error of a commit that was sent and has no verdict: the server may have stored it."""
    message = (
        f"commit {commit.local_seq} was sent to the server of space {space!r}, and the session ended before the "
        f"verdict came: it may be stored. The session ended because: {why.message}"
    )
    unknown = UnconfirmedError(message, space=space, commit=commit.local_seq)
    unknown.__cause__ = why
    return unknown


def brought(docs: Iterable[DocKey]) -> list[Item]:
    """Documents that do not exist yet."""
    return [Brought(doc, _ABSENT) for doc in docs]


def pulled(docs: Iterable[frames.FoundDoc]) -> list[Item]:
    """Documents with their content at the server."""
    return [Pulled(each.doc, StoredDocument(each.content, each.seq)) for each in docs]


def documents_of(keys: frames.SpanKeys) -> list[Item]:
    """The documents that came with keys, as of the answer: they are watched from now on."""
    newer = {each.doc: each for each in keys.newer}
    found = [newer.get(each.doc, each) for each in keys.docs]
    return [Brought(each.doc, StoredDocument(each.content, each.seq)) for each in found]


def moved(new: frames.Written, branch: BranchId) -> tuple[Shift, ...]:
    """The moves of keys of a commit. Of which documents they are is in the keys."""
    return (Shift(branch, new.seq, new.session, LocalSeq(0), DocKey(""), new.moves, None),)


def up_to(seq: Seq, branch: BranchId) -> CommitOutcome:
    """An empty commit at this place of the log: later fetches must be at least as new."""
    return CommitOutcome(Commit(SessionId(""), LocalSeq(0), branch=branch), Committed(seq))


def part_of(
    operations: tuple[Operation, ...], seen: Seen | None, kept: list[bool]
) -> tuple[tuple[Operation, ...], Seen | None]:
    """Some operations of a commit. The observation refers to the one with the result, and is kept only with it."""
    if seen is not None:
        seen = (sum(kept[: seen[0]]), seen[1]) if kept[seen[0]] else None
    return tuple(operation for operation, is_kept in zip(operations, kept, strict=True) if is_kept), seen


def own_of(items: Iterable[Item], session: SessionId) -> list[CommitOutcome | Failure]:
    """The outcomes of the commits of a session."""
    return [each for each in items if not isinstance(each, Pulled) and each.commit.session == session]


def count_by_session(items: Iterable[Item], session: SessionId) -> tuple[int, int]:
    """How many are outcomes of the commits of a session, and how many are commits of other sessions."""
    mine = others = 0
    for each in items:
        if not isinstance(each, Pulled):
            by = each.commit.session
            if by == session:
                mine += 1
            elif by:
                others += 1
    return mine, others


def in_order(items: list[Item], session: SessionId) -> list[Item]:
    """Sorted as in the log. After a lost connection, a later commit can arrive before an earlier one."""
    places: dict[LocalSeq, Seq] = {}
    place = NEVER
    for each in sorted(own_of(items, session), key=lambda each: each.commit.local_seq):
        if isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed):
            place = each.verdict.seq
        # A rejected commit has no place in the log: it follows its predecessor.
        places[each.commit.local_seq] = place

    def key(item: Item) -> tuple[Seq, LocalSeq]:
        if isinstance(item, Pulled):
            # A fetched document contains everything that was missed, so it comes before all commits.
            return NEVER, LocalSeq(0 if isinstance(item, Brought) else 1)
        if item.commit.session == session:
            # A rejected commit, too, comes after all documents.
            return max(places[item.commit.local_seq], Seq(1)), item.commit.local_seq
        assert isinstance(item, CommitOutcome) and isinstance(item.verdict, Committed)
        return item.verdict.seq, LocalSeq(0)

    return sorted(items, key=key)
