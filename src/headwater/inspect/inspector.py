"""One interface for questions about a space and commands to it, wherever the space is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol, Self, TypeVar, cast

from headwater.inspect.envelope import TraceLine
from headwater.inspect.request import Command, Question

A = TypeVar("A")


class Inspector(Protocol):
    """Answers questions about one space and carries out commands. A `with` block closes it.

    A question or command that is not possible there raises UsageError, which says what to do instead.
    """

    @property
    def is_live(self) -> bool:
        """A process has the space open, and answers."""

    @property
    def holds_file(self) -> bool:
        """It has opened the file itself, until it is closed. Opens nothing."""

    def ask(self, question: Question[A]) -> A:
        """The answer. Raises HeadwaterError."""

    def do(self, command: Command[A]) -> A:
        """The report. Raises HeadwaterError: then nothing was done."""

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:
        """Each new answer; None from time to time if nothing changes.

        `question` gets the last answer. Ends when the space is closed. Raises NotFoundError if it is closed already.
        """

    def follow(self, kind: str = "") -> Iterator[TraceLine]:
        """New steps of the functions, until the space is closed. Raises NotFoundError if it is closed already."""

    def close(self) -> None:
        """End connections and release the file."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_error: object) -> None: ...


class ClosingInspector:
    """An inspector that is closed at the end of a `with` block."""

    is_live = False
    holds_file = False

    def close(self) -> None:
        """Release what the inspector has open. By default, nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()


class AnsweringInspector(ClosingInspector, ABC):
    """An inspector that computes the answers itself, by the class of the question."""

    @abstractmethod
    def answer(self, question: Any) -> object:  # noqa: ANN401  # each implementation lists the questions it knows
        """The answer, of the type that the question declares."""

    @abstractmethod
    def carry_out(self, command: Any) -> object:  # noqa: ANN401  # likewise
        """The report, of the type that the command declares."""

    def ask(self, question: Question[A]) -> A:
        """The answer. Raises HeadwaterError."""
        return cast("A", self.answer(question))

    def do(self, command: Command[A]) -> A:
        """The report. Raises HeadwaterError: then nothing was done."""
        return cast("A", self.carry_out(command))
