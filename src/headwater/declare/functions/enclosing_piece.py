"""What the functions of a piece know of the piece that they are part of."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.declare.functions.fingerprint import Fingerprints
from headwater.scheduler.graph.node import Node


@dataclass(slots=True, eq=False)
class EnclosingPiece:
    """The piece around a function: for messages, for the order of nodes, and for the function's fingerprint."""

    title: str
    """For messages and the names of nodes."""
    prefix: str
    """The beginning of the names of its documents."""
    parent: Node | None
    fingerprints: Fingerprints
    depth: int
    """How many pieces are around it, each started by the one before."""
    ran: dict[str, int]
    """Runs of functions of the piece that were removed, by function name."""
