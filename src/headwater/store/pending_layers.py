"""A read through layers whose fate its session had not been told: whether they are all there is, and what else is.

Must never know: how a conflict is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.store.commit import PatchDoc, PendingRead
from headwater.store.conflict import Write
from headwater.store.sessions import Session
from headwater.store.state_cache import DocState, Recent


def are_all_writes(session: Session, state: DocState, read: PendingRead) -> bool:
    """One layer, or two: are they in the log, and all that was written since what was confirmed? Mostly so."""
    recent, layers, basis = state.recent, read.layers, read.basis
    count = len(layers)
    if count > len(recent) or count > 2 or state.author != session.id or state.others > basis:  # noqa: PLR2004
        return False
    newest = recent[-1].commit.local_seq
    if layers[-1] != (newest, newest):
        return False
    if count > 1:
        older = recent[-2].commit
        if older.session != session.id or layers[0] != (older.local_seq, older.local_seq):
            return False
    return (recent[-count - 1].seq if len(recent) > count else state.floor) <= basis


def layered_writes(later: Iterable[Recent], session: Session, read: PendingRead) -> Iterator[Write]:
    """Writes of a document, newest first, as `first_unseen` wants them: oldest first, named layers with operations.

    What came before a layer that wrote the document whole shows nowhere any more, and is left out.
    """
    told: list[Write] = []
    for recent in later:
        commit = recent.commit
        named = commit.session == session.id and any(a <= commit.local_seq <= b for a, b in read.layers)
        layer = tuple(operation for operation in commit.operations if operation.doc == read.doc) if named else ()
        told.append((recent.seq, recent.touches, layer))
        if layer and type(layer[0]) is not PatchDoc:
            break
    return reversed(told)
