"""Dropping an index of a collection: its record no longer has it, and nothing follows the documents for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headwater.errors import NotFoundError, RejectedError, UsageError
from headwater.store.collection_record import BY_ID, CollectionRecord, NamedIndex, kind_of_index
from headwater.store.commit import Commit, CommitOutcome, Committed, SetDoc, Submission
from headwater.store.engine import Engine
from headwater.values.ids import BranchId, LocalSeq, SessionId
from headwater.values.suggestions import did_you_mean

_SESSION: Final = SessionId("collections")


def drop_index(engine: Engine, branch: BranchId, name: str) -> tuple[NamedIndex, CommitOutcome]:
    """Drop an index by its name. Returns it, and the outcome of the commit. Raises NotFoundError, UsageError."""
    engine.documents.branch(branch)
    records = engine.collections.records(branch)
    found = find_index(records, name)
    changed = without_index(records[kind_of_index(found.name)], found)
    commit = Commit(_SESSION, LocalSeq(engine.head + 1), (SetDoc(changed.doc, changed.to_value()),), branch=branch)
    [outcome] = engine.admit([Submission(commit)])
    if not isinstance(outcome.verdict, Committed):
        raise RejectedError(f"cannot drop the index {name!r}: {outcome.verdict.reason}")
    return found, outcome


def without_index(record: CollectionRecord, dropped: NamedIndex) -> CollectionRecord:
    """The record of a collection without one of its indexes."""
    kept = tuple(each.index for each in record.named[1:] if each.name != dropped.name)
    return msgspec.structs.replace(record, indexes=kept)


def find_index(records: Mapping[str, CollectionRecord], name: str) -> NamedIndex:
    """An index that can be dropped; the digest in its name may be left out. Raises NotFoundError, UsageError."""
    every = [each for record in records.values() for each in record.named]
    found = next((each for each in every if each.name == name), None)
    if found is None:
        droppable = [each for each in every if each.index != BY_ID]
        close = [each for each in droppable if each.name.partition("~")[0] == name]
        found = close[0] if len(close) == 1 else None
        if found is None:
            hint = did_you_mean(name, [each.name for each in droppable])
            hint = hint or "; `headwater collections index ls` lists them"
            raise NotFoundError(f"there is no index {name!r}{hint}", index=name)
    if found.index == BY_ID:
        raise UsageError(f"{name} is the order by id, which every collection has; it cannot be dropped", index=name)
    return found
