"""The plan of a piece that is to be started: what it is built of, and how its document changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from headwater.declare.patterns.piece import Build, Piece
from headwater.values.ids import DocKey
from headwater.values.tree import Maybe, same


class PieceChange(NamedTuple):
    """A change of a piece: the builds before and after, and its document before and after."""

    piece: Piece[Any]
    before: Build[Any] | None
    after: Build[Any] | None
    doc: DocKey
    stored: Maybe
    value: Maybe


@dataclass(slots=True, eq=False)
class PiecePlan:
    """How a piece is started. Without a change, it already runs as requested."""

    piece: Piece[Any]
    change: PieceChange | None = None
    # The former build.
    former: Build[Any] | None = None
    parts: list[PiecePlan] = field(default_factory=list)

    @property
    def is_other(self) -> bool:
        """Its inputs differ from those of the running build."""
        change = self.change
        if change is None or change.before is None or change.after is None:
            return False
        return not same(change.before.sealed, change.after.sealed)

    def forget(self) -> None:
        """Drop the plan, and restore the former builds."""
        for part in reversed(self.parts):
            part.forget()
        if self.former is not None:
            self.piece.build = self.former

    def __iter__(self) -> Iterator[PiecePlan]:
        """The plans of its parts, then itself."""
        for part in self.parts:
            yield from part
        yield self
