"""Branches: a fork is one row; a merge takes whole documents.

A fork copies nothing: until a branch writes a document, it reads its parent's version as of the fork. A merge is an
ordinary commit on the target. A document that both sides changed since the merge base is a conflict, unless both have
the same value; then nothing is merged, and the error lists all such documents.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headwater.errors import LimitError, MergeConflictError, NameRefusedError
from headwater.store.commit import Commit, CommitOutcome, DeleteDoc, ForkEntry, Operation, Refused, SetDoc
from headwater.store.document import StoredDocument
from headwater.store.engine import Engine
from headwater.values.address import address_text
from headwater.values.error_codes import class_of
from headwater.values.ids import MAIN, NEVER, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.seams import Clock
from headwater.values.tree import ABSENT, Maybe, same
from headwater.values.value_limits import KEY_BYTES_MAX

_MERGE: Final = SessionId("merge")
_SHOWN: Final = 5
_PAGE: Final = 512


def fork(engine: Engine, clock: Clock, name: str, parent: BranchId = MAIN, at: Seq | None = None) -> Seq:
    """Create a branch. Costs one row, whatever the size of the space."""
    documents = engine.documents
    documents.branch(parent)
    if not name or name != name.strip() or "/" in name or _encoded_size(name) > KEY_BYTES_MAX:
        message = f"{name!r} is not a name for a branch: a word without slashes or outer spaces is expected"
        raise NameRefusedError(message, branch=name)
    if name in documents.branches:
        raise NameRefusedError(f"there is a branch {name!r} already, and names are never reused", branch=name)
    fork_seq = engine.head if at is None else at
    documents.check_available(fork_seq, engine.head)
    return engine.append_fork(ForkEntry(BranchId(name), parent, fork_seq, clock.now_ms()))


def _encoded_size(name: str) -> int:
    try:
        return len(name.encode())
    except UnicodeEncodeError:
        return KEY_BYTES_MAX + 1


def merge(engine: Engine, source: BranchId, into: BranchId = MAIN) -> CommitOutcome:
    """Merge the changes of a branch into another one. The outcome is for attached replicas."""
    documents = engine.documents
    documents.branch(source)
    documents.branch(into)
    if source == into:
        raise NameRefusedError(f"cannot merge branch {source!r} into itself", branch=source)
    met = _merge_base(engine, source, into)
    operations: list[Operation] = []
    conflicts: list[DocKey] = []
    for doc in _written(engine, source, into):
        theirs = documents.at(source, doc, engine.head)
        if theirs.seq <= met.source:
            continue
        ours = documents.at(into, doc, engine.head)
        if same(theirs.value, ours.value) or _unchanged(engine, doc, theirs, met.back, into):
            continue
        if ours.seq > met.into and not _unchanged(engine, doc, ours, met.there, source):
            conflicts.append(doc)
        else:
            operations.append(_whole(doc, theirs.value))
    if conflicts:
        names = ", ".join(address_text(doc) for doc in conflicts[:_SHOWN])
        more = f" and {len(conflicts) - _SHOWN} more" if len(conflicts) > _SHOWN else ""
        message = (
            f"cannot merge {source!r} into {into!r}: both changed {names}{more} since they parted; "
            f"make them equal on one side, then merge again"
        )
        raise MergeConflictError(message, documents=tuple(conflicts), source=source, into=into)
    commit = Commit(_MERGE, LocalSeq(engine.head + 1), tuple(operations), branch=into)
    outcome = engine.append_merge(commit, (source, engine.head))
    if isinstance(outcome.verdict, Refused):
        message = f"cannot merge {source!r} into {into!r}: {outcome.verdict.reason}"
        raise (class_of(outcome.verdict.code) or LimitError)(message, source=source, into=into)
    return outcome


class _MergeBase(msgspec.Struct, frozen=True):
    """The common past of two branches."""

    source: Seq
    """The source up to here is part of the target: by the common fork, or by a merge."""
    into: Seq
    """The target up to here is part of the source: by the common fork, or by a merge in the other direction."""
    there: tuple[Seq, Seq]
    """The last merge of the source into the target: the source's newest commit then, and the merge commit."""
    back: tuple[Seq, Seq]
    """The last merge of the target into the source, likewise."""


def _merge_base(engine: Engine, source: BranchId, into: BranchId) -> _MergeBase:
    branches = engine.documents.branches
    there = [(through, seq) for name, through, seq in branches[into].merges if name == source]
    back = [(through, seq) for name, through, seq in branches[source].merges if name == into]
    shared = min(_forked(engine, source, into), _forked(engine, into, source))
    return _MergeBase(
        source=max([shared, *(through for through, _ in there)]),
        into=max([shared, *(through for through, _ in back)]),
        there=max(there, default=(NEVER, NEVER)),
        back=max(back, default=(NEVER, NEVER)),
    )


def _unchanged(engine: Engine, doc: DocKey, found: StoredDocument, met: tuple[Seq, Seq], other: BranchId) -> bool:
    """Whether this is still the value of the last merge: then neither side has changed it since."""
    through, seq = met
    if found.seq > seq or through < engine.documents.horizon.seq:
        return False
    return same(found.value, engine.documents.at(other, doc, through).value)


def _ancestry(engine: Engine, branch: BranchId) -> list[BranchId]:
    """A branch and its ancestors."""
    names: list[BranchId] = []
    name: BranchId | None = branch
    while name is not None:
        names.append(name)
        name = engine.documents.branches[name].parent
    return names


def _forked(engine: Engine, branch: BranchId, other: BranchId) -> Seq:
    """The commit where a branch was forked from the common ancestors; the newest commit if it was not."""
    shared = _ancestry(engine, other)
    left = [engine.documents.branches[name].fork_seq for name in _ancestry(engine, branch) if name not in shared]
    return min(left, default=engine.head)


def _views(engine: Engine, branch: BranchId) -> dict[BranchId, Seq]:
    """For a branch and each ancestor, the newest commit that is visible on the branch."""
    views: dict[BranchId, Seq] = {}
    through = Seq(engine.head + 1)
    for name in _ancestry(engine, branch):
        views[name] = through
        through = min(through, engine.documents.branches[name].fork_seq)
    return views


def _written(engine: Engine, source: BranchId, into: BranchId) -> list[DocKey]:
    """Documents of the source, and of every ancestor of which it sees more than the target."""
    engine.fold()
    known = _views(engine, into)
    found: set[DocKey] = set()
    for name, through in _views(engine, source).items():
        if through <= known.get(name, NEVER):
            continue
        after = DocKey("")
        while page := engine.backend.heads(name, "", after, _PAGE):
            found.update(row.doc for row in page)
            after = page[-1].doc
    return sorted(found)


def _whole(doc: DocKey, value: Maybe) -> Operation:
    return DeleteDoc(doc) if value is ABSENT else SetDoc(doc, value)
