"""A replica whose store is a server. Effects of other sessions' commits are computed here, from their operations.

Length: every way in which a document comes, changes and goes has to agree with the others.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

from msgspec import structs

from headwater.cells.context import CONTEXT
from headwater.cells.key_moves import KeyMoves
from headwater.cells.loaded_document import Document
from headwater.cells.pending_commit import Failure, PendingCommit, Pulled
from headwater.cells.span_records import is_span_mark
from headwater.client.document_fetch import is_in_loop
from headwater.client.read_ahead import ReadAhead
from headwater.client.span_replica import SpanReplica
from headwater.errors import AddressError, HeadwaterError, InvariantError, LimitError, OfflineError
from headwater.runtime.attached_replica import ReplicaPort, ReplicaStorage
from headwater.store.applying import apply_operation
from headwater.store.commit import (
    Commit,
    CommitOutcome,
    Committed,
    DeleteDoc,
    Effect,
    Operation,
    SetDoc,
    Submission,
    Verdict,
)
from headwater.store.document import StoredDocument
from headwater.sync.client_listener import Brought, SpanArrived, part_of
from headwater.values.ids import NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.patch import Touches
from headwater.values.tree import ABSENT, Maybe

Rejected: TypeAlias = tuple[Commit, Verdict | None, HeadwaterError | None, bool]
"""A rejected commit of this session, the reason, and whether an earlier run made it."""


class RemoteReplica(SpanReplica):
    """Holds the watched documents. `covers`: prefixes held completely; `unwatch` ends a watch at the server."""

    def __init__(
        self,
        storage: ReplicaStorage,
        port: ReplicaPort,
        session: SessionId,
        branch: BranchId,
        seq: Seq,
        *,
        covers: Callable[[DocKey], bool],
        unwatch: Callable[[Collection[DocKey]], None],
        keeps_walked: bool = False,
    ) -> None:
        super().__init__(storage, port, session, branch, seq, keeps_walked=keeps_walked)
        self._covers = covers
        self._unwatch = unwatch
        self._ahead = ReadAhead()
        self._is_integrating = False
        # Results of functions here that are not sent to the server.
        self._own: set[DocKey] = set()
        # Commits of an earlier run, and the listener for rejected ones. It also gets the commits of this run that ended
        # with the session, without a verdict.
        self.is_over: Callable[[], bool] = lambda: False
        self.is_live: Callable[[], bool] = lambda: True
        self.fetch: Callable[[list[DocKey], Seq], list[tuple[DocKey, StoredDocument]]] = lambda *_: []
        self._earlier: dict[LocalSeq, None] = {}
        self.on_refused: Callable[[list[Rejected]], None] = lambda _: None
        # Requested by code that does not wait, and not answered yet; and results of functions here, which never are.
        self.is_partial = True
        self.is_derived: Callable[[DocKey], bool] = lambda _: False
        # Dropped while changes, possibly of these documents, were waiting to be integrated.
        self._gone: set[DocKey] = set()

    def install(self, found: Iterable[tuple[DocKey, StoredDocument]]) -> None:
        """Install documents that arrived before the first read."""
        new = list(found)
        super().install(new)
        for doc, each in new:
            self._ahead.note(doc, each.value)
            if not self._covers(doc):
                self._unread.loaded((doc,))

    def next_after(self, doc: DocKey) -> list[DocKey]:
        """The documents that are likely to be read after a missing document, as far as they are not here either."""
        return [each for each in self._ahead.after(doc) if each not in self._documents and not self._covers(each)]

    def install_ahead(self, found: Iterable[tuple[DocKey, StoredDocument]], size: int) -> None:
        """Install documents that came with a document that was read, in an answer of so many bytes."""
        come = [(doc, each) for doc, each in found if doc not in self._documents]
        for doc, each in come:
            self._documents[doc] = Document(each.value, each.seq, each.value)
            self._ahead.note(doc, each.value)
        self._unread.walked(doc for doc, _ in come)
        self._ahead.answered(len(come) + 1, size)

    def restore(self, outbox: Iterable[Submission], last: int) -> None:
        """Apply undecided commits of an earlier run optimistically. This call does not send them."""
        for submission in outbox:
            commit = submission.commit
            for operation in commit.operations:
                # The document was held when the commit was made: it is here, or it was new.
                self.expect_new(operation.doc)
            try:
                effects = self._effects(commit.operations)
            except (AddressError, LimitError):
                # Does not apply here; the server decides, and may know more.
                effects = ()
            pending = self._pending[commit.local_seq] = PendingCommit(commit, effects)
            pending.is_rebased = True
            self._earlier[commit.local_seq] = None
            self._stack(pending)
        self._local_seq = LocalSeq(last)

    def release(self, doc: DocKey) -> None:
        """Drop a document, unless its whole prefix is held."""
        self._release_all((doc,))

    def _release_all(self, docs: Collection[DocKey]) -> None:
        with self._turn:
            gone: list[DocKey] = []
            for doc in docs:
                if doc in self._documents and not self._covers(doc):
                    if self.spans.by_number and self._is_in_span(doc):
                        continue
                    super().release(doc)
                    if doc not in self._documents:
                        gone.append(doc)
                        self._unread.is_read(doc)
            if gone:
                self._have_come(gone)
                if self.inbox:
                    self._gone.update(gone)
                self._unwatch(gone)

    def make_room(self, count: int) -> None:
        """Release the oldest documents that no function reads, if too many are held with so many more."""
        with self._turn:
            gone = self._unread.take(len(self._documents) + count)
            if gone:
                self._release_all(gone)
                self._unread.put_back([doc for doc in gone if doc in self._documents], len(self._documents))

    def expect_new(self, doc: DocKey) -> None:
        """Add a document with a new id as absent."""
        with self._turn:
            if doc not in self._documents:
                super().expect_new(doc)
                if not self._covers(doc):
                    self._unread.loaded((doc,))

    def integrate(self, decided: Iterable[CommitOutcome | Failure | Pulled]) -> None:
        """Integrate outcomes. The server sends operations; their effects are computed here."""
        taken = list(decided)
        self._is_integrating = True
        if self.members is not None:
            self.members.moves = KeyMoves()
        try:
            if self._earlier or self.on_taken_in is not None:
                self._integrate_and_keep(taken)
            else:
                super().integrate(self._worked_out(taken))
        finally:
            self._is_integrating = False
            if self.members is not None:
                self.members.moves = None
        self._gone.clear()
        if self.coming:
            self._have_come(doc for each in taken for doc in _known_by(each))

    def refresh(self) -> None:
        """As above. When the session is over, no requested document arrives: a read of one says why."""
        with self._turn:
            super().refresh()
            if self.coming and self.is_over():
                for doc in self.coming:
                    self._documents.pop(doc, None)
                self._have_come(tuple(self.coming))
            if self._unreached and self.is_live():
                # Runs that could not read them are repeated.
                unreached, self._unreached = self._unreached, {}
                self.on_arrived(list(unreached))

    def has_readers(self, commit: Commit) -> bool:
        """Whether functions here read a document that a commit writes."""
        return any(self._is_read(operation.doc) for operation in commit.operations)

    def is_missing(self, doc: DocKey) -> bool:
        """Whether it was requested and has not arrived. A document that a local commit replaces as a whole is known."""
        with self._turn:
            if is_span_mark(doc):
                return self._are_missing(doc)
            if self._is_in_run():
                self._unread.is_read(doc)
            elif not self._is_integrating:
                self.make_room(0)
            if doc not in self._documents:
                self._load(doc)
            if doc not in self.coming or self.is_derived(doc):
                return False
            layers = self._documents[doc].layers
            if any(doc in _known_by(each) for each in layers):
                return False
            if layers or (not self.waits and is_in_loop()):
                return True
            # Plain code waits for it.
            del self._documents[doc]
            self._load(doc)
            self._have_come((doc,))
            return False

    def hold(self, docs: Iterable[DocKey]) -> Collection[DocKey]:
        """Load documents, several with one question. If the server has compacted the past, it sends a newer state."""
        found: list[tuple[DocKey, StoredDocument]] = []
        with self._turn:
            missing = [doc for doc in docs if doc not in self._documents]
            asked = [] if not self.waits and is_in_loop() else [doc for doc in missing if not self._covers(doc)]
            if asked:
                found = self.fetch(asked, self.seq)
                self._documents.update((doc, Document(ABSENT, NEVER, ABSENT)) for doc in asked)
                self.install(found)
                if self.on_taken_in is not None:
                    self.on_taken_in([], [(doc, each.seq, each.value) for doc, each in found], self.seq)
            for doc in missing:
                if doc not in self._documents:
                    self._load(doc)
            return [doc for doc, each in found if each.seq > self.seq]

    def _load(self, doc: DocKey) -> Document:
        try:
            record = super()._load(doc)
        except OfflineError:
            self._unreached[doc] = None
            raise
        self._ahead.note(doc, record.confirmed)
        if not self._is_in_run() and not self._covers(doc):
            self._unread.walked((doc,))
        return record

    def _is_in_run(self) -> bool:
        """Whether a run of a function, or a handler, reads here now."""
        frame = CONTEXT.get()
        while frame is not None:
            tx = frame.tx
            if tx is not None and tx.replica is self and tx.node is not None:
                return True
            frame = frame.outer
        return False

    def is_as_of(self, doc: DocKey, seq: Seq) -> bool:
        """As above. Never for a result that is kept here: it hides that of another runtime, which is not adopted."""
        return doc not in self._own and super().is_as_of(doc, seq)

    def is_loaded(self, doc: DocKey) -> bool:
        """Whether it is here, or known not to exist."""
        if is_span_mark(doc):
            return doc not in self.coming and doc not in self._questions
        return (doc in self._documents and doc not in self.coming) or self._covers(doc)

    def _integrate_and_keep(self, decided: list[CommitOutcome | Failure | Pulled]) -> None:
        tell = self.on_rejected
        refused: list[Rejected] = []

        def told(pending: PendingCommit, verdict: Verdict | None, error: HeadwaterError | None) -> None:
            is_earlier = pending.commit.local_seq in self._earlier
            if is_earlier or (error is not None and self.is_over()):
                refused.append((pending.commit, verdict, error, is_earlier))
            if not is_earlier:
                tell(pending, verdict, error)

        self.on_rejected = told
        try:
            super().integrate(self._worked_out(decided))
        finally:
            self.on_rejected = tell
            if refused:
                self.on_refused(refused)
            own = [each.commit for each in decided if not isinstance(each, Pulled)]
            gone = [commit.local_seq for commit in own if commit.session == self._session]
            for number in gone:
                self._earlier.pop(number, None)
            if self.on_taken_in is not None:
                docs = {each.doc: None for each in decided if isinstance(each, Pulled)}
                docs |= {operation.doc: None for commit in own for operation in commit.operations}
                held = [(doc, self._documents.get(doc)) for doc in docs if doc not in self._own]
                self.on_taken_in(
                    gone, [(doc, each.seq, each.confirmed) for doc, each in held if each is not None], self.seq
                )

    def _worked_out(
        self, decided: Iterable[CommitOutcome | Failure | Pulled]
    ) -> Iterator[CommitOutcome | Failure | Pulled]:
        # Requested documents that have come in this step.
        come: set[DocKey] = set()
        for each in decided:
            if isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed) and not each.effects:
                yield self._decided(each, each.verdict.seq, come)
            elif isinstance(each, SpanArrived):
                self._take_arrived(each)
            elif not isinstance(each, Pulled):
                yield each
            elif self._is_wanted(each):
                self._take_pulled(each.doc, each.found.value)
                yield each
            if self.coming:
                come.update(_known_by(each))

    def _decided(self, outcome: CommitOutcome, seq: Seq, come: Collection[DocKey]) -> CommitOutcome:
        mine = self._pending.get(outcome.commit.local_seq) if outcome.commit.session == self._session else None
        if mine is not None and seq == NEVER:
            self._keep_here(mine)
        made = self._with_effects(outcome.commit, seq, mine, come)
        self._note_moves(outcome, seq, made.effects)
        return structs.replace(made, shifts=outcome.shifts) if outcome.shifts else made

    def _take_pulled(self, doc: DocKey, value: Maybe) -> None:
        self._ahead.note(doc, value)
        if self.members is not None and self.members.moves is not None and not self._was_known(doc):
            self.members.moves.come.add(doc)
        if doc not in self._documents and not self._covers(doc):
            self._unread.loaded((doc,))

    def _was_known(self, doc: DocKey) -> bool:
        """Whether a document was here, or known not to exist."""
        return (doc in self._documents or self._covers(doc)) and doc not in self.coming

    def _is_wanted(self, pulled: Pulled) -> bool:
        """Whether to keep a fetched document. A dropped document gets no further changes, and would become stale."""
        doc = pulled.doc
        if doc in self._own:
            return False
        held = doc in self._documents or self._covers(doc)
        return held or (isinstance(pulled, Brought) and doc not in self._gone)

    def _keep_here(self, mine: PendingCommit) -> None:
        """Keep a function's result locally where the session may not write; the server's version is hidden by it."""
        for operation in mine.commit.operations:
            record = self._documents[operation.doc]
            record.confirmed, _ = apply_operation(record.confirmed, operation)
            self._own.add(operation.doc)

    def _with_effects(
        self, commit: Commit, seq: Seq, mine: PendingCommit | None, come: Collection[DocKey]
    ) -> CommitOutcome:
        if mine is not None and not mine.is_rebased and self._is_as_shown(mine, seq):
            return CommitOutcome(commit, Committed(seq), mine.effects)
        if len(commit.operations) == 1 and not self._own and not self.coming:
            # The commonest commit of another session: one operation on a document that is here.
            operation = commit.operations[0]
            record = self._documents.get(operation.doc)
            if record is not None and record.seq < seq:
                before = record.confirmed
                after, touches = self._applied(before, operation, seq)
                return CommitOutcome(commit, Committed(seq), (Effect(operation.doc, before, after, touches),))
        effects: dict[DocKey, Effect] = {}
        kept = [each.doc in self._documents or self._covers(each.doc) for each in commit.operations]
        if not all(kept):
            # Some were dropped while this was in flight.
            operations, seen = part_of(commit.operations, commit.seen, kept)
            commit = structs.replace(commit, operations=operations, seen=seen)
        for operation in commit.operations:
            doc = operation.doc
            record = self._documents.get(doc)
            if record is None:
                # New, below a prefix that is held completely.
                record = self._documents[doc] = Document(ABSENT, NEVER, ABSENT)
            earlier = effects.get(doc)
            before = record.confirmed if earlier is None else earlier.after
            is_coming = doc in self.coming and doc not in come
            if before is ABSENT and is_coming and doc not in _replaced_by(operation):
                # It was released and requested again: what is on its way contains this.
                effects[doc] = Effect(doc, before, before, ())
                continue
            if record.seq >= seq or doc in self._own:
                # Included in the fetched document.
                effects[doc] = Effect(doc, before, before, ())
                continue
            after, touches = self._applied(before, operation, seq)
            first = before if earlier is None else earlier.before
            effects[doc] = Effect(doc, first, after, touches if earlier is None else earlier.touches + touches)
        return CommitOutcome(commit, Committed(seq), tuple(effects.values()))

    def _applied(self, before: Maybe, operation: Operation, seq: Seq) -> tuple[Maybe, Touches]:
        try:
            return apply_operation(before, operation)
        except (AddressError, LimitError) as misfit:
            doc = operation.doc
            message = f"what the server has at {seq} does not fit what is here of {doc}: {misfit.message}"
            raise InvariantError(message, doc=doc, seq=seq) from misfit

    def _is_as_shown(self, mine: PendingCommit, seq: Seq) -> bool:
        """Whether the commit was applied to the same documents that it was made on."""
        for effect in mine.effects:
            record = self._documents.get(effect.doc)
            if record is None or record.confirmed is not effect.before or record.seq >= seq:
                return False
        return True


def _known_by(each: CommitOutcome | Failure | Pulled | PendingCommit) -> Iterator[DocKey]:
    """Documents that are fully known after it, whatever they were before."""
    if isinstance(each, Pulled):
        yield each.doc
    elif isinstance(each, PendingCommit) or (isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed)):
        for operation in each.commit.operations:
            yield from _replaced_by(operation)


def _replaced_by(operation: Operation) -> Iterator[DocKey]:
    if isinstance(operation, SetDoc | DeleteDoc):
        yield operation.doc
