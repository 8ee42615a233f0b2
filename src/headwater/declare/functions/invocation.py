"""A pattern with its inputs, as a computed function returns it: its own run starts a piece of the pattern."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, Protocol, TypeVar

from headwater.errors import UsageError

R = TypeVar("R")


class NamedPattern(Protocol):
    """A pattern, of which only the name is known here."""

    name: str


class Invocation(Generic[R]):
    """A pattern with its inputs, not started yet: what a call of a pattern returns.

    A computed function that returns it starts the piece as its child.
    """

    __slots__ = ("args", "inputs", "pattern")

    def __init__(self, pattern: NamedPattern, args: tuple[object, ...], inputs: dict[str, Any]) -> None:
        self.pattern: NamedPattern = pattern
        self.args: tuple[object, ...] = args
        self.inputs: dict[str, Any] = inputs

    def __getattr__(self, name: str) -> NoReturn:
        """It is no piece yet. Raises UsageError; for dunder names, AttributeError."""
        if name.startswith("__"):
            raise AttributeError(name)
        message = f"{self.pattern.name}(...) is not started, and has no {name}: a computed that returns it starts it"
        raise UsageError(f"{message}; use hw.start({self.pattern.name}, key, ...) to have the piece at once")

    def __repr__(self) -> str:
        return f"<{self.pattern.name}(...), to be started>"
