"""The naive admission: an accepted commit had current reads, and its preconditions held.

Rules: INV-1, INV-4, INV-11, I10, I11.

It looks on while the engine decides, in every kind of worlds. The store compares paths that were touched; this compares
the values themselves: the read of a commit gave the same value just before the commit.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from unittest.mock import patch

import msgspec

from headwater.errors import AddressError, HeadwaterError, LimitError, PoisonedError, UnavailableError
from headwater.store.applying import apply_operation
from headwater.store.commit import (
    UNNUMBERED,
    Absent,
    Commit,
    CommitEntry,
    CommitOutcome,
    Committed,
    Operation,
    OriginCommitted,
    PendingRead,
    Read,
    Submission,
)
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.values.address import Depth, address_text
from headwater.values.ids import MAIN, DocKey, Seq
from headwater.values.tree import ABSENT, Maybe, Path, child, same, same_shape

Violate = Callable[[str, str], None]

Key = tuple[str, int]
"""A session, and the number of one of its commits."""


class Accepted(msgspec.Struct, frozen=True):
    """A commit that is in the log, or was elided."""

    seq: int | None
    """None: elided."""
    operations: tuple[Operation, ...]
    """On the main branch: only that is looked at."""


class Admission:
    """What one space has accepted, over all its openings."""

    def __init__(self, violate: Violate) -> None:
        self._violate = violate
        self.head = 0
        self._versions: dict[DocKey, list[tuple[int, Maybe]]] = {}
        self._accepted: dict[Key, Accepted] = {}
        # By this engine. Another one does not know the verdict of a commit that it has not in its log.
        self._rejected: set[Key] = set()
        # The log before this is not known.
        self._floor = 0
        self._engine: Engine | None = None

    def enter(self, engine: Engine) -> None:
        """Before the engine decides: take over what it has in its log."""
        if self._engine is not engine:
            self._engine = engine
            self._rejected.clear()
            # Entries that were compacted away before this looked are not known either.
            first = int(engine.documents.horizon.seq)
            if engine.head < self.head or not self.head or first > self.head:
                self._versions.clear()
                self._accepted.clear()
                self.head = self._floor = first
        self._catch_up(engine, int(engine.head))

    def _catch_up(self, engine: Engine, through: int) -> None:
        if self.head >= through:
            return
        for row in engine.backend.log(Seq(self.head), Seq(through)):
            entry = read_entry(row)
            if isinstance(entry, CommitEntry):
                operations = entry.operations if entry.branch == MAIN else ()
                self._apply(int(row.seq), operations)
                self._accepted[entry.session, entry.local_seq] = Accepted(int(row.seq), operations)
        self.head = through

    def look(self, submission: Submission, outcome: CommitOutcome) -> None:  # noqa: C901  # case by case
        """A decision."""
        asked, verdict, engine = submission.commit, outcome.verdict, self._engine
        assert engine is not None
        key = (asked.session, asked.local_seq)
        if asked.branch != MAIN:
            if type(verdict) is Committed:
                self._accepted.setdefault(key, Accepted(int(verdict.seq), ()))
            return
        if type(verdict) is not Committed:
            if key in self._accepted and asked.local_seq != UNNUMBERED and self._accepted[key].seq is not None:
                self._violate("INV-11", f"{_named(asked)} is in the log, and its verdict is now: {verdict}")
            self._rejected.add(key)
            return
        known = self._accepted.get(key)
        if known is not None and asked.local_seq != UNNUMBERED:
            if known.seq not in (None, verdict.seq):
                self._violate("INV-11", f"{_named(asked)} is at {known.seq}, and its verdict is now: {verdict}")
            if known.seq is not None or verdict.seq <= self.head:
                return
        if key in self._rejected and asked.local_seq != UNNUMBERED:
            self._violate("INV-11", f"{_named(asked)} was rejected, and was accepted when it was sent again")
        if self._floor and verdict.seq <= self._floor:
            # Sent again: it was decided when the log was one that is not known.
            self._accepted[key] = Accepted(None, asked.operations)
            return
        self._check(asked)
        if verdict.seq > self.head:
            self._catch_up(engine, int(verdict.seq) - 1)
            self._apply(int(verdict.seq), outcome.commit.operations)
            self.head = int(verdict.seq)
            self._accepted[key] = Accepted(self.head, outcome.commit.operations)
        else:
            self._accepted[key] = Accepted(None, asked.operations)

    def _apply(self, seq: int, operations: Sequence[Operation]) -> None:
        for operation in operations:
            versions = self._versions.setdefault(operation.doc, [])
            if not versions and self._floor:
                # Not written since the floor: the document before this entry is the one at the floor.
                assert self._engine is not None
                versions.append((self._floor, self._engine.documents.at(MAIN, operation.doc, Seq(seq - 1)).value))
            before = versions[-1][1] if versions else ABSENT
            after, _ = apply_operation(before, operation)
            if versions and versions[-1][0] == seq:
                versions[-1] = (seq, after)
            else:
                versions.append((seq, after))

    # -- rules ---------------------------------------------------------------------------------------------

    def _check(self, commit: Commit) -> None:
        for condition in commit.preconditions:
            if isinstance(condition, Absent) and self._versions.get(condition.doc):
                self._violate("I11", f"{_named(commit)} was accepted, and {address_text(condition.doc)} is not absent")
            elif isinstance(condition, OriginCommitted) and not self._may_be_accepted(commit, condition.local_seq):
                self._violate("I10", f"{_named(commit)} was accepted, and commit {condition.local_seq} was not")
        for read in commit.reads:
            self._compare(commit, read, self._at(read.doc, int(read.seq)))
        for rest in commit.pending_reads:
            self._compare(commit, rest, self._through_layers(commit, rest))

    def _may_be_accepted(self, commit: Commit, number: int) -> bool:
        """Whether another commit of its session was accepted, or may have been before the floor."""
        key = (commit.session, number)
        return key in self._accepted or (self._floor > 0 and key not in self._rejected)

    def _at(self, doc: DocKey, seq: int) -> Maybe | None:
        """The document at a place of the log; None if that is not known."""
        versions = self._versions.get(doc, [])
        index = bisect_right(versions, seq, key=lambda version: version[0])
        if not index:
            return None if self._floor else ABSENT
        return versions[index - 1][1]

    def _through_layers(self, commit: Commit, read: PendingRead) -> Maybe | None:
        """What the session saw: an older document with commits of its own on top."""
        value = self._at(read.doc, int(read.basis))
        for first, last in read.layers:
            for number in range(first, last + 1):
                layer = self._accepted.get((commit.session, number))
                if layer is None:
                    if not self._floor:
                        self._violate("INV-4", f"{_named(commit)} was accepted, and commit {number}, below it, was not")
                    return None
                for operation in layer.operations:
                    if operation.doc == read.doc:
                        try:
                            value = None if value is None else apply_operation(value, operation)[0]
                        except (AddressError, LimitError):
                            return None
        return value

    def _compare(self, commit: Commit, read: Read | PendingRead, seen: Maybe | None) -> None:
        now = self._at(read.doc, self.head)
        if seen is None or now is None:
            return
        then, found = _below(seen, read.path), _below(now, read.path)
        if not (same(then, found) if read.depth is Depth.DEEP else same_shape(then, found)):
            place = address_text(read.doc, read.path)
            text = f"{_named(commit)} was accepted, and had read {place} as {then!r}, where the log has {found!r}"
            self._violate("INV-1", text)


def _below(value: Maybe, path: Path) -> Maybe:
    for step in path:
        value = child(value, step)
    return value


def _named(commit: Commit) -> str:
    return f"commit {commit.local_seq} of {commit.session}"


@contextmanager
def watched(violate: Violate) -> Iterator[None]:
    """Inside, every engine is looked at while it decides."""
    spaces: dict[object, Admission] = {}
    inner = Engine.admit

    @wraps(inner)
    def admit(self: Engine, submissions: Sequence[Submission]) -> list[CommitOutcome]:
        key: object = getattr(self.backend, "_path", None) or id(self.backend)
        admission = spaces.get(key)
        if admission is None:
            admission = spaces[key] = Admission(violate)
        try:
            admission.enter(self)
        except HeadwaterError:
            # A disk that fails: the engine will say so.
            del spaces[key]
            return inner(self, submissions)
        outcomes = inner(self, submissions)
        for submission, outcome in zip(submissions, outcomes, strict=True):
            try:
                admission.look(submission, outcome)
            except (UnavailableError, PoisonedError):
                # The disk has failed since, such as in a checkpoint: what is before the commit cannot be read here.
                del spaces[key]
                break
            except HeadwaterError as error:
                violate("INV-9", f"{_named(submission.commit)} was accepted, and cannot be applied: {error}")
                del spaces[key]
                break
        return outcomes

    with patch.object(Engine, "admit", admit):
        yield
