"""The clocks of an open space: each is a node that is renewed at every tick while it is observed.

Nothing is written for a tick: the document of a clock does not exist. An observed clock costs no commit, and a clock
that is not observed costs nothing.
"""

from __future__ import annotations

from headwater.runtime.timers import Timer, Timers
from headwater.scheduler.graph.node import FunctionHome, Node, NodeKind, NodeSpec
from headwater.scheduler.scheduler import Scheduler
from headwater.values.address import doc_key
from headwater.values.duration import written_ms


class Ticking:
    """One clock of one open space."""

    def __init__(
        self, scheduler: Scheduler, timers: Timers, every_ms: float, home: FunctionHome, suffix: str = ""
    ) -> None:
        self._scheduler = scheduler
        self._timers = timers
        self._every_ms = every_ms
        # The suffix distinguishes the clocks of several apps in one scheduler.
        self.doc = doc_key(f"headwater.clock:{every_ms:g}{suffix}")
        self._timer: Timer | None = None
        # The last tick that readers were notified of, while observed: all of them see the same.
        self._told: float | None = None
        # Read by a run since the last rest.
        self.is_read = False
        self._node: Node = scheduler.register(
            NodeSpec(
                name=f"clock({written_ms(every_ms)})",
                fn=self.tick_ms,
                kind=NodeKind.COMPUTATION,
                outputs=(self.doc,),
                is_fed=True,
                # Its readers run at each opening: time has passed.
                is_instance=True,
                on_live=self._start,
                on_dormant=self._stop,
                home=home,
            )
        )

    def tick_ms(self) -> float:
        """The time of the last tick."""
        return self._now() if self._told is None else self._told

    def _now(self) -> float:
        return self._timers.wall() // self._every_ms * self._every_ms

    def _start(self) -> None:
        """Observed: start ticking."""
        self._told = self._now()
        self._set()

    def _stop(self) -> None:
        """Not observed: stop ticking."""
        self._told = None
        self.is_read = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def rest(self) -> None:
        """Idle. Without observers there are no ticks: past readers become invalid, and read again when called."""
        if self.is_read and not self._node.is_live:
            self._scheduler.invalidation.failure_changed(self._node)
            self._scheduler.invalidation.drain()
        self.is_read = False

    def _set(self) -> None:
        # On the wall clock: missed ticks are skipped.
        self._timer = self._timers.at(self._now() + self._every_ms, self._tick)

    def _tick(self) -> None:
        before, self._told = self._told, self._now()
        self._set()
        if before != self._told:
            self._scheduler.renew(self._node)
