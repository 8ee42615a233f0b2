"""The facade: builds the parts of a scheduler and forwards to them.

Callers may use the parts directly: `scheduler.graph`, `scheduler.gates`, `scheduler.inspect`, `scheduler.streams`.

Length: one facade over all parts; half of its lines forward.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.errors import HeadwaterError, UserCodeError
from headwater.scheduler.events.event import EventRecord, HandlerRecord, HandlerSpec
from headwater.scheduler.events.handling import EventDispatcher
from headwater.scheduler.events.lanes import Lanes
from headwater.scheduler.events.origin import Origins
from headwater.scheduler.events.outcomes import Outcomes
from headwater.scheduler.events.preflight import Preflight
from headwater.scheduler.events.readiness import Readiness
from headwater.scheduler.events.streams import Streams
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.scheduler.graph.order import Queue
from headwater.scheduler.graph.registry import Registry
from headwater.scheduler.inspect.event_queries import EventCounts, EventQueries
from headwater.scheduler.inspect.graph_snapshot import Snapshot
from headwater.scheduler.inspect.idempotency import Difference, IdempotencyCheck
from headwater.scheduler.inspect.inspection import Inspection
from headwater.scheduler.inspect.introspection import ActionStats, FilterStats, GraphQueries, SchedulerStats
from headwater.scheduler.passes.arrivals import Arrivals
from headwater.scheduler.passes.gate_control import GateControl
from headwater.scheduler.passes.one_shot import pull_once
from headwater.scheduler.passes.outstanding import Outstanding, outstanding
from headwater.scheduler.passes.settle import Settle
from headwater.scheduler.passes.tallies import Tallies
from headwater.scheduler.runs.adoption import Adoption
from headwater.scheduler.runs.attempt import Call
from headwater.scheduler.runs.decision_waits import DecisionWaits
from headwater.scheduler.runs.far_port import Far
from headwater.scheduler.runs.function_errors import ErrorReports
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.persistence import Persistence
from headwater.scheduler.runs.pull import Puller
from headwater.scheduler.runs.runner import Runner
from headwater.scheduler.runs.seen_failures import failure_conflict
from headwater.scheduler.runs.steps import PassStep, Perform
from headwater.scheduler.scheduler_environment import EventServer, SchedulerEnvironment
from headwater.scheduler.scheduler_limits import FAILED_MAX
from headwater.scheduler.trace import Trace, TraceListener, TraceRecord
from headwater.store.commit import Conflict
from headwater.values.address import is_far, split_far
from headwater.values.ids import DocKey
from headwater.values.notifications import Arrived, Derived, Notification
from headwater.values.tree import Value

T = TypeVar("T")


def perform_directly(attempt: Call) -> None:
    """Call the function with its transaction."""
    try:
        attempt.result = attempt.fn(attempt.tx, *attempt.arguments)
    except Exception as error:  # noqa: BLE001  # any exception of an author's function
        attempt.error = error


def raise_error(error: UserCodeError) -> None:
    """The default for errors without a listener."""
    raise error


class Scheduler:
    """Keeps the nodes of one replica current.

    `now` is a monotonic clock and `wall_ms` the time since 1970, both in milliseconds. `perform` calls a function.
    `report` receives the errors of functions, `tick` whether there is work. `jitter` is a random number from 0 to 1.
    `turn` is the lock of the scheduler, where several threads use it. `keep_failed` bounds the stored failed events.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        now: Callable[[], float],
        perform: Perform = perform_directly,
        report: Callable[[UserCodeError], None] = raise_error,
        tick: Callable[[bool], None] = lambda _: None,
        space: str = "",
        demand: str = "lazy",
        wall_ms: Callable[[], float] = lambda: 0.0,
        jitter: Callable[[], float] = lambda: 0.0,
        turn: AbstractContextManager[object] = nullcontext(),  # noqa: B008  # it holds nothing
        keep_failed: int = FAILED_MAX,
        server: EventServer | None = None,
    ) -> None:
        self._replica = replica
        self._perform, self._tick = perform, tick
        self.reports = ErrorReports(report)
        self._environment = SchedulerEnvironment(
            now=now,
            wall_ms=wall_ms,
            jitter=jitter,
            perform=perform,
            report=self.reports.report,
            tick=tick,
            lock=turn,
            space=space,
            keep_failed=keep_failed,
            server=server,
        )
        self.trace = Trace()
        self.gates = Gates(now)
        self.queue = Queue()
        self.graph = Graph(replica, self._on_live, self._on_dormant, self.queue.lowered)
        self.registry = Registry(self.graph, self.gates.configure, self.trace, now, eager=demand == "eager")
        self.invalidation = Invalidation(self.graph, self.gates, self.trace, now, self.queue.put)
        self.persistence = Persistence(replica, self.graph, self.gates, self.invalidation, self.trace)
        self.runner = Runner(
            replica,
            graph=self.graph,
            gates=self.gates,
            invalidation=self.invalidation,
            persistence=self.persistence,
            trace=self.trace,
            now=now,
            report=self.reports.report,
            space=space,
        )
        self._puller = Puller(self.graph, self.gates, self.queue, self.invalidation, self.runner)
        self.is_valid: Callable[[Node], bool] = self._puller.is_surely_valid
        """Whether a call would give what it gave before, without a run. Every call asks: no method in between."""
        self.preflight = Preflight(self.graph, self.invalidation, self.runner)
        parts = (self.preflight, self._puller, self.gates, self.runner)
        environment = self._environment
        self.ready = Readiness(*parts, is_settling=lambda: self._settle.settling, report=environment.report)
        self.lanes = Lanes()
        self.origins = Origins(replica, self.trace, now)
        self.outcomes = Outcomes(replica, environment, self.trace, lanes=self.lanes)
        self.streams = Streams(
            replica, environment, self.trace, lanes=self.lanes, origins=self.origins, outcomes=self.outcomes
        )
        self.events = EventDispatcher(
            replica, environment, self.trace, streams=self.streams, outcomes=self.outcomes, ready=self.ready
        )
        self.events.failures = lambda: self.invalidation.failures
        self.events.other_outcome = self.other_outcome
        self._settle = Settle(
            graph=self.graph,
            gates=self.gates,
            queue=self.queue,
            invalidation=self.invalidation,
            runner=self.runner,
            puller=self._puller,
            events=self.events,
            replica=replica,
            trace=self.trace,
            now=now,
            report=self.reports.report,
            tick=tick,
        )
        self.invalidation.offer = self._settle.offer
        self.graph_queries = GraphQueries(
            self.registry, self.graph, self.gates, self.runner, self._settle, replica, self.persistence, now, space
        )
        self.event_queries = EventQueries(
            self.graph, streams=self.streams, lanes=self.lanes, outcomes=self.outcomes, now=now
        )
        self.idempotency = IdempotencyCheck(self.runner, replica, perform)
        self.gate_control = GateControl(self.gates, self._settle, replica)
        self.inspect = Inspection(
            graph=self.graph,
            invalidation=self.invalidation,
            trace=self.trace,
            reports=self.reports,
            graph_queries=self.graph_queries,
            event_queries=self.event_queries,
            idempotency=self.idempotency,
            registry=self.registry,
            settle=self._settle,
            puller=self._puller,
        )
        self.disposed = False
        self._unlisten = replica.listen(self._receive, self.graph.index.docs)
        self.invalidation.on_derived = Adoption(replica, self.graph, self.persistence, self.invalidation).consider
        replica.on_derived, replica.result_docs = self._receive, self.graph.writers
        replica.read_kinds(self.graph.spans.kinds)
        replica.live_tally = Tallies(environment.lock, self.invalidation, self.graph).tally
        replica.written_docs = self.graph.written_docs
        replica.read_spans = self.graph.spans.ranges
        self.decision_waits = self.invalidation.decision_waits = DecisionWaits(replica, self._receive)
        self.arrivals = Arrivals(replica, self.ready, self._receive, self.recheck_events, space)
        self.arrivals.attach(self.runner, self.events, self.invalidation)

    def reach_out(self, far: Far) -> None:
        """Stored runs may have read other spaces."""
        self.persistence.far = far
        self.invalidation.on_far = far.take_invalid

    @property
    def is_stopped(self) -> bool:
        """Whether the last pass has ended at a breakpoint."""
        return self._settle.stopped_at is not None

    def rest_invalid(self, elsewhere: Sequence[str]) -> None:
        """The nodes that are due do not settle, because of these functions of other spaces: back off (I6)."""
        self._settle.rest_queued(elsewhere)

    def woken_by(self, spaces: Container[str]) -> list[Node]:
        """The functions that ran because something in one of these other spaces has changed."""
        return [
            node
            for node in self.registry.nodes
            if not node.spec.is_proxy and any(split_far(doc)[0] in spaces for doc, _ in node.last_causes if is_far(doc))
        ]

    # -- lifecycle -----------------------------------------------------------------------------------------

    def register(self, spec: NodeSpec) -> Node:
        """Add a node. A computation runs when a live node reads it, an effect in the next pass."""
        maker = self.runner.innermost
        node = self.registry.add(spec, maker)
        self._settle.adopt(node, maker)
        return node

    def remove(self, node: Node) -> None:
        """Remove a node with its reads. It does not run again."""
        self.registry.remove(node)
        self.invalidation.forget(node)

    def sweep(self) -> None:
        """Notify nodes that lost their last reader now. During a pass, its end does it."""
        self._settle.sweep()

    def renew(self, node: Node) -> None:
        """Invalidate the readers of a computation: another function makes its result from now on."""
        self.invalidation.failure_changed(node)
        self._tick(True)

    def announce(self, node: Node) -> None:
        """The same for a new node: mostly, its result has no readers yet, and there is nothing to do."""
        self._settle.announce(node)

    def dispose(self) -> None:
        """Stop: cancel running attempts, drop the queue and the timers."""
        self.disposed = True
        self._unlisten()
        self._replica.on_derived = None
        for attempt in list(self.runner.in_flight.values()):
            attempt.cancel()
        for node in list(self.registry.nodes):
            self.registry.remove(node)
        self.queue.clear()
        self.gates.clear()

    def _receive(self, notification: Notification | Derived | Arrived) -> None:
        """A value changed, or another runtime derived one. Queue the notification for the next pass."""
        self.invalidation.inbox.append(notification)
        self._tick(True)

    def _on_live(self, node: Node) -> None:
        self._settle.became_live(node)

    def _on_dormant(self, node: Node) -> None:
        self._settle.became_dormant(node)

    # -- passes ----------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[PassStep]:
        """One pass as a generator of steps, for a host that performs them."""
        return self._settle.steps()

    def settle(self) -> float | None:
        """Run one pass. Returns when the next timed work is due; None without any."""
        return self._settle.run(self._perform)

    def idle(self) -> float | None:
        """Run passes until only timed or suspended work is left. Returns when the next timed work is due."""
        wake_at = self.settle()
        # Inside of a run, the current pass does it.
        while not self._settle.settling and self.outstanding().is_due:
            wake_at = self.settle()
        return wake_at

    @property
    def is_settling(self) -> bool:
        """A pass is running."""
        return self._settle.settling

    def pull(self, node: Node, *, in_run: bool = False) -> None:
        """Make a computation valid for a caller, or raise its error. `in_run`: the caller is a run, also resumed."""
        settling = self._settle.settling
        self._puller.pull(node, self._perform, in_pass=settling, in_run=in_run or settling)

    def has_valid_inputs(self, node: Node) -> bool:
        """Whether all that the last run of the running node has read is valid without a run: it may keep the reads."""
        return self._puller.has_valid_inputs(node)

    def other_outcome(self, tx: Transaction) -> Conflict | None:
        """The conflict of a transaction with a function that it has called, and that fails since, or no longer."""
        return failure_conflict(tx, self.graph, self.invalidation.failures)

    def store_error(self, node: Node) -> HeadwaterError | None:
        """Why the store did not take its last result, or a result above with which it was rolled back."""
        return next(
            (each.rare.store_error for each in self._puller.upstream(node) if each.rare.store_error is not None), None
        )

    def is_under_way(self, node: Node) -> bool:
        """The node or one of its inputs is suspended."""
        return self._puller.is_under_way(node)

    def upstream(self, node: Node) -> list[Node]:
        """The node and all nodes above it."""
        return self._puller.upstream(node)

    def pull_once(self, read: Callable[..., T], name: str = "pull_once") -> T:
        """Run a function as a temporary effect until its reads are current. Returns its result."""
        return pull_once(self._settle, self.registry, self._perform, read, name)

    def resume(self, attempt: Call) -> None:
        """A suspended attempt has finished."""
        attempt.owner.finish(attempt)

    def look_again(self, attempt: Call) -> None:
        """A resumed attempt is suspended again."""
        attempt.owner.waits(attempt)

    def again(self, attempt: Call) -> None:
        """A suspended attempt asks for a retry."""
        attempt.owner.again(attempt)

    def cancelled(self, attempt: Call) -> None:
        """A suspended attempt was cancelled."""
        attempt.owner.interrupted(attempt, "cancelled")

    def outstanding(self) -> Outstanding:
        """Outstanding work, by kind."""
        return outstanding(self.queue, self.gates, self.invalidation, self.runner, self._settle)

    # -- events --------------------------------------------------------------------------------------------

    def add_handler(self, spec: HandlerSpec) -> HandlerRecord:
        """Register the handler of a stream. Raises HandlerTakenError: a stream has one handler."""
        return self.streams.add(spec)

    def remove_handler(self, handler: HandlerRecord) -> None:
        """Remove a handler."""
        self.streams.remove(handler)

    def queue_event(
        self,
        stream: str,
        payload: Value,
        *,
        origin: Transaction | None = None,
        outside: tuple[str, str] | None = None,
        on_commit: Callable[[EventRecord], None] | None = None,
    ) -> EventRecord:
        """Send an event; `on_commit` is called once with it, whatever its outcome. See `Streams.send`."""
        return self.streams.send(stream, payload, origin=origin, outside=outside, on_commit=on_commit)

    def resume_events(self, besides: Collection[str] = ()) -> int:
        """Queue the events in the outbox that the last opening left, except for these streams."""
        return self.streams.resume(besides)

    def redeliver(self, event: str, on_commit: Callable[[EventRecord], None] | None = None) -> EventRecord:
        """Deliver a failed event again, under the same id. Raises NotFoundError."""
        return self.streams.redeliver(event.removeprefix("event:"), on_commit)

    def drop_event(self, event: str) -> None:
        """Delete a failed or waiting event. Raises NotFoundError."""
        self.streams.drop(event.removeprefix("event:"))

    def launched(self, origin: Transaction, stop: Callable[[], None]) -> None:
        """Something was started in a transaction: `stop` is called if the transaction does not commit."""
        self.origins.attach(origin, stop)

    def recheck_events(self) -> None:
        """A document that parked events wait for is here: check the lanes again."""
        self.events.recheck()
        self._tick(True)

    def loading(self, docs: Collection[DocKey]) -> Callable[[], None]:
        """Documents are being fetched: events that need them wait. Returns the function that reports their arrival."""
        done = self.ready.loading(docs)

        def arrived() -> None:
            done()
            self.recheck_events()

        return arrived

    # -- gates ---------------------------------------------------------------------------------------------

    def set_debounce(self, node: Node, ms: float) -> None:
        """Run the node only after its inputs have been quiet for this long."""
        self.gate_control.set_debounce(node, ms)

    def clear_debounce(self, node: Node) -> None:
        """Remove the debounce."""
        self.gate_control.clear_debounce(node)

    def get_debounce(self, node: Node) -> float | None:
        """The debounce; None without one."""
        return self.gate_control.get_debounce(node)

    def set_throttle(self, node: Node, ms: float) -> None:
        """Run the node at most once in this time."""
        self.gate_control.set_throttle(node, ms)

    def clear_throttle(self, node: Node) -> None:
        """Remove the throttle."""
        self.gate_control.clear_throttle(node)

    def get_throttle(self, node: Node) -> float | None:
        """The throttle; None without one."""
        return self.gate_control.get_throttle(node)

    def set_no_auto_debounce(self, node: Node, *, on: bool = True) -> None:
        """Turn the automatic debounce of slow effects off, or on again."""
        self.gate_control.set_no_auto_debounce(node, on=on)

    # -- inspection ----------------------------------------------------------------------------------------

    def is_effect(self, node: Node) -> bool:
        """The node runs for its effect."""
        return self.inspect.is_effect(node)

    def is_computation(self, node: Node) -> bool:
        """The node runs for its result."""
        return self.inspect.is_computation(node)

    def is_invalid(self, node: Node) -> bool:
        """The node is not clean, pending notifications included."""
        return self.inspect.is_invalid(node)

    def get_dependents(self, node: Node) -> list[Node]:
        """The nodes that read its outputs."""
        return self.inspect.get_dependents(node)

    def unread(self, nodes: Iterable[Node]) -> set[Node]:
        """The nodes among these without a reader, live or dormant, and without a running reader."""
        return self.inspect.unread(nodes)

    def get_stats(self) -> SchedulerStats:
        """Counts of the whole scheduler."""
        return self.inspect.get_stats()

    def get_action_stats(self, node: Node) -> ActionStats:
        """Counts and times of one node."""
        return self.inspect.get_action_stats(node)

    def get_filter_stats(self) -> FilterStats:
        """The number of invalidations, and of runs they led to."""
        return self.inspect.get_filter_stats()

    def get_graph_snapshot(self) -> Snapshot:
        """All nodes and handlers with their edges."""
        return self.inspect.get_graph_snapshot()

    def get_event_counts(self) -> EventCounts:
        """The number of events by outcome."""
        return self.inspect.get_event_counts()

    def why(self, node: Node | HandlerRecord) -> str:
        """In words: why it last ran, why it does not run now, what would invalidate it; for a handler, its queue."""
        return self.inspect.why(node)

    def set_trace_enabled(self, kind: str, on: bool) -> None:  # noqa: FBT001  # as the specification has it
        """Store the records of one kind, or stop."""
        self.inspect.set_trace_enabled(kind, on)

    def get_trace(self, kind: str | None = None) -> list[TraceRecord]:
        """The stored records."""
        return self.inspect.get_trace(kind)

    def on_error(self, listener: Callable[[UserCodeError], None]) -> Callable[[], None]:
        """Call the listener with every error of a function. Returns the function that unsubscribes."""
        return self.inspect.on_error(listener)

    def on_trace(self, listener: TraceListener) -> Callable[[], None]:
        """Call the listener with every trace record. Returns the function that unsubscribes."""
        return self.inspect.on_trace(listener)

    def run_diagnosis(self) -> list[str]:
        """In words: nodes that do not settle, cycles, and failing nodes."""
        return self.inspect.run_diagnosis()

    def set_idempotency_check(self, on: bool) -> None:  # noqa: FBT001  # as the specification has it
        """Run every computation twice, and record differences."""
        self.inspect.set_idempotency_check(on)

    def get_idempotency_violations(self) -> list[Difference]:
        """The recorded differences."""
        return self.inspect.get_idempotency_violations()

    def recheck_restored(self) -> None:
        """Apply the idempotency check to restored nodes that have not run since, if their inputs are valid."""
        self.inspect.recheck_restored()

    def set_breakpoint(self, node: Node) -> None:
        """End the pass before this node runs; the next pass runs it."""
        self.inspect.set_breakpoint(node)

    def clear_breakpoint(self, node: Node) -> None:
        """Remove the breakpoint."""
        self.inspect.clear_breakpoint(node)
