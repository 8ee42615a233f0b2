"""Runs those nodes, or reports what the event waits for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from headwater.errors import UserCodeError
from headwater.scheduler.events.event import EventRecord
from headwater.scheduler.events.lanes import Parking
from headwater.scheduler.events.preflight import Preflight
from headwater.scheduler.graph.node import Node
from headwater.scheduler.inspect.function_errors import never_quiet
from headwater.scheduler.passes.gates import Gates
from headwater.scheduler.passes.pull import Puller
from headwater.scheduler.passes.runner import Runner
from headwater.scheduler.passes.steps import PassStep
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
        report: Callable[[UserCodeError], None],
    ) -> None:
        self._preflight = preflight
        self._puller = puller
        self._gates = gates
        self._runner = runner
        self._is_settling = is_settling
        self._report = report
        # Documents that are on their way here, and how many wait for each.
        self._loading: dict[DocKey, int] = {}
        # They had their turns. settle takes them: those that are not current then have to rest, as all others (I6).
        self.spent: dict[Node, None] = {}
        # What `make` came to: None if all of it is current.
        self.parking: Parking | None = None

    def is_written(self, doc: DocKey) -> bool:
        """Whether the document may be out of date."""
        return self._preflight.is_written(doc) or doc in self._loading

    def loading(self, docs: Collection[DocKey]) -> Callable[[], None]:
        """These documents are being fetched: events that need them wait. Returns what says that they are there."""
        for doc in docs:
            self._loading[doc] = self._loading.get(doc, 0) + 1

        def done() -> None:
            for doc in docs:
                left = self._loading.pop(doc, 1) - 1
                if left:
                    self._loading[doc] = left

        return done

    def make(self, docs: Collection[DocKey], event: EventRecord) -> Iterator[PassStep]:
        """Run the nodes above these documents that are not current. `parking` says what is left to wait for."""
        self.parking = self._fetched(docs) if self._loading else None
        # A node that never settles has had its turns, and delays no event (I6).
        turns: dict[Node, int] = {}
        while self.parking is None:
            unsure = self._preflight.blockers(docs)
            blockers = [node for node in unsure if not self._is_excused(node, event, turns)]
            if not blockers:
                return
            waiting = {node for node in blockers if self._waits(node, event)}
            parking = self._parking(blockers, event)
            # Above the waiting nodes, not below: those would only run again.
            lowest = min((node.rank for node in waiting), default=None)
            runnable = [node for node in blockers if node not in waiting and (lowest is None or node.rank < lowest)]
            if not runnable:
                self.parking = parking
                return
            for node in runnable:
                if node.is_clean or node.attempt is not None or node.removed or self._is_spent(node):
                    # Those before it have run meanwhile, and what they called: perhaps this one, as often as it may.
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
        """What has to be waited for: the first of those under way, or the time of the last that is held up."""
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
        return since + self._gates.of(node).quiet_ms + QUIET_MAX_MS

    def _is_overdue(self, node: Node, event: EventRecord) -> bool:
        """The event has waited longer than the limit for the debounce of a node."""
        if event.waits_since is None or not self._gates.is_only_quiet(node):
            return False
        return self._gates.now() >= self._deadline(node, event)

    def _hurry(self, node: Node, event: EventRecord) -> None:
        """It is run without its quiet: I4 holds, and those behind the event have waited long enough. Reported once."""
        if self._gates.hurry(node):
            self._report(never_quiet(node, event))

    def _is_excused(self, node: Node, event: EventRecord, turns: dict[Node, int]) -> bool:
        """It was run as often as may be, and is still not current: events do not wait for what never ends."""
        if self._waits(node, event) and self._has_had_turns(node, event):
            return True
        if node.attempt is not None:
            return False
        if turns.get(node, 0) >= RUNS_MAX or self._gates.is_resting(node):
            return True
        return self._is_spent(node)

    def _is_spent(self, node: Node) -> bool:
        """It ran as often in this pass as it may (I6)."""
        spent = node.pass_number == self._runner.pass_number and node.pass_runs >= RUNS_MAX
        return spent and self._is_settling()

    @staticmethod
    def _has_had_turns(node: Node, event: EventRecord) -> bool:
        """Again and again it had run, and the event has to wait for it once more: so it may be in a circle.

        What it has come to meanwhile is made of nothing older than the event's turn.
        """
        if event.waited_for is None:
            event.waited_for = {}
        count, ran = event.waited_for.get(node, (0, node.runs))
        count += node.runs > ran
        event.waited_for[node] = count, node.runs
        return count >= RUNS_MAX
