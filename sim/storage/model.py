"""The naive model of a space: the log applied to plain dicts and lists, with the value of every document at every time.

It shares no code with the store. It knows the operations that the workload makes, and no other.
"""

from __future__ import annotations

import copy
import itertools
from enum import Enum
from typing import Any, Final

from headwater.store.commit import (
    Absent,
    Commit,
    DeleteDoc,
    Entry,
    ForkEntry,
    Operation,
    OriginCommitted,
    PendingRead,
    Read,
    SetDoc,
    ValueIs,
)
from headwater.values.address import Depth
from headwater.values.patch import Add, Append, Increment, Move, PatchOp, Remove, Replace
from headwater.values.tree import ABSENT


class MisfitError(Exception):
    """An operation does not fit the document."""


class Missing(Enum):
    """A document or place that does not exist."""

    MISSING = "missing"


MISSING: Final = Missing.MISSING


def plain(value: object) -> Any:  # any tree
    """A value of the store as dicts and lists."""
    if value is ABSENT:
        return MISSING
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
        return value
    return [plain(each) for each in value]


def look(value: Any, path: tuple[str | int, ...], depth: Depth) -> Any:
    """What a read of a path sees."""
    for step in path:
        if not _has(value, step):
            return MISSING
        value = value[step]
    if depth is Depth.SHALLOW:
        return sorted(value) if isinstance(value, dict) else len(value) if isinstance(value, list) else value
    return value


def applied(value: Any, operation: Operation) -> Any:
    """The document after an operation. Raises MisfitError."""
    match operation:
        case SetDoc(_, new):
            return plain(new)
        case DeleteDoc():
            return MISSING
        case _:
            value = copy.deepcopy(value)
            for op in operation.ops:
                value = _patched(value, op)
            return value


def _patched(value: Any, op: PatchOp) -> Any:  # noqa: C901  # one case for each operation
    if isinstance(op, Move):
        moved = look(value, op.source, Depth.DEEP)
        return _patched(_patched(value, Remove(op.source)), Add(op.path, moved))
    makes = isinstance(op, Add | Append | Increment)
    if value is MISSING and makes:
        value = {}
    # For an append, the last step leads to the list itself.
    steps: tuple[Any, ...] = (*op.path, None) if isinstance(op, Append) else op.path
    at = value
    for step, following in itertools.pairwise(steps):
        if makes and isinstance(at, dict) and step not in at:
            at[step] = {} if isinstance(following, str) else []
        if not _has(at, step):
            raise MisfitError
        at = at[step]
    last = steps[-1]
    match op:
        case Append(_, items) if isinstance(at, list):
            at += [plain(each) for each in items]
        case Increment(_, by) if isinstance(at, dict) and isinstance(at.get(last, 0), int):
            at[last] = at.get(last, 0) + by
        case Add(_, new) if isinstance(at, dict):
            at[last] = plain(new)
        case Add(_, new) if isinstance(at, list) and isinstance(last, int) and last <= len(at):
            at.insert(last, plain(new))
        case Replace(_, new) if _has(at, last):
            at[last] = plain(new)
        case Remove() if _has(at, last):
            del at[last]
        case _:
            raise MisfitError
    return value


def _has(at: object, step: object) -> bool:
    if isinstance(at, dict):
        return step in at
    return isinstance(at, list) and isinstance(step, int) and step < len(at)


class Model:
    """All documents of all branches, at every sequence number."""

    def __init__(self) -> None:
        self.head = 0
        # By branch and document: sequence number, value, session, local number; oldest first.
        self.writes: dict[tuple[str, str], list[tuple[int, Any, str, int]]] = {}
        self.forks: dict[str, tuple[str, int]] = {"main": ("", 0)}
        # By branch: (source, newest commit of the source, the merge commit).
        self.merges: dict[str, list[tuple[str, int, int]]] = {}
        self.accepted: dict[tuple[str, int], int] = {}
        # The log of some time was dropped: which paths were written then is not known to the store.
        self.is_compacted = False
        # Accepted without an entry.
        self.elided: set[tuple[str, int]] = set()

    def write_of(self, branch: str, doc: str, seq: int) -> tuple[int, Any, str, int]:
        """The newest write of a document as of a sequence number."""
        while True:
            before = [each for each in self.writes.get((branch, doc), []) if each[0] <= seq]
            if before:
                return before[-1]
            parent, fork = self.forks[branch]
            if not parent:
                return 0, MISSING, "", 0
            branch, seq = parent, min(seq, fork)

    def writes_of(self, branch: str, doc: str) -> list[tuple[int, Any, str, int]]:
        """All writes that the branch sees."""
        found, seq = list(self.writes.get((branch, doc), ())), self.head
        while (parent := self.forks[branch][0]) != "":
            seq = min(seq, self.forks[branch][1])
            found += [each for each in self.writes.get((parent, doc), ()) if each[0] <= seq]
            branch = parent
        return found

    def value(self, branch: str, doc: str, seq: int) -> Any:
        return self.write_of(branch, doc, seq)[1]

    def docs(self, branch: str) -> list[str]:
        """Documents that the branch may see."""
        names = {branch}
        while (branch := self.forks[branch][0]) != "":
            names.add(branch)
        return sorted({doc for name, doc in self.writes if name in names})

    def add(self, seq: int, entry: Entry) -> None:
        """Apply an entry of the log. Raises MisfitError."""
        self.head = seq
        if isinstance(entry, ForkEntry):
            self.forks[entry.name] = (entry.parent, entry.fork_seq)
            return
        self.accepted[entry.session, entry.local_seq] = seq
        for operation in entry.operations:
            # At `seq`: several operations of one commit follow each other.
            value = applied(self.value(entry.branch, operation.doc, seq), operation)
            self.writes.setdefault((entry.branch, operation.doc), []).append(
                (seq, value, entry.session, entry.local_seq)
            )
        if entry.merged is not None:
            self.merges.setdefault(entry.branch, []).append((*entry.merged, seq))

    # -- admission -------------------------------------------------------------------------------------------

    def complaint(self, commit: Commit, pending: dict[int, Commit], digest_of: Any) -> str | None:
        """Why an accepted commit should not have been, as of the newest entry. `pending`: of its session, by number."""
        for condition in commit.preconditions:
            if (why := self._unmet(condition, commit, digest_of)) is not None:
                return why
        for read in commit.reads:
            before = look(self.value(commit.branch, read.doc, read.seq), read.path, read.depth)
            now = look(self.value(commit.branch, read.doc, self.head), read.path, read.depth)
            if before != now:
                return f"{read.doc}{list(read.path)} was {before!r} at {read.seq} and is {now!r}"
        for layered in commit.pending_reads:
            if (why := self._undermined(commit, layered, pending)) is not None:
                return why
        return None

    def _undermined(self, commit: Commit, read: PendingRead, pending: dict[int, Commit]) -> str | None:
        numbers = [number for first, last in read.layers for number in range(first, last + 1)]
        for number in numbers:
            if (commit.session, number) not in self.accepted and (commit.session, number) not in self.elided:
                return f"it rests on {number}, which was not accepted"
        value = self.value(commit.branch, read.doc, read.basis)
        try:
            for number in numbers:
                for operation in pending[number].operations:
                    if operation.doc == read.doc:
                        value = applied(value, operation)
        except MisfitError:
            return None  # it fits only with what others have written in between: its view is not known here
        before, now = (
            look(each, read.path, read.depth) for each in (value, self.value(commit.branch, read.doc, self.head))
        )
        if before != now:
            return f"{read.doc}{list(read.path)} was {before!r} at {read.basis} with {numbers}, and is {now!r}"
        return None

    def _unmet(self, condition: object, commit: Commit, digest_of: Any) -> str | None:
        match condition:
            case Absent(doc):
                if self.write_of(commit.branch, doc, self.head)[0]:
                    return f"{doc} was written before"
            case ValueIs(doc, digest):
                value = self.value(commit.branch, doc, self.head)
                if (b"" if value is MISSING else digest_of(value)) != digest:
                    return f"{doc} has another value: {value}"
            case OriginCommitted(number):
                if (commit.session, number) not in self.accepted and (commit.session, number) not in self.elided:
                    return f"{number} was not accepted"
            case _:
                raise TypeError(f"the model does not know {condition}")
        return None

    def excuse(self, commit: Commit, pending: dict[int, Commit], digest_of: Any) -> str | None:
        """Why a commit may be rejected as of the newest entry; None if it should have been accepted."""
        if (why := self.complaint(commit, pending, digest_of)) is not None:
            return why
        reads: list[tuple[Read | PendingRead, int]] = [(each, each.seq) for each in commit.reads]
        reads += [(each, each.basis) for each in commit.pending_reads]
        for read, since in reads:
            # A write elsewhere in the document, or of the same value, may count.
            for seq, _, session, number in self.writes_of(commit.branch, read.doc):
                is_own = session == commit.session and isinstance(read, PendingRead) and _names(read, number)
                if seq > since and (not is_own or self.is_compacted):
                    return f"{read.doc} was written at {seq}"
        try:
            values: dict[str, Any] = {}
            for operation in commit.operations:
                value = values.get(operation.doc, self.value(commit.branch, operation.doc, self.head))
                values[operation.doc] = applied(value, operation)
        except MisfitError:
            return "it does not fit"
        return None


def _names(read: PendingRead, number: int) -> bool:
    return any(first <= number <= last for first, last in read.layers)
