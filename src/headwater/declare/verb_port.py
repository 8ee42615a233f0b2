"""What the groups of verbs (cells, functions, lists, choices) use of the object that declares with them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextvars import ContextVar
from typing import Any, Final

from headwater.cells.context import Owner


class Verbs(ABC):
    """Declares under names: an app, or the builder of a pattern."""

    verb: str

    @property
    @abstractmethod
    def owner(self) -> Owner:
        """The owner of the declared cells and functions."""

    @abstractmethod
    def _declare(self, name: str, thing: object, where: str) -> None:
        """Record a declaration. Raises DeclarationError if the name is taken."""

    @abstractmethod
    def _start(self, name: str, function: Any) -> None:  # noqa: ANN401  # the union of functions is defined above
        """Register a function in every space where this is open."""

    @abstractmethod
    def _id(self, name: str) -> str:
        """The document of that name."""


CURRENT_BUILDER: Final[ContextVar[Verbs | None]] = ContextVar("headwater-builder", default=None)
"""The builder whose pattern function is running: it declares what names no app."""
