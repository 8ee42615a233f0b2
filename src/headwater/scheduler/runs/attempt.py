"""One attempt to run a node."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.node import DocPath, Node
from headwater.values.ids import DocKey


class AttemptOwner(Protocol):
    """The part of the scheduler that began an attempt, and ends it."""

    def finish(self, attempt: Any) -> None:  # noqa: ANN401  # of its own kind
        """The function has returned or raised, or is suspended."""

    def again(self, attempt: Any) -> None:  # noqa: ANN401
        """A suspended attempt asks for a retry."""

    def interrupted(self, attempt: Any, reason: str) -> None:  # noqa: ANN401
        """The attempt was cancelled."""

    def waits(self, attempt: Any) -> None:  # noqa: ANN401
        """The attempt is suspended again."""


class Call(Protocol):
    """A function that the host calls: an attempt to run a node, or to handle an event."""

    # The host: the return value or the error of the function; or that it is suspended, and how to cancel it.
    result: object
    error: Exception | None
    suspended: bool
    stop: Callable[[], object] | None

    owner: AttemptOwner
    tx: Transaction
    version: int
    started: float

    @property
    def title(self) -> str:
        """The display name of the function."""

    @property
    def fn(self) -> Callable[..., object]:
        """The function to call."""

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The arguments, besides the transaction."""

    @property
    def is_async(self) -> bool:
        """Whether the function returns an awaitable."""

    @property
    def timeout_ms(self) -> float | None:
        """How long it may be suspended."""

    def cancel(self) -> None:
        """Cancel it, if it is running."""


class Attempt(msgspec.Struct, eq=False):
    """One attempt to run a node, from its beginning to its end. A step of `settle`: the host calls the function.

    A Struct, as one is made for every run.
    """

    owner: AttemptOwner
    node: Node
    tx: Transaction
    # The visible version at its beginning.
    version: int
    started: float
    # The function to call.
    fn: Callable[..., object]
    pulled: bool = False
    # How the previous attempt failed, to compare the errors.
    before: Exception | None = None
    # The host: the return value or the error of the function; or that it is suspended, and how to cancel it.
    result: object = None
    error: Exception | None = None
    suspended: bool = False
    stop: Callable[[], object] | None = None
    # runner: the results that its last run read, and this one has not read when it was suspended.
    not_yet_read: frozenset[DocKey] = frozenset()
    # The visible version at the last check while it was suspended.
    looked: int = -1
    # The arguments of the function, besides its transaction.
    arguments: tuple[()] = ()
    # diagnosis: what a repeated run needs.
    image: object = None

    @property
    def causes(self) -> tuple[DocPath, ...]:
        """The causes of the attempt."""
        return self.tx.triggers

    @property
    def title(self) -> str:
        """The display name of its node."""
        return self.node.title

    @property
    def is_async(self) -> bool:
        """The function returns an awaitable."""
        return self.node.spec.is_async

    @property
    def timeout_ms(self) -> float | None:
        """How long it may be suspended."""
        return self.node.spec.timeout_ms

    def cancel(self) -> None:
        """Cancel it, if it is running."""
        if self.stop is not None:
            self.stop()
