"""`hw.clock`: the time as a value that changes at every tick, while it is observed.

A tick notifies readers, but nothing is written for it: the document of a clock does not exist. An observed clock costs
no commit, and a clock that is not observed costs nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from headwater.cells.context import sole_open
from headwater.declare.resources.resource_port import ResourcePort
from headwater.errors import UsageError
from headwater.values.address import Depth
from headwater.values.duration import Duration, to_ms

EVERY_MIN_MS: Final = 1.0
"""The shortest tick. With a shorter one, a program would do nothing else."""


def clock(every: Duration = "1s") -> datetime:
    """The current time in UTC, rounded down to whole ticks.

    In a computed function or a sink it works like a cell: an observed reader runs again at the next tick.

    Args:
        every: The length of a tick. With `"1m"`, the result is the current minute.

    Returns:
        The time, with a time zone.

    Raises:
        UsageError: HW100. The tick is shorter than a millisecond.

    Example:
        ```python
        import headwater as hw

        app = hw.App("watch")


        @app.computed
        def minute() -> int:
            return hw.clock("1m").minute


        with app.open("memory:"):
            print(minute() < 60)  # True
        ```
    """
    every_ms = to_ms(every, "hw.clock(every=...)")
    if every_ms < EVERY_MIN_MS:
        raise UsageError(f"hw.clock(every={every!r}) ticks too often; 1ms or more is expected", every=every)
    space, tx = sole_open("hw.clock()")
    assert isinstance(space, ResourcePort)
    ticking = space.clock_of(every_ms)
    if tx is not None:
        tx.record(ticking.doc, (), Depth.DEEP)
        ticking.is_read = True
    return datetime.fromtimestamp(ticking.tick_ms() / 1000, UTC)
