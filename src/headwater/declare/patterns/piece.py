"""A piece: one graph that was started from a pattern."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeVar, cast

from headwater.cells.binding import bound
from headwater.cells.display import shorten
from headwater.cells.space_port import SpacePort
from headwater.declare.functions.invocation import Invocation
from headwater.declare.patterns.pattern import Pattern
from headwater.declare.verbs import Function
from headwater.scheduler.graph.node import Node
from headwater.values.author_text import safe_repr
from headwater.values.ids import DocId
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import Handle, Schema
from headwater.values.tree import Value, is_link

R = TypeVar("R")


RETURNED_KEY: Final = "()"
"""The key of a child that a function has returned: one for each pattern."""


def piece_title(pattern: str, key: str) -> str:
    """The name of a piece in messages."""
    return pattern if key == RETURNED_KEY else f"{pattern} {key}"


class PieceStatus(StrEnum):
    """Whether a piece runs."""

    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(slots=True, eq=False, kw_only=True, frozen=True)
class Build(Generic[R]):
    """The result of building a piece once, with some inputs."""

    pattern: Pattern[..., R]
    sealed: Value
    """The inputs in their stored form."""
    outputs: R
    generation: int
    prefix: str
    """The beginning of the names of its documents."""
    documents: tuple[str, ...]
    functions: tuple[Function, ...]
    parts: tuple[Piece[Any], ...]
    """Pieces that are part of it."""
    is_resumed: bool
    """Its document existed before: stored observations of its functions may still be valid."""


@dataclass(slots=True, eq=False, kw_only=True, weakref_slot=True)
class Piece(Generic[R]):
    """One started graph of a pattern, with a document and functions of its own. Made by `space.start`."""

    # Each comment names the only writer of what follows.

    # Set at the first start.
    key: str
    id: str
    """The document with its inputs, its parts, and links to its outputs."""
    _pieces: RunningPieces
    # space: runs of its functions that were removed, by name.
    ran: dict[str, int]
    # pieces: the function whose run has started it as a child; the piece that it is part of.
    parent: Node | None = None
    whole: Piece[Any] | None = None
    # pieces: the last build; and that build while the piece is to run. In a transaction it is set at
    # once, and `at_work` follows at the commit.
    build: Build[R]
    wanted: Build[R] | None = None
    # sleeping: the function whose child it is, is not observed.
    asleep: bool = False
    # work: the build that is registered in the space.
    at_work: Build[R] | None = None

    @property
    def pattern(self) -> Pattern[..., R]:
        """The pattern that the piece was built from."""
        return self.build.pattern

    @property
    def outputs(self) -> R:
        """What the function of the pattern returned."""
        return self.build.outputs

    @property
    def generation(self) -> int:
        """The number of the current build. It changes with the code of the pattern, and with the parts of the piece."""
        return self.build.generation

    @property
    def status(self) -> PieceStatus:
        """The state of the piece: running or stopped."""
        return PieceStatus.STOPPED if self.wanted is None else PieceStatus.RUNNING

    @property
    def is_running(self) -> bool:
        """Whether the piece is to run."""
        return self.wanted is not None

    @property
    def title(self) -> str:
        """The name of the piece, for messages."""
        return piece_title(self.build.pattern.name, self.key)

    def stop(self) -> None:
        """Stop all functions of the piece, and its children. Its documents stay. A second call does nothing.

        `space.start` with the same key continues it.
        """
        self._pieces.stop(self)

    def __headwater_value__(self) -> Value:
        """In a value, a piece is a link to its document."""
        return LinkRecord(doc=DocId(self.id)).to_value()

    @classmethod
    def __headwater_schema__(cls, _args: tuple[object, ...], _schema_of: Callable[[object], Schema]) -> Schema:
        """As the result of a function, `hw.Piece[...]`: a reader gets the piece."""
        return PieceHandle()

    def __repr__(self) -> str:
        asleep = ", asleep" if self.asleep else ""
        return f"<piece {self.title}: {self.status}{asleep}, generation {self.generation}>"

    def __headwater_print__(self) -> tuple[object, ...]:
        """In a fingerprint: the id, the code of the pattern, and the outputs."""
        return ("piece", self.id, self.build.pattern.__wrapped__, self.build.outputs)


class RunningPieces(Protocol):
    """The pieces that run in an open space."""

    running: dict[str, Piece[Any]]
    """By id."""

    def stop(self, piece: Piece[Any]) -> None:
        """Stop a piece, its parts and its children."""


class PiecePort(SpacePort):
    """An open space, as pieces see it."""

    @property
    @abstractmethod
    def pieces(self) -> RunningPieces:
        """The pieces of this space."""


class PieceHandle(Handle):
    """Stored as a link to the document of the piece; read as the running piece."""

    __slots__ = ()

    always_link = True

    def __init__(self) -> None:
        super().__init__("Piece")

    def store(self, value: object) -> Value:
        """A piece becomes a link; an existing link stays."""
        if isinstance(value, Piece):
            return value.__headwater_value__()
        if is_link(value):
            return cast("Value", value)
        if isinstance(value, Invocation):
            message = f"{value!r} is started only as the whole result"
            raise RefusedError(f"{message}; within it, use hw.start({value.pattern.name}, key, ...)")
        raise RefusedError(f"expected a piece, or a pattern with its inputs, got {shorten(safe_repr(value))}")

    def load(self, value: Value, binder: object) -> object:
        """The running piece."""
        at = bound(value, binder)
        found = None if at is None else cast("PiecePort", at.space).pieces.running.get(at.doc)
        if found is None:
            raise RefusedError("expected a piece that is at work: it was stopped, or not started here")
        return found
