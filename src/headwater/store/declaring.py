"""Declaring a collection: its record only grows, and new indexes are built from the documents that are there."""

from __future__ import annotations

from typing import Final

import msgspec

from headwater.errors import DeclarationError, RejectedError
from headwater.store.backend import Progress
from headwater.store.collection_record import CollectionRecord
from headwater.store.commit import Commit, CommitOutcome, Committed, SetDoc, Submission
from headwater.store.engine import Engine
from headwater.store.unique_keys import check_unique
from headwater.values.ids import MAIN, BranchId, LocalSeq, SessionId

_SESSION: Final = SessionId("collections")
_SHOWN: Final = 10


def widened(known: CollectionRecord | None, wanted: CollectionRecord) -> CollectionRecord:
    """The record with what another declaration adds to it."""
    if known is None:
        return wanted
    if known.scope != wanted.scope:
        message = (
            f"the collection {wanted.kind!r} is declared with scope={wanted.scope!r}, and the space has it with "
            f"scope={known.scope!r}; use that scope, or another name"
        )
        raise DeclarationError(message, kind=wanted.kind, scope=known.scope)
    names = {each.name for each in known.named}
    added = tuple(each.index for each in wanted.named if each.name not in names)
    # The caller has merged what both have.
    rest = {**dict(known.rest), **dict(wanted.rest)}
    return msgspec.structs.replace(known, indexes=known.indexes + added, rest=tuple(sorted(rest.items())))


def declare(
    engine: Engine,
    wanted: CollectionRecord,
    branch: BranchId = MAIN,
    progress: Progress = lambda _done, _total: None,
) -> tuple[CollectionRecord, CommitOutcome | None]:
    """Add to the record of a collection what is new, in a commit of its own, and build the new indexes.

    What the record has besides its indexes is replaced, as far as the caller gives it.

    Returns the record as it is then, and the outcome of the commit for attached replicas, if there was one. Raises
    DuplicateError if documents have equal values in a unique index: then nothing is changed.
    """
    collections = engine.collections
    engine.documents.branch(branch)
    collections.enable()
    known = collections.records(branch).get(wanted.kind)
    record = widened(known, wanted)
    new = [named for named in record.named if not collections.has_index(branch, named.name)]
    progress(0, len(new))
    built = collections.made(branch, new, record)
    for named, entries in zip(new, built, strict=True):
        if named.index.unique:
            check_unique(record, named, entries)
    outcome = None
    if known is None or record != known:
        commit = Commit(_SESSION, LocalSeq(engine.head + 1), (SetDoc(record.doc, record.to_value()),), branch=branch)
        [outcome] = engine.admit([Submission(commit)])
        if not isinstance(outcome.verdict, Committed):
            raise RejectedError(f"cannot declare the collection {wanted.kind!r}: {outcome.verdict.reason}")
    for entries in built:
        if outcome is not None:
            # The commit of the record has no document of the collection.
            entries.since = entries.through = engine.head
        collections.adopt(entries)
    engine.fold_entries()
    progress(len(new), len(new))
    return record, outcome
