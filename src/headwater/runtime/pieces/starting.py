"""`hw.start`: starts a piece in the space that is open around the code."""

from __future__ import annotations

from typing import ParamSpec, TypeVar

from headwater.cells.context import sole_open
from headwater.declare.patterns.pattern import Pattern
from headwater.declare.patterns.piece import Piece
from headwater.runtime.pieces.piece_host import PieceHost

P = ParamSpec("P")
R = TypeVar("R")


def start(pattern: Pattern[P, R], key: str, /, *args: P.args, **inputs: P.kwargs) -> Piece[R]:
    """As `space.start`, in the space that is open around this code."""
    home, _ = sole_open(f"a piece of {getattr(pattern, 'name', pattern)}")
    assert isinstance(home, PieceHost)
    return home.pieces.start(pattern, key, args, inputs)
