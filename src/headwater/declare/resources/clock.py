"""`hw.clock`: the time as a value that changes at every tick, while somebody looks.

A tick is told to readers like any change, but nothing is written for it: the document that stands for a clock is never
there. So a clock that is looked at all day costs no commit, and one that nobody looks at costs nothing.

Must never know: who reads it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, cast

from headwater.cells.context import sole_open
from headwater.errors import UsageError
from headwater.scheduler.graph.node import Kind, NodeSpec
from headwater.values.address import Depth, doc_key
from headwater.values.duration import Duration, to_ms, written_ms

if TYPE_CHECKING:
    from headwater.runtime.space_runtime import BaseSpace
    from headwater.runtime.timers import Timer
    from headwater.scheduler.graph.node import Node

EVERY_MIN_MS: Final = 1.0
"""The shortest tick. More often than that, no program would come to do anything else."""


def clock(every: Duration = "1s") -> datetime:
    """The time, in UTC, cut to whole ticks: with `every="1m"` it is a minute for a minute.

    In a computed or a sink it is like a cell: whoever has read it runs again at the next tick, if somebody looks.
    """
    every_ms = to_ms(every, "hw.clock(every=...)")
    if every_ms < EVERY_MIN_MS:
        raise UsageError(f"hw.clock(every={every!r}) ticks too often; 1ms or more is expected", every=every)
    found, tx = sole_open("hw.clock()")
    space = cast("BaseSpace", found)
    ticking = Ticking.of(space, every_ms)
    if tx is not None:
        tx.note(ticking.doc, (), Depth.DEEP)
        ticking.is_read = True
    return datetime.fromtimestamp(ticking.tick_ms() / 1000, UTC)


class Ticking:
    """One clock of one open space."""

    def __init__(self, space: BaseSpace, every_ms: float) -> None:
        self._space = space
        self._every_ms = every_ms
        self.doc = doc_key(f"headwater.clock:{every_ms:g}")
        self._timer: Timer | None = None
        # The last tick that readers were told of, while somebody looks: so all of them see the same.
        self._told: float | None = None
        # By a run, since it last rested.
        self.is_read = False
        self._node: Node = space.scheduler.register(
            NodeSpec(
                name=f"clock({written_ms(every_ms)})",
                fn=self.tick_ms,
                kind=Kind.COMPUTATION,
                outputs=(self.doc,),
                is_fed=True,
                # Whoever reads it is run by each opening: it is later by then.
                is_instance=True,
                on_live=self._start,
                on_dormant=self._stop,
            )
        )

    @staticmethod
    def of(space: BaseSpace, every_ms: float) -> Ticking:
        """The one that ticks so often."""
        found = space.clocks.get(every_ms)
        if found is None:
            with space.turn:
                found = space.clocks.get(every_ms) or Ticking(space, every_ms)
                space.clocks[every_ms] = found
        return found

    def tick_ms(self) -> float:
        """When it last ticked."""
        return self._now() if self._told is None else self._told

    def _now(self) -> float:
        return self._space.timers.wall() // self._every_ms * self._every_ms

    def _start(self) -> None:
        """Somebody looks."""
        self._told = self._now()
        self._set()

    def _stop(self) -> None:
        """Nobody does."""
        self._told = None
        self.is_read = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rest(self) -> None:
        """Nothing is at work. If nobody looks, no tick comes: whoever has read it is to read it again, if called."""
        if self.is_read and not self._node.is_live:
            self._space.scheduler.invalidation.failed_otherwise(self._node)
            self._space.scheduler.invalidation.drain()
        self.is_read = False

    def _set(self) -> None:
        # By how late it is, not by how long it takes: ticks that were missed are not made up for.
        self._timer = self._space.timers.at(self._now() + self._every_ms, self._tick)

    def _tick(self) -> None:
        before, self._told = self._told, self._now()
        self._set()
        if before != self._told:
            self._space.scheduler.renew(self._node)
