"""The records that a replica sends to its listeners: changes, derived results, arrived documents, far functions."""

from __future__ import annotations

from enum import Enum

import msgspec

from headwater.values.ids import DocKey, Seq
from headwater.values.tree import Maybe, Path


class Change(msgspec.Struct, frozen=True, gc=False):
    """The value at this path of this document was `before` and is `after`. Above the path only the spine is new.

    `path` is the shallowest changed path, so every value above it is a container before and after.
    """

    doc: DocKey
    path: Path
    before: Maybe
    after: Maybe


class Kind(Enum):
    """Why the visible state changed."""

    COMMIT = "commit"
    """A local commit, visible before it is confirmed."""
    INTEGRATE = "integrate"
    """A commit of another session arrived."""
    REVERT = "revert"
    """A local commit was rejected: it is rolled back, and the winning commit is applied, in one step."""
    PULL = "pull"
    """A requested document was loaded."""
    STATUS = "status"
    """No value changed; but a local write was decided, or a decided document has a pending write."""


class Derived(msgspec.Struct, frozen=True, gc=False):
    """The result of a run in another session was stored in a document, with this sequence number."""

    doc: DocKey
    body: bytes
    """The encoded observation of the run, or its digest if it is the same as the one before. Empty: it is not known."""
    seq: Seq


class Arrived(msgspec.Struct, frozen=True):
    """Documents that were read while they were missing have been loaded."""

    docs: tuple[DocKey, ...]


class FarInvalid(msgspec.Struct, frozen=True):
    """Functions of another space, whose results functions here may have read, are not current."""

    source: object
    """What knows which of them."""


class Notification(msgspec.Struct, frozen=True):
    """All changes of one step of the visible state, with their transaction if it is local."""

    kind: Kind
    changes: tuple[Change, ...]
    source: object = None
    shifts: tuple[object, ...] = ()
    """Changes of documents of collections whose indexes are read (`cells.member_shifts.VisibleShift`)."""
