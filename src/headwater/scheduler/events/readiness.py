"""Runs the nodes that an event needs, or reports what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from headwater.scheduler.events.event import EventRecord
from headwater.scheduler.events.event_errors import never_quiet
from headwater.scheduler.events.parking import Parking
from headwater.scheduler.events.preflight import Preflight
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.function_errors import Report
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.runs.pull import Puller
from headwater.scheduler.runs.runner import Runner
from headwater.scheduler.runs.steps import PassStep
from headwater.scheduler.scheduler_limits import QUIET_MAX_MS, RUNS_MAX
from headwater.values.ids import DocKey


class Readiness:
    """Makes the reads of a handler current."""

    def __init__(
        self,
        preflight: Preflight,
        puller: Puller,
        gates: Gates,
        runner: Runner,
        *,
        is_settling: Callable[[], bool],
        report: Report,
    ) -> None:
        self._preflight = preflight
        self._puller = puller
        self._gates = gates
        self._runner = runner
        self._is_settling = is_settling
        self._report = report
        # Documents that are being fetched, and the number of waiting events for each.
        self._loading: dict[DocKey, int] = {}
        # Nodes that reached their limit. The pass takes them: those that are not current then back off (I6).
        self.spent: dict[Node, None] = {}
        # The result of `make`: None if everything is current.
        self.parking: Parking | None = None

    def is_written(self, doc: DocKey) -> bool:
        """Whether the document may be out of date."""
        return self._preflight.is_written(doc) or doc in self._loading

    def loading(self, docs: Collection[DocKey]) -> Callable[[], None]:
        """Documents are being fetched: events that need them wait. Returns the function that reports their arrival."""
        for doc in docs:
            self._loading[doc] = self._loading.get(doc, 0) + 1

        def done() -> None:
            for doc in docs:
                left = self._loading.pop(doc, 1) - 1
                if left:
                    self._loading[doc] = left

        return done

    def make(self, docs: Collection[DocKey], event: EventRecord) -> Iterator[PassStep]:
        """Run the nodes above these documents that are not current. `parking` says what the event still waits for."""
        self.parking = self._fetched(docs) if self._loading else None
        # A node that never settles reached its limit, and delays no event (I6).
        turns: dict[Node, int] = {}
        while self.parking is None:
            unsure = self._preflight.blockers(docs)
            blockers = [node for node in unsure if not self._is_excused(node, event, turns)]
            if not blockers:
                return
            waiting = {node for node in blockers if self._waits(node, event)}
            parking = self._parking(blockers, event)
            # Nodes above the waiting ones, not below: those would run again.
            lowest = min((node.rank for node in waiting), default=None)
            runnable = [node for node in blockers if node not in waiting and (lowest is None or node.rank < lowest)]
            if not runnable:
                self.parking = parking
                return
            known = self._gates.invalidated_count
            for node in runnable:
                if self._gates.invalidated_count != known:
                    # A node that has run made one with a gate invalid: it may have to wait, and those below it with it.
                    break
                if node.is_clean or node.attempt is not None or node.removed or self._is_spent(node):
                    # Earlier nodes have run meanwhile, and may have called this one up to its limit.
                    continue
                if node.gate is not None and self._is_gated(node):
                    self._hurry(node, event)
                turns[node] = turns.get(node, 0) + 1
                if turns[node] >= RUNS_MAX:
                    self.spent[node] = None
                yield from self._puller.run(node)

    def _fetched(self, docs: Collection[DocKey]) -> Parking | None:
        missing = next((doc for doc in docs if doc in self._loading), None)
        return None if missing is None else Parking(f"{missing} is being fetched")

    def _waits(self, node: Node, event: EventRecord) -> bool:
        return node.attempt is not None or (self._is_gated(node) and not self._is_overdue(node, event))

    def _parking(self, blockers: list[Node], event: EventRecord) -> Parking | None:
        """What the event waits for: the first suspended node, or the time of the last delayed one."""
        under_way = next((node for node in blockers if node.attempt is not None), None)
        if under_way is not None:
            return Parking(f"{under_way.title} is under way")
        held = [node for node in blockers if self._is_gated(node) and not self._is_overdue(node, event)]
        if not held:
            return None
        if event.waits_since is None:
            event.waits_since = self._gates.now()
        first = min(held, key=self._gates.eligible_at)
        until = self._gates.eligible_at(first)
        if self._gates.is_only_quiet(first):
            until = min(until, self._deadline(first, event))
        return Parking(f"{first.title} waits for its time", until)

    def _is_gated(self, node: Node) -> bool:
        return node.gate is not None and node.has_value and self._gates.is_held(node)

    def _deadline(self, node: Node, event: EventRecord) -> float:
        since = self._gates.now() if event.waits_since is None else event.waits_since
        return since + self._gates.quiet_of(node) + QUIET_MAX_MS

    def _is_overdue(self, node: Node, event: EventRecord) -> bool:
        """The event has waited longer than the limit for the debounce of a node."""
        if event.waits_since is None or not self._gates.is_only_quiet(node):
            return False
        return self._gates.now() >= self._deadline(node, event)

    def _hurry(self, node: Node, event: EventRecord) -> None:
        """Run a node without its debounce: I4 holds, and later events have waited long enough. Reported once."""
        if self._gates.hurry(node):
            self._report(never_quiet(node, event), node.spec.home)
        if node.spec.is_proxy and self._runner.far is not None:
            self._runner.far.hurry(node)

    def _is_excused(self, node: Node, event: EventRecord, turns: dict[Node, int]) -> bool:
        """Whether a node reached its limit and is still not current: events do not wait for it."""
        if self._waits(node, event) and self._has_had_turns(node, event):
            return True
        if node.attempt is not None:
            return False
        if turns.get(node, 0) >= RUNS_MAX or self._gates.is_resting(node):
            return True
        return self._is_spent(node)

    def _is_spent(self, node: Node) -> bool:
        """Whether a node reached its limit in this pass (I6)."""
        spent = node.pass_number == self._runner.pass_number and node.pass_runs >= RUNS_MAX
        return spent and self._is_settling()

    def _has_had_turns(self, node: Node, event: EventRecord) -> bool:
        """Whether a node ran repeatedly while the event waited, and is invalid again: it may be in a cycle.

        Its result is newer than the time at which the event became the head of its lane.
        """
        if event.waited_for is None:
            event.waited_for = {}
        far = self._runner.far
        runs = far.runs_of(node) if node.spec.is_proxy and far is not None else node.runs
        count, ran = event.waited_for.get(node, (0, runs))
        count += runs > ran
        event.waited_for[node] = count, runs
        return count >= RUNS_MAX
