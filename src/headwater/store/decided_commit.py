"""Records of decided commits that the caches of the engine keep."""

from __future__ import annotations

import msgspec

from headwater.store.commit import Commit, CommitEntry, Entry, Operation
from headwater.values.ids import DocKey, Seq
from headwater.values.patch import Touches


class Elided(msgspec.Struct, frozen=True, gc=False):
    """An accepted commit without an entry in the log."""

    seq: Seq
    """The newest write of its documents: the sequence number that its session was given."""
    head: Seq
    """The end of the log when it was decided."""
    whole: frozenset[DocKey]
    """Documents that it wrote as a whole: a read through it sees them as of `head`."""
    digest: bytes
    """A digest of its operations: its number identifies it permanently, as for other commits."""
    is_repeated: bool
    """It was decided before and then forgotten: later commits of its session are already decided."""


class Recent(msgspec.Struct, frozen=True, gc=False):
    """One write of a document, with its commit."""

    seq: Seq
    commit: Commit
    touches: Touches


class Revision(msgspec.Struct, frozen=True, gc=False):
    """The operations of one commit on one document; `weight` is the size of the commit's row."""

    seq: Seq
    operations: tuple[Operation, ...]
    weight: int


class TailEntry(Revision, frozen=True, gc=False):
    """An accepted commit of the tail. With one operation, it is the revision of its document."""

    entry: CommitEntry


class DecodedEntry(msgspec.Struct, frozen=True, gc=False):
    """An entry that was read from the log, with its operations by document. `weight` is the size of its row."""

    seq: Seq
    entry: Entry
    weight: int
    by_document: dict[DocKey, tuple[Operation, ...]]
