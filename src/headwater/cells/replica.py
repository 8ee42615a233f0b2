"""A replica: the confirmed documents of a space, with the pending commits of this session on top.

A local write is visible, and listeners are notified, before `commit` returns. The store's verdict comes later, and
either confirms the commit or rolls it back. Commits of other sessions arrive in the order of the log. One caller at a
time: `runtime.attached_replica` adds a lock for threads.

Length: the commonest commits are written out, beside the general way that does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from typing import Final

from headwater.cells.loaded_document import NO_LAYERS, Document
from headwater.cells.member_shifts import VisibleShift
from headwater.cells.members import NO_SHIFTS
from headwater.cells.overtaken_reads import has_read, is_overtaken
from headwater.cells.pending_commit import (
    Failure,
    Mark,
    PendingCommit,
    Pulled,
    ReadKey,
    depending_on,
    rejected_layer,
)
from headwater.cells.replica_view import NO_LOCK, ReplicaView
from headwater.cells.unsent_observations import UnsentObservations
from headwater.cells.upstream import Upstream
from headwater.cells.visible_step import VisibleStep
from headwater.errors import AddressError, HeadwaterError, LimitError, UsageError
from headwater.store.applying import apply_operation
from headwater.store.collection_record import Shift
from headwater.store.commit import (
    Basis,
    Commit,
    CommitOutcome,
    Committed,
    Conflict,
    Effect,
    NewObservation,
    Operation,
    PendingRead,
    Precondition,
    Read,
    Seen,
    SetDoc,
    SpanRead,
    TableTransaction,
    Verdict,
)
from headwater.store.conflict import EVERYTHING as EVERYTHING_TOUCHED
from headwater.store.document import StoredDocument
from headwater.store.wellformed import check_operation
from headwater.values.diff import changes_of
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.native import mypyc_attr
from headwater.values.notifications import Change, Derived, Kind, Notification
from headwater.values.shrink import shrunk
from headwater.values.tree import ABSENT

_DEAD_MAX: Final = 4096
"""Rejected commits that a replica remembers, to reject commits based on them before they are sent."""

_COMMIT: Final = Kind.COMMIT


@mypyc_attr(allow_interpreted_subclasses=True)
class Replica(ReplicaView):
    """One session's view of one branch of a space."""

    def __init__(self, upstream: Upstream, session: SessionId, *, branch: BranchId = MAIN, seq: Seq = NEVER) -> None:
        super().__init__(upstream, seq)
        self._session = session
        # The base of event ids: unique for each opening, even if an opening continues a session.
        self.opening: str = session
        self._branch = branch
        self._pending: dict[LocalSeq, PendingCommit] = {}
        self._rejected: dict[LocalSeq, None] = {}
        self._local_seq = LocalSeq(0)
        # For commits whose reads were compared with the visible documents. None while a layer is hidden that the store
        # may still accept: the documents then differ from the log.
        self._basis: Basis | None = Basis(seq, LocalSeq(0))
        self.observations: UnsentObservations = UnsentObservations(session, branch)
        self.on_rejected: Callable[[PendingCommit, Verdict | None, HeadwaterError | None], None] = lambda *_: None
        """Called for each commit of this session that was rejected, before its own callbacks."""
        self.on_derived: Callable[[Derived], None] | None = None
        """Called with derived results of other sessions, after the listeners were notified of the changes."""
        self.result_docs: Container[DocKey] = ()
        """Documents with results of functions here: of a commit of another session that has no observation, too."""
        self.status_docs: Collection[DocKey] = ()
        """Documents whose status (pending or confirmed) is observed; `on_status` is called when it may have changed."""
        self.on_status: Callable[[DocKey], None] = lambda _: None

    @property
    def session(self) -> SessionId:
        """The session of the commits."""
        return self._session

    @property
    def pending_count(self) -> int:
        """Local commits without a verdict."""
        return len(self._pending)

    def decided_observations(self) -> tuple[NewObservation, ...]:
        """Observations that no commit has carried, and that the store can check by now. They are removed here."""
        with self.lock:
            return self.observations.take_based_on(self._pending.__contains__)

    @property
    def commit_count(self) -> int:
        """Local commits that were sent."""
        return self._local_seq

    # -- writing -------------------------------------------------------------------------------------------

    def commit(
        self,
        operations: Sequence[Operation],
        *,
        reads: Iterable[Read | PendingRead] = (),
        preconditions: Sequence[Precondition] = (),
        source: object = None,
        spans: tuple[SpanRead, ...] = (),
    ) -> PendingCommit:
        """Apply a commit locally, notify the listeners, send it. Raises AddressError: then nothing changed."""
        if self.lock is NO_LOCK:
            # Entering and leaving it would be a tenth of the cost.
            return self._commit(operations, reads, preconditions, source, spans=spans)
        with self.lock:
            return self._commit(operations, reads, preconditions, source, spans=spans)

    def _commit(  # noqa: C901, PLR0912, PLR0917  # every write passes here
        self,
        operations: Sequence[Operation],
        reads: Iterable[Read | PendingRead],
        preconditions: Sequence[Precondition],
        source: object,
        seen: Seen | None = None,
        rider: TableTransaction | None = None,
        versions: Mapping[ReadKey, Mark | None] | None = None,
        spans: tuple[SpanRead, ...] = (),
    ) -> PendingCommit:
        """`versions`: what the commit has read, instead of `reads`, and was found to be visible still."""
        if type(operations) is not tuple and not isinstance(operations, list | tuple):
            raise UsageError(f"a commit takes a list of operations, not {type(operations).__name__}")
        if len(operations) != 1 or reads or preconditions or seen is not None or rider is not None or spans:
            return self._commit_many(operations, reads, preconditions, source, seen, rider, versions, spans)
        # The commonest commit, in one piece: the general way would cost half as much again.
        operation = operations[0]
        check_operation(operation)
        doc = operation.doc
        record = self._documents.get(doc) or self._load(doc)
        before = record.visible
        after, touches = apply_operation(before, operation)
        local_seq: LocalSeq = self._local_seq + 1  # type: ignore[assignment]  # calling a NewType costs more
        commit = Commit(self._session, local_seq, (operation,), (), (), (), self._branch)
        pending = PendingCommit(
            commit, (Effect(doc, before, after, touches),), (), None, False, self._basis, None, source, unnamed=versions
        )
        if not touches and not record.layers:
            # Equal to the confirmed value: nothing to send, nothing to notify.
            pending.settle(Committed(self.seq), None)
            return pending
        if self._rejected and self._rests_on_rejected(pending):
            return pending
        # First: the number is never reused, even if the rest fails.
        self._local_seq = local_seq
        if self.observations.found:
            pending.observations = self.observations.take()
        self._upstream.submit(pending)
        self._pending[local_seq] = pending
        if record.layers:
            record.layers.append(pending)
        else:
            record.layers = [pending]
            if self.status_docs and doc in self.status_docs:
                self.on_status(doc)
        record.visible, record.mark = after, None
        self.version += 1
        shifts = NO_SHIFTS
        if self.members is not None:
            shifts = self.members.moved(doc, before, record, self.span_kinds)
        if touches and self._readers and self._is_read(doc):
            record.mark = Mark(record.seq, record.layers, len(record.layers), after)
            if touches is EVERYTHING_TOUCHED:
                changes = [Change(doc, (), before, after)]
            else:
                changes = changes_of(doc, before, after, touches)
            if changes or shifts:
                self._notify(Notification(_COMMIT, tuple(changes), source, shifts))
        elif shifts:
            self._notify(Notification(_COMMIT, (), source, shifts))
        return pending

    def put(
        self,
        operation: SetDoc,
        record: Document,
        versions: Mapping[ReadKey, Mark | None],
        source: object,
        seen: Seen | None = None,
    ) -> PendingCommit:
        """As `commit`, for a loaded document that is replaced as a whole.

        The caller holds the lock, has frozen the value, and has found that the versions it has read are visible still.
        """
        doc, before, after = operation.doc, record.visible, operation.value
        local_seq: LocalSeq = self._local_seq + 1  # type: ignore[assignment]
        commit = Commit(self._session, local_seq, (operation,), (), (), (), self._branch, seen)
        effects = (Effect(doc, before, after, EVERYTHING_TOUCHED),)
        pending = PendingCommit(commit, effects, (), None, False, self._basis, None, source, unnamed=versions)
        if self._rejected and self._rests_on_rejected(pending):
            return pending
        self._local_seq = local_seq
        if self.observations.found:
            pending.observations = self.observations.take()
        self._upstream.submit(pending)
        self._pending[local_seq] = pending
        layers = record.layers
        if layers:
            layers.append(pending)
        else:
            layers = record.layers = [pending]
            if self.status_docs and doc in self.status_docs:
                self.on_status(doc)
        record.visible, record.mark = after, None
        self.version += 1
        if self.members is not None and (shifts := self.members.moved(doc, before, record, self.span_kinds)):
            self._notify(Notification(_COMMIT, (Change(doc, (), before, after),), source, shifts))
            return pending
        for readers in self._readers:
            if doc in readers:
                record.mark = Mark(record.seq, layers, len(layers), after)
                notification = Notification(_COMMIT, (Change(doc, (), before, after),), source)
                if len(self._listeners) == 1:
                    # Mostly the scheduler alone, as `_notify` would.
                    self._listeners[0](notification)
                else:
                    self._notify(notification)
                break
        return pending

    def _commit_many(  # noqa: PLR0917  # likewise
        self,
        operations: Sequence[Operation],
        reads: Iterable[Read | PendingRead],
        preconditions: Sequence[Precondition],
        source: object,
        seen: Seen | None,
        rider: TableTransaction | None,
        versions: Mapping[ReadKey, Mark | None] | None,
        spans: tuple[SpanRead, ...],
    ) -> PendingCommit:
        """The general commit: several documents, reads, preconditions."""
        marks = tuple(reads)
        commit = Commit(
            self._session,
            LocalSeq(self._local_seq + 1),
            tuple(operations),
            tuple(mark for mark in marks if type(mark) is Read),
            tuple(mark for mark in marks if type(mark) is PendingRead),
            tuple(preconditions),
            self._branch,
            seen,
            spans,
        )
        basis = None if versions is None else self._basis
        pending = PendingCommit(commit, self._effects(operations), (), rider, False, basis, None, source)
        pending.unnamed = versions
        if not preconditions and rider is None and self._is_noop(pending.effects):
            pending.settle(Committed(self.seq), None)
            return pending
        if self._rejected and self._rests_on_rejected(pending):
            return pending
        self._local_seq = commit.local_seq
        if self.observations.found:
            pending.observations = self.observations.take()
        self._upstream.submit(pending)
        self._pending[commit.local_seq] = pending
        self._stack(pending)
        return pending

    def _rests_on_rejected(self, pending: PendingCommit) -> bool:
        """Reject a commit that has read a layer which was rejected, before it is sent."""
        dead = rejected_layer(pending.name_reads(), self._rejected)
        if dead is not None:
            pending.settle(Conflict(f"rests on commit {dead} of this session, which was rejected"), None)
        return dead is not None

    def _is_noop(self, effects: tuple[Effect, ...]) -> bool:
        """Nothing is touched, and no pending layer may still be rolled back."""
        for effect in effects:
            if effect.touches or self._documents[effect.doc].layers:
                return False
        return True

    def _effects(self, operations: Sequence[Operation]) -> tuple[Effect, ...]:
        """The effects of the operations on the visible documents, one per document."""
        merged: dict[DocKey, Effect] = {}
        for operation in operations:
            check_operation(operation)
            doc = operation.doc
            earlier = merged.get(doc)
            if earlier is None:
                before = self.read(doc)
                merged[doc] = Effect(doc, before, *apply_operation(before, operation))
            else:
                after, touches = apply_operation(earlier.after, operation)
                merged[doc] = Effect(doc, earlier.before, after, earlier.touches + touches)
        return tuple(merged.values())

    def _stack(self, pending: PendingCommit) -> None:
        """Add the commit as a layer to the documents it touches, and notify the listeners."""
        changes: list[Change] = []
        shifts: list[VisibleShift] = []
        self.version += 1
        for effect in pending.effects:
            record = self._documents[effect.doc]
            if record.layers:
                record.layers.append(pending)
            else:
                record.layers = [pending]
                if self.status_docs and effect.doc in self.status_docs:
                    self.on_status(effect.doc)
            record.visible, record.mark = effect.after, None
            if self.members is not None:
                shifts += self.members.moved(effect.doc, effect.before, record, self.span_kinds)
            if effect.touches and self._is_read(effect.doc):
                changes += changes_of(effect.doc, effect.before, effect.after, effect.touches)
        if changes or shifts:
            self._notify(Notification(_COMMIT, tuple(changes), pending.source, tuple(shifts)))

    # -- integrating verdicts ------------------------------------------------------------------------------

    def _ending(self, outcome: CommitOutcome | Failure, mine: PendingCommit) -> Verdict | HeadwaterError:
        """The verdict or the error. Nothing of a failed commit is stored: its observations wait for another one."""
        if isinstance(outcome, CommitOutcome):
            return outcome.verdict
        self.observations.put_back(mine.observations)
        return outcome.error

    def confirm(self) -> None:
        """Integrate verdicts that change nothing visible, if any wait: own commits that were accepted."""

    def integrate(self, decided: Iterable[CommitOutcome | Failure | Pulled]) -> None:
        """Integrate verdicts in the order of the log, as one step: listeners get the net changes."""
        step: VisibleStep[Document] = VisibleStep()
        self.version += 1
        for outcome in decided:
            if isinstance(outcome, Pulled):
                self._apply_pulled(outcome, step)
                continue
            commit = outcome.commit
            mine = self._pending.pop(commit.local_seq, None) if commit.session == self._session else None
            verdict = outcome.verdict if type(outcome) is CommitOutcome else None
            if type(verdict) is Committed:
                assert type(outcome) is CommitOutcome
                if mine is not None and self._promote(outcome, verdict.seq, mine):
                    step.settled.append(mine)
                    step.endings.append(verdict)
                    continue
                self._advance(outcome, verdict.seq, mine, step)
            elif mine is not None:
                step.has_rejected = True
                self._drop(mine, step)
            if mine is not None:
                step.settled.append(mine)
                step.endings.append(self._ending(outcome, mine))
        # Once for each document, however many commits changed it: the cost of rendering is the number of layers.
        for doc, record in step.stale.items():
            self._render(doc, record, step)
        self._rebase()
        if self.status_docs:
            self._notify_status(step)
        try:
            self._notify_step(step, Kind.INTEGRATE)
            self._notify_derived(step)
            for pending, verdict, error in step.rejected():
                self.on_rejected(pending, verdict, error)
        finally:
            # Every decided commit is settled, even if a listener raises.
            step.settle()

    def _rebase(self) -> None:
        """After integrating: the next commits are based on this."""
        pending = self._pending
        if self._rejected and any(number in self._rejected for number in pending):
            self._basis = None
        else:
            oldest = next(iter(pending), self._local_seq + 1)
            self._basis = Basis(self.seq, LocalSeq(oldest - 1))

    def _notify_derived(self, step: VisibleStep[Document]) -> None:
        """Call `on_derived` for results of other sessions."""
        for derived in step.derived:
            if self.on_derived is not None:
                self.on_derived(derived)

    def _notify_status(self, step: VisibleStep[Document]) -> None:
        """Call `on_status` for documents whose layers may be gone."""
        # Sorted, as a set of documents has another order in each process.
        docs = {operation.doc for pending in step.settled for operation in pending.commit.operations}
        for doc in sorted(docs | step.rolled_back):
            if doc in self.status_docs:
                self.on_status(doc)

    def _promote(self, outcome: CommitOutcome, seq: Seq, mine: PendingCommit) -> bool:
        """The commonest case: the commit has the visible effect, and is the oldest layer of its only document."""
        effects = mine.effects
        if outcome.effects is not effects or mine.is_rebased or len(effects) != 1:
            return False
        effect = effects[0]
        record = self._documents.get(effect.doc)
        layers = NO_LAYERS if record is None else record.layers
        if record is None or not layers or layers[0] is not mine or seq <= record.seq:
            return False
        record.layers = layers[1:] if len(layers) > 1 else NO_LAYERS
        record.confirmed, record.seq, record.mark = effect.after, seq, None
        if self.members is not None:
            self.members.relayered(effect.doc, record)
        if seq > self.seq:  # noqa: PLR1730  # max() costs more than all the rest
            self.seq = seq
        return True

    def _advance(
        self, outcome: CommitOutcome, seq: Seq, mine: PendingCommit | None, step: VisibleStep[Document]
    ) -> None:
        """An accepted commit, of this session or another, becomes part of the confirmed documents."""
        if outcome.commit.branch != self._branch:
            return
        if not outcome.effects and outcome.commit.operations:
            self._learn(outcome.commit, seq, mine, step)
            return
        if mine is None and seq <= self.seq:
            return  # already integrated
        self.seq = max(self.seq, seq)
        seen = outcome.commit.seen
        if mine is None and self.on_derived is not None:
            if seen is not None:
                step.derived += [Derived(each.doc, seen[1], seq) for each in outcome.commit.operations[seen[0] :][:1]]
            else:
                step.derived += [
                    Derived(each.doc, b"", seq) for each in outcome.effects if each.doc in self.result_docs
                ]
        for effect in outcome.effects:
            record = self._documents.get(effect.doc)
            if record is None:
                # Not loaded here, so without layers: reported as it is.
                step.record(effect.doc, effect.before, effect.after, effect.touches)
            else:
                kept = mine is not None and not mine.is_rebased and outcome.effects is mine.effects
                self._confirm(record, effect, seq, mine, step, kept=kept)
        if mine is None and self._pending:
            # Of documents that are not here, the moves of their keys are known.
            self._drop_overtaken(outcome.effects, seq, step, outcome.shifts if self.is_partial else ())

    def _drop_overtaken(
        self, effects: Sequence[Effect], seq: Seq, step: VisibleStep[Document], shifts: Sequence[Shift]
    ) -> None:
        """Roll back pending commits that have read what another commit has just changed: they will be rejected.

        They are hidden although their verdicts are yet to come. On top of the commit that won, they would show a state
        that no transaction has made.
        """
        touched = {effect.doc: effect.touches for effect in effects if effect.touches}
        doomed = [
            pending
            for pending in self._pending.values()
            if pending.commit.local_seq not in self._rejected
            and has_read(pending)
            and is_overtaken(pending, effects, touched, seq, self._pending, self.members, shifts)
        ]
        for pending in doomed:
            self._drop(pending, step)

    def _confirm(
        self,
        record: Document,
        effect: Effect,
        seq: Seq,
        mine: PendingCommit | None,
        step: VisibleStep[Document],
        *,
        kept: bool,
    ) -> None:
        """Update a confirmed document. If its own layer has the visible effect, the visible value is unchanged."""
        promoted = bool(record.layers) and record.layers[0] is mine
        record.mark = None
        if promoted:
            record.layers = record.layers[1:] or NO_LAYERS
        if seq > record.seq:
            record.confirmed, record.seq = effect.after, seq
        if not record.layers and not promoted:
            if record.seq == seq:
                step.record(effect.doc, record.visible, effect.after, effect.touches)
                record.visible = effect.after
        elif not promoted or not kept:
            step.stale[effect.doc] = record
        if self.members is not None:
            self.members.relayered(effect.doc, record)

    def _learn(self, commit: Commit, seq: Seq, mine: PendingCommit | None, step: VisibleStep[Document]) -> None:
        """A commit that was accepted earlier is reported without effects: read its documents again."""
        through = max(self.seq, seq)
        for doc in {operation.doc: None for operation in commit.operations}:
            record = self._documents.get(doc)
            found = self._upstream.load(doc, through)
            if record is None:
                before = self._upstream.load(doc, self.seq)
                if before is not None and found is not None:
                    step.record(doc, before.value, found.value, None)
                continue
            record.layers, record.mark = [layer for layer in record.layers if layer is not mine] or NO_LAYERS, None
            if found is not None and found.seq > record.seq:
                record.confirmed, record.seq = found.value, found.seq
            step.stale[doc] = record
        self.seq = through

    def _drop(self, pending: PendingCommit, step: VisibleStep[Document]) -> None:
        """Roll back a rejected commit, and every commit that depends on it."""
        if pending.commit.local_seq in self._rejected:
            return  # already rolled back with a commit it depended on
        doomed = [pending, *depending_on(pending, self._pending.values())]
        for rejected in doomed:
            self._rejected[rejected.commit.local_seq] = None
        while len(self._rejected) > _DEAD_MAX:
            del self._rejected[next(iter(self._rejected))]
        for rejected in doomed:
            for doc in {operation.doc: None for operation in rejected.commit.operations}:
                record = self._documents.get(doc)
                # Already rolled back with another commit, and the document is no longer loaded.
                if record is not None and rejected in record.layers:
                    record.layers = [layer for layer in record.layers if layer is not rejected] or NO_LAYERS
                    record.mark = None
                    step.rolled_back.add(doc)
                    step.stale[doc] = record

    def _render(self, doc: DocKey, record: Document, step: VisibleStep[Document]) -> None:
        """Compute the visible value: the confirmed one with the remaining layers."""
        value = record.confirmed
        for layer in record.layers:
            layer.is_rebased = True
            before = value
            try:
                for operation in layer.commit.operations:
                    if operation.doc == doc:
                        value, _ = apply_operation(value, operation)
            except (AddressError, LimitError):
                # Does not fit the new value: the layer stays invisible until the store rejects it.
                value = before
        step.record(doc, record.visible, value, None)
        record.visible, record.mark = value, None
        if self.members is not None:
            self.members.relayered(doc, record)

    def _apply_pulled(self, pulled: Pulled, step: VisibleStep[Document]) -> None:
        """Replace the confirmed value of a document."""
        record, found = self._documents.get(pulled.doc), pulled.found
        if record is None:
            record = self._documents[pulled.doc] = Document(ABSENT, NEVER, ABSENT)
        if found.seq >= record.seq:
            record.confirmed, record.seq, record.mark = found.value, found.seq, None
            step.stale[pulled.doc] = record

    def pull(self, doc: DocKey, found: StoredDocument) -> None:
        """A document that `Upstream.load` had to fetch has arrived."""
        record = self._documents.get(doc) or self._load(doc)
        if found.seq < record.seq:
            return
        record.confirmed, record.seq, record.mark = found.value, found.seq, None
        self.version += 1
        step: VisibleStep[Document] = VisibleStep()
        self._render(doc, record, step)
        self._notify_step(step, Kind.PULL)

    def shrink(self) -> None:
        """Shrink the dicts after many documents were released."""
        with self.lock:
            self._documents, self._pending = shrunk(self._documents), shrunk(self._pending)

    # -- notifying -----------------------------------------------------------------------------------------

    def _notify_step(self, step: VisibleStep[Document], kind: Kind) -> None:
        """One notification for rolled back changes (with what won instead), one for the other changes."""
        if not step.moved and (self.members is None or not self.members.moves):
            return
        undone, moved = NO_SHIFTS, NO_SHIFTS
        if self.members is not None:
            undone, moved = self.members.shifts_of(step, self.span_kinds)
        if not self._readers:
            return
        reverted, arrived = step.changes(self._is_read)
        try:
            if reverted or undone:
                self._notify(Notification(Kind.REVERT, tuple(reverted), step.rejected_source(), undone))
        finally:
            if arrived or moved:
                self._notify(Notification(kind, tuple(arrived), None, moved))
