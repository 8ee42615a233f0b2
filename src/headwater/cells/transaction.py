"""A transaction: open, read, write, commit or abort.

A transaction takes its snapshot per document, at the first read: later changes by others do not show up in it, its own
writes do. `commit` applies the writes to the replica, all of them or none, and names what was read; if any of that has
changed, nothing is written. A transaction ends once, in one of three ways, and calls its callbacks in all three.

Length: reading, writing and ending share every field; separate parts are in `held_documents`, `run_result`, `journal`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

from headwater.cells.context import CONTEXT, PEEKING, ContextFrame
from headwater.cells.held_documents import HeldDocument, is_within, marks_of, operations_of, overtaken
from headwater.cells.journal import (
    ATTEMPTED_WRITE,
    IGNORED_FOR_CONFLICT,
    IGNORED_FOR_SCHEDULING,
    LABEL_ONLY,
    SHALLOW_BIT,
    EditInputs,
    Entry,
    Flags,
    Journal,
)
from headwater.cells.pending_commit import PendingCommit, call_all
from headwater.cells.replica import Replica
from headwater.cells.transaction_states import SETTLED, TRANSITIONS, Status, TransactionSignal
from headwater.errors import ClosedError, HeadwaterError, InvariantError, WriteError
from headwater.store.commit import (
    Committed,
    Conflict,
    Operation,
    PendingRead,
    Precondition,
    Read,
    Seen,
    TableTransaction,
    Verdict,
)
from headwater.values.address import Depth, address_text, is_prefix
from headwater.values.ids import DocKey, LocalSeq
from headwater.values.patch import Add, Move, PatchOp, Replace, apply_patch
from headwater.values.tree import ABSENT, Maybe, Path, Value, child, get, same

_DEEP: Final = Depth.DEEP
_OPEN: Final = Status.OPEN
_ACCEPTED: Final = TransactionSignal.ACCEPTED

Savepoint: TypeAlias = tuple[int, dict[DocKey, tuple[Maybe, bool, list[PatchOp]]], int, int]


class Transaction:
    """A group of reads and writes that is committed as a unit. Made by `space.transaction()`.

    It takes its snapshot of a document at the first read of it. Its own writes are visible inside it at once.
    """

    # A transaction is made for every run, and most change none of these: so they are class attributes.

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
    # It has read something outside its replica, whose changes are not notified.
    reads_outside: bool = False
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
    ended_with: tuple[Journal, dict[DocKey, HeldDocument]] | None = None
    # Open blocks of `hw.untracked()` in it.
    peeks: int = 0
    # _settle(): exactly one of the two, once, unless it was aborted.
    verdict: Verdict | None = None
    """The decision of the store, once it has been made: `Committed`, or the reason for the rejection."""
    error: HeadwaterError | None = None
    # Some entry of the journal must be checked by the store.
    _checks: bool = False
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
        self.name = name
        # Why writing is refused, as a sentence with {} for the address; empty: it is allowed.
        self.read_only: str = read_only
        # The cause from which the ids of new documents are derived.
        self.cause = cause
        self.journal: Journal = Journal()
        # For cells: the values they have already returned in this transaction. Every write clears it.
        self.memo: dict[object, object] = {}
        self._held: dict[DocKey, HeldDocument] = {}

    def __repr__(self) -> str:
        return f"<Transaction {self.name or 'unnamed'}: {self.status.value}>"

    # -- reading -------------------------------------------------------------------------------------------

    def read(  # noqa: C901  # every read passes here: in one piece
        self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0
    ) -> Maybe:
        """The value at the address, with this transaction's own writes. Recorded in the journal."""
        if self.peeks and PEEKING.get():
            flags |= IGNORED_FOR_SCHEDULING
        held = self._held.get(doc)
        if held is None:
            if self.status is not _OPEN:
                raise self._ended("read")
            if self.gate is not None:
                self.gate(doc)
            held = self._held[doc] = HeldDocument(*self.replica.snapshot(doc))
        if held.whole:
            # The transaction reads its own write: no other change can conflict with it.
            flags |= IGNORED_FOR_CONFLICT
        elif not flags:
            # The commonest read, recorded without a call.
            self._checks = True
            self.journal.entries[doc, path, 0 if depth is _DEEP else SHALLOW_BIT] = held.mark
            if held.edit_inputs is None:
                value = held.value
                for step in path:
                    value = child(value, step)
                return value
        elif not flags & _UNCHECKED:
            self._checks = True
        self.journal.record(doc, path, depth, flags, held.mark)
        if held.edit_inputs is not None:
            for edited, edited_depth in held.edit_inputs.of(path, depth):
                self.journal.record(doc, edited, edited_depth, flags, held.mark)
        value = held.value
        for step in path:
            value = child(value, step)
        return value

    def hold(self, doc: DocKey) -> bool:
        """Whether a document exists. If so, reads in this transaction see the version of now. Nothing is recorded."""
        if doc in self._held:
            return True
        if self.status is not _OPEN:
            raise self._ended("read")
        if self.gate is not None:
            self.gate(doc)
        value, mark = self.replica.snapshot(doc)
        if value is ABSENT:
            return False
        self._held[doc] = HeldDocument(value, mark)
        return True

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """Record a read in the journal."""
        self.read(doc, path, depth, flags)

    def document(self, doc: DocKey) -> Maybe:
        """The document with this transaction's own writes, not recorded: the caller records what it used."""
        held = self._held.get(doc)
        return (held if held is not None else self._hold(doc)).value

    def snapshot_of(self, doc: DocKey) -> Maybe:
        """A document as of its first read here, without this transaction's own writes."""
        held = self._held if self.ended_with is None else self.ended_with[1]
        return held[doc].base

    def fresh_copy(self) -> Transaction:
        """A new transaction for the same work, with the same snapshots and without the writes."""
        other = Transaction(self.replica, self.name, read_only=self.read_only, cause=self.cause)
        other.node, other.triggers, other.surface = self.node, self.triggers, self.surface
        other._held = {doc: HeldDocument(held.base, held.mark) for doc, held in self._held.items()}
        return other

    def written(self) -> list[tuple[DocKey, Maybe]]:
        """The written documents, with their new values."""
        return [(doc, held.value) for doc, held in self._held.items() if held.whole or held.ops]

    def snapshots(self) -> dict[DocKey, Maybe]:
        """The documents as of their first reads."""
        return {doc: held.base for doc, held in self._held.items()}

    def _hold(self, doc: DocKey, verb: str = "read") -> HeldDocument:
        if self.status is not _OPEN:
            raise self._ended(verb)
        if self.gate is not None:
            # For writing, too: a write builds on the document, and may be read back together with it.
            self.gate(doc)
        held = self._held[doc] = HeldDocument(*self.replica.snapshot(doc))
        return held

    # -- writing -------------------------------------------------------------------------------------------

    def set(self, doc: DocKey, path: Path, value: Value) -> None:
        """Set the value at an address."""
        held = self._begin_write(doc, path)
        if path:
            there = get(held.value, path)
            self._apply(held, Add(path, value) if there is ABSENT else Replace(path, value))
        elif not (same(held.value, value) and self._is_elidable(held, path)):
            self._put(held, value)

    def fill_in(self, doc: DocKey, path: Path, value: Value) -> None:
        """Store the default of an address. Allowed if writing below it is allowed, because no read changes."""
        read_only = self.read_only
        if read_only and any(doc == at and is_prefix(path, allowed) for at, allowed in self.surface):
            self.read_only = ""
        try:
            self.set(doc, path, value)
        finally:
            self.read_only = read_only

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
        held = self._begin_write(doc, op.path)
        if type(op) is Move:
            self.journal.record(doc, op.source, _DEEP, ATTEMPTED_WRITE, held.mark)
        self._apply(held, op)

    def delete(self, doc: DocKey) -> None:
        """Delete the document."""
        held = self._begin_write(doc, ())
        if held.value is not ABSENT or not self._is_elidable(held, ()):
            self._put(held, ABSENT)

    def require(self, precondition: Precondition) -> None:
        """Add a precondition: if it does not hold, the store refuses the whole transaction."""
        if self.status is not _OPEN:
            raise self._ended("be given a precondition")
        self._preconditions = (*self._preconditions, precondition)

    def _begin_write(self, doc: DocKey, path: Path) -> HeldDocument:
        if (self.read_only or self.guarded) and (refused := self._refusal(doc, path)):
            reason, _, advice = refused.replace("{run}", self.name, 1).partition(" {}")
            self.refused = f"{reason} {address_text(doc, path)}{advice}"
            raise WriteError(self.refused, doc=doc, path=path)
        held = self._held.get(doc)
        if held is None:
            held = self._hold(doc, "write")
        if self._writers is not None:
            self._writers.append(CONTEXT.get())
        self.journal.record(doc, path, _DEEP, ATTEMPTED_WRITE, held.mark)
        return held

    def refusal(self, doc: DocKey, path: Path = ()) -> str:
        """Why this code may not write to the address; empty if it may."""
        return self._refusal(doc, path) if self.read_only or self.guarded else ""

    def _refusal(self, doc: DocKey, path: Path) -> str:
        """Why this code may not write to the address, with {} for the address; empty if it may."""
        frame = CONTEXT.get() if self.guarded else None
        while frame is not None and frame.tx is self:
            if frame.read_only:
                return frame.read_only
            frame = frame.outer
        if any(doc == at and is_prefix(allowed, path) for at, allowed in self.surface):
            return ""
        return self.read_only

    def _put(self, held: HeldDocument, value: Maybe) -> None:
        held.value, held.whole, held.ops, held.edit_inputs = value, True, (), None
        self.wrote = True
        self.memo.clear()

    def _apply(self, held: HeldDocument, op: PatchOp) -> None:
        after, touched = apply_patch(held.value, op)
        if not touched and self._is_elidable(held, op.path):
            return
        held.value = after
        self.wrote = True
        self.memo.clear()
        if held.whole:
            return
        ops = held.ops
        if not isinstance(ops, list):
            ops = held.ops = list(ops)
        if type(op) is not Replace:
            held.edit_inputs = held.edit_inputs or EditInputs()
            held.edit_inputs.add(op)
        elif ops and type(ops[-1]) is Replace and ops[-1].path == op.path:
            ops[-1] = op
            return
        ops.append(op)

    @staticmethod
    def _is_elidable(held: HeldDocument, path: Path) -> bool:
        """Whether a write without effect can be dropped: not on a layer that may be rolled back, nor after an edit."""
        if held.whole:
            return True
        return not held.mark.count and (held.edit_inputs is None or not held.edit_inputs.of(path, _DEEP))

    @property
    def is_open(self) -> bool:
        """It can still read and write."""
        return self.status is _OPEN

    @property
    def is_rejected(self) -> bool:
        """It was rejected and rolled back."""
        return self.status is Status.REJECTED

    @property
    def is_awaited(self) -> bool:
        """A caller waits for its end."""
        return bool(self.callbacks)

    @property
    def has_writes(self) -> bool:
        """It has writes to commit."""
        return self.wrote and any(held.whole or held.ops for held in self._held.values())

    # -- savepoints ----------------------------------------------------------------------------------------

    def savepoint(self) -> Savepoint:
        """The current writes, for `roll_back`."""
        documents = {doc: (held.value, held.whole, list(held.ops)) for doc, held in self._held.items()}
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
        for doc, held in self._held.items():
            value, whole, ops = documents.get(doc) or (held.base, False, [])
            held.value, held.whole, held.ops = value, whole, list(ops)
            held.edit_inputs = EditInputs(ops) if ops else None
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
            raise self._ended("commit")
        if self.is_running:
            self.ended_with = self.journal, self._held
        operations = operations_of(self._held) if self.wrote else []
        if not operations and not self._preconditions and self.table_transaction is None:
            self.end()
            return
        checked = self.journal.conflicts() if self._checks else []
        if checked:
            # Under one lock: the reads that are found unchanged must still be so when the commit is added.
            with self.replica.lock:
                self._send(operations, checked)
        else:
            self._send(operations, checked)

    def reject(self, conflict: Conflict) -> None:
        """End it like a commit that was overtaken: nothing is sent."""
        self._settle(TransactionSignal.REJECTED, conflict, None)

    def end(self) -> None:
        """End a transaction without writes: there is nothing to decide."""
        self._settle(_ACCEPTED, Committed(self.replica.seq), None)

    def _send(self, operations: list[Operation], checked: list[Entry]) -> None:
        marks = marks_of(self._held, checked, self.replica)
        if isinstance(marks, Conflict):
            self._settle(TransactionSignal.REJECTED, marks, None)
            return
        self._submit(operations, [marks[entry.doc].read(entry.doc, entry.path, entry.depth) for entry in checked])

    def _submit(self, operations: Sequence[Operation], reads: Sequence[Read | PendingRead]) -> None:
        try:
            with self.replica.lock:
                pending = self.replica._commit(
                    operations, reads, self._preconditions, self, self._seen(operations), self.table_transaction
                )
        except BaseException as error:  # noqa: BLE001  # raised there, unless it is a conflict
            self._send_failed(error)
        else:
            self._sent(pending)

    def _seen(self, operations: Sequence[Operation]) -> Seen | None:
        """The observation for the commit: the index of the operation that writes the result, and the encoded reads."""
        if self.observes is None:
            return None
        doc, body = self.observes
        return next(((index, body) for index, operation in enumerate(operations) if operation.doc == doc), None)

    def _send_failed(self, error: BaseException) -> None:
        """Sending failed. Raises the error, unless it is a conflict with a newer commit."""
        taken = [sent for sent in list(self.replica._pending.values()) if sent.source is self]
        if taken:
            # A listener raised: the commit is nevertheless visible and sent.
            self._sent(taken[0])
            raise error
        conflict = overtaken(self._held, error, self.replica)
        if conflict is not None:
            self._settle(TransactionSignal.REJECTED, conflict, None)
            return
        known = error if isinstance(error, HeadwaterError) else None
        self._settle(TransactionSignal.ABORTED if known is None else TransactionSignal.REJECTED, None, known)
        raise error

    def _sent(self, pending: PendingCommit) -> None:
        # Before it is visible as pending: later commits name it by this number.
        self.local_seq = pending.commit.local_seq
        self._signal(TransactionSignal.SENT)
        self._held = _NOTHING_HELD
        self.memo.clear()
        if pending.verdict is None and pending.error is None and not pending.callbacks:
            pending.callbacks = (self._decided,)
        else:
            pending.on_settled(self._decided)
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
            raise self._ended("abort")
        if self.is_running:
            self.ended_with = self.journal, self._held
        self._settle(TransactionSignal.ABORTED, None, None)

    def launch(self, undo: Callable[[], None]) -> None:
        """Register how to undo something that was started, in case this part is rolled back."""
        if isinstance(self.launched, list):
            self.launched.append(undo)
        else:
            self.launched = [undo]

    def follow(self, follower: Callable[[Transaction], None], undo: Callable[[], None]) -> None:
        """Call `follower` at the end of any kind; call `undo` if this part is rolled back.

        A follower does not count as a waiting caller (`is_awaited`).
        """
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

    def _decided(self, pending: PendingCommit) -> None:
        verdict = pending.verdict
        if type(verdict) is not Committed or len(self.callbacks) > 1 or self.followers:
            self._settle(
                _ACCEPTED if type(verdict) is Committed else TransactionSignal.REJECTED, verdict, pending.error
            )
            return
        # The fast path of `_settle`: the snapshots were released when it was sent.
        self._signal(_ACCEPTED)
        self.verdict, self.journal, self._preconditions = verdict, _EMPTY, ()
        callbacks, self.callbacks = self.callbacks, ()
        if callbacks:
            callbacks[0](self)

    def _settle(self, signal: TransactionSignal, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """The only way to end. Resources are released before the callbacks, which may start new work."""
        self._signal(signal)
        self.verdict, self.error = verdict, error
        self._held = _NOTHING_HELD
        if self.memo:
            self.memo.clear()
        if self._preconditions:
            self._preconditions = ()
        self.journal = _EMPTY
        self.launched = ()
        callbacks = self.callbacks
        if self.followers:
            callbacks, self.followers = (*self.followers, *callbacks), ()
        if callbacks:
            self.callbacks = ()
            if len(callbacks) == 1:
                callbacks[0](self)
            else:
                call_all(callbacks, self)

    def _signal(self, signal: TransactionSignal) -> None:
        after = TRANSITIONS.get((self.status, signal))
        if after is None:
            message = f"{self!r} got the signal {signal.value!r}, which is not possible in this state"
            raise InvariantError(message, status=self.status.value, signal=signal.value)
        self.status = after

    def _ended(self, verb: str) -> ClosedError:
        whose = f"transaction {self.name}" if self.name else "this transaction"
        message = (
            f"{whose} cannot {verb}: it is {self.status.value}. Code that goes on after its block has ended, such as a "
            "task or thread started in it, needs a transaction of its own"
        )
        return ClosedError(message, status=self.status.value)


_UNCHECKED: Final = IGNORED_FOR_CONFLICT | LABEL_ONLY | ATTEMPTED_WRITE

_EMPTY: Final = Journal()
_NOTHING_HELD: Final[dict[DocKey, HeldDocument]] = {}
"""The snapshots of every ended transaction."""
