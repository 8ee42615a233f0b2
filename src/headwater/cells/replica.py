"""What one process sees of a space: confirmed documents with its own unconfirmed commits on top.

A local write is visible, and told to whoever listens, before `commit` returns; the store's verdict comes later and
either confirms it or takes it back. What others commit arrives in the order of the log. All of it on one thread.

Must never know: who listens, how commits travel, which thread decides them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

import msgspec

from headwater.errors import AddressError, HeadwaterError, InvariantError
from headwater.store.commit import (
    Commit,
    Committed,
    Conflict,
    Effect,
    Operation,
    OriginCommitted,
    Outcome,
    PendingRead,
    Precondition,
    Read,
    Submission,
    Verdict,
)
from headwater.store.document import Found, apply_operation
from headwater.values.address import Depth
from headwater.values.change import Change, Kind, Notification
from headwater.values.diff import changes_between, changes_of
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.patch import Touches
from headwater.values.tree import ABSENT, Maybe, Path

_DEAD_MAX: Final = 4096
"""Rejected commits a replica remembers, to stop commits made on top of them before they travel."""

_COMMIT: Final = Kind.COMMIT

Listener: TypeAlias = Callable[[Notification], None]


class Upstream(Protocol):
    """Where a replica's commits go and its documents come from."""

    def load(self, doc: DocKey, through: Seq) -> Found | None:
        """The confirmed document as of a place in the log; None if it has to be fetched and will arrive by `pull`."""

    def submit(self, submission: Submission) -> None:
        """Take a commit for decision. Raises if it cannot be taken; then it never was."""


class Failure(msgspec.Struct, frozen=True):
    """The store could not decide a commit: nothing of it was kept, and the error says why."""

    commit: Commit
    error: HeadwaterError


class Pending(Submission, eq=False):
    """A local commit, from the moment it is visible until it is settled: by a verdict, or by an error.

    Submission, layer and handle in one record, and a Struct rather than a dataclass: one is made for every write, and
    three objects, or a slower one, would be most of what a write costs.
    """

    # Whatever the committer wants to find again in the notifications: its transaction.
    source: object = None
    # replica.integrate(): exactly one of the two, once.
    verdict: Verdict | None = None
    error: HeadwaterError | None = None
    # replica._render(): the effects are those of another basis now.
    moved: bool = False
    callbacks: tuple[Callable[[Pending], None], ...] = ()

    @property
    def settled(self) -> bool:
        """Decided, one way or another."""
        return self.verdict is not None or self.error is not None

    @property
    def accepted(self) -> bool:
        """In the log."""
        return type(self.verdict) is Committed

    def on_settled(self, callback: Callable[[Pending], None]) -> None:
        """Call back when it is settled; at once if it is."""
        if self.settled:
            callback(self)
        else:
            self.callbacks = (*self.callbacks, callback)

    def settle(self, verdict: Verdict | None, error: HeadwaterError | None) -> None:
        """Once. Callbacks run after the documents have moved, and are let go."""
        if self.settled:
            raise InvariantError(f"commit {self.commit.local_seq} was settled twice", pending=self)
        self.verdict, self.error = verdict, error
        callbacks, self.callbacks = self.callbacks, ()
        for callback in callbacks:
            callback(self)


@dataclass(slots=True, eq=False)
class _Document:
    """One document here: what the store has confirmed, and what it looks like with our layers on top."""

    confirmed: Maybe
    seq: Seq
    visible: Maybe
    # Commits of ours that touch it and are not decided yet, oldest first.
    layers: list[Pending] = field(default_factory=list)


_Moved: TypeAlias = dict[DocKey, tuple[Maybe, Touches | None]]
"""Documents that moved in one step: what each looked like before, and where it was touched (None: anywhere)."""


class Replica:
    """One session's view of one branch of a space."""

    def __init__(self, upstream: Upstream, session: SessionId, *, branch: BranchId = MAIN, seq: Seq = NEVER) -> None:
        self._upstream = upstream
        self._session = session
        self._branch = branch
        self._documents: dict[DocKey, _Document] = {}
        self._pending: dict[LocalSeq, Pending] = {}
        self._dead: dict[LocalSeq, None] = {}
        self._listeners: tuple[Listener, ...] = ()
        self._local_seq = LocalSeq(0)
        self.seq = seq
        """The newest commit of the log that is taken in here: all confirmed documents are as of this place."""

    # -- reading -------------------------------------------------------------------------------------------

    def read(self, doc: DocKey) -> Maybe:
        """The document as it looks from here."""
        record = self._documents.get(doc)
        return (record if record is not None else self._load(doc)).visible

    def read_mark(self, doc: DocKey, path: Path, depth: Depth = Depth.DEEP) -> Read | PendingRead:
        """What a commit has to name when it is made from what `read` returned."""
        record = self._documents.get(doc) or self._load(doc)
        if not record.layers:
            return Read(doc, path, record.seq, depth)
        return PendingRead(doc, path, record.seq, _ranges(record.layers), depth)

    def _load(self, doc: DocKey) -> _Document:
        found = self._upstream.load(doc, self.seq) or Found(ABSENT, NEVER)
        record = self._documents[doc] = _Document(found.value, found.seq, found.value)
        return record

    @property
    def pending_count(self) -> int:
        """Local commits without a verdict."""
        return len(self._pending)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Be told of every change of what is visible here. Returns what ends it."""
        self._listeners = (*self._listeners, listener)

        def end() -> None:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

        return end

    # -- writing -------------------------------------------------------------------------------------------

    def commit(
        self,
        operations: Sequence[Operation],
        *,
        reads: Iterable[Read | PendingRead] = (),
        preconditions: Sequence[Precondition] = (),
        source: object = None,
    ) -> Pending:
        """Apply a commit here, tell the listeners, and send it on its way. Raises AddressError: then nothing changed."""
        effects = self._effects(operations)
        local_seq = LocalSeq(self._local_seq + 1)
        commit = Commit(self._session, local_seq, tuple(operations), (), (), (), self._branch)
        if reads or preconditions:
            commit = _with_conditions(commit, reads, preconditions)
        pending = Pending(commit, effects, source)
        if not preconditions and not (effects and effects[0].touches) and self._is_noop(effects):
            # Equal to what is confirmed: nothing to ask, nothing to tell.
            pending.settle(Committed(self.seq), None)
            return pending
        if commit.pending_reads and (dead := self._dead_layer(commit)) is not None:
            pending.settle(Conflict(f"rests on commit {dead} of this session, which was rejected"), None)
            return pending
        self._upstream.submit(pending)
        self._local_seq = local_seq
        self._pending[local_seq] = pending
        self._stack(pending)
        return pending

    def _is_noop(self, effects: tuple[Effect, ...]) -> bool:
        """Nothing is touched, and not only because of layers that may yet be taken back."""
        for effect in effects:
            if effect.touches or self._documents[effect.doc].layers:
                return False
        return True

    def _effects(self, operations: Sequence[Operation]) -> tuple[Effect, ...]:
        """What the operations do to what is visible here, one effect per document."""
        if len(operations) == 1:
            operation = operations[0]
            record = self._documents.get(operation.doc) or self._load(operation.doc)
            after, touches = apply_operation(record.visible, operation)
            return (Effect(operation.doc, record.visible, after, touches),)
        merged: dict[DocKey, Effect] = {}
        for operation in operations:
            doc = operation.doc
            earlier = merged.get(doc)
            if earlier is None:
                before = self.read(doc)
                merged[doc] = Effect(doc, before, *apply_operation(before, operation))
            else:
                after, touches = apply_operation(earlier.after, operation)
                merged[doc] = Effect(doc, earlier.before, after, earlier.touches + touches)
        return tuple(merged.values())

    def _stack(self, pending: Pending) -> None:
        """Lay the commit over the documents it touches and say what changed."""
        listeners = self._listeners
        changes: list[Change] = []
        for effect in pending.effects:
            record = self._documents[effect.doc]
            record.layers.append(pending)
            record.visible = effect.after
            if listeners and effect.touches:
                changes += changes_of(effect.doc, effect.before, effect.after, effect.touches)
        if changes:
            notification = Notification(_COMMIT, tuple(changes), pending.source)
            for listener in listeners:
                listener(notification)

    def _dead_layer(self, commit: Commit) -> LocalSeq | None:
        """A rejected commit that this one was made on top of."""
        if not self._dead:
            return None
        for read in commit.pending_reads:
            for first, last in read.layers:
                for number in range(first, last + 1):
                    if number in self._dead:
                        return LocalSeq(number)
        return None

    # -- taking in what the store decided ------------------------------------------------------------------

    def integrate(self, decided: Iterable[Outcome | Failure]) -> None:
        """Take in decisions in the order of the log, as one step: listeners see what it comes to, not what lies between."""
        moved: _Moved = {}
        reverted: set[DocKey] = set()
        settled: list[tuple[Pending, Verdict | None, HeadwaterError | None]] = []
        sources: list[object] = []
        for outcome in decided:
            if type(outcome) is Failure:
                pending = self._pending.pop(outcome.commit.local_seq, None)
                if pending is not None:
                    self._drop(pending, moved, reverted)
                    sources.append(pending.source)
                    settled.append((pending, None, outcome.error))
                continue
            assert isinstance(outcome, Outcome)
            commit, verdict = outcome.commit, outcome.verdict
            mine = self._pending.pop(commit.local_seq, None) if commit.session == self._session else None
            if type(verdict) is Committed:
                self._advance(outcome, verdict.seq, mine, moved)
            elif mine is not None:
                self._drop(mine, moved, reverted)
                sources.append(mine.source)
            if mine is not None:
                settled.append((mine, verdict, None))
        self._announce(moved, reverted, sources)
        for pending, verdict_, error in settled:
            pending.settle(verdict_, error)

    def _advance(
        self, outcome: Outcome, seq: Seq, mine: Pending | None, moved: _Moved
    ) -> None:
        """An accepted commit, ours or another's, becomes part of what is confirmed."""
        if outcome.commit.branch != self._branch or seq <= self.seq:
            return
        self.seq = seq
        for effect in outcome.effects:
            record = self._documents.get(effect.doc)
            if record is None:
                if self._listeners:
                    # Not held here, so nothing shadows it: told as it is.
                    _note(moved, effect.doc, effect.before, effect.touches)
                    self._documents[effect.doc] = _Document(effect.after, seq, effect.after)
                continue
            if seq <= record.seq:
                continue
            record.confirmed, record.seq = effect.after, seq
            layers = record.layers
            if not layers:
                _note(moved, effect.doc, record.visible, effect.touches)
                record.visible = effect.after
            elif layers[0] is mine:
                del layers[0]
                if mine.moved or effect not in mine.effects:
                    self._render(effect.doc, record, moved)
            else:
                self._render(effect.doc, record, moved)

    def _drop(self, pending: Pending, moved: _Moved, reverted: set[DocKey]) -> None:
        """A rejected commit leaves every document, and so does each that was made on top of it."""
        doomed = [pending, *self._resting_on(pending)]
        for rejected in doomed:
            self._dead[rejected.commit.local_seq] = None
        while len(self._dead) > _DEAD_MAX:
            del self._dead[next(iter(self._dead))]
        for rejected in doomed:
            for doc in {operation.doc for operation in rejected.commit.operations}:
                record = self._documents[doc]
                kept = [layer for layer in record.layers if layer is not rejected]
                if len(kept) != len(record.layers):
                    record.layers = kept
                    reverted.add(doc)
                    self._render(doc, record, moved)

    def _resting_on(self, pending: Pending) -> list[Pending]:
        """Later commits that name this one, or one that does. The store will reject them too; here they go at once."""
        dead = {pending.commit.local_seq}
        found: list[Pending] = []
        for later in self._pending.values():
            commit = later.commit
            named = (r for read in commit.pending_reads for r in read.layers)
            origins = (p.local_seq for p in commit.preconditions if type(p) is OriginCommitted)
            if any(first <= number <= last for first, last in named for number in dead) or dead.intersection(origins):
                dead.add(commit.local_seq)
                found.append(later)
        return found

    def _render(self, doc: DocKey, record: _Document, moved: _Moved) -> None:
        """What a document looks like with the remaining layers on what is confirmed now."""
        _note(moved, doc, record.visible, None)
        value = record.confirmed
        for layer in record.layers:
            layer.moved = True
            before = value
            try:
                for operation in layer.commit.operations:
                    if operation.doc == doc:
                        value, _ = apply_operation(value, operation)
            except AddressError:
                # Does not fit what won: it stays invisible, and the store will say so in its verdict.
                value = before
        record.visible = value

    def pull(self, doc: DocKey, found: Found) -> None:
        """A document that `Upstream.load` had to fetch is here."""
        record = self._documents.get(doc) or self._load(doc)
        if found.seq < record.seq:
            return
        record.confirmed, record.seq = found.value, found.seq
        moved: _Moved = {}
        self._render(doc, record, moved)
        self._announce(moved, set(), [], quiet=Kind.PULL)

    # -- telling -------------------------------------------------------------------------------------------

    def _announce(
        self,
        moved: _Moved,
        reverted: set[DocKey],
        sources: list[object],
        quiet: Kind = Kind.INTEGRATE,
    ) -> None:
        """One notification for what was taken back (with what won instead), one for what else arrived."""
        if not self._listeners:
            return
        told: dict[Kind, list[Change]] = {Kind.REVERT: [], quiet: []}
        for doc, (before, touches) in moved.items():
            after = self._documents[doc].visible
            if touches is None:
                changes = changes_between(doc, before, after)
            else:
                changes = changes_of(doc, before, after, touches) if touches else []
            told[Kind.REVERT if doc in reverted else quiet] += changes
        for kind, changes in told.items():
            if changes:
                source = sources[0] if kind is Kind.REVERT and len(sources) == 1 else None
                self._tell(Notification(kind, tuple(changes), source))

    def _tell(self, notification: Notification) -> None:
        for listener in self._listeners:
            listener(notification)


def _with_conditions(
    commit: Commit, reads: Iterable[Read | PendingRead], preconditions: Sequence[Precondition]
) -> Commit:
    marks = tuple(reads)
    return msgspec.structs.replace(
        commit,
        reads=tuple(mark for mark in marks if type(mark) is Read),
        pending_reads=tuple(mark for mark in marks if type(mark) is PendingRead),
        preconditions=tuple(preconditions),
    )


def _note(
    moved: _Moved, doc: DocKey, before: Maybe, touches: Touches | None
) -> None:
    """Remember what a document looked like before this step, and where it was touched (None: anywhere)."""
    earlier = moved.get(doc)
    if earlier is None:
        moved[doc] = (before, touches)
    elif earlier[1] is not None:
        moved[doc] = (earlier[0], None if touches is None else earlier[1] + touches)


def _ranges(layers: Sequence[Pending]) -> tuple[tuple[LocalSeq, LocalSeq], ...]:
    """The local sequence numbers of the layers, neighbours joined."""
    ranges: list[tuple[LocalSeq, LocalSeq]] = []
    for layer in layers:
        number = layer.commit.local_seq
        if ranges and ranges[-1][1] + 1 == number:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return tuple(ranges)
