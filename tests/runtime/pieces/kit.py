"""Counts of everything that pieces hold, and a small pattern that tells what it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import headwater as hw
from headwater.testing.invariants.scheduler_invariants import check
from headwater.values.address import doc_key


class Told:
    """What functions have told, in the order in which they ran. It is no part of what they are."""

    def __init__(self) -> None:
        self.log: list[Any] = []

    def __headwater_print__(self) -> tuple[object, ...]:
        return ("told",)

    def __call__(self, *what: Any) -> None:  # whatever a test wants to know
        self.log.append(what[0] if len(what) == 1 else what)

    def taken(self) -> list[Any]:
        """Since the last look."""
        log, self.log = self.log, []
        return log


@dataclass(frozen=True)
class Held:
    """What an open space holds because of its pieces."""

    nodes: int
    handlers: int
    running: int
    children: int
    instances: int


def held(space: hw.Space | hw.AsyncSpace) -> Held:
    pieces = space._opening.pieces
    return Held(
        nodes=len(space.scheduler.registry.nodes),
        handlers=len(space.scheduler.streams.handlers),
        running=len(pieces.running),
        children=sum(len(each) for each in pieces._children.values()),
        instances=sum(len(each) for each in space._opening.instances.values()),
    )


def check_held(space: hw.Space | hw.AsyncSpace) -> None:
    """What is wanted is at work, nothing else is, and each knows of the others; the scheduler is as it must be."""
    check(space.scheduler)
    pieces = space._opening.pieces
    functions = set()
    for piece in pieces.running.values():
        assert piece.is_running
        assert piece.at_work is piece.wanted is piece.build, piece
        assert piece.asleep is (piece.parent is not None and not piece.parent.is_live), piece
        functions |= {each for each in piece.build.functions if not (piece.asleep and isinstance(each, hw.Handler))}
        for part in piece.build.parts:
            assert pieces.running[part.id] is part
            assert part.whole is piece
    for node, children in pieces._children.items():
        assert children, "nobody is asked for: then there is no entry"
        assert not node.removed
        for piece in children.values():
            assert piece.is_running
            assert piece.parent is node
    registered = {*space.nodes, *space._opening.handlers, *space._opening.instances}
    of_pieces = {each for each in registered if getattr(each, "enclosing_piece", None) is not None}
    assert of_pieces == functions & registered
    assert not [each for each in functions - registered if isinstance(each, hw.Handler | hw.Computed | hw.Sink)]
    assert not pieces._due


def stored(space: hw.Space | hw.AsyncSpace, piece: hw.Piece[Any] | str) -> dict[str, Any]:
    """Its document, as it is kept; empty if there is none."""
    found = space._opening.replica.read(doc_key(piece if isinstance(piece, str) else piece.id))
    return dict(found) if isinstance(found, dict) else {}
