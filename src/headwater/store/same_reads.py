"""Whether a read gives the same value now, by comparing values.

The log has the text of a write, and not its effect: a write of an equal value conflicts with an earlier read once it is
no longer in memory. A commit that is rejected for that is repeated. The observation of a run is not, so the values
decide about it.
"""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors import AddressError, LimitError
from headwater.store.applying import apply_operation
from headwater.store.commit import Commit, CommitEntry, PendingRead, Read
from headwater.store.conflict import possible_touches
from headwater.store.decided_commit import Recent
from headwater.store.document import Documents
from headwater.store.elision import seen_through
from headwater.store.sessions import Session
from headwater.store.state_cache import DocState, layered_writes
from headwater.values.ids import BranchId, Seq
from headwater.values.overlap import touches


def is_same_read(documents: Documents, branch: BranchId, state: DocState, read: Read) -> bool:
    """Whether a confirmed read gives the same value in the current state of the document."""
    if read.seq >= state.seq:
        return bool(state.seq) or read.seq >= documents.purged
    if read.seq < documents.horizon.seq:
        return False
    before = documents.at(branch, read.doc, read.seq).value
    return not touches(read.path, read.depth, before, state.value)


def is_same_pending_read(  # noqa: PLR0917  # called in one place
    documents: Documents,
    branch: BranchId,
    state: DocState,
    session: Session,
    read: PendingRead,
    later: Iterable[Recent],
) -> bool:
    """The same for a read through accepted layers of its session. `later`: the writes since its basis, newest first."""
    layered = [number for number in session.elided if any(first <= number <= last for first, last in read.layers)]
    if any(read.doc not in session.elided[number].whole for number in layered):
        # It may have patched the document, and is not in the log.
        return False
    read = seen_through(session, read)
    seen = documents.at(branch, read.doc, read.basis).value
    later = [write for write in later if write.seq > read.basis]
    try:
        for _, _, layer in layered_writes(later, session, read):
            for operation in layer:
                seen, _ = apply_operation(seen, operation)
    except (AddressError, LimitError):
        return False
    return not touches(read.path, read.depth, seen, state.value)


def writes_in_log(
    documents: Documents, branch: BranchId, state: DocState, read: PendingRead, head: Seq
) -> list[Recent]:
    """Writes since the basis of a read, newest first: up to the head from the log, with their sessions."""
    later = [recent for recent in reversed(state.recent) if recent.seq > head]
    for revision in documents.revisions(branch, read.doc, read.basis, head):
        entry = documents.entry(revision.seq)
        assert isinstance(entry, CommitEntry)
        commit = Commit(entry.session, entry.local_seq, revision.operations)
        touched = tuple(touch for operation in revision.operations for touch in possible_touches(operation))
        later.append(Recent(revision.seq, commit, touched))
    return later
