"""Deleting documents that have expired: ordinary deletions, in commits of a session of their own.

Which documents expire is in the record of their collection, so no app is needed. Naive datetimes never expire: which
instant they mean is not known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headwater.errors import RejectedError
from headwater.store.collection_record import CollectionRecord, ExpiryRule, doc_of, user_prefix
from headwater.store.commit import Commit, CommitOutcome, Committed, DeleteDoc, Submission
from headwater.store.engine import Engine
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, SessionId
from headwater.values.sortkey import AFTER, Instant, encode_field, fields_of, following

EXPIRY_SESSION: Final = SessionId("headwater:expiry")
"""The session of these commits, and the actor that histories show."""

EXPIRY_STOPPED: Final = "expiry_stopped"
"""The property that says how far the clock has jumped, while expiry is stopped for that. Otherwise missing or empty."""

EXPIRED_MAX: Final = 500
"""Documents in one commit: other commits wait meanwhile."""

USERS_MAX: Final = 200
"""Users whose documents one step reads: each is a lookup of its own."""

_MICROS: Final = 1000


@dataclass(slots=True)
class ExpiryRound:
    """One round over all collections of a branch, in steps: where the next step begins."""

    branch: BranchId = MAIN
    # Collections that have no more expired documents.
    done: set[str] = field(default_factory=set)
    # In a collection that is each user's own, where the next user is searched.
    start: bytes = b""


def has_expiry(engine: Engine, branch: BranchId = MAIN) -> bool:
    """Whether documents of some collection expire."""
    return any(record.expiry is not None for record in engine.collections.records(branch).values())


def expire(engine: Engine, at: ExpiryRound, now_ms: int) -> tuple[tuple[int, bool], CommitOutcome | None]:
    """Take the next step of a round: delete at most `EXPIRED_MAX` documents, in one commit.

    Returns their number and whether the round has ended, and the outcome for attached replicas.
    """
    found: list[DocKey] = []
    is_over = True
    for kind, record in engine.collections.records(at.branch).items():
        rule = record.expiry
        if kind in at.done or rule is None:
            continue
        if record.scope == "space":
            found = _expired(engine, at.branch, record, rule, b"", now_ms, EXPIRED_MAX)
            is_over = len(found) < EXPIRED_MAX
        else:
            found, at.start, is_over = _of_users(engine, at, record, rule, now_ms)
        if is_over:
            at.done.add(kind)
            at.start = b""
        if found or not is_over:
            # The other collections are next.
            is_over = False
            break
    if not found:
        return (0, is_over), None
    operations = tuple(map(DeleteDoc, found))
    commit = Commit(EXPIRY_SESSION, LocalSeq(engine.head + 1), operations, branch=at.branch)
    [outcome] = engine.admit([Submission(commit)])
    if not isinstance(outcome.verdict, Committed):
        raise RejectedError(f"cannot delete expired documents: {outcome.verdict.reason}")
    return (len(found), is_over), outcome


def _expired(  # noqa: PLR0917  # where and up to when
    engine: Engine,
    branch: BranchId,
    record: CollectionRecord,
    rule: ExpiryRule,
    prefix: bytes,
    now_ms: int,
    limit: int,
) -> list[DocKey]:
    """The documents whose time has come, the earliest first."""
    lo = prefix + _FIRST
    hi = prefix + encode_field(Instant((now_ms - rule.after_ms) * _MICROS)) + AFTER
    if hi <= lo:
        return []
    return [doc_of(record, key) for key in engine.collections.span(branch, rule.index, lo, hi, limit=limit)]


def _of_users(
    engine: Engine, at: ExpiryRound, record: CollectionRecord, rule: ExpiryRule, now_ms: int
) -> tuple[list[DocKey], bytes, bool]:
    """The same, user by user; where the next step begins, and whether that was the last user."""
    found: list[DocKey] = []
    start = at.start
    for _ in range(USERS_MAX):
        [*first] = engine.collections.span(at.branch, rule.index, start, AFTER, limit=1)
        if not first:
            return found, start, True
        prefix = user_prefix(str(fields_of(first[0])[0]))
        left = EXPIRED_MAX - len(found)
        found += _expired(engine, at.branch, record, rule, prefix, now_ms, left)
        if len(found) == EXPIRED_MAX:
            # This user may have more.
            return found, prefix, False
        start = following(prefix)
    return found, start, False


_FIRST: Final = encode_field(Instant(0))[:1]
"""Before all instants: times without a zone, and None, are before it."""
