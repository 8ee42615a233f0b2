"""`hw.clock`: the time as a value that changes at every tick, while somebody looks.

A tick is told to readers like any change, but nothing is written for it: the document that stands for a clock is never
there. So a clock that is looked at all day costs no commit, and one that nobody looks at costs nothing.

Must never know: who reads it.
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
"""The shortest tick. More often than that, no program would come to do anything else."""


def clock(every: Duration = "1s") -> datetime:
    """The time, in UTC, cut to whole ticks: with `every="1m"` it is a minute for a minute.

    In a computed or a sink it is like a cell: whoever has read it runs again at the next tick, if somebody looks.
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
