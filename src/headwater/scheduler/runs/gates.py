"""When a node may run, and when the next waiting node may.

Debounce, throttle and backoff write into one record. A waiting node stays invalid and is queued only here; no node
after it runs early.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Final

from headwater.scheduler.graph.gate import Gate
from headwater.scheduler.graph.node import Node, NodeKind, NodeStatus
from headwater.scheduler.runs.gate_settings import StoredGateSettings
from headwater.scheduler.scheduler_limits import (
    AUTO_DEBOUNCE_MEAN_MS,
    AUTO_DEBOUNCE_MS,
    AUTO_DEBOUNCE_RUNS,
    BACKOFF_MAX_MS,
    BACKOFF_MS,
    FAILURES_LONGEST,
    FAILURES_MAX,
)

LONG_AGO: Final = -inf
"""The time of causes from another opening."""


class Gates:
    """The gates of all nodes, and the time of the next wake-up."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = self.now = now
        self.heap: list[tuple[float, int, Node]] = []
        # The settings made at run time, here and in earlier openings.
        self.settings = StoredGateSettings()
        # Some node is debounced: from then on, each node records since when it has a new cause.
        self.tracks_changes = False
        # How often a node with a gate has become invalid: each of them may have to wait since.
        self.invalidated_count = 0

    # -- policies ------------------------------------------------------------------------------------------

    def configure(self, node: Node) -> None:
        """Set the declared gates; or the settings of the node that this one replaces."""
        spec = node.spec
        if spec.debounce_ms is None and spec.throttle_ms is None and node.gate is None and self.settings.is_empty:
            return
        debounce_ms, throttle_ms = self.settings.of(node)
        self.tracks_changes = self.tracks_changes or debounce_ms is not None
        if debounce_ms is not None or throttle_ms is not None:
            node.gate = Gate(debounce_ms, throttle_ms, node.spec.no_auto_debounce)
        elif node.gate is not None:
            node.gate.debounce_ms = node.gate.throttle_ms = None

    def set_debounce(self, node: Node, ms: float | None) -> None:
        """Set the debounce in milliseconds; None removes it."""
        gate = self._gate(node)
        gate.debounce_ms = ms
        self.tracks_changes = True
        if not gate.quiet_ms:
            gate.debounce_until = 0.0
        elif node.status is NodeStatus.INVALID:
            gate.debounce_until = self._now() + gate.quiet_ms

    def set_throttle(self, node: Node, ms: float | None) -> None:
        """Set the throttle in milliseconds; None removes it."""
        gate = self._gate(node)
        gate.throttle_ms = ms
        gate.throttle_until = node.last_at_ms + ms if ms and node.runs else 0.0

    def set_no_auto_debounce(self, node: Node, *, on: bool) -> None:
        """Turn the automatic debounce of a slow effect off."""
        gate = self._gate(node)
        gate.no_auto_debounce = on
        if on:
            gate.auto_debounce_ms = 0.0
            if gate.debounce_ms is None:
                gate.debounce_until = 0.0

    @staticmethod
    def of(node: Node) -> Gate:
        """The gate of a node."""
        return node.gate or Gate()

    @staticmethod
    def _gate(node: Node) -> Gate:
        if node.gate is None:
            node.gate = Gate(no_auto_debounce=node.spec.no_auto_debounce)
        return node.gate

    # -- what happens --------------------------------------------------------------------------------------

    def invalidated(self, node: Node, by: object = None) -> None:
        """Something that the node read has changed: its debounce starts again.

        If a run that a caller requested made the change, the debounce starts at the time of the causes of that run:
        an observed node would have run then.
        """
        known = by.run_changed_at if isinstance(by, Node) else None
        moment = self._now() if known is None else known
        if node.changed_at is None or node.changed_at < moment or len(node.invalid_causes) == 1:
            node.changed_at = moment
        gate = node.gate
        if gate is not None:
            self.invalidated_count += 1
            if gate.quiet_ms:
                gate.debounce_until = max(gate.debounce_until, moment + gate.quiet_ms)

    @staticmethod
    def begins(node: Node, *, asked: bool) -> None:
        """A run begins. If a caller requested it, its changes are as old as the causes of the run.

        The first run of an opening has no causes here: what it changes was outdated before.
        """
        moment = node.changed_at
        if moment is None and not node.runs:
            moment = LONG_AGO
        node.run_changed_at = moment if asked else None

    def ran(self, node: Node, now: float, ms: float) -> None:
        """A run has ended after `ms` milliseconds."""
        gate = node.gate
        spec = node.spec
        # A suspended run delays no other node.
        is_held_up = spec.kind is NodeKind.EFFECT and not spec.is_async
        if is_held_up and (gate is not None or (ms > AUTO_DEBOUNCE_MEAN_MS and not spec.no_auto_debounce)):
            slow = node.runs >= AUTO_DEBOUNCE_RUNS and node.total_ms > AUTO_DEBOUNCE_MEAN_MS * node.runs
            gate = self._gate(node)
            gate.auto_debounce_ms = float(AUTO_DEBOUNCE_MS) if slow and not gate.no_auto_debounce else 0.0
        if gate is not None and gate.throttle_ms:
            gate.throttle_until = now + gate.throttle_ms

    def back_off(self, node: Node) -> bool:
        """A node does not settle: back off, longer each time. Returns whether this is the first time."""
        gate = self._gate(node)
        first = not gate.backoff_ms
        gate.backoff_ms = min(gate.backoff_ms * 2 or float(BACKOFF_MS), float(BACKOFF_MAX_MS))
        gate.backoff_until = self._now() + gate.backoff_ms
        return first

    def back_off_ring(self, node: Node) -> bool:
        """The same, because of functions of other spaces.

        Between two of their turns the node is clean at the end of a pass, so that end says nothing: it has settled if
        this does not happen again for as long as it rested.
        """
        gate = self._gate(node)
        now = self._now()
        is_known = gate.ring_until > 0.0 and now <= gate.ring_until
        first = not is_known and not gate.backoff_ms
        last = gate.ring_ms if is_known else gate.backoff_ms
        gate.backoff_ms = gate.ring_ms = min(last * 2 or float(BACKOFF_MS), float(BACKOFF_MAX_MS))
        gate.backoff_until = now + gate.backoff_ms
        gate.ring_until = gate.backoff_until + gate.backoff_ms
        return first

    def know_ring(self, node: Node) -> None:
        """A function of another space rests because of this one, and the report names both: one report is enough."""
        self._gate(node).ring_until = self._now() + 2 * BACKOFF_MAX_MS

    def back_off_store(self, node: Node, times: int) -> None:
        """The store does not take its result, as when the disk is full: it runs again later, each time more so."""
        wait_ms = min(float(BACKOFF_MS) * 2.0**times, float(BACKOFF_MAX_MS))
        self._gate(node).store_until = self._now() + wait_ms

    def refused(self, node: Node) -> None:
        """The store has refused its result, and a retry would fail as well.

        The rollback makes its readers run. If they write what it reads, and are refused too, all of them would run in
        turns without an end, as after a failure of the disk: from the tenth time on they wait.
        """
        gate = self._gate(node)
        gate.refused_count = min(gate.refused_count + 1, FAILURES_LONGEST)
        if gate.refused_count > FAILURES_MAX:
            self.back_off_store(node, gate.refused_count - FAILURES_MAX - 1)

    @staticmethod
    def stored(node: Node) -> None:
        """The store took its result."""
        if node.gate is not None:
            node.gate.store_until, node.gate.refused_count = 0.0, 0

    @staticmethod
    def settled(node: Node) -> None:
        """A pass has ended and the node is clean: end its backoff."""
        if node.gate is not None:
            node.gate.backoff_ms = node.gate.backoff_until = 0.0

    def hold(self, node: Node, until: float, quiet_ms: float = 0.0) -> None:
        """Delay a proxy node: it waits for functions of another space. `quiet_ms`: only for their debounce."""
        gate = self._gate(node)
        gate.throttle_until, gate.far_quiet_ms = until, quiet_ms

    def hurry(self, node: Node) -> bool:
        """The node runs for an event without its debounce. Returns whether this is the first time."""
        gate = self._gate(node)
        gate.hurried_count += 1
        return gate.hurried_count == 1

    @staticmethod
    def at_once(node: Node) -> None:
        """The causes of the node are old: it runs without debounce and throttle, and so do the nodes below it."""
        node.changed_at = LONG_AGO
        if node.gate is not None:
            node.gate.debounce_until = node.gate.throttle_until = 0.0

    # -- the one question ----------------------------------------------------------------------------------

    @staticmethod
    def eligible_at(node: Node) -> float:
        """The time from which on it may run; 0 without a gate."""
        gate = node.gate
        if gate is None:
            return 0.0
        return max(gate.debounce_until, gate.throttle_until, gate.backoff_until, gate.store_until)

    def is_resting(self, node: Node) -> bool:
        """Whether it did not settle, and is in backoff."""
        return node.gate is not None and node.gate.backoff_until > self._now()

    def is_held(self, node: Node) -> bool:
        """Whether a gate delays it."""
        return node.gate is not None and self.eligible_at(node) > self._now()

    def is_held_by_itself(self, node: Node) -> bool:
        """Whether a gate other than the state of the store delays it."""
        gate, now = node.gate, self._now()
        return gate is not None and max(gate.debounce_until, gate.throttle_until, gate.backoff_until) > now

    def is_only_quiet(self, node: Node) -> bool:
        """Whether only the debounce delays it."""
        gate, now = node.gate, self._now()
        if gate is None:
            return False
        if gate.far_quiet_ms:
            return gate.throttle_until > now >= max(gate.backoff_until, gate.store_until)
        return gate.debounce_until > now >= max(gate.throttle_until, gate.backoff_until, gate.store_until)

    def quiet_of(self, node: Node) -> float:
        """The debounce in effect, in milliseconds: its own, or of the function that a proxy node waits for."""
        gate = self.of(node)
        return gate.far_quiet_ms or gate.quiet_ms

    # -- the one wake --------------------------------------------------------------------------------------

    def wait(self, node: Node) -> None:
        """Queue a live node until it is eligible."""
        gate = self._gate(node)
        until = self.eligible_at(node)
        if gate.waits_until != until:
            gate.waits_until = until
            heappush(self.heap, (until, node.order, node))

    def due(self) -> list[Node]:
        """Take the nodes that are due, or whose gates were changed."""
        waiting = self.heap
        if not waiting:
            return []
        found: list[Node] = []
        now = self._now()
        while waiting and waiting[0][0] <= now:
            until, _, node = heappop(waiting)
            if node.gate is not None and node.gate.waits_until == until:
                node.gate.waits_until = 0.0
                found.append(node)
        return found

    def waiting(self) -> list[Node]:
        """The live nodes that wait."""
        return [node for until, _, node in self.heap if self._stands(node, until)]

    def wake_at(self) -> float | None:
        """The earliest time at which a waiting node may run; None without one."""
        waiting = self.heap
        while waiting and not self._stands(waiting[0][2], waiting[0][0]):
            heappop(waiting)
        return waiting[0][0] if waiting else None

    def is_due(self, at: float | None) -> bool:
        """Whether that time has come."""
        return at is not None and at <= self._now()

    @staticmethod
    def _stands(node: Node, until: float) -> bool:
        gate = node.gate
        if gate is None or gate.waits_until != until:
            return False
        if node.removed or not node.is_live or node.is_clean:
            gate.waits_until = 0.0
            return False
        return True

    def regroup(self, node: Node) -> None:
        """A gate was changed: replace the entry of a waiting node."""
        gate = node.gate
        if gate is not None and gate.waits_until:
            gate.waits_until = 0.0
            self.heap = [entry for entry in self.heap if entry[2] is not node]
            heapify(self.heap)

    def clear(self) -> None:
        """Empty the heap."""
        for _, _, node in self.heap:
            if node.gate is not None:
                node.gate.waits_until = 0.0
        self.heap.clear()
