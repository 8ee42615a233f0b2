"""Counts of an open space, for people."""

from __future__ import annotations

import msgspec


class Stats(msgspec.Struct, frozen=True):
    """Counts of one opening, since it began."""

    space: str
    """The name of the space."""
    seq: int
    """The sequence number of the newest commit that is visible here."""
    commits: int
    """The number of commits made here."""
    pending: int
    """The number of these commits without a verdict."""
    rejected: int
    """The number of these commits that were rejected and rolled back."""
    groups: int
    """The number of groups of commits that this process wrote to disk, each with one fsync."""
    documents: int
    """The number of documents in memory."""
    runs: dict[str, int]
    """The number of runs of each function and handler. Functions of pieces are counted by name, over all pieces."""
    events: dict[str, int]
    """The number of events that are confirmed, refused, failed, and waiting."""
    undelivered: int = 0
    """The number of events and posts for other spaces that these have not handled yet, also of earlier openings."""
