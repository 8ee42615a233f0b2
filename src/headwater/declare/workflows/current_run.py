"""The run that the running code is called in."""

from __future__ import annotations

from contextvars import ContextVar
from enum import StrEnum
from typing import Any, Final, Protocol

from headwater.errors import PhaseError


class HandlerPhase(StrEnum):
    """The phase of a run, as messages name it."""

    PRODUCE = "a producer"
    PREPARE = "prepare"
    MUTATE = "mutate"
    RECONCILE = "reconcile"
    NEXT = "next"


class CurrentRun(Protocol):
    """A run, as operations, topics and the state of consumers check it."""

    id: int
    doing: HandlerPhase | None

    def check_direct(self, operation: Any) -> None:  # noqa: ANN401  # an Operation, which imports this module
        """Check a plain call of an operation. Raises PhaseError."""

    def read(self, operation: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # likewise
        """Call a read, and record its failure."""

    def keeps_state(self, whose: str) -> bool:
        """Whether a state that is assigned now is stored. Raises PhaseError in `prepare`."""

    def violated(self, message: str) -> PhaseError:
        """Record a violation of the phases: the run ends with it."""


CURRENT_RUN: Final[ContextVar[CurrentRun | None]] = ContextVar("headwater-run", default=None)
