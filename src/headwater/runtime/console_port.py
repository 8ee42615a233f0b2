"""What authors' functions print and log, as `space.on_console` gets it; and what a runtime needs of the capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Literal, Protocol, TypeAlias

import msgspec

from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.errors import UsageError, UserCodeError

Stream: TypeAlias = Literal["stdout", "stderr", "log"]


class Console(msgspec.Struct, frozen=True, kw_only=True):
    """A line that a function printed, or a message that it logged, with the run it belongs to."""

    text: str
    """The text, without the end of the line."""
    stream: Stream
    """`"stdout"`, `"stderr"` or `"log"`."""
    level: int | None = None
    """The level of a logged message, as in `logging`: 20 is INFO. None for printed text."""
    logger: str | None = None
    """The name of the logger. None for printed text."""
    node: str
    """The function, with its arguments if it has parameters."""
    piece: str
    """The piece that the function belongs to; empty for a function of the app."""
    space: str
    """The name of the space."""
    event: str | None = None
    """The id of the event that is handled. None if the function is not a handler."""
    triggers: tuple[str, ...]
    """The addresses whose change caused the run; none for a first run."""
    run: int
    """The number of the run in this opening. The first one is 1."""


OnConsole: TypeAlias = Callable[[Console], str | None]
"""Returns what is forwarded: None for the text as it is, other text instead of it, "" for nothing."""


class Voice:
    """The source of output in a run of a workflow: the names that a node has for it."""

    event: str | None = None

    def __init__(self, name: str, runs: int) -> None:
        self.name = self.title = name
        self.runs = runs
        self.piece = ""


class ConsolePort(Protocol):
    """The capture of output. It costs a run nothing while there are no listeners."""

    @property
    def listeners(self) -> Mapping[SpacePort, object]:
        """The spaces whose output is captured."""

    def listen(self, home: SpacePort, handler: OnConsole | None, report: Callable[[UserCodeError], None]) -> None:
        """Capture the output of runs of a space from now on; with None no longer."""

    def handler_of(self, home: SpacePort) -> OnConsole | None:
        """The handler of a space."""

    def run_begins(self, home: SpacePort) -> None:
        """Wrap the streams again, if others have replaced them."""

    def run_ends(self, tx: Transaction) -> None:
        """Hand over a line that has no end."""


def check_handler(handler: object) -> None:
    """Refuse what cannot be called in the middle of a `print`."""
    if handler is not None and (not callable(handler) or iscoroutinefunction(handler)):
        raise UsageError(f"on_console takes a plain function, or None, not {handler!r}")
