"""Why a commit is not accepted as it is: its number was used, a document grows too large, or a read is outdated."""

from __future__ import annotations

from headwater.errors import LimitError, LocalProtocolError, SessionLostError
from headwater.store.commit import (
    Commit,
    CommitEntry,
    Conflict,
    Effect,
    Entry,
    PendingRead,
    Read,
    Refused,
    encode_operations,
)
from headwater.store.state_cache import DocState, StateCache
from headwater.values.address import address_text
from headwater.values.codec import encode
from headwater.values.ids import DocKey, Seq
from headwater.values.tree import ABSENT
from headwater.values.value_limits import DOCUMENT_BYTES_MAX


def number_reused(commit: Commit, seq: Seq) -> LocalProtocolError:
    """The error for a commit with the number of another one."""
    message = (
        f"commit {commit.local_seq} of session {commit.session} was accepted at {seq} with other operations; "
        "a local sequence number names one commit for ever"
    )
    return LocalProtocolError(message, session=commit.session, local_seq=commit.local_seq, seq=seq)


def is_entry_of(entry: Entry, commit: Commit, *, rides: bool) -> bool:
    """Whether the entry has the operations of the commit, by canonical bytes: for `==`, 1 and 1.0 are the same."""
    if not isinstance(entry, CommitEntry) or entry.branch != commit.branch:
        return False
    # Operations of a table transaction come after those of the commit.
    asked = entry.operations[: len(commit.operations)] if rides else entry.operations
    return encode_operations(asked) == encode_operations(commit.operations)


def too_large(states: list[DocState], effects: tuple[Effect, ...], growth: int) -> Refused | None:
    """Measure documents near the limit, because the bound counts every patch as growth. The sizes are stored."""
    measured: list[tuple[DocState, int]] = []
    for state, effect in zip(states, effects, strict=True):
        if state.bound + growth > DOCUMENT_BYTES_MAX:
            exact = 0 if effect.after is ABSENT else len(encode(effect.after))
            if exact > DOCUMENT_BYTES_MAX:
                name = address_text(effect.doc)
                reason = f"{name} would be {exact:,} bytes; a document may have {DOCUMENT_BYTES_MAX:,}"
                return Refused(reason, effect.doc, code=LimitError.code)
            measured.append((state, exact))
    for state, exact in measured:
        state.bound = exact
    return None


def read_conflict(doc: DocKey, read: Read | PendingRead, seq: Seq) -> Conflict:
    """The conflict of a read with a later write."""
    return Conflict(f"{address_text(doc, read.path)} was written at {seq}, after it was read", doc, read.path, seq)


def read_before_purge(commit: Commit, purged: Seq, states: StateCache) -> Conflict | None:
    """The conflict with a read of a document that was never written, or has been dropped with its past since."""
    reads: tuple[Read | PendingRead, ...] = (*commit.reads, *commit.pending_reads)
    for read in reads:
        seq = read.seq if isinstance(read, Read) else read.basis
        if seq < purged and not states.get(commit.branch, read.doc).seq:
            return read_conflict(read.doc, read, purged)
    return None


def from_the_future(doc: DocKey, seq: Seq, head: Seq) -> Refused:
    """The refusal of a read as of a sequence number after the end of the log."""
    reason = f"it says to have read {address_text(doc)} as of commit {seq}, and the log ends with commit {head}"
    return Refused(reason, doc, code=LocalProtocolError.code)


def session_dropped(commit: Commit) -> Refused:
    """The refusal of a commit whose verdict is not known any more."""
    reason = f"commit {commit.local_seq} of its session is older than sessions are kept; open the space again"
    return Refused(reason, code=SessionLostError.code)
