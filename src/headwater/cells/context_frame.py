"""One level of the context of running code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:  # a frame refers to the space and the transaction, which use the context
    from headwater.cells.space_port import SpacePort  # noqa: TC004  # a record is not decoded: its types are not looked up
    from headwater.cells.transaction import Transaction  # noqa: TC004  # likewise


class ContextFrame(msgspec.Struct, eq=False):
    """One level of the context: an opened space (no transaction), a transaction in it, or a call of a function.

    The function may only read in the surrounding transaction: `read_only` has the reason.
    """

    space: SpacePort
    tx: Transaction | None
    outer: ContextFrame | None
    read_only: str = ""
    # The transaction restricts the code to one space. False for an observer such as `on_console`, which is no run.
    is_bounded: bool = True


def is_within(frame: ContextFrame | None, part: ContextFrame) -> bool:
    """Whether a write was made in this part of the context, or inside it."""
    while frame is not None:
        if frame is part:
            return True
        frame = frame.outer
    return False
