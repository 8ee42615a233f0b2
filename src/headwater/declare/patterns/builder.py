"""The builder that the function of a pattern takes: the verbs of an app, for one piece.

Nothing is registered or written before the function has returned: an error in it has no effect.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, ParamSpec, Protocol, TypeVar

from headwater.cells.context import CONTEXT, Owner
from headwater.cells.context_frame import ContextFrame
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.declare.functions.enclosing_piece import EnclosingPiece
from headwater.declare.patterns.pattern import Pattern
from headwater.declare.patterns.piece import Piece
from headwater.declare.patterns.piece_plan import PiecePlan
from headwater.declare.verb_port import CURRENT_BUILDER
from headwater.declare.verbs import Declarer, Function
from headwater.errors import DeclarationError

P = ParamSpec("P")
R = TypeVar("R")

READ_ONLY: Final = (
    "a pattern's function builds, and is called as often as needed: it cannot write {}; give it a default"
)
"""The message for a function of a pattern that writes, for `Transaction.read_only`."""


class PieceStarter(Protocol):
    """Starts the pieces of an open space."""

    def start_within(
        self, builder: Builder, pattern: Pattern[..., R], key: str, args: tuple[object, ...], inputs: dict[str, Any]
    ) -> Piece[R]:
        """Plan a piece that is part of the piece in construction."""


class BuilderPort(SpacePort):
    """An open space, as builders see it."""

    can_await: bool
    """Functions may be async here."""

    @property
    @abstractmethod
    def pieces(self) -> PieceStarter:
        """The pieces of this space."""


class Builder(Declarer):
    """The object that a pattern declares with: it has the verbs of an app, for one piece.

    A pattern gets it as its first argument.
    """

    verb = "p"

    def __init__(
        self, space: BuilderPort, doc: str, name: str, around: EnclosingPiece, origin: Transaction | None
    ) -> None:
        self.name = name
        self.space = space
        self._doc = doc
        self.enclosing_piece = around
        # The transaction that starts the piece; and the one around the function, which is separate.
        self.origin = origin
        self.tx: Transaction | None = None
        self._declared: dict[str, object] = {}
        self.functions: dict[str, Function] = {}
        # Plans of the pieces that are part of this one.
        self.plans: list[PiecePlan] = []

    @property
    def owner(self) -> Owner:
        """The owner of the declared cells and functions: this space."""
        return self.space

    @property
    def prefix(self) -> str:
        """The beginning of the names of its documents."""
        return f"{self._doc}."

    @property
    def declared(self) -> Mapping[str, object]:
        """All declarations, by name."""
        return self._declared

    def start(self, pattern: Pattern[P, R], key: str = "", /, *args: P.args, **inputs: P.kwargs) -> Piece[R]:
        """Start a piece that is part of this one: it is started and stopped with it.

        Args:
            pattern: The pattern.
            key: The name of the piece inside this one; by default the name of the pattern.
            args: Inputs of the pattern.
            inputs: Inputs of the pattern by name.

        Returns:
            The piece.

        Raises:
            DeclarationError: HW110. The name is already declared in this piece.
        """
        return self.space.pieces.start_within(self, pattern, key, args, inputs)

    def __headwater_print__(self) -> tuple[object, ...]:
        """In a fingerprint, the name of the piece: no result depends on more of a builder."""
        return ("builder", self._doc)

    def build(self, fn: Callable[..., R], given: Mapping[str, object]) -> R:
        """Call the function. Its reads are not recorded, and it may not write."""
        tx = self.tx = self.space.begin(f"pattern {self.name}()", read_only=READ_ONLY)
        tx.gate = self.space.gate
        token = CURRENT_BUILDER.set(self)
        frame = CONTEXT.set(ContextFrame(self.space, tx, CONTEXT.get()))
        try:
            return fn(self, **given)
        finally:
            CONTEXT.reset(frame)
            CURRENT_BUILDER.reset(token)
            if tx.is_open:
                tx.abort()

    @property
    def is_building(self) -> bool:
        """The function is running."""
        return self.tx is not None and self.tx.is_open

    def _declare(self, name: str, thing: object, where: str) -> None:
        if not self.is_building:
            message = f"{where}: pattern {self.name}() has returned, and its builder declares nothing any more"
            raise DeclarationError(f"{message}; declare {name!r} in the pattern's function itself", name=name)
        if name in self._declared:
            message = f"{where}: pattern {self.name}() declares {name!r} twice; choose another name"
            raise DeclarationError(f"{message} (functions take name=...)", name=name)
        self._declared[name] = thing

    def _start(self, name: str, function: Function) -> None:
        function.enclosing_piece = self.enclosing_piece
        self.functions[name] = function

    def _declared_functions(self) -> Mapping[str, Function]:
        return self.functions

    def _check_async(self, name: str) -> None:
        if not self.space.can_await:
            message = f"{name}() of pattern {self.name}() is async and needs an event loop"
            raise DeclarationError(f"{message}: open the app with `async with app.aopen(...)`", name=name)
