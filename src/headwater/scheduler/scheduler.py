"""The scheduler of one open space: builds the parts and forwards to them. Holds no rule of its own.

Must never know: apps, event loops, threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import TypeVar

from headwater.cells.replica import Replica
from headwater.errors import UserCodeError
from headwater.scheduler.events.preflight import Preflight
from headwater.scheduler.events.readiness import Readiness
from headwater.scheduler.events.receiver import Receiver
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node, NodeSpec
from headwater.scheduler.graph.order import Queue
from headwater.scheduler.graph.registry import Registry
from headwater.scheduler.inspect.event_queries import EventQueries
from headwater.scheduler.inspect.function_errors import ErrorReports
from headwater.scheduler.inspect.idempotency import IdempotencyCheck
from headwater.scheduler.inspect.introspection import GraphQueries
from headwater.scheduler.inspect.observers import Onlooker
from headwater.scheduler.inspect.trace import Trace
from headwater.scheduler.passes.adoption import Adoption
from headwater.scheduler.passes.arrivals import Arrivals
from headwater.scheduler.passes.decision_waits import DecisionWaits
from headwater.scheduler.passes.gate_control import Timing
from headwater.scheduler.passes.gates import Gates
from headwater.scheduler.passes.invalidation import Invalidation
from headwater.scheduler.passes.one_shot import pull_once
from headwater.scheduler.passes.outstanding import Outstanding, outstanding
from headwater.scheduler.passes.persistence import Persistence
from headwater.scheduler.passes.pull import Puller
from headwater.scheduler.passes.runner import Runner
from headwater.scheduler.passes.settle import Settle
from headwater.scheduler.passes.steps import Call, PassStep, Perform, drive
from headwater.scheduler.scheduler_environment import EventServer, SchedulerEnvironment
from headwater.scheduler.scheduler_limits import FAILED_MAX
from headwater.values.notifications import Arrived, Derived, Notification

T = TypeVar("T")


def perform_directly(attempt: Call) -> None:
    """Call the function with its transaction."""
    try:
        attempt.result = attempt.fn(attempt.tx, *attempt.arguments)
    except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
        attempt.error = error


def raise_it(error: UserCodeError) -> None:
    """What happens to errors that nobody asked for."""
    raise error


class Scheduler(Onlooker, Receiver, Timing):
    """Keeps the nodes of one replica current.

    `now` is a clock in milliseconds that never goes back, `wall_ms` says how late it is. `perform` calls a function.
    `report` is told of what went wrong. `tick` is told whether there is something to do. `jitter` is chance, between 0
    and 1. `turn` is held by whoever uses the scheduler where others may. `keep_failed`: events that failed, at most.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        now: Callable[[], float],
        perform: Perform = perform_directly,
        report: Callable[[UserCodeError], None] = raise_it,
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
        self._outside = SchedulerEnvironment(
            now=now,
            wall_ms=wall_ms,
            jitter=jitter,
            perform=perform,
            report=self.reports.tell,
            tick=tick,
            turn=turn,
            space=space,
            keep_failed=keep_failed,
            server=server,
        )
        self.trace = Trace()
        self.gates = Gates(now)
        self.queue = Queue()
        self.graph = Graph(self._on_live, self._on_dormant, self.queue.lowered)
        self.registry = Registry(self.graph, self.gates, self.trace, now, eager=demand == "eager")
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
            report=self.reports.tell,
            space=space,
        )
        self._pull = Puller(self.graph, self.gates, self.queue, self.invalidation, self.runner)
        self.preflight = Preflight(self.graph, self.invalidation, self.runner)
        parts = (self.preflight, self._pull, self.gates, self.runner)
        ready = Readiness(*parts, is_settling=lambda: self._settle.settling, report=self._outside.report)
        self._receive_events(replica, ready, self.trace, self._outside)
        self._settle = Settle(
            graph=self.graph,
            gates=self.gates,
            queue=self.queue,
            invalidation=self.invalidation,
            runner=self.runner,
            pull=self._pull,
            events=self.events,
            trace=self.trace,
            now=now,
            report=self.reports.tell,
            tick=tick,
        )
        self.invalidation.offer = self._settle.offer
        self.introspection = GraphQueries(
            self.registry, self.graph, self.gates, self.runner, self._settle, replica, self.persistence, now, space
        )
        self.inquiry = EventQueries(self.graph, streams=self.streams, lanes=self.lanes, outcomes=self.outcomes, now=now)
        self.diagnosis = IdempotencyCheck(self.runner, replica, perform)
        self.disposed = False
        self._unlisten = replica.listen(self._receive, self.graph.index.docs)
        self.invalidation.consider = Adoption(replica, self.graph, self.persistence).consider
        replica.on_derived = self._receive
        self.statuses = self.invalidation.statuses = DecisionWaits(replica, self._receive)
        arrivals = Arrivals(replica, ready, self._receive, self.look_at_events, space)
        arrivals.attend(self.runner, self.events, self.invalidation)

    # -- lifecycle -----------------------------------------------------------------------------------------

    def register(self, spec: NodeSpec) -> Node:
        """Add a node. A computation runs when somebody live reads it, an effect in the next pass."""
        node = self.registry.add(spec, self.runner.innermost)
        self._settle.adopt(node)
        return node

    def remove(self, node: Node) -> None:
        """Never run it again, and forget what it read."""
        self.registry.remove(node)
        self.invalidation.forget(node)

    def sweep(self) -> None:
        """Tell those whom nobody reads any more, without waiting for a pass; in one, its end does it."""
        self._settle.sweep()

    def renew(self, node: Node) -> None:
        """Whoever has read the result of a computation is to look again: it is made by another from now on."""
        self.invalidation.failed_otherwise(node)
        self._tick(True)

    def dispose(self) -> None:
        """Run nothing any more: what is under way is cancelled, nothing fires later."""
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
        """A value changed, or somebody else's run came to one. It waits here until the scheduler has its turn."""
        self.invalidation.inbox.append(notification)
        self._tick(True)

    def _on_live(self, node: Node) -> None:
        self._settle.became_live(node)

    def _on_dormant(self, node: Node) -> None:
        self._settle.became_dormant(node)

    # -- flow ----------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[PassStep]:
        """One pass, step by step, for a host that performs them."""
        return self._settle.steps()

    def settle(self) -> float | None:
        """One pass. Returns when there may be something to do, if time is all that something waits for."""
        return drive(self._settle.steps(), self._perform)

    def idle(self) -> float | None:
        """Run until nothing is left but what waits for time, or is under way. Returns when to come again."""
        wake_at = self.settle()
        # Inside of a run, the pass that is under way does it.
        while not self._settle.settling and self.outstanding().is_due:
            wake_at = self.settle()
        return wake_at

    @property
    def is_settling(self) -> bool:
        """A pass is under way."""
        return self._settle.settling

    def pull(self, node: Node) -> None:
        """A caller wants the value of a computation: make it valid, or raise what it raised."""
        self._pull.pull(node, self._perform, in_pass=self._settle.settling)

    def is_current(self, node: Node) -> bool:
        """A call of it gives what is stored, for sure and at once."""
        return self._pull.is_surely_valid(node) and node.error is None

    def is_under_way(self, node: Node) -> bool:
        """It, or something it is made of, waits for something outside."""
        return self._pull.is_under_way(node)

    def pull_once(self, read: Callable[..., T], name: str = "pull_once") -> T:
        """Run a function as an effect until what it read is current, once; returns what it returned."""
        return pull_once(self._settle, self.registry, self._perform, read, name)

    def resume(self, attempt: Call) -> None:
        """An attempt that waited has come to its end."""
        attempt.maker.finish(attempt)

    def look_again(self, attempt: Call) -> None:
        """An attempt waits once more."""
        attempt.maker.waits(attempt)

    def again(self, attempt: Call) -> None:
        """An attempt that waited asks to be made again."""
        attempt.maker.again(attempt)

    def cancelled(self, attempt: Call) -> None:
        """An attempt that waited was stopped."""
        attempt.maker.interrupted(attempt, "cancelled")

    def outstanding(self) -> Outstanding:
        """Is there work, and of which kind."""
        return outstanding(self.queue, self.gates, self.invalidation, self.runner, self._settle)
