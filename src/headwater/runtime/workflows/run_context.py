"""The context of an author's function in a run: its transaction, and the capture of its output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.cells.context import CONTEXT, ContextFrame
from headwater.cells.transaction import Transaction
from headwater.runtime.console_port import Voice
from headwater.runtime.workflows.run_host import RunHost


@contextmanager
def around(space: RunHost, tx: Transaction, run: int) -> Iterator[None]:
    """Run code with this transaction, and no other context."""
    console = space.console
    token = CONTEXT.set(ContextFrame(space, tx, None))
    if console.listeners:
        tx.console_source = Voice(tx.name, run)
        console.run_begins(space)
    try:
        yield
    finally:
        CONTEXT.reset(token)
        if console.listeners:
            console.run_ends(tx)
