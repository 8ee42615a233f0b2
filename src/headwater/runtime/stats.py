"""Counts of an open space, for people."""

from __future__ import annotations

import msgspec


class Stats(msgspec.Struct, frozen=True):
    """Counts of one opening, since it began."""

    space: str
    seq: int
    """The newest commit taken in here."""
    commits: int
    """Made here."""
    pending: int
    """Of these, without a verdict."""
    rejected: int
    """Of these, taken back."""
    groups: int
    """Groups of commits written to the disk by this process, with one fsync each."""
    documents: int
    """Held in memory here."""
    runs: dict[str, int]
    """Of each function, handlers among them; those of pieces by name, all together, also of those that are stopped."""
    events: dict[str, int]
    """Confirmed, refused and failed; and waiting, not handled yet."""
