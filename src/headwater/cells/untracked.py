"""`with hw.untracked():` reads in the block are not dependencies of the run.

Like `cell.peek()`, but for all reads: cells, fields of documents, lists, results of functions. The reads still count
for conflicts. A computed function that is called in the block and has to run tracks its own reads as usual.
"""

from __future__ import annotations

from contextvars import Token
from types import TracebackType

from headwater.cells.context import CONTEXT, PEEKING
from headwater.cells.transaction import Transaction
from headwater.errors import UsageError


class UntrackedBlock:
    """The context manager; for one use. It has an effect only inside a run."""

    __slots__ = ("_around", "_token")

    def __init__(self) -> None:
        self._around: list[Transaction] | None = None
        self._token: Token[bool] | None = None

    def __enter__(self) -> None:
        if self._around is not None:
            raise UsageError("a block of hw.untracked() is entered once; call hw.untracked() for each")
        self._around = []
        frame = CONTEXT.get()
        while frame is not None:
            if frame.tx is not None and all(frame.tx is not tx for tx in self._around):
                self._around.append(frame.tx)
            frame = frame.outer
        for tx in self._around:
            tx.peeks += 1
        self._token = PEEKING.set(True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._around is not None
        assert self._token is not None
        PEEKING.reset(self._token)
        for tx in self._around:
            tx.peeks -= 1
            # Otherwise a value that was read in the block would be found after it, and not be recorded.
            tx.memo.clear()


def untracked() -> UntrackedBlock:
    """A block whose reads are not dependencies: `with hw.untracked():`.

    A change of a value that is read in the block does not run the function again. In a transaction, the reads are still
    validated. One call is for one block.

    Returns:
        The context manager.

    Raises:
        UsageError: HW100. The block was entered before.

    Example:
        ```python
        import headwater as hw

        app = hw.App("shop")
        price, currency = app.cell("price", 250), app.cell("currency", "EUR")


        @app.computed
        def label() -> str:
            with hw.untracked():
                unit = currency.value
            return f"{price.value} {unit}"
        ```
    """
    return UntrackedBlock()
