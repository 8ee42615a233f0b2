"""What has to hold of pieces when a program is at rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwater.declare.patterns.piece import Piece
from sim.apps import parts as p
from sim.apps.module import SCREENS
from sim.apps.naive import Model, ModelError
from sim.faults import Eio, Full
from sim.oracles.moments import Complain
from sim.program.program import ProgramWorld, Session


def check_pieces(program: ProgramWorld, session: Session, documents: Mapping[str, Any], complain: Complain) -> None:
    """Pieces that run here show what the model computes; those that were rolled back or dropped do not run."""
    if program.spec.sessions > 1:
        # Each session has its own inputs of a piece; the document has the last ones.
        return
    running = list(session.runtime.pieces.running.values())
    shown = SCREENS.by_space.get(session.runtime, {})
    model = Model(program.app, documents, at_rest=True)
    parts = program.app.named()
    has_room = not any(isinstance(fault, Full | Eio) for fault in program.world.plan.faults)
    for piece in running:
        document = documents.get(piece.id)
        status = None if document is None else document["status"]
        if document is None or status != "running":
            # Without room for the document of a child, the run that wants it starts it again.
            if has_room or piece.parent is None:
                complain("I10", f"{piece!r} runs, and its document is {status}")
            continue
        part = parts.get(document["pattern"].rpartition(":")[2])
        if isinstance(part, p.Pattern) and not piece.asleep:
            _check_shown(part, piece, documents, (model, shown), complain)
    if has_room:
        _check_children(program, running, (shown, session.stopped), complain)


def _check_shown(
    part: p.Pattern,
    piece: Piece[Any],
    documents: Mapping[str, Any],
    seen: tuple[Model, Mapping[str, object]],
    complain: Complain,
) -> None:
    model, shown = seen
    document = documents[piece.id]
    given = document["given"]
    left = documents.get(f"{piece.id}.left", given["given"])
    try:
        wanted = (left + model.eval(part.body, given["given"])) % 997
    except ModelError:
        return
    found = shown.get(f"{part.name} {given['key']}")
    if found != wanted:
        what = f"piece {part.name} {given['key']} shows {found}, expected {wanted}"
        complain("V", f"{what}: {piece!r} {document['status']}")


def _check_children(
    program: ProgramWorld,
    running: list[Piece[Any]],
    seen: tuple[Mapping[str, object], set[str]],
    complain: Complain,
) -> None:
    """The children of a function are those that its last run without an error has started."""
    shown, stopped = seen
    for part in program.app.parts:
        if not isinstance(part, p.Children) or part.name in stopped:
            continue
        found = sorted(piece.key for piece in running if piece.parent is not None and _is_of(piece, part))
        wanted = shown.get(f"{part.name} children")
        if wanted is not None and found != wanted:
            complain("I10", f"{part.name} has the children {found}, and has started {wanted}")


def _is_of(piece: Piece[Any], part: p.Children) -> bool:
    return piece.key.startswith(part.name) and piece.key.removeprefix(part.name).lstrip("-").isdigit()
