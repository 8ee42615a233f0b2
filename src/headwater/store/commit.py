"""Commits, preconditions and verdicts, and the entries of the log.

A commit names what it read, so that the store can check whether that is still current, and its preconditions. Its
verdict is a value: Committed, Conflict (run it again on newer data) or Refused (final).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol, TypeAlias

import msgspec

from headwater.errors import HeadwaterError
from headwater.store.collection_record import Shift
from headwater.store.collection_rules import Access
from headwater.values.address import Depth
from headwater.values.codec import adopt, flatten
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Millis, Seq, SessionId
from headwater.values.patch import Carried, PatchOp, Touches, adopt_patch
from headwater.values.tree import Maybe, Path


class SetDoc(msgspec.Struct, frozen=True, array_like=True, tag="set", gc=False):
    """Set the whole document; restores a deleted one."""

    doc: DocKey
    value: Carried


class DeleteDoc(msgspec.Struct, frozen=True, array_like=True, tag="delete", gc=False):
    """Delete the document. It then reads as absent, but does not meet the precondition `Absent`."""

    doc: DocKey


class PatchDoc(msgspec.Struct, frozen=True, array_like=True, tag="patch", gc=False):
    """Edit one document, all operations or none."""

    doc: DocKey
    ops: tuple[PatchOp, ...]


Operation: TypeAlias = SetDoc | DeleteDoc | PatchDoc


class Read(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A read of the confirmed document as of `seq`: no later write may have touched it."""

    doc: DocKey
    path: Path
    seq: Seq
    depth: Depth = Depth.DEEP


class PendingRead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A read through pending commits of the same session.

    `layers` names all of them on that document, as ranges of local sequence numbers from first to last. Each must have
    been accepted, and no other session may have touched the read since `basis`.
    """

    doc: DocKey
    path: Path
    basis: Seq
    layers: tuple[tuple[LocalSeq, LocalSeq], ...]
    depth: Depth = Depth.DEEP


class SpanRead(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A read of the keys `lo <= key < hi` of an index, as of confirmed commit `seq` with `layers` on top.

    `layers` are pending commits of the same session that had a key in the span, as ranges from first to last: each must
    have been accepted. `layered` are the documents through which they had it: a layer on another document than it was
    made on may have another key. `fields` are those that were read of every document in the span.
    """

    index: str
    lo: bytes
    hi: bytes
    seq: Seq
    fields: tuple[str, ...] = ()
    layers: tuple[tuple[LocalSeq, LocalSeq], ...] = ()
    layered: tuple[DocKey, ...] = ()


class Absent(msgspec.Struct, frozen=True, array_like=True, tag="absent", gc=False):
    """The document was never written; a deleted one does not count as absent."""

    doc: DocKey


class ValueIs(msgspec.Struct, frozen=True, array_like=True, tag="value_is", gc=False):
    """The value of the document has this digest; no bytes for a document that does not exist."""

    doc: DocKey
    digest: bytes


class OriginCommitted(msgspec.Struct, frozen=True, array_like=True, tag="origin_committed", gc=False):
    """An earlier commit of the same session was accepted."""

    local_seq: LocalSeq


Precondition: TypeAlias = Absent | ValueIs | OriginCommitted

Seen: TypeAlias = tuple[int, bytes]
"""The index of the operation that writes a run's result; and the encoded observation of the run, or its digest if the
observation is the same as the one before."""


class Commit(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One unit of work, as submitted by its session. (session, local_seq) identifies it permanently."""

    session: SessionId
    local_seq: LocalSeq
    operations: tuple[Operation, ...] = ()
    reads: tuple[Read, ...] = ()
    pending_reads: tuple[PendingRead, ...] = ()
    preconditions: tuple[Precondition, ...] = ()
    branch: BranchId = MAIN
    seen: Seen | None = None
    """For the result of a run: its operation and its observation, for `observations`."""
    spans: tuple[SpanRead, ...] = ()


class NewObservation(msgspec.Struct, frozen=True, gc=False):
    """The observation of a run without writes. It is stored if its reads are still current.

    `basis` is a commit without operations: the reads and the branch.
    """

    doc: DocKey
    body: bytes
    basis: Commit


# --- verdicts -------------------------------------------------------------------------------------------------


class Committed(msgspec.Struct, frozen=True, tag="committed", gc=False):
    """In the log, on disk, with this sequence number."""

    seq: Seq


class Conflict(msgspec.Struct, frozen=True, tag="conflict"):
    """A read has changed, or the commit depends on a rejected one. It can be run again; this counts as no attempt."""

    reason: str
    doc: DocKey | None = None
    path: Path = ()
    seq: Seq = Seq(0)


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """Final: a precondition does not hold, or a limit is exceeded."""

    reason: str
    doc: DocKey | None = None
    unmet: Precondition | None = None
    """The precondition that does not hold; None for another reason."""
    code: str = ""
    """The code of the error to raise, such as HW102. Empty: from a program that does not send codes."""


Verdict: TypeAlias = Committed | Conflict | Refused


# --- within one process ---------------------------------------------------------------------------------------


class Effect(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The effect of a commit on one document."""

    doc: DocKey
    before: Maybe
    after: Maybe
    touches: Touches


class Tables(Protocol):
    """The tables of other packages in a space's database."""

    def execute(self, query: str, values: Sequence[object] = ()) -> list[tuple[object, ...]]:
        """Run one statement and return its rows. Raises InvariantError if a constraint does not hold."""

    @property
    def changed(self) -> int:
        """The number of rows that the last statement changed."""

    @property
    def known(self) -> dict[tuple[str, Any], Any]:
        """A cache for the users of the tables. Cleared whenever a write may have been rolled back."""


class TableTransaction(Protocol):
    """Writes to other tables of the database, in the transaction of a commit or in one of their own.

    It is called when the commit is about to be accepted, after the commits before it, and may read their results. If it
    raises, its writes and the commit are rolled back, and the commit is refused.
    """

    def apply(self, tables: Tables, look: Callable[[DocKey], Maybe]) -> Sequence[Operation]:
        """Write to the tables. Returns operations on documents to add to the commit. `look` reads current documents."""

    def decided(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """It is durable, or was refused, or could not be decided. Called on the storage thread: must not block.

        After an interruption it may be called again with the same decision.
        """


UNNUMBERED: Final = LocalSeq(0)
"""The number of a commit without a session: that of a table transaction alone."""


class Basis(msgspec.Struct, frozen=True, gc=False):
    """What a replica has integrated when it makes a commit: the log up to `seq`, its own commits up to `local_seq`."""

    seq: Seq
    local_seq: LocalSeq


class Submission(msgspec.Struct, eq=False):
    """A commit for the engine, with its effects on the sender's documents.

    The effects are a shortcut: the engine uses one only if its own document is the identical object that the effect
    started from. So trees are made once and shared by the writer, the store and every reader.
    """

    commit: Commit
    effects: tuple[Effect, ...] = ()
    observations: tuple[NewObservation, ...] = ()
    """Observations of earlier runs without writes."""
    table_transaction: TableTransaction | None = None
    is_resent: bool = False
    """If the disk is full, its session sends it again: until then no later commit of the session is decided."""
    basis: Basis | None = None
    """Set if the reads were compared with the visible documents: the log up to here, with all later commits of the
    session on top. They are then current if nothing else was decided since."""
    access: Access | None = None
    """What its session may do. None: it is of a process that has the file, and may do everything."""

    def name_reads(self) -> Commit:
        """The commit with its reads, which a sender in this process may leave out of `commit` until they are needed."""
        return self.commit


class CommitOutcome(msgspec.Struct, frozen=True, gc=False):
    """A decided commit, as sent to every attached replica in the order of the log."""

    commit: Commit
    verdict: Verdict
    effects: tuple[Effect, ...] = ()
    shifts: Sequence[Shift] = ()
    """What it did to documents of collections."""


# --- the log --------------------------------------------------------------------------------------------------


class CommitEntry(msgspec.Struct, frozen=True, array_like=True, tag="c", gc=False):
    """An accepted commit. Its reads are not stored: they were current, or it would not have been accepted."""

    branch: BranchId
    session: SessionId
    local_seq: LocalSeq
    at: Millis
    operations: tuple[Operation, ...]
    merged: tuple[BranchId, Seq] | None = None
    """Of a merge: the branch, and its newest commit that is included."""
    seen: Seen | None = None
    """For the result of a run, as in `Commit`."""


class ForkEntry(msgspec.Struct, frozen=True, array_like=True, tag="f"):
    """A new branch: the parent as of `fork_seq`."""

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
    """Canonical bytes: equal exactly if the operations are the same."""
    return _encoder.encode(operations)


def decode_entry(body: bytes) -> Entry:
    """The exact inverse. Raises msgspec.DecodeError or ValidationError on anything else."""
    entry = _decoder.decode(body)
    if isinstance(entry, ForkEntry):
        return entry
    return msgspec.structs.replace(entry, operations=tuple(map(adopt_operation, entry.operations)))


def adopt_operation(operation: Operation) -> Operation:
    """A decoded operation with its values converted to tree types. They were checked when it was made."""
    match operation:
        case SetDoc(doc, value):
            return SetDoc(doc, adopt(value))
        case PatchDoc(doc, ops):
            return PatchDoc(doc, tuple(map(adopt_patch, ops)))
        case _:
            return operation
