"""What the functions of a piece know of the piece that they are part of."""

from __future__ import annotations

from dataclasses import dataclass

from headwater.declare.functions.fingerprint import Prints
from headwater.scheduler.graph.node import Node


@dataclass(slots=True, eq=False)
class Within:
    """The piece around a function: for messages, for the order of nodes, and for the function's fingerprint."""

    piece: str
    """The title of the piece."""
    prefix: str
    """The beginning of the names of its documents."""
    parent: Node | None
    prints: Prints
    depth: int
    """How many pieces are around it, each started by the one before."""
    ran: dict[str, int]
    """Runs of functions of the piece that were removed, by function name."""
