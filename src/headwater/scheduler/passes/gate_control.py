"""Debounce and throttle, set at run time."""

from __future__ import annotations

from headwater.cells.replica import Replica
from headwater.scheduler.graph.node import Node
from headwater.scheduler.passes.settle import Settle
from headwater.scheduler.runs.gates import Gates


class GateControl:
    """Sets the gates of nodes."""

    def __init__(self, gates: Gates, settle: Settle, replica: Replica) -> None:
        self._gates = gates
        self._settle = settle
        self._replica = replica

    def set_debounce(self, node: Node, ms: float) -> None:
        """Run the node only after its inputs have been quiet for this long."""
        self._gates.set_debounce(node, ms)
        self._store(node)

    def clear_debounce(self, node: Node) -> None:
        """Remove the debounce."""
        self._gates.set_debounce(node, None)
        self._store(node)

    def get_debounce(self, node: Node) -> float | None:
        """The debounce; None without one."""
        return self._gates.of(node).debounce_ms

    def set_throttle(self, node: Node, ms: float) -> None:
        """Run the node at most once in this time."""
        self._gates.set_throttle(node, ms)
        self._store(node)

    def clear_throttle(self, node: Node) -> None:
        """Remove the throttle."""
        self._gates.set_throttle(node, None)
        self._store(node)

    def get_throttle(self, node: Node) -> float | None:
        """The throttle; None without one."""
        return self._gates.of(node).throttle_ms

    def set_no_auto_debounce(self, node: Node, *, on: bool = True) -> None:
        """Turn the automatic debounce of slow effects off, or on again."""
        self._gates.set_no_auto_debounce(node, on=on)
        self._settle.regate(node)

    def _store(self, node: Node) -> None:
        self._settle.regate(node)
        gate = self._gates.of(node)
        row = self._gates.settings.record(node, gate.debounce_ms, gate.throttle_ms)
        if row is not None:
            # The setting depends on no read: it is stored with the next commit, or at closing.
            self._replica.observations.put(*row, ())
