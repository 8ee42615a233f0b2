"""Pieces of patterns: pieces ls."""

from __future__ import annotations

import json

from headwater.cli.function_syntax import PIECE
from headwater.cli.output import Form, is_terminal, note, picked, show
from headwater.cli.target import Target
from headwater.inspect.event_records import ListPieces
from headwater.values.text import count_text


def list_pieces(*, pattern: str | None, status: str | None, target: Target, form: Form) -> None:
    """Carry out `pieces ls`."""
    with target.inspector() as inspector:
        found = inspector.ask(ListPieces(pattern=pattern or ""))
    for app, count in found.left_out.items():
        more = count_text(count, "piece", "pieces")
        note(f"{more} more of {app} can be listed with --pattern, or when no process has the space open")
    records = [
        picked(piece, "app piece pattern key status at_work generation", inputs=json.loads(piece.inputs), by=piece.by)
        for piece in found.pieces
        if status in (None, piece.status)
    ]
    # On a terminal, pattern and key identify a piece.
    without = ["piece"] if is_terminal() else []
    without += [] if len({record["app"] for record in records}) > 1 else ["app"]
    show(records, PIECE, form, empty="no pieces", without=without)
