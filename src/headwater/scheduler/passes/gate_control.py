"""When nodes of a scheduler may run, as it is set from outside: for this opening, and for those after it.

Must never know: what a gate does with it.
"""

from __future__ import annotations

from headwater.cells.replica import Replica
from headwater.scheduler.graph.node import Node
from headwater.scheduler.passes.gates import Gates
from headwater.scheduler.passes.settle import Settle


class Timing:
    """What can be said of time."""

    gates: Gates
    _settle: Settle
    _replica: Replica

    def set_debounce(self, node: Node, ms: float) -> None:
        """Run it only when nothing it read has changed for so long."""
        self.gates.set_debounce(node, ms)
        self._keep(node)

    def clear_debounce(self, node: Node) -> None:
        """Do not wait for quiet."""
        self.gates.set_debounce(node, None)
        self._keep(node)

    def get_debounce(self, node: Node) -> float | None:
        """How long it waits for quiet, as set; None if it does not."""
        return self.gates.of(node).debounce_ms

    def set_throttle(self, node: Node, ms: float) -> None:
        """Run it at most once in so much time."""
        self.gates.set_throttle(node, ms)
        self._keep(node)

    def clear_throttle(self, node: Node) -> None:
        """Run it as often as needed."""
        self.gates.set_throttle(node, None)
        self._keep(node)

    def get_throttle(self, node: Node) -> float | None:
        """The least time between two runs, as set."""
        return self.gates.of(node).throttle_ms

    def set_no_auto_debounce(self, node: Node, *, on: bool = True) -> None:
        """Do not slow an effect down for being slow."""
        self.gates.set_no_auto_debounce(node, on=on)
        self._settle.regate(node)

    def _keep(self, node: Node) -> None:
        self._settle.regate(node)
        gate = self.gates.of(node)
        row = self.gates.settings.keep(node, gate.debounce_ms, gate.throttle_ms)
        if row is not None:
            # It rests on nothing that was read: it is stored with the next commit, or at the end.
            self._replica.observations.put(*row, ())
