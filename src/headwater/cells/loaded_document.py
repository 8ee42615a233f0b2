"""One document as a replica holds it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from headwater.cells.pending_commit import Mark, PendingCommit
from headwater.values.ids import Seq
from headwater.values.tree import Maybe

NO_LAYERS: Final[list[PendingCommit]] = []
"""Shared by all documents without layers, and therefore never appended to."""


@dataclass(slots=True, eq=False)
class Document:
    """A loaded document: the confirmed value, and the visible one with pending layers on top."""

    confirmed: Maybe
    seq: Seq
    visible: Maybe
    # Pending commits that touch it, oldest first. Most documents have none and share one list.
    layers: list[PendingCommit] = field(default_factory=lambda: NO_LAYERS)
    # The visible version, made for its first reader. None after each change of the other fields.
    mark: Mark | None = None
