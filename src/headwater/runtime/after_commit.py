"""Functions that are called when a transaction is on disk, and only then."""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.context import CONTEXT
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.errors import UsageError
from headwater.runtime.pass_port import PassPort


def after_commit(fn: Callable[[], object]) -> None:
    """Call a function once the transaction around this code is on disk, or confirmed by the server.

    It is not called if the transaction is rolled back. In a handler that is repeated after a conflict, only the
    successful attempt counts. The call happens at most once: not if the process ends at that moment.

    Args:
        fn: A function without parameters.

    Raises:
        UsageError: HW100. There is no transaction around this code, or it only reads.

    Example:
        ```python
        import headwater as hw

        app = hw.App("shop")
        sold = app.cell("sold", 0)
        with app.open("memory:") as space:
            with space.transaction():
                sold.value += 1
                hw.after_commit(lambda: print("on disk"))
            space.sync()
        ```
    """
    if not callable(fn):
        raise UsageError(f"hw.after_commit takes a function without parameters, not {fn!r}")
    frame = CONTEXT.get()
    tx = None if frame is None else frame.tx
    if frame is None or tx is None or not tx.is_open or not isinstance(frame.space, PassPort):
        message = "hw.after_commit(fn) is for code in a handler or a transaction, and there is none around this"
        raise UsageError(f"{message}; wrap it in `with space.transaction():`")
    if tx.read_only or frame.read_only:
        message = f"{tx.name or 'this code'} only reads, and is run as often as needed; hw.after_commit is for handlers"
        raise UsageError(message)
    home, left = frame.space, [fn]

    def ended(tx: Transaction) -> None:
        if left and tx.status is Status.COMMITTED:
            home.call_soon(left.pop())

    tx.follow(ended, left.clear)
