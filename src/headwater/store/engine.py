"""The engine decides commits: check, apply, append, one function per stage. Only this module writes the log.

A batch is decided in memory, commit by commit, then written as one transaction. The tail, the sequence number and the
outcomes change only after that is durable. If the write fails, none of the batch happened.

Length: the stages of a commit, in their order, and each needs what the one before found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TypeAlias

import msgspec

from headwater.errors import (
    AddressError,
    HeadwaterError,
    InvariantError,
    LimitError,
    NotFoundError,
    StoreError,
    UnavailableError,
)
from headwater.store import commit_refusals
from headwater.store.applying import apply_operation
from headwater.store.backend import GENESIS, Backend, Fold, Horizon, LogRow, ObservationRow, ShiftRow
from headwater.store.collection_record import Shift
from headwater.store.collection_rules import Access
from headwater.store.collections import Collections
from headwater.store.commit import (
    UNNUMBERED,
    Commit,
    CommitEntry,
    CommitOutcome,
    Committed,
    Conflict,
    Effect,
    Entry,
    ForkEntry,
    NewObservation,
    Operation,
    PendingRead,
    Read,
    Refused,
    Submission,
    TableTransaction,
    Verdict,
    encode_entry,
)
from headwater.store.conflict import affects, first_unseen, possible_touches
from headwater.store.document import Documents, unfolded
from headwater.store.elision import elided, is_elided, newer_basis, operations_digest, seen_through
from headwater.store.features import COLLECTIONS
from headwater.store.folding import build_fold
from headwater.store.preconditions import first_unmet
from headwater.store.same_reads import is_same_pending_read, is_same_read, writes_in_log
from headwater.store.sessions import NO_SESSION, Session, Sessions
from headwater.store.state_cache import DocState, StateCache, are_all_writes, ends_with_whole_layer, layered_writes
from headwater.store.store_limits import FOLD_BYTES, FOLD_COMMITS
from headwater.values.ids import BranchId, DocKey, LocalSeq, Millis, Seq, SessionId
from headwater.values.seams import Clock
from headwater.values.value_limits import COMMIT_BYTES_MAX, DOCUMENT_BYTES_MAX

Append: TypeAlias = Callable[[Sequence[LogRow], Fold | None, Sequence[tuple[BranchId, ObservationRow]]], None]


@dataclass(slots=True)
class _Batch:
    """Decided commits that are not yet on disk."""

    at: Millis
    rows: list[LogRow] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)
    decided: list[Commit] = field(default_factory=list)
    fold: Fold | None = None
    # By branch and document: a later one replaces an earlier one, which is not written.
    observed: dict[tuple[BranchId, DocKey], ObservationRow] = field(default_factory=dict)
    # A table transaction was applied: a transaction of the database has begun.
    has_table_writes: bool = False
    # Each table transaction has a savepoint. Not at first, because a refusal is rare.
    has_savepoints: bool = False


class _TableRefusedError(Exception):
    """The batch is decided again with savepoints, because one table transaction was refused."""


class Engine:
    """One space: its log, and the current state of the documents in use."""

    def __init__(self, backend: Backend, clock: Clock, append: Append | None = None) -> None:
        self.backend = backend
        # Appends a decided batch in the place of the backend: the host may write it while the next one is decided.
        self._host_append = append
        self._clock = clock
        self.documents = Documents(backend)
        self._sessions = Sessions(backend)
        last = backend.last()
        horizon = self.documents.horizon
        self.head = last.seq if last is not None else horizon.seq
        self._chain = last.chain if last is not None else horizon.chain or GENESIS
        # The session of all commits after `_others`.
        self._author, self._others = NO_SESSION, self.head
        self.states = StateCache(backend, self.documents)
        self.collections = Collections(backend, self.documents, self.states, self._sessions, lambda: self.head)
        start = Horizon(horizon.seq, horizon.chain or GENESIS)
        for row, entry in unfolded(backend, self.documents.folded, self.head, start):
            self._advance((row,), (entry,))
            if isinstance(entry, CommitEntry):
                self._sessions.record(self._sessions.get(entry.session), entry.local_seq, Committed(row.seq))

    # -- admission -----------------------------------------------------------------------------------------

    def admit(self, submissions: Sequence[Submission]) -> list[CommitOutcome]:
        """Decide commits in order and write the accepted ones in one transaction. StoreError: none was written."""
        for submission in submissions:
            if submission.access is not None:
                # From outside of this process: it may declare the first collection.
                self.collections.prepare(submissions)
                break
        try:
            return self._admit(submissions, has_marks=False)
        except _TableRefusedError:
            return self._admit(submissions, has_marks=True)

    def _admit(self, submissions: Sequence[Submission], *, has_marks: bool) -> list[CommitOutcome]:
        batch = _Batch(self._clock.now_ms(), fold=self._due_fold(), has_savepoints=has_marks)
        self.states.upcoming = submissions
        try:
            outcomes = [self._decide(submission, batch) for submission in submissions]
            self._write(batch)
        except BaseException:
            self._undo(batch)
            if batch.has_table_writes:
                self.backend.roll_back()
            raise
        finally:
            self.states.upcoming = ()
        self.states.evict()
        return outcomes

    def require(self, feature: str) -> None:
        """Add a feature, before its first use: only programs that know it can open the space."""
        self.collections.enable() if feature == COLLECTIONS else self.backend.require(feature)  # with its tables

    def release(self, branch: BranchId, docs: Iterable[DocKey]) -> None:
        """Release documents that are not needed soon. They are read again on demand."""
        try:
            self.fold()
        except UnavailableError:
            # The disk is full: they stay in memory.
            return
        self.states.release(branch, docs)

    def shrink(self) -> None:
        """Release the memory that an unused space does not need. Everything is read again on demand."""
        try:
            self.fold()
        except UnavailableError:
            return
        self.states.clear()
        self.documents.forget_decoded()
        self.backend.shrink()

    def last_of(self, session: SessionId) -> LocalSeq:
        """The newest decided commit of a session."""
        return self._sessions.get(session).last

    def observe(self, notes: Sequence[NewObservation]) -> int:
        """Store observations of runs without writes, if their reads are still current. Returns the number stored."""
        batch = _Batch(self._clock.now_ms())
        self._observe(notes, batch)
        self._write(batch)
        return len(batch.observed)

    def _observe(self, notes: Sequence[NewObservation], batch: _Batch) -> None:
        for note in notes:
            basis = note.basis
            session = self._sessions.get(basis.session)
            objection = self._objection(basis, session)
            if objection is None or (type(objection) is Conflict and self._are_same(basis, session)):
                seq: Seq = self.head + len(batch.rows)  # type: ignore[assignment]  # as in `_link`
                batch.observed[basis.branch, note.doc] = ObservationRow(note.doc, seq, note.body)

    def _are_same(self, basis: Commit, session: Session) -> bool:
        """Whether all reads of a run give the same values now, whatever was written since (I7)."""
        if basis.spans:
            # What they gave is not known here.
            return False
        documents, branch = self.documents, basis.branch
        for read in basis.reads:
            if read.seq > self.head or not is_same_read(documents, branch, self.states.get(branch, read.doc), read):
                return False
        for pending in basis.pending_reads:
            if not documents.horizon.seq <= pending.basis <= self.head:
                return False
            if any(self._sessions.first_missing(session, *each) for each in pending.layers):
                return False
            state = self.states.get(branch, pending.doc)
            later = writes_in_log(documents, branch, state, pending, self.head)
            if not is_same_pending_read(documents, branch, state, session, pending, later):
                return False
        return True

    def _decide(self, submission: Submission, batch: _Batch) -> CommitOutcome:  # noqa: C901, PLR0912  # every commit
        commit = submission.commit
        if submission.observations:
            self._observe(submission.observations, batch)
        if submission.table_transaction is not None and commit.local_seq == UNNUMBERED:
            return self._apply_tables(submission, submission.table_transaction, batch)
        session = self._sessions.known.get(commit.session) or self._sessions.get(commit.session)
        is_alone = self._is_alone(submission, session)
        if not is_alone:
            commit = submission.name_reads()
        if commit.local_seq <= session.last:
            again = self._replay(session, commit, batch, rides=submission.table_transaction is not None)
            return CommitOutcome(commit, again)
        verdict = None if is_alone else self._objection(commit, session)
        if is_alone and commit.preconditions:
            verdict = first_unmet(commit, session, self.states, self._sessions)
        effects = submission.effects
        if verdict is None and submission.table_transaction is not None:
            outcome = self._apply_tables(submission, submission.table_transaction, batch)
            self._sessions.record(session, commit.local_seq, outcome.verdict)
            return outcome
        if verdict is None:
            if len(effects) == 1:  # as `_matching`, without the call: nearly every commit
                state = self.states.get(commit.branch, effects[0].doc)
                states = [state] if state.value is effects[0].before else None
            else:
                states = self._matching(submission)
            if states is None:
                applied = self._apply(commit)
                if isinstance(applied, tuple):
                    states, effects = applied
                else:
                    verdict = applied
            if states is not None:
                if commit.seen is not None and is_elided(commit, effects):
                    return self._elide(commit, session, states, effects, batch)
                verdict = self._append(commit, states, effects, batch, access=submission.access)
        assert verdict is not None
        if type(verdict) is Committed and commit.local_seq == session.last + 1:
            # As `Sessions.record`, without the calls.
            session.last = commit.local_seq
            session.accepted[commit.local_seq] = verdict.seq
        else:
            self._sessions.record(session, commit.local_seq, verdict)
        batch.decided.append(commit)
        if type(verdict) is Committed and verdict.seq != self.collections.shifted:
            return CommitOutcome(commit, verdict, effects)
        return self.collections.outcome(commit, verdict, effects)

    def _elide(
        self, commit: Commit, session: Session, states: list[DocState], effects: tuple[Effect, ...], batch: _Batch
    ) -> CommitOutcome:
        """The result is already stored: accept the commit without a log entry."""
        head = Seq(self.head + len(batch.rows))
        found = elided(commit, states, head, again=commit.local_seq <= session.last)
        # The backend waits for what is being written.
        row = newer_basis(
            commit,
            head,
            lambda doc: self.states.get(commit.branch, doc),
            lambda doc: batch.observed.get((commit.branch, doc)) or self.backend.observation(commit.branch, doc),
        )
        if row is not None:
            batch.observed[commit.branch, DocKey(row.doc)] = row
        self._sessions.elide(session, commit.local_seq, found)
        batch.decided.append(commit)
        return CommitOutcome(commit, Committed(found.seq), effects)

    def _apply_tables(self, submission: Submission, rider: TableTransaction, batch: _Batch) -> CommitOutcome:
        """A commit with a table transaction, or a table transaction alone."""
        if not batch.has_table_writes:
            batch.has_table_writes = True
            self.backend.begin()
        commit = submission.commit
        if batch.has_savepoints:
            self.backend.savepoint()
        try:
            more = tuple(rider.apply(self.backend.tables, lambda doc: self.states.get(commit.branch, doc).value))
        except (StoreError, InvariantError):
            raise
        except HeadwaterError as error:
            outcome = CommitOutcome(commit, Refused(error.message, code=error.code))
            if commit.local_seq != UNNUMBERED:
                batch.decided.append(commit)
        else:
            outcome = self._with_table_writes(commit, more, batch)
        accepted = type(outcome.verdict) is Committed
        if batch.has_savepoints:
            self.backend.end_savepoint(keep=accepted)
        elif not accepted:
            raise _TableRefusedError
        return outcome

    def _with_table_writes(self, commit: Commit, more: tuple[Operation, ...], batch: _Batch) -> CommitOutcome:
        """Append the commit with the operations that its table transaction adds. Without operations, no entry."""
        head = Seq(self.head + len(batch.rows))
        if commit.local_seq == UNNUMBERED:
            if not more:
                return CommitOutcome(commit, Committed(head))
            # It is never sent again: its number is its sequence number.
            commit = msgspec.structs.replace(commit, local_seq=LocalSeq(head + 1))
        if more:
            commit = msgspec.structs.replace(commit, operations=commit.operations + more)
        batch.decided.append(commit)
        applied = self._apply(commit)
        if not isinstance(applied, tuple):
            return CommitOutcome(commit, applied)
        states, effects = applied
        verdict = self._append(commit, states, effects, batch)
        if more and type(verdict) is Committed:
            # The session does not know of these before it has integrated them.
            self._others = verdict.seq
        if type(verdict) is Committed and verdict.seq != self.collections.shifted:
            return CommitOutcome(commit, verdict, effects)
        return self.collections.outcome(commit, verdict, effects)

    def _replay(self, session: Session, commit: Commit, batch: _Batch, *, rides: bool) -> Verdict:
        """A commit that was decided before gets the same verdict again, before any other check."""
        before = session.elided.get(commit.local_seq)
        if before is not None:
            if before.digest != operations_digest(commit):
                raise commit_refusals.number_reused(commit, before.seq)
            return Committed(before.seq)
        seq = self._sessions.seq_of(session, commit.local_seq)
        if seq is None:
            stored = session.rejected.get(commit.local_seq)
            if stored is None and self._sessions.is_dropped(session):
                return commit_refusals.session_dropped(commit)
            if stored is None and commit.seen is not None and self._objection(commit, session) is None:
                # It may have been elided, which the log does not record: elide it again if it still can be.
                applied = self._apply(commit)
                if isinstance(applied, tuple) and is_elided(commit, applied[1]):
                    return self._elide(commit, session, *applied, batch).verdict
            # The reason is unknown after a restart. Run again, a final refusal is refused again.
            return stored if stored is not None else Conflict("decided before, and rejected")
        entry = batch.entries[seq - self.head - 1] if seq > self.head else self.documents.entry(seq)
        if entry is not None and not commit_refusals.is_entry_of(entry, commit, rides=rides):
            raise commit_refusals.number_reused(commit, seq)
        return Committed(seq)

    # -- checking ------------------------------------------------------------------------------------------

    def _is_alone(self, submission: Submission, session: Session) -> bool:
        """Whether only this session has committed since the basis of a commit, and all of that was accepted.

        Its replica has compared the reads with exactly the documents that are here: they are current.
        """
        basis, commit = submission.basis, submission.commit
        if basis is None or self._author != session.id:
            return False
        return commit.local_seq == session.last + 1 and session.gap <= basis.local_seq and self._others <= basis.seq

    def _objection(self, commit: Commit, session: Session) -> Verdict | None:
        """The verdict against the commit; None if there is none."""
        if commit.branch not in self.documents.branches:
            return Refused(f"there is no branch {commit.branch!r}", code=NotFoundError.code)
        if commit.preconditions and (unmet := first_unmet(commit, session, self.states, self._sessions)) is not None:
            return unmet
        found = self._outdated(commit, session) if commit.reads or commit.pending_reads else None
        if found is None and self.documents.purged:
            found = commit_refusals.read_before_purge(commit, self.documents.purged, self.states)
        return self.collections.objection(commit, session) if found is None and commit.spans else found

    def _outdated(self, commit: Commit, session: Session) -> Verdict | None:
        """The conflict with its reads, if any."""
        for read in commit.reads:
            if read.seq > self.head:
                return commit_refusals.from_the_future(read.doc, read.seq, self.head)
            state = self.states.get(commit.branch, read.doc)
            if state.seq > read.seq:
                conflict = self._overwritten(commit.branch, state, read)
                if conflict is not None:
                    return conflict
        for pending in commit.pending_reads:
            if pending.basis > self.head:
                return commit_refusals.from_the_future(pending.doc, pending.basis, self.head)
            state = self.states.get(commit.branch, pending.doc)
            if not are_all_writes(session, state, pending):
                conflict = self._undermined(commit.branch, session, state, pending)
                if conflict is not None:
                    return conflict
        return None

    def _overwritten(self, branch: BranchId, state: DocState, read: Read) -> Conflict | None:
        """Check a confirmed read against every later write of the document."""
        if read.seq >= state.floor:
            newest = state.newest_touch(read.path, read.depth)
            return None if newest <= read.seq else commit_refusals.read_conflict(read.doc, read, newest)
        if read.seq < self.documents.horizon.seq:
            # The log of that time was dropped: the written paths are unknown.
            return commit_refusals.read_conflict(read.doc, read, state.seq)
        for revision in self.documents.revisions(branch, read.doc, read.seq, self.head):
            touches = (touch for operation in revision.operations for touch in possible_touches(operation))
            if affects(touches, read.path, read.depth):
                return commit_refusals.read_conflict(read.doc, read, revision.seq)
        newest = state.newest_touch(read.path, read.depth)
        return None if newest <= self.head else commit_refusals.read_conflict(read.doc, read, newest)

    def _undermined(self, branch: BranchId, session: Session, state: DocState, read: PendingRead) -> Conflict | None:
        """Check a read through layers of its session: each was accepted, and no other session wrote in between."""
        layers = read.layers
        if layers and not (session.gap < layers[0][0] and layers[-1][1] <= session.last):
            for first, last in layers:
                missing = self._sessions.first_missing(session, first, last)
                if missing is not None:
                    return Conflict(
                        f"rests on commit {missing} of its session, which was not accepted", read.doc, read.path
                    )
        if read.basis >= self.documents.horizon.seq and ends_with_whole_layer(session, state, read):
            return None
        if session.elided:
            read = seen_through(session, read)
        alone = state.author == session.id and state.others <= read.basis
        if alone and self._sessions.names_all(session, read.layers, read.basis):
            return None
        later = state.since(read.basis)
        if later is None:
            if read.basis < self.documents.horizon.seq:
                return commit_refusals.read_conflict(read.doc, read, state.seq)
            later = writes_in_log(self.documents, branch, state, read, self.head)
        unseen = first_unseen(read.path, read.depth, layered_writes(later, session, read))
        return None if unseen is None else commit_refusals.read_conflict(read.doc, read, unseen)

    # -- applying ------------------------------------------------------------------------------------------

    def _matching(self, submission: Submission) -> list[DocState] | None:
        """The documents, if each is the identical object that the sender's effects started from."""
        branch = submission.commit.branch
        states: list[DocState] = []
        for effect in submission.effects:
            state = self.states.get(branch, effect.doc)
            if state.value is not effect.before:
                return None
            states.append(state)
        return states or None

    def _apply(self, commit: Commit) -> tuple[list[DocState], tuple[Effect, ...]] | Conflict | Refused:
        """The effects of the commit on the current documents. Nothing is changed yet."""
        effects: dict[DocKey, Effect] = {}
        for operation in commit.operations:
            doc = operation.doc
            earlier = effects.get(doc)
            state = self.states.get(commit.branch, doc)
            try:
                after, touches = apply_operation(state.value if earlier is None else earlier.after, operation)
            except AddressError as misfit:
                # It fitted the sender's document, which has changed since: run it again.
                return Conflict(misfit.message, doc, seq=state.seq)
            except LimitError as limit:
                return Refused(limit.message, doc, code=limit.code)
            if earlier is not None:
                touches = earlier.touches + touches
            effects[doc] = Effect(doc, state.value, after, touches)
        return [self.states.get(commit.branch, doc) for doc in effects], tuple(effects.values())

    def _append(  # noqa: PLR0917  # what was decided about the commit
        self,
        commit: Commit,
        states: list[DocState],
        effects: tuple[Effect, ...],
        batch: _Batch,
        merged: tuple[BranchId, Seq] | None = None,
        access: Access | None = None,
    ) -> Verdict:
        """Append the commit to the batch and update the documents."""
        shifts: Sequence[Shift] = ()
        if self.collections.is_used or access is not None:
            found = self.collections.shifts_of(commit, effects, Seq(self.head + len(batch.rows) + 1), access)
            if isinstance(found, Refused):
                return found
            shifts = found
        entry = CommitEntry(
            commit.branch, commit.session, commit.local_seq, batch.at, commit.operations, merged, commit.seen
        )
        body = encode_entry(entry)
        size = len(body)
        if size > COMMIT_BYTES_MAX:
            reason = f"the commit is {size:,} bytes; at most {COMMIT_BYTES_MAX:,} are allowed"
            return Refused(reason, code=LimitError.code)
        for state in states:
            if state.bound + size > DOCUMENT_BYTES_MAX:
                if (refused := commit_refusals.too_large(states, effects, size)) is not None:
                    return refused
                break
        seq = self._link(batch, body, entry)
        if commit.session != self._author:
            self._author, self._others = commit.session, Seq(seq - 1)
        if self.collections.is_used:
            self.collections.add(commit, effects, shifts)
        for index, state in enumerate(states):
            state.write(seq, commit, effects[index], size)
        return Committed(seq)

    def _link(self, batch: _Batch, body: bytes, entry: Entry) -> Seq:
        """The next row of the log, chained to the one before it."""
        rows = batch.rows
        before = rows[-1].chain if rows else self._chain
        seq: Seq = self.head + len(rows) + 1  # type: ignore[assignment]  # a NewType's call costs as much as the sum
        chain = b"" if self.backend.chains_rows else sha256(before + body).digest()
        rows.append(LogRow(seq, body, chain))
        batch.entries.append(entry)
        return seq

    # -- writing -------------------------------------------------------------------------------------------

    def _write(self, batch: _Batch) -> None:
        if batch.rows or batch.fold is not None or batch.observed or batch.has_table_writes:
            observed = [(branch, row) for (branch, _), row in batch.observed.items()] if batch.observed else []
            (self._host_append or self.backend.append)(batch.rows, batch.fold, observed)
        if batch.fold is not None:
            if batch.fold.through > self.documents.folded:
                self.documents.after_fold(batch.fold)
                self._sessions.folded(batch.fold.through)
            self.collections.after_fold(batch.fold)
        self._advance(batch.rows, batch.entries)

    def _write_or_undo(self, batch: _Batch) -> None:
        try:
            self._write(batch)
        except BaseException:
            self._undo(batch)
            raise

    def _advance(self, rows: Sequence[LogRow], entries: Sequence[Entry]) -> None:
        """Rows are durable: update the tail, the branches and the head."""
        if rows:
            if others := self.documents.tail.add(rows, entries):
                self.documents.change_branches(others)
            self.head = rows[-1].seq
            self._chain = rows[-1].chain

    def _undo(self, batch: _Batch) -> None:
        for commit in batch.decided:
            for operation in commit.operations:
                self.states.drop(commit.branch, operation.doc)
        for branch, head in batch.fold.heads if batch.fold is not None else ():
            self.states.drop(branch, head.doc)
        self._sessions.forget(batch.decided)
        self.collections.undo(self.head, batch.fold)

    def append_fork(self, entry: ForkEntry) -> Seq:
        """Append the entry of a new branch."""
        batch = _Batch(self._clock.now_ms(), fold=self._due_fold())
        seq = self._link(batch, encode_entry(entry), entry)
        self._write_or_undo(batch)
        return seq

    def append_merge(self, commit: Commit, merged: tuple[BranchId, Seq]) -> CommitOutcome:
        """Append the commit of a merge, which the caller has checked."""
        batch = _Batch(self._clock.now_ms(), fold=self._due_fold())
        applied = self._apply(commit)
        if not isinstance(applied, tuple):
            raise InvariantError(f"a merge of whole documents did not apply: {applied.reason}", commit=commit)
        states, effects = applied
        batch.decided.append(commit)
        verdict = self._append(commit, states, effects, batch, merged)
        self._write_or_undo(batch)
        return self.collections.outcome(commit, verdict, effects)

    # -- folding -------------------------------------------------------------------------------------------

    def _due_fold(self) -> Fold | None:
        tail = self.documents.tail
        if len(tail.entries) >= FOLD_COMMITS or tail.weight >= FOLD_BYTES:
            return self._build_fold(is_last=False)
        if not self.collections.due:
            return None
        fold = Fold(self.documents.folded)  # of an index alone
        self.collections.add_entries(fold)
        return fold

    def _build_fold(self, *, is_last: bool) -> Fold:
        fold = build_fold(self.documents, self.states, self.head, self.backend.observation, self._others)
        if self.collections.is_used:
            self.collections.add_to_fold(fold, is_last=is_last)
        return fold

    def fold(self) -> None:
        """Update the caches to the newest commit, so that the next opening has no tail to replay."""
        if self.documents.folded < self.head:
            self._write_or_undo(_Batch(self._clock.now_ms(), fold=self._build_fold(is_last=True)))
        else:
            self.fold_entries()

    def fold_entries(self, feed: list[ShiftRow] | None = None) -> None:
        """Write the keys of the indexes that are due; and a new feed of shifts, if one is given."""
        fold = Fold(self.documents.folded, shifts=feed or [], is_new_feed=feed is not None)
        while self.collections.due:
            self.collections.add_entries(fold)
        if fold.entries or fold.is_new_feed:
            self._write_or_undo(_Batch(self._clock.now_ms(), fold=fold))
