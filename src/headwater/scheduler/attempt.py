"""One attempt to run a node: a step of a pass, from its beginning to its end.

Must never know: how it is begun or ended.
"""

from __future__ import annotations

from headwater.cells.transaction import Transaction
from headwater.scheduler.node import Node, Place


class RetryImmediately(BaseException):  # no error: `except Exception` in authors' code must not catch it
    """Raised within a run: forget this attempt and make it again, in the same pass. Counts against its bound."""


class Attempt:
    """One attempt to run a node, from its beginning to its end. A step of `settle`: the host calls the function."""

    # How the one before it failed, to tell whether that is different now.
    before: Exception | None = None
    # The host: what the function returned or raised; or that it waits, and how to stop it.
    result: object = None
    error: Exception | None = None
    suspended: bool = False
    # What was visible when it was last looked at while it waited.
    looked: int = -1

    def __init__(
        self, node: Node, tx: Transaction, causes: tuple[Place, ...], version: int, started: float, *, pulled: bool
    ) -> None:
        self.node = node
        self.tx = tx
        self.causes = causes
        # What was visible when it began.
        self.version = version
        self.started = started
        self.pulled = pulled

    def cancel(self) -> None:
        """Stop it, if it is under way: whoever starts it puts the way to do so here."""
