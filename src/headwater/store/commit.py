"""Commits, preconditions and verdicts, and the entries of the log.

A commit names what it read, so that the store can check whether that is still current, and its preconditions. Its
verdict is a value: Committed, Conflict (run it again on newer data) or Refused (final).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from headwater.errors import HeadwaterError
from headwater.values.address import Depth
from headwater.values.codec import adopt, flatten
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Millis, Seq, SessionId
from headwater.values.patch import Carried, PatchOp, Touches, adopt_patch
from headwater.values.tree import Maybe, Path


class SetDoc(msgspec.Struct, frozen=True, array_like=True, tag="set", gc=False):
    """The whole document, whatever it was; brings a deleted one back."""

    doc: DocKey
    value: Carried


class DeleteDoc(msgspec.Struct, frozen=True, array_like=True, tag="delete", gc=False):
    """Gone, and remembered as gone: a deleted document is absent to readers, present to `Absent`."""

    doc: DocKey


class PatchDoc(msgspec.Struct, frozen=True, array_like=True, tag="patch", gc=False):
    """Edits of one document, all or none."""

    doc: DocKey
    ops: tuple[PatchOp, ...]


Operation: TypeAlias = SetDoc | DeleteDoc | PatchDoc


class Read(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Seen in the confirmed document as of `seq`: no later write may have touched it."""

    doc: DocKey
    path: Path
    seq: Seq
    depth: Depth = Depth.DEEP


class PendingRead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Seen through commits of our own that were not confirmed yet.

    `layers` names every one of them on that document, as ranges of local sequence numbers from first to last.
    Each must have been accepted, and between `basis` and now nobody else may have touched what was seen.
    """

    doc: DocKey
    path: Path
    basis: Seq
    layers: tuple[tuple[LocalSeq, LocalSeq], ...]
    depth: Depth = Depth.DEEP


class Absent(msgspec.Struct, frozen=True, array_like=True, tag="absent", gc=False):
    """The document was never written; one that was deleted does not count as absent."""

    doc: DocKey


class ValueIs(msgspec.Struct, frozen=True, array_like=True, tag="value_is", gc=False):
    """The document holds the value of this digest; no bytes for a document that does not exist."""

    doc: DocKey
    digest: bytes


class OriginCommitted(msgspec.Struct, frozen=True, array_like=True, tag="origin_committed", gc=False):
    """An earlier commit of the same session was accepted."""

    local_seq: LocalSeq


Precondition: TypeAlias = Absent | ValueIs | OriginCommitted

Seen: TypeAlias = tuple[int, bytes]
"""The operation that writes a run's result, by its place; and what the run has read, or the digest of that if it is the
same as the time before."""


class Commit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One unit of work as its session asks for it. (session, local_seq) names it for ever."""

    session: SessionId
    local_seq: LocalSeq
    operations: tuple[Operation, ...] = ()
    reads: tuple[Read, ...] = ()
    pending_reads: tuple[PendingRead, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    branch: BranchId = MAIN
    seen: Seen | None = None
    """If it is what a run came to: by which operation, and what the run has read, for `observations`."""


class NewObservation(msgspec.Struct, frozen=True, gc=False):
    """A run has come to what stands there already: nothing to write, but what it has read is kept, if it is so still.

    `basis` is a commit without operations: what was read, on which branch.
    """

    doc: DocKey
    body: bytes
    basis: Commit


# --- verdicts -------------------------------------------------------------------------------------------------


class Committed(msgspec.Struct, frozen=True, tag="committed", gc=False):
    """In the log, on disk, at this place."""

    seq: Seq


class Conflict(msgspec.Struct, frozen=True, tag="conflict"):
    """Something it read has changed, or it rests on a commit that was rejected. Run it again; it costs no try."""

    reason: str
    doc: DocKey | None = None
    path: Path = ()
    seq: Seq = Seq(0)


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """For good: a precondition does not hold, or a limit stands in the way."""

    reason: str
    doc: DocKey | None = None
    unmet: Precondition | None = None
    """The precondition that does not hold; None if it is something else."""
    code: str = ""
    """Of the error that the refusal is raised as, such as HW102. Empty: from a program that does not send codes."""


Verdict: TypeAlias = Committed | Conflict | Refused


# --- within one process ---------------------------------------------------------------------------------------


class Effect(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What a commit did to one document."""

    doc: DocKey
    before: Maybe
    after: Maybe
    touches: Touches


class Tables(Protocol):
    """The tables that others keep in a space's database."""

    def execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Run one statement; its rows. Raises InvariantError if a constraint does not hold."""

    @property
    def changed(self) -> int:
        """Rows that the last statement changed."""

    @property
    def known(self) -> dict[tuple[str, Any], Any]:
        """What whoever uses the tables remembers of them. Empty whenever something may have been taken back."""


class TableTransaction(Protocol):
    """What is done to other tables of the database in the transaction of a commit, or in one of its own.

    It is called when the commit is about to be accepted, after those before it, and may look at what they did. If it
    raises, nothing of it and of the commit is kept, and the commit is refused.
    """

    def apply(self, tables: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        """Do it; what documents are to be written besides. `look` is for documents as they are now."""

    def decided(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """It is on disk, or was refused, or could not be decided. Called by whoever decides: not to be held up."""


UNNUMBERED: Final = LocalSeq(0)
"""The number of a commit that no session asks for: a rider's own."""


class Submission(msgspec.Struct, eq=False):
    """A commit on its way to the engine, with what it did to the sender's documents.

    The effects are a shortcut, not a claim: the engine takes one only if its own document is the very object the
    effect started from. So trees are made once and shared by the writer, the store and every reader.
    """

    commit: Commit
    effects: tuple[Effect, ...] = ()
    observations: tuple[NewObservation, ...] = ()
    """Of runs before it that had nothing to write."""
    table_transaction: TableTransaction | None = None
    is_resent: bool = False
    """If there is no room for it on the disk, its session sends it again: until then nothing after it is decided."""


class CommitOutcome(msgspec.Struct, frozen=True, gc=False):
    """A decided commit, as every attached replica is told of it, in the order of the log."""

    commit: Commit
    verdict: Verdict
    effects: tuple[Effect, ...] = ()


# --- the log --------------------------------------------------------------------------------------------------


class CommitEntry(msgspec.Struct, frozen=True, array_like=True, tag="c", gc=False):
    """An accepted commit. What it read is not kept: it was true, or the entry would not be here."""

    branch: BranchId
    session: SessionId
    local_seq: LocalSeq
    at: Millis
    operations: tuple[Operation, ...]
    merged: tuple[BranchId, Seq] | None = None
    """Set on a merge: everything of that branch up to that place is now here too."""
    seen: Seen | None = None
    """If it is what a run came to: as in `Commit`."""


class ForkEntry(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """A branch was made: the parent as of `fork_seq`."""

    name: BranchId
    parent: BranchId
    fork_seq: Seq
    at: Millis


Entry: TypeAlias = CommitEntry | ForkEntry

_encoder: Final = msgspec.msgpack.Encoder(enc_hook=flatten)
_decoder: Final[msgspec.msgpack.Decoder[Entry]] = msgspec.msgpack.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """The body of a log row."""
    return _encoder.encode(entry)


def encode_operations(operations: tuple[Operation, ...]) -> bytes:
    """Canonical, so equal exactly when they ask for the same."""
    return _encoder.encode(operations)


def decode_entry(body: bytes) -> Entry:
    """The exact inverse. Raises msgspec.DecodeError or ValidationError on anything else."""
    entry = _decoder.decode(body)
    if isinstance(entry, ForkEntry):
        return entry
    return msgspec.structs.replace(entry, operations=tuple(map(adopt_operation, entry.operations)))


def adopt_operation(operation: Operation) -> Operation:
    """An operation fresh from the decoder, its values taken into the tree: they were checked when it was made."""
    match operation:
        case SetDoc(doc, value):
            return SetDoc(doc, adopt(value))
        case PatchDoc(doc, ops):
            return PatchDoc(doc, tuple(map(adopt_patch, ops)))
        case _:
            return operation
