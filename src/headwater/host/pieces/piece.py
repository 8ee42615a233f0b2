"""A piece: one graph that was started from a pattern.

Must never know: how it is started.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from headwater.cells.bind import bound
from headwater.cells.show import shorten
from headwater.host.declaring import Function
from headwater.host.pieces.pattern import Pattern
from headwater.scheduler.node import Node
from headwater.values.ids import DocId
from headwater.values.intake import RefusedError
from headwater.values.link import Link
from headwater.values.schema import Handle, Schema
from headwater.values.tree import Value, is_link

if TYPE_CHECKING:
    from headwater.host.base_space import BaseSpace
    from headwater.host.pieces.pieces import Pieces

R = TypeVar("R")


class PieceStatus(StrEnum):
    """Whether a piece is at work."""

    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(slots=True, eq=False, kw_only=True)
class Piece(Generic[R]):
    """One graph at work, or stopped. Made by `space.start`. Each comment names the only writer of what follows."""

    # Fixed when it is started.
    pattern: Pattern[..., R]
    key: str
    id: str
    """The document that holds its inputs, what it consists of, and links to its outputs."""
    _pieces: Pieces = field(repr=False)
    # Whose run has started it, if it is the child of a function; which piece it is part of.
    parent: Node | None = field(default=None, repr=False)
    # pieces: by what was given last, and what came of it.
    sealed: Value = field(default=None, repr=False)
    generation: int = 1
    """Another whenever the pattern's code, or what the piece consists of, is another."""
    outputs: R
    documents: tuple[str, ...] = field(default=(), repr=False)
    functions: tuple[Function, ...] = field(default=(), repr=False)
    children: tuple[Piece[Any], ...] = field(default=(), repr=False)
    status: PieceStatus = PieceStatus.STOPPED

    @property
    def is_running(self) -> bool:
        """It is at work."""
        return self.status is PieceStatus.RUNNING

    def stop(self) -> None:
        """Stop everything it consists of, and its children. What it has made stays. Once more is no harm.

        `space.start` with the same key goes on where it was.
        """
        self._pieces.stop(self)

    def __headwater_value__(self) -> Value:
        """In a value, a piece is a link to its document."""
        return Link(doc=DocId(self.id)).to_value()

    @classmethod
    def __headwater_schema__(cls, _args: tuple[object, ...], _schema_of: Callable[[object], Schema]) -> Schema:
        """As the result of a function, `hw.Piece[...]`: whoever reads it gets the piece."""
        return PieceHandle()

    def __repr__(self) -> str:
        return f"<piece {self.id}: {self.status}, generation {self.generation}>"


class PieceHandle(Handle):
    """Stored as a link to the piece's document; read as the piece that is at work."""

    __slots__ = ()

    always_link = True

    def __init__(self) -> None:
        super().__init__("Piece")

    def store(self, value: object) -> Value:
        """A piece becomes a link; one that was made of it before stays."""
        if isinstance(value, Piece):
            return value.__headwater_value__()
        if is_link(value):
            return cast("Value", value)
        raise RefusedError(f"expected a piece, or a pattern with its inputs, got {shorten(repr(value))}")

    def load(self, value: Value, binder: object) -> object:
        """The piece, as long as it is at work."""
        at = bound(value, binder)
        found = None if at is None else cast("BaseSpace", at.home).pieces.running.get(at.doc)
        if found is None:
            raise RefusedError("expected a piece that is at work: it was stopped, or not started here")
        return found


def named_outputs(outputs: object) -> dict[str, object]:
    """What a pattern's function has returned, by name."""
    if outputs is None:
        return {}
    if isinstance(outputs, Mapping):
        return {str(name): each for name, each in outputs.items()}
    if is_dataclass(outputs) and not isinstance(outputs, type):
        return {each.name: getattr(outputs, each.name) for each in fields(outputs)}
    names = getattr(type(outputs), "_fields", None) or getattr(type(outputs), "__struct_fields__", None)
    if isinstance(names, tuple):
        return {name: getattr(outputs, name) for name in names}
    return {"result": outputs}
