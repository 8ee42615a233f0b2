"""A transaction: open, read, write, commit or abort.

A transaction takes its snapshot per document, at the first read: later changes by others do not show up in it, its own
writes do. `commit` applies the writes to the replica, all of them or none, with the versions it read; if one of them
has changed, nothing is written. A transaction ends once, in one of three ways, and calls its callbacks in all three.

Length: reading, writing and ending share every field; separate parts are in `drafts`, `run_result`, `journal`.
"""

from __future__ import annotations

from collections.abc import Callable, KeysView, Sequence
from typing import Final, TypeAlias

from headwater.cells.attribute_table import reserve
from headwater.cells.context import CONTEXT, PEEKING
from headwater.cells.context_frame import ContextFrame, is_within
from headwater.cells.drafts import Draft, Versions, operations_of, overtaken, versions_of
from headwater.cells.ended_memo import NOTHING_REMEMBERED
from headwater.cells.journal import (
    ATTEMPTED_WRITE,
    IGNORED_FOR_CONFLICT,
    IGNORED_FOR_SCHEDULING,
    EditInputs,
    Flags,
    Journal,
)
from headwater.cells.kept_reads import Keeping
from headwater.cells.pending_commit import SHALLOW_BIT, Mark, PendingCommit, call_all
from headwater.cells.replica import Replica
from headwater.cells.span_reads import SpanReads, end_spans
from headwater.cells.transaction_states import SETTLED, TRANSITIONS, Status, TransactionSignal, ended_error
from headwater.errors import HeadwaterError, WriteError
from headwater.store.commit import (
    Committed,
    Conflict,
    Operation,
    Precondition,
    Seen,
    SpanRead,
    TableTransaction,
    Verdict,
)
from headwater.values.address import Depth, address_text, is_prefix
from headwater.values.ids import DocKey, LocalSeq
from headwater.values.patch import Add, Move, PatchOp, Replace
from headwater.values.patching import apply_patch
from headwater.values.tree import ABSENT, Maybe, Path, Value, child, get, same

_DEEP: Final = Depth.DEEP
_OPEN: Final = Status.OPEN
_REJECTED: Final = Status.REJECTED
_ACCEPTED: Final = TransactionSignal.ACCEPTED
_SENT: Final = TransactionSignal.SENT

Savepoint: TypeAlias = tuple[int, dict[DocKey, tuple[Maybe, bool, list[PatchOp]]], int, int]


class Transaction:
    """A group of reads and writes that is committed as a unit. Made by `space.transaction()`."""

    # A transaction is made for every run, and most change none of these: so they are class attributes. `__init__` sets
    # those that every run reads, because a class attribute takes five times as long to read.
    # Addresses at and below which writing is allowed although the transaction is read-only.
    surface: tuple[tuple[DocKey, Path], ...] = ()
    # A function that may only read is called in it: writes then check their context.
    guarded: bool = False
    # The number of documents created, and whether their ids are certainly new: from randomness, or from an event that
    # no other runtime can have handled.
    minted: int = 0
    is_first: bool = False
    # I8: the node of this run, and the addresses whose change triggered it.
    node: object = None
    triggers: tuple[tuple[DocKey, Path], ...] = ()
    # The source of console output during the transaction, if it is neither a node's nor a handler's.
    console_source: object = None
    # I8: the event that is handled in it.
    event: object = None
    # Called before the first read of a document: the handling of an event makes it current, or stops.
    gate: Callable[[DocKey], None] | None = None
    # Of a run: the document of its result, and the observation stored with it for the next opening.
    observes: tuple[DocKey, bytes] | None = None
    # Called functions that have failed, with `Node.failed_at` at the first call; and the number of failures before it.
    called: dict[object, int] | None = None
    failures: int = 0
    # Of a run: reads that it reuses of the run before, or that its next run may reuse.
    keeping: Keeping | None = None
    # It has read something outside its replica, whose changes are not notified.
    reads_outside: bool = False
    # Its reads in other spaces (`far.FarReads`): of a run by the app, of plain code by the opening.
    views: dict[object, Transaction] | None = None
    has_far_spans: bool = False
    # Its reads in indexes of collections.
    spans: SpanReads | None = None
    # Writes to other tables of the database, applied if and only if it is accepted.
    table_transaction: TableTransaction | None = None
    # Called when it is sent: what it has launched may start.
    on_sent: tuple[Callable[[], None], ...] = ()
    # _sent(): the number of its commit in the session.
    local_seq: LocalSeq | None = None
    # Sinks with the same change group are not notified of its writes.
    change_group: str | None = None
    # Something was written, though it may have been rolled back since.
    wrote: bool = False
    # The message of a forbidden write. The run fails even if it has caught the error.
    refused: str = ""
    status: Status = _OPEN
    """The state of the transaction: open, pending, committed, rejected or aborted."""
    # Of a run, while its function runs: if the function ends the transaction itself, the reads go to `ended_with`.
    is_running: bool = False
    ended_with: tuple[Journal, dict[DocKey, Mark]] | None = None
    # Open blocks of `hw.untracked()` in it.
    peeks: int = 0
    # _settle(): exactly one of the two, once, unless it was aborted.
    verdict: Verdict | None = None
    """The decision of the store, once it has been made: `Committed`, or the reason for the rejection."""
    error: HeadwaterError | None = None
    # The journal has entries besides attempted writes and reads of its own writes: the store may have to check some.
    _has_read: bool = False
    _preconditions: tuple[Precondition, ...] = ()
    # From the first savepoint on: the context of each write.
    _writers: list[ContextFrame | None] | None = None
    # Why it must not be committed. Set by roll_back(), checked at the end of the block.
    doomed: str = ""
    callbacks: tuple[Callable[[Transaction], None], ...] = ()
    # Also called at the end, but a follower does not count as a waiting caller: a rejection is still reported.
    followers: tuple[Callable[[Transaction], None], ...] = ()
    # Undo functions of what was started in it, for the part that is rolled back.
    launched: Sequence[Callable[[], None]] = ()

    def __init__(self, replica: Replica, name: str = "", *, read_only: str = "", cause: object = None) -> None:
        self.replica = replica
        self._name = name
        # Why writing is refused, as a sentence with {} for the address; empty: it is allowed.
        self.read_only: str = read_only
        # The cause from which the ids of new documents are derived.
        self.cause = cause
        self.journal: Journal = Journal()
        # For cells: the values they have already returned in this transaction. Every write clears it.
        self.memo: dict[object, object] = {}
        # Every document in use, as of its first use; and those that were written.
        self._seen: dict[DocKey, Mark] = {}
        self._drafts: dict[DocKey, Draft] = _NO_DRAFTS
        self.status = _OPEN
        self.wrote, self._has_read, self.peeks, self.failures = False, False, 0, 0
        self.gate = self.called = self.keeping = self.ended_with = self.observes = None
        self.callbacks = self.followers = self.on_sent = ()

    @property
    def name(self) -> str:
        """What reads and writes in it, for messages: of a run, the title of its node. Plain code has none."""
        # Of a run it is composed when it is asked for: for errors.
        return self._name or str(getattr(self.node, "title", ""))

    def __repr__(self) -> str:
        return f"<Transaction {self.name or 'unnamed'}: {self.status.value}>"

    # -- reading -------------------------------------------------------------------------------------------

    def read(  # every read passes here: in one piece
        self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0
    ) -> Maybe:
        """The value at the address, with this transaction's own writes. Recorded in the journal."""
        if self.peeks and PEEKING.get():
            flags |= IGNORED_FOR_SCHEDULING
        mark = self._seen.get(doc)
        if mark is None:
            mark = self._see(doc)
        draft = self._drafts.get(doc) if self._drafts else None
        if draft is None:
            value = mark.value
            self._has_read = True
            if flags:
                self.journal.record(doc, path, depth, flags, mark)
            else:
                # The commonest read, recorded without a call.
                self.journal.entries[doc, path, 0 if depth is _DEEP else SHALLOW_BIT] = mark
        else:
            value = draft.value
            if draft.whole:
                # The transaction reads its own write: no other change can conflict with it.
                flags |= IGNORED_FOR_CONFLICT
            else:
                self._has_read = True
            self.journal.record(doc, path, depth, flags, mark)
            if draft.edit_inputs is not None:
                for edited, edited_depth in draft.edit_inputs.of(path, depth):
                    self.journal.record(doc, edited, edited_depth, flags, mark)
        for step in path:
            value = child(value, step)
        return value

    def hold(self, doc: DocKey) -> bool:
        """Whether a document exists. If so, reads in this transaction see the version of now. Nothing is recorded."""
        if doc in self._seen:
            return True
        mark = self._see(doc)
        if mark.value is ABSENT:
            del self._seen[doc]
            return False
        return True

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """Record a read in the journal."""
        self.read(doc, path, depth, flags)

    def document(self, doc: DocKey) -> Maybe:
        """The document with this transaction's own writes, not recorded: the caller records what it used."""
        draft = self._drafts.get(doc)
        if draft is not None:
            return draft.value
        mark = self._seen.get(doc)
        return (mark if mark is not None else self._see(doc)).value

    def snapshot_of(self, doc: DocKey) -> Maybe:
        """A document as of its first read here, without this transaction's own writes."""
        seen = self._seen if self.ended_with is None else self.ended_with[1]
        return seen[doc].value

    def written(self) -> list[tuple[DocKey, Maybe]]:
        """The written documents, with their new values."""
        return [(doc, draft.value) for doc, draft in self._drafts.items() if draft.whole or draft.ops]

    @property
    def docs(self) -> KeysView[DocKey]:
        """The documents that it has used."""
        return self._seen.keys()

    def _see(self, doc: DocKey, verb: str = "read") -> Mark:
        """The first use of a document, for reading or writing: a write builds on it, and may be read back."""
        if self.status is not _OPEN:
            raise ended_error(self.name, verb, self.status)
        if self.gate is not None:
            self.gate(doc)
        record = self.replica._documents.get(doc)
        mark = None if record is None else record.mark
        if mark is None:
            mark = self.replica.snapshot(doc)
        self._seen[doc] = mark
        return mark

    def _draft(self, doc: DocKey) -> Draft:
        """The draft of a document that is written, made on demand."""
        draft = self._drafts.get(doc)
        if draft is None:
            mark = self._seen.get(doc)
            if mark is None:
                mark = self._see(doc, "write")
            if not self._drafts:
                self._drafts = {}
            draft = self._drafts[doc] = Draft(mark)
        return draft

    # -- writing -------------------------------------------------------------------------------------------

    def set(self, doc: DocKey, path: Path, value: Value) -> None:
        """Set the value at an address."""
        draft = self._begin_write(doc, path)
        if path:
            there = get(draft.value, path)
            self._apply(draft, Add(path, value) if there is ABSENT else Replace(path, value))
        elif draft.value != value or not (same(draft.value, value) and draft.is_elidable(path)):
            self._put(draft, value)

    def put(self, doc: DocKey, value: Value) -> None:
        """Write a whole document, even if it is unchanged."""
        self._put(self._begin_write(doc, ()), value)

    def make(self, doc: DocKey, value: Value) -> None:
        """Write a new document. It need not be loaded first, because it is overwritten."""
        gate = self.gate
        if self.event is None:
            self.gate = None
        try:
            self.set(doc, (), value)
        finally:
            self.gate = gate

    def patch(self, doc: DocKey, op: PatchOp) -> None:
        """Apply one operation. Raises AddressError if it does not fit: then nothing changed."""
        draft = self._begin_write(doc, op.path)
        if type(op) is Move:
            self.journal.record(doc, op.source, _DEEP, ATTEMPTED_WRITE, draft.mark)
        self._apply(draft, op)

    def delete(self, doc: DocKey) -> None:
        """Delete the document."""
        draft = self._begin_write(doc, ())
        if draft.value is not ABSENT or not draft.is_elidable(()):
            self._put(draft, ABSENT)

    def require(self, precondition: Precondition) -> None:
        """Add a precondition: if it does not hold, the store refuses the whole transaction."""
        if self.status is not _OPEN:
            raise ended_error(self.name, "be given a precondition", self.status)
        self._preconditions = (*self._preconditions, precondition)

    def _begin_write(self, doc: DocKey, path: Path) -> Draft:
        if (self.read_only or self.guarded) and (refused := self.refusal(doc, path)):
            reason, _, advice = refused.replace("{run}", self.name, 1).partition(" {}")
            self.refused = f"{reason} {address_text(doc, path)}{advice}"
            raise WriteError(self.refused, doc=doc, path=path)
        draft = self._draft(doc)
        if self._writers is not None:
            self._writers.append(CONTEXT.get())
        self.journal.is_plain = False  # as `Journal.record`
        self.journal.entries[doc, path, ATTEMPTED_WRITE] = draft.mark
        return draft

    def refusal(self, doc: DocKey, path: Path = ()) -> str:
        """Why this code may not write to the address, with {} for the address; empty if it may."""
        frame = CONTEXT.get() if self.guarded else None
        while frame is not None and frame.tx is self:
            if frame.read_only:
                return frame.read_only
            frame = frame.outer
        if any(doc == at and is_prefix(allowed, path) for at, allowed in self.surface):
            return ""
        return self.read_only

    def _put(self, draft: Draft, value: Maybe) -> None:
        draft.value, draft.whole, draft.ops, draft.edit_inputs = value, True, (), None
        self.wrote = True
        self.memo.clear()

    def _apply(self, draft: Draft, op: PatchOp) -> None:
        after, touched = apply_patch(draft.value, op)
        if not touched and draft.is_elidable(op.path):
            return
        draft.value = after
        self.wrote = True
        self.memo.clear()
        if draft.whole:
            return
        ops = draft.ops
        if not isinstance(ops, list):
            ops = draft.ops = list(ops)
        if type(op) is not Replace:
            draft.edit_inputs = draft.edit_inputs or EditInputs()
            draft.edit_inputs.add(op)
        elif ops and type(ops[-1]) is Replace and ops[-1].path == op.path:
            ops[-1] = op
            return
        ops.append(op)

    @property
    def is_open(self) -> bool:
        """It can still read and write."""
        return self.status is _OPEN

    @property
    def is_rejected(self) -> bool:
        """It was rejected and rolled back."""
        return self.status is _REJECTED

    @property
    def is_awaited(self) -> bool:
        """A caller waits for its end."""
        return bool(self.callbacks)

    @property
    def has_writes(self) -> bool:
        """It has writes to commit."""
        return self.wrote and any(draft.whole or draft.ops for draft in self._drafts.values())

    # -- savepoints ----------------------------------------------------------------------------------------

    def savepoint(self) -> Savepoint:
        """The current writes, for `roll_back`."""
        documents = {doc: (draft.value, draft.whole, list(draft.ops)) for doc, draft in self._drafts.items()}
        if self._writers is None:
            self._writers = []
        return len(self._preconditions), documents, len(self._writers), len(self.launched)

    def beginning(self) -> Savepoint:
        """The savepoint of a transaction that has written nothing: rolling back to it keeps the reads only."""
        return len(self._preconditions), {}, 0, 0

    def roll_back(self, point: Savepoint, part: ContextFrame | None = None) -> None:
        """Undo writes and preconditions since a savepoint. Reads stay recorded: they may have decided what was undone.

        If a `part` is given, only that is undone. If tasks or threads outside the part have written to the transaction
        meanwhile, the writes cannot be separated, and the whole transaction is `doomed`.
        """
        required, documents, written, launched = point
        if part is not None and not all(is_within(frame, part) for frame in (self._writers or ())[written:]):
            self.doomed = (
                "a part of this transaction failed while tasks or threads beside it were writing in the same one, "
                "and the writes cannot be separated: the whole transaction was rolled back. Give each task a "
                "transaction of its own, started outside of this block"
            )
            return
        self._preconditions = self._preconditions[:required]
        self.memo.clear()
        for doc, draft in self._drafts.items():
            value, whole, ops = documents.get(doc) or (draft.mark.value, False, [])
            draft.value, draft.whole, draft.ops = value, whole, list(ops)
            draft.edit_inputs = EditInputs(ops) if ops else None
        undone, self.launched = self.launched[launched:], self.launched[:launched]
        # In reverse order: something started twice gets the state before the first start.
        for undo in reversed(undone):
            undo()

    # -- the end -------------------------------------------------------------------------------------------

    def commit(self) -> None:
        """Apply the writes to the replica and send them. If a read is outdated, the transaction is rejected at once.

        Raises what the replica raises (a limit, a closed space): then it is rejected, too.
        """
        if self.status is not _OPEN:
            raise ended_error(self.name, "commit", self.status)
        if self.is_running:
            self.ended_with = self.journal, self._seen
        operations = operations_of(self._seen, self._drafts) if self.wrote else []
        if not operations and not self._preconditions and self.table_transaction is None:
            self.end()
            return
        if self.keeping is not None and not self.keeping.record(self):
            # A run that ends its transaction itself: it is repeated, and reads everything.
            self.reject(Conflict("a read that it has reused may have changed", seq=self.replica.seq))
            return
        checked = self.journal.conflicts() if self._has_read else []
        if checked or self.spans is not None:
            # Under one lock: the reads that are found unchanged must still be so when the commit is added.
            with self.replica.lock:
                versions = versions_of(self._seen, checked, self.replica)
                spans = () if self.spans is None else self.spans.checked(self._drafts)
                if isinstance(versions, Conflict):
                    self.reject(versions)
                elif isinstance(spans, Conflict):
                    self.reject(spans)
                else:
                    self._submit(operations, versions, spans)
        else:
            self._submit(operations, {})

    def reject(self, conflict: Conflict) -> None:
        """End it like a commit that was overtaken: nothing is sent."""
        self._settle(TransactionSignal.REJECTED, conflict, None)

    def end(self) -> None:
        """End a transaction without writes: there is nothing to decide."""
        self._settle(_ACCEPTED, Committed(self.replica.seq), None)

    def _submit(self, operations: Sequence[Operation], versions: Versions, spans: tuple[SpanRead, ...] = ()) -> None:
        replica = self.replica
        observed: Seen | None = None
        if self.observes is not None:
            # The index of the operation that writes the result, and the encoded reads.
            doc, body = self.observes
            observed = next(((index, body) for index, each in enumerate(operations) if each.doc == doc), None)
        try:
            with replica.lock:
                pending = replica._commit(
                    operations, (), self._preconditions, self, observed, self.table_transaction, versions, spans
                )
        except BaseException as error:  # noqa: BLE001  # raised there, unless it is a conflict
            self._send_failed(error)
        else:
            self._sent(pending)

    def _send_failed(self, error: BaseException) -> None:
        """Sending failed. Raises the error, unless it is a conflict with a newer commit."""
        taken = [sent for sent in list(self.replica._pending.values()) if sent.source is self]
        if taken:
            # A listener raised: the commit is nevertheless visible and sent.
            self._sent(taken[0])
            raise error
        conflict = overtaken(self._drafts, error, self.replica)
        if conflict is not None:
            self._settle(TransactionSignal.REJECTED, conflict, None)
            return
        known = error if isinstance(error, HeadwaterError) else None
        self._settle(TransactionSignal.ABORTED if known is None else TransactionSignal.REJECTED, None, known)
        raise error

    def _sent(self, pending: PendingCommit) -> None:
        # Before it is visible as pending: later commits name it by this number.
        self.local_seq = pending.commit.local_seq
        self.status = TRANSITIONS[self.status, _SENT]
        self.memo.clear()
        self._seen, self._drafts, self.memo, self.observes = _NOTHING_SEEN, _NO_DRAFTS, NOTHING_REMEMBERED, None
        if self.spans is not None or self.has_far_spans:
            end_spans(self.spans, self.views)
        if pending.verdict is None and pending.error is None and not pending.callbacks:
            pending.callbacks = _ON_DECIDED
        else:
            pending.on_settled(_decided)
        for tell in self.on_sent:
            tell()

    def abort(self) -> None:
        """Roll back: none of the writes was ever visible. The rest of the block can neither read nor write.

        A second call does nothing.

        Raises:
            ClosedError: HW103. The transaction has already been committed.

        Example:
            ```python
            import headwater as hw

            app = hw.App("bank")
            ann = app.cell("ann", 100)
            with app.open("memory:") as space:
                with space.transaction() as tx:
                    ann.value = 0
                    tx.abort()
                print(ann.value)  # 100
            ```
        """
        if self.status is Status.ABORTED:
            return
        if self.status is not _OPEN:
            raise ended_error(self.name, "abort", self.status)
        if self.is_running:
            self.ended_with = self.journal, self._seen
        self._settle(TransactionSignal.ABORTED, None, None)

    def launch(self, undo: Callable[[], None]) -> None:
        """Register how to undo something that was started, in case this part is rolled back."""
        if isinstance(self.launched, list):
            self.launched.append(undo)
        else:
            self.launched = [undo]

    def follow(self, follower: Callable[[Transaction], None], undo: Callable[[], None]) -> None:
        """Call `follower` at the end, not as a waiting caller (`is_awaited`); `undo` if this part is rolled back."""
        if self.status in SETTLED:
            follower(self)
            return
        self.followers = (*self.followers, follower)
        if self.status is _OPEN:
            self.launch(undo)

    def on_settled(self, callback: Callable[[Transaction], None]) -> None:
        """Call a function when the transaction has ended: committed, rejected or aborted.

        If it has ended already, the function is called at once.

        Args:
            callback: The function. It takes the transaction.
        """
        if self.status in SETTLED:
            callback(self)
        else:
            self.callbacks = (*self.callbacks, callback)

    def _settle(self, signal: TransactionSignal, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """The only way to end. Resources are released before the callbacks, which may start new work."""
        self.status = TRANSITIONS[self.status, signal]
        self.verdict = verdict
        if error is not None:
            self.error = error
        if self.memo:
            self.memo.clear()
        self._seen, self._drafts, self.memo = _NOTHING_SEEN, _NO_DRAFTS, NOTHING_REMEMBERED
        if self.spans is not None or self.has_far_spans:
            end_spans(self.spans, self.views)
        if self._preconditions or self.launched:
            self._preconditions = self.launched = ()
        self.journal = NOTHING_NOTED
        callbacks = self.callbacks
        if self.followers:
            callbacks, self.followers = (*self.followers, *callbacks), ()
        if callbacks:
            self.callbacks = ()
            if len(callbacks) == 1:
                callbacks[0](self)
            else:
                call_all(callbacks, self)


def _decided(pending: PendingCommit) -> None:
    """The store has decided the commit of a transaction. A function, since a method would be an object for each."""
    tx = pending.source
    assert isinstance(tx, Transaction)
    verdict, callbacks = pending.verdict, tx.callbacks
    if type(verdict) is not Committed or len(callbacks) > 1 or tx.followers or tx._preconditions:
        tx._settle(_ACCEPTED if type(verdict) is Committed else TransactionSignal.REJECTED, verdict, pending.error)
        return
    # The fast path of `_settle`: the snapshots were released when it was sent.
    tx.status = TRANSITIONS[tx.status, _ACCEPTED]
    tx.verdict, tx.journal = verdict, NOTHING_NOTED
    if callbacks:
        tx.callbacks = ()
        callbacks[0](tx)


# Not a fixed tuple: compiled code would make a new one for each commit.
_ON_DECIDED: Final[tuple[Callable[[PendingCommit], None], ...]] = (_decided,)
NOTHING_NOTED: Final = Journal()
_NOTHING_SEEN: Final[dict[DocKey, Mark]] = {}
_NO_DRAFTS: Final[dict[DocKey, Draft]] = {}
"""Of all ended transactions, and of those that have not written: never added to."""


reserve(Transaction, ("node", "triggers", "is_running", "local_seq", "verdict", "change_group", "surface"))
