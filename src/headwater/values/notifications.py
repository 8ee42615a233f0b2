"""The records that a replica sends to its listeners: changes, derived results, arrived documents."""

from __future__ import annotations

from enum import Enum

import msgspec

from headwater.values.ids import DocKey, Seq
from headwater.values.tree import Maybe, Path


class Change(msgspec.Struct, frozen=True, gc=False):
    """At this path of this document the value was `before` and is `after`. Above the path only the spine is new.

    `path` is the shallowest place that changed, so everything above it was a container before and after.
    """

    doc: DocKey
    path: Path
    before: Maybe
    after: Maybe


class Kind(Enum):
    """Why the visible state moved."""

    COMMIT = "commit"
    """Written here, and visible before anyone has confirmed it."""
    INTEGRATE = "integrate"
    """Somebody else's commit arrived."""
    REVERT = "revert"
    """A commit made here was rejected: its effect is gone, what won instead is here, in one step."""
    PULL = "pull"
    """A document was asked for and is now known."""
    STATUS = "status"
    """Nothing moved; but something that was written here is decided now, or something is not that was."""


class Derived(msgspec.Struct, frozen=True, gc=False):
    """Somebody else's run has come to what stands in a document, as of a place of the log."""

    doc: DocKey
    body: bytes
    """What the run has read, as it is kept; or the digest of that, if it is the same as the time before."""
    seq: Seq


class Arrived(msgspec.Struct, frozen=True):
    """Documents that somebody has looked at while they were not here have come, whatever they are."""

    docs: tuple[DocKey, ...]


class Notification(msgspec.Struct, frozen=True):
    """All changes of one step of the visible state, with the transaction they came from if it was ours."""

    kind: Kind
    changes: tuple[Change, ...]
    source: object = None
