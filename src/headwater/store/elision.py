"""Elision: a commit whose result is already stored, computed from the same reads, is accepted without a log entry.

Several runtimes may run the same function for the same change. The first commit writes the result; the others change
nothing, and their reads are still current. They are answered as accepted, and no other replica is notified. The stored
observation is updated if it is older than the reads of this run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from headwater.store.backend import ObservationRow
from headwater.store.commit import Commit, Effect, PatchDoc, PendingRead, encode_operations
from headwater.store.decided_commit import Elided
from headwater.store.observations import DIGEST_BYTES, digest_of
from headwater.store.sessions import Session
from headwater.store.state_cache import DocState
from headwater.values.ids import DocKey, Seq


def is_elided(commit: Commit, effects: Iterable[Effect]) -> bool:
    """Whether it is the result of a run, without preconditions, and already stored."""
    for effect in effects:
        # First, and without a generator: every commit of a run is asked.
        if effect.touches:
            return False
    return commit.seen is not None and not commit.preconditions and commit.seen[0] < len(commit.operations)


def operations_digest(commit: Commit) -> bytes:
    """A digest of the operations of a commit."""
    return digest_of(encode_operations(commit.operations))


def elided(commit: Commit, states: Iterable[DocState], head: Seq, *, again: bool) -> Elided:
    """The record of an elided commit: it counts as accepted at the newest write of its documents."""
    whole = frozenset(each.doc for each in commit.operations if type(each) is not PatchDoc)
    return Elided(
        max((state.seq for state in states), default=head) or head, head, whole, operations_digest(commit), again
    )


def newer_basis(
    commit: Commit, head: Seq, look: Callable[[DocKey], DocState], known: Callable[[DocKey], ObservationRow | None]
) -> ObservationRow | None:
    """The observation to store, if the stored one is different, or older than the reads of this run."""
    assert commit.seen is not None
    index, body = commit.seen
    doc = commit.operations[index].doc
    mark = body if len(body) == DIGEST_BYTES else digest_of(body)
    docs = {each.doc for each in commit.reads} | {each.doc for each in commit.pending_reads}
    read = max((look(each).seq for each in docs), default=Seq(0))
    found: list[bytes] = [] if body is mark else [body]
    recent = look(doc).recent
    if recent and recent[-1].commit.seen is not None:
        newest = recent[-1].commit
        at, other = recent[-1].commit.seen
        if at < len(newest.operations) and newest.operations[at].doc == doc:
            is_same = (other if len(other) == DIGEST_BYTES else digest_of(other)) == mark
            if is_same and read <= recent[-1].seq:
                return None
            if is_same and len(other) != DIGEST_BYTES:
                found.append(other)
    row = known(doc)
    if row is not None and digest_of(row.body) == mark:
        if read <= row.seq and look(doc).seq <= row.seq:
            return None
        found.append(row.body)
    # For an unknown digest nothing is stored: the next opening then runs the function.
    return ObservationRow(doc, head, found[0]) if found else None


def seen_through(session: Session, read: PendingRead) -> PendingRead:
    """A read through layers, one of which was elided and wrote the whole document: its basis is that moment.

    Earlier writes have no effect on it.
    """
    numbers = [
        number
        for number, each in session.elided.items()
        if read.doc in each.whole and any(first <= number <= last for first, last in read.layers)
    ]
    basis = session.elided[max(numbers)].head if numbers else read.basis
    return msgspec.structs.replace(read, basis=basis) if basis > read.basis else read
