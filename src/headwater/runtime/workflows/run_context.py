"""The context of an author's function in a run: its transaction, and the capture of its output."""

from __future__ import annotations

from contextvars import Token

from headwater.cells.context import CONTEXT
from headwater.cells.context_frame import ContextFrame
from headwater.cells.transaction import Transaction
from headwater.runtime.console_port import Voice
from headwater.runtime.workflows.run_host import RunHost


class RunContext:
    """Runs code with this transaction, and no other context."""

    __slots__ = ("_run", "_space", "_token", "_tx")

    def __init__(self, space: RunHost, tx: Transaction, run: int) -> None:
        self._space = space
        self._tx = tx
        self._run = run

    def __enter__(self) -> None:
        space, tx = self._space, self._tx
        self._token: Token[ContextFrame | None] = CONTEXT.set(ContextFrame(space, tx, None))
        if space.console.listeners:
            tx.console_source = Voice(tx.name, self._run)
            space.console.run_begins(space)

    def __exit__(self, *_error: object) -> None:
        CONTEXT.reset(self._token)
        if self._space.console.listeners:
            self._space.console.run_ends(self._tx)
