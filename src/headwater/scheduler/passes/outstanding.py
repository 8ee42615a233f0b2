"""Whether there is outstanding work, by kind."""

from __future__ import annotations

import msgspec

from headwater.scheduler.graph.order import Queue
from headwater.scheduler.passes.settle import Settle
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.runner import Runner


class Outstanding(msgspec.Struct, frozen=True):
    """The outstanding work."""

    is_due: bool
    """A pass would find something."""
    in_flight: int
    """Attempts that wait for something outside."""
    gated: int
    """Live nodes that wait for their time."""
    wake_at: float | None
    """The earliest such time, or that at which an event may be handled."""
    events: int = 0
    """Events that are not handled yet."""

    @property
    def is_idle(self) -> bool:
        """Whether only time can bring more work. Dormant and gated nodes do not count; events do."""
        return not self.is_due and not self.in_flight and not self.events


def outstanding(queue: Queue, gates: Gates, invalidation: Invalidation, runner: Runner, settle: Settle) -> Outstanding:
    """Collect the outstanding work."""
    waiting = gates.waiting()
    due = any(not node.is_clean and node.is_live and not node.removed for node in queue.nodes())
    wake_at = settle.wake_at()
    return Outstanding(
        is_due=bool(invalidation.inbox) or due or settle.events.is_due or gates.is_due(wake_at),
        in_flight=len(runner.in_flight),
        gated=len(waiting),
        wake_at=wake_at,
        events=settle.events.waiting,
    )
