"""What every group of verbs asks of whoever declares with them.

Must never know: which verbs there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.cells.context import Owner


class Verbs(ABC):
    """Verbs of an app, and of what builds a pattern."""

    verb: str

    @property
    @abstractmethod
    def owner(self) -> Owner:
        """Whose cells and functions these are."""

    @abstractmethod
    def _declare(self, name: str, thing: object, where: str) -> None:
        """Something has a name now. Raises DeclarationError if something else has it."""

    @abstractmethod
    def _start(self, name: str, function: Any) -> None:  # noqa: ANN401  # what can be started is said where it is
        """It runs from now on, wherever this is open."""

    @abstractmethod
    def _id(self, name: str) -> str:
        """The document of that name."""
