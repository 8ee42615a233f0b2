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
    """As `space.start`, in the open space around this code.

    Args:
        pattern: The pattern.
        key: The name of the piece in the space.
        args: Inputs of the pattern.
        inputs: Inputs of the pattern by name.

    Returns:
        The piece.

    Raises:
        NotOpen: HW001. There is no open space here.
        TypeError: The inputs do not fit the pattern.
    """
    home, _ = sole_open(f"a piece of {getattr(pattern, 'name', pattern)}")
    assert isinstance(home, PieceHost)
    return home.pieces.start(pattern, key, args, inputs)
