"""What the parts that start, stop and rest pieces use of an open space."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from typing import Any, Protocol, TypeVar

from headwater.declare.events.event_port import EventPort, StoppedPieces
from headwater.declare.functions.function_port import FunctionPort
from headwater.declare.functions.invocation import Invocation
from headwater.declare.patterns.builder import BuilderPort, PieceStarter
from headwater.declare.patterns.pattern import Pattern
from headwater.declare.patterns.piece import Piece, PiecePort, RunningPieces
from headwater.declare.resources.resource_port import ResourcePort
from headwater.runtime.event_service import EventService
from headwater.runtime.pass_port import PassPort
from headwater.runtime.restore import Restorer
from headwater.runtime.run_counts import RunCounts
from headwater.scheduler.runs.attempt import Call
from headwater.values.ids import DocKey

R = TypeVar("R")


class PiecesPort(PieceStarter, StoppedPieces, RunningPieces, Protocol):
    """The pieces of an open space."""

    def start(self, pattern: Pattern[..., R], key: str, args: tuple[object, ...], inputs: dict[str, Any]) -> Piece[R]:
        """As `space.start`."""


class PieceHost(PassPort, FunctionPort, EventPort, BuilderPort, PiecePort, ResourcePort):
    """An open space, as its pieces are run in it."""

    events: EventService
    counts: RunCounts
    restorer: Restorer

    @property
    @abstractmethod
    def pieces(self) -> PiecesPort:
        """The pieces of this space."""

    @abstractmethod
    def captioned(self, text: str) -> str:
        """A text with the titles of pieces in the place of their ids."""

    @abstractmethod
    def start_returned(self, attempt: Call, invocation: Invocation[Any]) -> object:
        """Start the pattern that a function has returned. Returns the reference to the piece for its result."""

    @abstractmethod
    def retire(self, function: object, *, notify: bool = False) -> None:
        """Remove a function of a stopped piece. Its readers keep its result, unless they are notified."""

    @abstractmethod
    def release_documents(self, docs: Collection[DocKey]) -> None:
        """The store need not hold these documents any longer."""

    @abstractmethod
    def shrink(self) -> None:
        """Give back memory after many nodes have gone. The caller holds the lock."""
