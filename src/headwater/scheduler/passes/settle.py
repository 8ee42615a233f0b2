"""The pass: run invalid, live, eligible nodes, writers before readers.

A generator: it yields each attempt for the host to perform, and at the end the time at which something may be due. The
cost depends on what changed, not on the size of the graph: a node is queued because a read changed while it was live,
or because it became live while it was invalid.

Length: the two forms of a pass, as steps and as a loop, share how a node is chosen and how the pass ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from headwater.cells.replica import Replica
from headwater.errors import UserCodeError
from headwater.scheduler.events.handling import EventDispatcher
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node, NodeKind, NodeStatus
from headwater.scheduler.graph.order import Queue
from headwater.scheduler.runs.attempt import Attempt
from headwater.scheduler.runs.function_errors import Report, restless
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.runs.immediate_retry import RetryImmediately
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.pull import Puller, TooDeep
from headwater.scheduler.runs.runner import Runner
from headwater.scheduler.runs.steps import Idle, PassStep, Perform, drive
from headwater.scheduler.scheduler_limits import EVENTS_MAX, RUNS_MAX
from headwater.scheduler.trace import DemandChanged, NodeGated, NodeRestless, PassEnded, Trace

_CLEAN: Final = NodeStatus.CLEAN
_RUNS_BEFORE_CONFIRMING: Final = 64
"""As many as share a transaction of the database."""


class Settle:
    """Decides which node runs next."""

    def __init__(
        self,
        *,
        graph: Graph,
        gates: Gates,
        queue: Queue,
        invalidation: Invalidation,
        runner: Runner,
        puller: Puller,
        events: EventDispatcher,
        replica: Replica,
        trace: Trace,
        now: Callable[[], float],
        report: Report,
        tick: Callable[[bool], None],
    ) -> None:
        self._tick = tick
        self._graph = graph
        self._gates = gates
        self._queue = queue
        self._invalidation = invalidation
        self._runner = runner
        self._puller = puller
        self.events = events
        self._replica = replica
        self._trace = trace
        self._now = now
        self._report = report
        self.settling = False
        # The number of runs at which a long pass takes in the verdicts so far.
        self._confirming_at = 0
        # Nodes made by runs of this pass, and live only because of that.
        self.lent: dict[Node, None] = {}
        # Breakpoints.
        self.breakpoints: dict[Node, None] = {}
        self.stopped_at: Node | None = None

    # -- the pass ------------------------------------------------------------------------------------------

    def offer(self, node: Node) -> None:
        """Queue a live node that is not clean, now or when it is eligible."""
        if node.attempt is not None or node.removed:
            # One attempt at a time: the node is checked again at its end.
            return
        if node.gate is not None and self._gates.is_held(node):
            self._gates.wait(node)
            if self._trace.on:
                self._trace.emit(NodeGated(self._now(), node.id, self._gates.eligible_at(node), "not eligible yet"))
            if not self.settling:
                # Outside of a pass, as after a verdict: the time of the next wake-up is computed again.
                self._tick(True)
            return
        if not node.queued:
            self._queue.put(node)
        if not self.settling:
            self._tick(True)

    def became_live(self, node: Node) -> None:
        """A node is observed now."""
        if self._trace.on:
            self._trace.emit(DemandChanged(self._now(), node.id, live=True))
        if node.rare.on_live is not None:
            node.rare.on_live()
        if node.status is not NodeStatus.CLEAN:
            self.offer(node)

    def became_dormant(self, node: Node) -> None:
        """A node is not observed any more. If it is queued, it is skipped."""
        if self._trace.on:
            self._trace.emit(DemandChanged(self._now(), node.id, live=False))
        if node.rare.on_dormant is not None:
            node.rare.on_dormant()

    def announce(self, node: Node) -> None:
        """A new node makes a result: its readers, if any, run again."""
        if self._invalidation.failure_changed(node, runs=self._runner.runs):
            self._tick(True)

    def adopt(self, node: Node, maker: Node | None) -> None:
        """A node made by a live node is live until it has run and this pass is over."""
        if maker is not None and maker.is_live and node.spec.kind is NodeKind.COMPUTATION:
            self.lent[node] = None
            self._graph.liveness.lend(node)

    def regate(self, node: Node) -> None:
        """A gate was changed: check the node, and the time of the next wake-up."""
        self._gates.regroup(node)
        if self._is_wanted(node):
            self.offer(node)
        if not self.settling:
            # An event may wait for the node, which does not make it live.
            self._tick(True)

    def run(self, perform: Perform) -> float | None:
        """As `steps`, with each attempt performed here. Returns the time at which something may be due, if known.

        A pass without events, as after most writes, is one loop: generators would cost a tenth of a short pass.
        """
        events = self.events
        passed = 0
        if not (self.settling or events.lanes_by_name or events.inbox):
            self.settling = True
            try:
                self._run_alone(perform)
            except BaseException:
                self._tick(True)
                raise
            finally:
                self.settling = False
            if not (events.lanes_by_name or events.inbox or events.unnotified):
                return self.wake_at() if self._gates.heap else None
            # A run has sent an event.
            passed = 1
        return drive(self.steps(perform, passed), perform)

    def steps(self, perform: Perform | None = None, passed: int = 0) -> Iterator[PassStep]:
        """One pass; with waiting events several: one event of each lane, its consequences, then the next event.

        With `perform`, attempts to run nodes are not yielded but performed here. `passed`: passes so far.
        """
        if self.settling:
            return
        self.settling = True
        events = self.events
        lanes, inbox = events.lanes_by_name, events.inbox
        if lanes and not passed:
            events.recheck()
        try:
            for number in range(passed, EVENTS_MAX):
                if number and not ((lanes or inbox) and events.is_ready):
                    break
                yield from self._pass(perform)
        except BaseException:
            # An interrupt, or an error handler that raised: some nodes may not have run.
            self._tick(True)
            raise
        finally:
            self.settling = False
        if events.unnotified:
            events.tell()
        if (lanes or inbox or events.unnotified) and events.is_due:
            self._tick(True)
        yield Idle(self.wake_at())

    def _pass(self, perform: Perform | None) -> Iterator[PassStep]:
        # One pass for each event: a node that runs once for each of many events is not restless.
        runner, events = self._runner, self.events
        runner.pass_number += 1
        runs = runner.runs
        self._confirming_at = runs + _RUNS_BEFORE_CONFIRMING
        exhausted: dict[Node, None] = {}
        try:
            if (events.lanes_by_name or events.inbox) and events.is_ready:
                yield from events.steps()
            before = runner.runs
            if perform is None:
                while (node := self._next(exhausted)) is not None:
                    attempt = runner.begin(node)
                    try:
                        yield attempt
                    except BaseException as stop:  # noqa: BLE001  # handed on there, but for what is ours
                        yield from self._stopped(attempt, stop)
                    else:
                        runner.finish(attempt)
            else:
                self._run_nodes(exhausted, perform)
            self._recheck(before)
        except BaseException:
            self._queue_again(exhausted)
            raise
        self._end_pass(exhausted, runs)

    def _run_alone(self, perform: Perform) -> None:
        """A pass as above, while no event waits."""
        runner = self._runner
        runner.pass_number += 1
        runs = runner.runs
        self._confirming_at = runs + _RUNS_BEFORE_CONFIRMING
        exhausted: dict[Node, None] = {}
        try:
            self._run_nodes(exhausted, perform)
            if self.events.lanes_by_name:
                self._recheck(runs)
        except BaseException:
            self._queue_again(exhausted)
            raise
        self._end_pass(exhausted, runs)

    def _run_nodes(self, exhausted: dict[Node, None], perform: Perform) -> None:
        """Run nodes until none can run."""
        runner = self._runner
        while (node := self._next(exhausted)) is not None:
            attempt = runner.begin(node)
            try:
                perform(attempt)
            except BaseException as stop:  # noqa: BLE001  # handed on there, but for what is ours
                drive(self._stopped(attempt, stop), perform)
            else:
                runner.finish(attempt)

    def _recheck(self, runs: int) -> None:
        """Check waiting events if nodes have run since."""
        if self._runner.runs != runs and self.events.lanes_by_name:
            # A node that an event waits for may not be above its reads any more.
            self.events.recheck()

    def _queue_again(self, exhausted: dict[Node, None]) -> None:
        """The pass was interrupted: nodes that did not run are still due."""
        for node in exhausted:
            self._queue.put(node)

    def _end_pass(self, exhausted: dict[Node, None], runs: int) -> None:
        runner, events = self._runner, self.events
        if exhausted or events.ready.spent or self._puller.recovering:
            self._rest(exhausted)
        if self.lent:
            self._expire()
        if self._graph.unread:
            self._sweep()
        if self._trace.on:
            self._trace.emit(PassEnded(self._now(), "", runner.pass_number, runner.runs - runs))
        if self._trace.passed is not None:
            self._trace.passed()

    def wake_at(self) -> float | None:
        """The earliest time at which something may be due."""
        node = self._gates.wake_at() if self._gates.heap else None
        event = self.events.wake_at if self.events.lanes_by_name else None
        return node if event is None else event if node is None else min(node, event)

    def _next(self, exhausted: dict[Node, None]) -> Node | None:  # noqa: C901, PLR0912  # a look for each reason not to run it
        """The next node: the lowest rank that is still invalid, live and eligible (I9)."""
        if self._runner.runs >= self._confirming_at:
            # A long pass does not keep what its runs have committed: collections of garbage would visit all of it.
            self._replica.confirm()
            self._confirming_at = self._runner.runs + _RUNS_BEFORE_CONFIRMING
        while True:
            if self._runner.look is not None:
                self._runner.look()
            if self._invalidation.inbox:
                self._invalidation.drain()
            if self._gates.heap:
                for waiting in self._gates.due():
                    if self._is_wanted(waiting):
                        self.offer(waiting)
            # `queue.heap`: at the end of each pass it is empty, which costs no call.
            queue = self._queue
            node = queue.take() if queue.heap else None
            if node is None:
                # Cleared before the last check: a commit of another thread after the check sets it again.
                self._tick(False)
                if self._invalidation.inbox:
                    continue
                return None
            if node.status is _CLEAN or not node.live_refs or node.attempt is not None or node.removed:
                continue
            if node.gate is not None and self._gates.is_held(node):
                self.offer(node)
                continue
            if self.breakpoints:
                if node in self.breakpoints and self.stopped_at is not node:
                    self.stopped_at = node
                    self._queue.put(node)
                    return None
                self.stopped_at = None
            first = self._before(node) if self._graph.envelopes or node.declared_parent is not None else None
            if first is not None:
                self._queue.put(node)
                node = first
            elif node.pass_runs >= RUNS_MAX and node.pass_number == self._runner.pass_number:
                # I6: only nodes that reach the limit back off; all others continue.
                exhausted[node] = None
                continue
            if node.gate is not None and node.gate.backoff_ms:
                self._puller.recovering[node] = None
            return node

    @staticmethod
    def _is_wanted(node: Node) -> bool:
        return node.status is not NodeStatus.CLEAN and node.live_refs > 0 and node.attempt is None and not node.removed

    def _before(self, node: Node) -> Node | None:
        """A node of a higher rank that must run first."""
        first = self._promoted(node) if self._graph.envelopes else None
        return self._parental(node) if first is None and node.declared_parent is not None else first

    def _promoted(self, node: Node) -> Node | None:
        """A materializer that may write a read of this node runs before it, and its inputs before the materializer."""
        found = {node: None}
        while (first := self._ahead(next(reversed(found)))) is not None and first not in found:
            found[first] = None
        return next(reversed(found)) if len(found) > 1 else None

    def _parental(self, node: Node) -> Node | None:
        """The maker of a node runs first if it is due, unless it reads an output of this node.

        Its run may drop this node, which then need not run.
        """
        found: Node | None = None
        parent = node.declared_parent
        while parent is not None:
            if self._can_run(parent) and not self._leads_to(node, parent):
                found = parent
            parent = parent.declared_parent
        if found is None:
            return None
        return next((first for first in self._puller.upstream(found) if self._can_run(first)), None)

    def _leads_to(self, node: Node, target: Node) -> bool:
        """Whether an output of one node is an input of the other, directly or not. A search bounded by ranks."""
        found = {node: None}
        todo = [node]
        while todo:
            for reader in self._graph.readers(todo.pop()):
                if reader is target:
                    return True
                if reader.rank <= target.rank and reader not in found:
                    found[reader] = None
                    todo.append(reader)
        return False

    def _ahead(self, node: Node) -> Node | None:
        sources = [source for source in self._graph.sources(node) if source.is_materializer]
        for other in [*self._graph.materializers(node), *sources]:
            if self._can_run(other):
                above = self._puller.upstream(other)
                if node not in above:
                    return next(first for first in above if self._can_run(first))
        return None

    def _can_run(self, node: Node) -> bool:
        spent = node.pass_number == self._runner.pass_number and node.pass_runs >= RUNS_MAX
        return self._is_wanted(node) and not spent and not self._gates.is_held(node)

    def _stopped(self, attempt: Attempt, stop: BaseException) -> Iterator[PassStep]:
        """An attempt was interrupted. If the stack was full, the node that it waits for runs first."""
        if isinstance(stop, TooDeep):
            self._puller.made_room(attempt, stop.node)
            # If that fails, the caller gets the error with its next call.
            with suppress(UserCodeError):
                yield from self._puller.in_turn(stop.node)
        elif isinstance(stop, RetryImmediately):
            self._runner.interrupted(attempt, "asked to be run again")
        else:
            self._runner.interrupted(attempt, "interrupted")
            raise stop

    def _rest(self, exhausted: dict[Node, None], elsewhere: Sequence[str] = (), *, is_ring: bool = False) -> None:
        """Back off nodes that reached the limit and are still invalid; end the backoff of nodes that are clean."""
        fresh: list[Node] = []
        for node in {**exhausted, **self.events.take_spent()}:
            if node.is_clean or node.removed:
                continue
            if self._gates.back_off_ring(node) if is_ring else self._gates.back_off(node):
                fresh.append(node)
            if self._trace.on:
                self._trace.emit(NodeRestless(self._now(), node.id, node.pass_runs))
            if node.live_refs:
                self.offer(node)
        self._puller.recover()
        if fresh:
            self._report(restless(fresh, elsewhere), fresh[0].spec.home)

    def rest_queued(self, elsewhere: Sequence[str]) -> None:
        """Back off every node that could run now. The report names these functions of other spaces, too."""
        due: dict[Node, None] = {}
        if self._invalidation.inbox:
            self._invalidation.drain()
        while (node := self._queue.take()) is not None:
            if self._is_wanted(node):
                due[node] = None
        self._rest(due, elsewhere, is_ring=True)

    def _expire(self) -> None:
        """At the end of the pass that made them, nodes that have run and have no reader become dormant."""
        for node in [node for node in self.lent if (node.has_value and node.attempt is None) or node.removed]:
            del self.lent[node]
            if not node.removed:
                self._graph.liveness.expire(node)
                if node.on_unread is not None:
                    # Its caller may not have finished.
                    self._graph.unread[node] = None

    def sweep(self) -> None:
        """Notify nodes that lost their last reader, unless a pass is running."""
        if not self.settling:
            self._sweep()

    def _sweep(self) -> None:
        """Notify nodes that lost their last reader, then the nodes only those were reading. Not during a run."""
        unread = self._graph.unread
        later: list[Node] = []
        while unread and not self._runner.stack:
            node, _ = unread.popitem()
            if node.removed or self._graph.readers(node) or node.on_unread is None:
                continue
            if node.attempt is not None or node.provisional or self._runner.may_be_read(node):
                # It is running, or its reader is: checked again at the end of the run.
                later.append(node)
            elif not node.live_refs:
                node.on_unread()
        unread.update(dict.fromkeys(later))
