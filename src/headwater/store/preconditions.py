"""Preconditions of a commit: whether they hold, by the documents and sessions as of the commits before it."""

from __future__ import annotations

from headwater.errors import PreconditionError
from headwater.store.commit import Absent, Commit, OriginCommitted, Precondition, Refused, ValueIs
from headwater.store.sessions import Session, Sessions
from headwater.store.state_cache import StateCache
from headwater.values.codec import digest
from headwater.values.ids import BranchId
from headwater.values.tree import ABSENT


def first_unmet(commit: Commit, session: Session, states: StateCache, sessions: Sessions) -> Refused | None:
    """The refusal of a commit by its first precondition that does not hold; None if all of them hold."""
    for precondition in commit.preconditions:
        unmet = unmet_by(precondition, commit.branch, session, states, sessions)
        if unmet is not None:
            return unmet
    return None


def unmet_by(
    precondition: Precondition, branch: BranchId, session: Session, states: StateCache, sessions: Sessions
) -> Refused | None:
    """The refusal of a commit whose precondition does not hold."""
    match precondition:
        case Absent(doc):
            if states.get(branch, doc).seq:
                reason = "the document exists already, or was deleted: its id was used before"
                return Refused(reason, doc, precondition, PreconditionError.code)
        case ValueIs(doc, expected):
            value = states.get(branch, doc).value
            if (b"" if value is ABSENT else digest(value)) != expected:
                return Refused("the document holds another value", doc, precondition, PreconditionError.code)
        case OriginCommitted(local_seq):
            if sessions.seq_of(session, local_seq) is None:
                reason = f"commit {local_seq}, which it follows from, was not accepted"
                return Refused(reason, None, precondition, PreconditionError.code)
    return None
