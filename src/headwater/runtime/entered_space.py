"""The part of a runtime for blocks: an entered space is around the code until it is left."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from contextvars import Token

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.runtime.pass_port import PassPort


class EnteredSpace(PassPort):
    """An open space, as blocks and notebooks see it."""

    opened_as: tuple[str, str] | None = None
    """App and place, for an input of a notebook that is run again."""

    @property
    def is_entered(self) -> bool:
        """Whether a block is around some code. The block closes the space."""
        return bool(self._tokens)

    def _face_blocks(self) -> None:
        self._tokens: list[Token[ContextFrame | None]] = []

    def enter(self) -> None:
        """The space is around the code from now on."""
        self.check_open()
        self._tokens.append(CONTEXT.set(ContextFrame(self, None, CONTEXT.get())))

    def leave(self) -> None:
        """End the last `enter`."""
        token = self._tokens.pop()
        # Left in another context than it was entered in: that context is not changed.
        with suppress(ValueError):
            CONTEXT.reset(token)

    @abstractmethod
    def abandon(self) -> None:
        """Close without waiting for events. What was committed is still decided."""
