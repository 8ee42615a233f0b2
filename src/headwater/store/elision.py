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
from headwater.store.observations import DIGEST_BYTES, digest_of
from headwater.store.sessions import Elided, Session
from headwater.store.state_cache import DocState
from headwater.values.ids import DocKey, Seq


def is_elided(commit: Commit, effects: Iterable[Effect]) -> bool:
    """It is what a run came to, under no condition, and all of it stands there already."""
    return (
        commit.seen is not None
        and not commit.preconditions
        and commit.seen[0] < len(commit.operations)
        and not any(effect.touches for effect in effects)
    )


def operations_digest(commit: Commit) -> bytes:
    """Stands for what a commit asks for."""
    return digest_of(encode_operations(commit.operations))


def elided(commit: Commit, states: Iterable[DocState], head: Seq, *, again: bool) -> Elided:
    """What is remembered of it: it counts as accepted where the newest of its documents was written."""
    whole = frozenset(each.doc for each in commit.operations if type(each) is not PatchDoc)
    return Elided(
        max((state.seq for state in states), default=head) or head, head, whole, operations_digest(commit), again
    )


def newer_basis(
    commit: Commit, place: Seq, look: Callable[[DocKey], DocState], known: Callable[[DocKey], ObservationRow | None]
) -> ObservationRow | None:
    """What is to be kept of the run, if what is kept is of another, or older than what this one has read."""
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
    # Of a digest that says nothing here, nothing is kept: then the next opening runs it.
    return ObservationRow(doc, place, found[0]) if found else None


def seen_through(session: Session, read: PendingRead) -> PendingRead:
    """A read through layers of which one was elided that wrote the whole document: it has seen what stood there then.

    What came before that shows nowhere any more.
    """
    numbers = [
        number
        for number, each in session.elided.items()
        if read.doc in each.whole and any(first <= number <= last for first, last in read.layers)
    ]
    place = session.elided[max(numbers)].head if numbers else read.basis
    return msgspec.structs.replace(read, basis=place) if place > read.basis else read
