"""The scheduler of one open space: builds the parts and forwards to them. Holds no rule of its own.

Must never know: apps, event loops, threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from headwater.cells.replica import Replica
from headwater.errors import UserCodeError
from headwater.scheduler.diagnosis import Diagnosis, Difference
from headwater.scheduler.gates import Gates
from headwater.scheduler.graph import Graph
from headwater.scheduler.introspection import ActionStats, FilterStats, Introspection, SchedulerStats
from headwater.scheduler.invalidation import Invalidation
from headwater.scheduler.node import Kind, Node, NodeSpec
from headwater.scheduler.order import Queue
from headwater.scheduler.registry import Registry
from headwater.scheduler.runner import Attempt, Runner
from headwater.scheduler.settle import Perform, Settle, Step, drive
from headwater.scheduler.snapshot import Snapshot
from headwater.scheduler.trace import Listener, Record, Trace
from headwater.scheduler.work import Outstanding, outstanding
from headwater.values.change import Notification

T = TypeVar("T")


def perform_plainly(attempt: Attempt) -> None:
    """Call the function with its transaction."""
    try:
        attempt.result = attempt.node.fn(attempt.tx)
    except Exception as error:  # noqa: BLE001  # whatever an author's function raises is the author's
        attempt.error = error


def raise_it(error: UserCodeError) -> None:
    """What happens to errors that nobody asked for."""
    raise error


class Scheduler:
    """Keeps the nodes of one replica current.

    `now` is a clock in milliseconds that never goes back. `perform` calls a function. `report` is told of what went
    wrong. `tick` is told whether there is something to do.
    """

    def __init__(
        self,
        replica: Replica,
        *,
        now: Callable[[], float],
        perform: Perform = perform_plainly,
        report: Callable[[UserCodeError], None] = raise_it,
        tick: Callable[[bool], None] = lambda _: None,
        space: str = "",
        demand: str = "lazy",
    ) -> None:
        self._replica = replica
        self._perform = perform
        self._tick = tick
        self._eager = demand == "eager"
        self.trace = Trace()
        self.gates = Gates(now)
        self.queue = Queue()
        self.graph = Graph(self._on_live, self._on_dormant)
        self.registry = Registry(self.graph, self.gates, self.trace, now)
        self.invalidation = Invalidation(self.graph, self.gates, self.trace, now, self._offer)
        self.runner = Runner(replica, self.graph, self.gates, self.invalidation, self.trace, now, report, space)
        self._settle = Settle(
            self.graph, self.gates, self.queue, self.invalidation, self.runner, self.trace, now, report, tick
        )
        self.introspection = Introspection(
            self.registry, self.graph, self.gates, self.runner, self._settle, replica, now, space
        )
        self.diagnosis = Diagnosis(self.runner, replica, perform)
        self.disposed = False
        self._unlisten = replica.listen(self._receive, self.graph.index.docs)

    # -- lifecycle -----------------------------------------------------------------------------------------

    def register(self, spec: NodeSpec) -> Node:
        """Add a node. A computation runs when somebody live reads it, an effect in the next pass."""
        stack = self.runner.stack
        parent = stack[-1] if stack else None
        if self._eager and spec.kind is Kind.COMPUTATION:
            spec.eager = True
        node = self.registry.add(spec, parent)
        if parent is not None and parent.is_live and spec.kind is Kind.COMPUTATION:
            self._settle.lend(node)
        return node

    def remove(self, node: Node) -> None:
        """Never run it again, and forget what it read."""
        self.registry.remove(node)

    def dispose(self) -> None:
        """Run nothing any more: what is under way is cancelled, nothing fires later."""
        self.disposed = True
        self._unlisten()
        for attempt in list(self.runner.in_flight.values()):
            attempt.cancel()
        for node in list(self.registry.nodes):
            self.registry.remove(node)
        self.queue.clear()
        self.gates.clear()

    def _receive(self, notification: Notification) -> None:
        """A value changed. It waits here until the scheduler has its turn."""
        self.invalidation.inbox.append(notification)
        self._tick(True)

    def _offer(self, node: Node) -> None:
        self._settle.offer(node)

    def _on_live(self, node: Node) -> None:
        self._settle.became_live(node)

    def _on_dormant(self, node: Node) -> None:
        self._settle.became_dormant(node)

    # -- flow ----------------------------------------------------------------------------------------------

    def steps(self) -> Iterator[Step]:
        """One pass, step by step, for a host that performs them."""
        return self._settle.steps()

    def settle(self) -> float | None:
        """One pass. Returns when there may be something to do, if time is all that something waits for."""
        return drive(self._settle.steps(), self._perform)

    def idle(self) -> float | None:
        """Run until nothing is left but what waits for time, or is under way. Returns when to come again."""
        wake_at = self.settle()
        while self.outstanding().is_due:
            wake_at = self.settle()
        return wake_at

    def pull(self, node: Node) -> None:
        """A caller wants the value of a computation: make it valid, or raise what it raised."""
        self._settle.pull(node, self._perform)

    def is_current(self, node: Node) -> bool:
        """A call of it gives what is stored, for sure and at once."""
        return self._settle.is_surely_valid(node) and node.error is None

    def pull_once(self, read: Callable[..., T], name: str = "pull_once") -> T:
        """Run a function as an effect until what it read is current, once; returns what it returned."""
        return self._settle.pull_once(read, name, self.registry, self._perform)

    def resume(self, attempt: Attempt) -> None:
        """An attempt that waited has come to its end."""
        self.runner.finish(attempt)

    def look_again(self, attempt: Attempt) -> None:
        """An attempt waits once more."""
        self.runner.look_again(attempt)

    def cancelled(self, attempt: Attempt) -> None:
        """An attempt that waited was stopped."""
        self.runner.interrupted(attempt, "cancelled")

    def outstanding(self) -> Outstanding:
        """Is there work, and of which kind."""
        return outstanding(self.queue, self.gates, self.invalidation, self.runner)

    # -- gates ---------------------------------------------------------------------------------------------

    def set_debounce(self, node: Node, ms: float) -> None:
        """Run it only when nothing it read has changed for so long."""
        self.gates.set_debounce(node, ms)
        self._settle.regate(node)

    def clear_debounce(self, node: Node) -> None:
        """Do not wait for quiet."""
        self.gates.set_debounce(node, None)
        self._settle.regate(node)

    def get_debounce(self, node: Node) -> float | None:
        """How long it waits for quiet, as set; None if it does not."""
        return None if node.gate is None else node.gate.debounce_ms

    def set_throttle(self, node: Node, ms: float) -> None:
        """Run it at most once in so much time."""
        self.gates.set_throttle(node, ms)
        self._settle.regate(node)

    def clear_throttle(self, node: Node) -> None:
        """Run it as often as needed."""
        self.gates.set_throttle(node, None)
        self._settle.regate(node)

    def get_throttle(self, node: Node) -> float | None:
        """The least time between two runs, as set."""
        return None if node.gate is None else node.gate.throttle_ms

    def set_no_auto_debounce(self, node: Node, *, on: bool = True) -> None:
        """Do not slow an effect down for being slow."""
        self.gates.set_no_auto_debounce(node, on=on)
        self._settle.regate(node)

    # -- looking on ----------------------------------------------------------------------------------------

    def is_effect(self, node: Node) -> bool:
        """Runs for what it does."""
        return node.kind is Kind.EFFECT

    def is_computation(self, node: Node) -> bool:
        """Runs for its result."""
        return node.kind is Kind.COMPUTATION

    def is_invalid(self, node: Node) -> bool:
        """Has to run if anybody wants it."""
        return not node.is_clean

    def get_dependents(self, node: Node) -> list[Node]:
        """Who reads what it writes."""
        return list(dict.fromkeys(self.graph.readers(node)))

    def get_stats(self) -> SchedulerStats:
        """Counts of everything."""
        return self.introspection.stats()

    def get_action_stats(self, node: Node) -> ActionStats:
        """Counts and times of one node."""
        return self.introspection.action_stats(node)

    def get_filter_stats(self) -> FilterStats:
        """How many invalidations, and how many runs they led to."""
        return self.introspection.filter_stats()

    def get_graph_snapshot(self) -> Snapshot:
        """All nodes and what lies between them."""
        return self.introspection.snapshot()

    def why(self, node: Node) -> str:
        """In words: why it last ran, why it does not run now, what would wake it."""
        return self.introspection.why(node)

    def set_trace_enabled(self, kind: str, on: bool) -> None:  # noqa: FBT001  # as the specification has it
        """Keep records of a kind."""
        self.trace.keep(kind, on=on)

    def get_trace(self, kind: str | None = None) -> list[Record]:
        """The records that were kept."""
        return self.trace.kept(kind)

    def on_trace(self, listener: Listener) -> Callable[[], None]:
        """Be told of everything that happens. Returns what ends it."""
        return self.trace.listen(listener)

    def run_diagnosis(self) -> list[str]:
        """In words: who does not settle, and who goes round in a ring."""
        return self.introspection.diagnosis()

    def set_idempotency_check(self, on: bool) -> None:  # noqa: FBT001  # as the specification has it
        """Run every computation twice, and note what differed."""
        self.diagnosis.check_idempotency(on=on)

    def get_idempotency_violations(self) -> list[Difference]:
        """What differed."""
        return list(self.diagnosis.differences)

    def set_breakpoint(self, node: Node) -> None:
        """Stop the pass before it runs; the next pass runs it."""
        self._settle.breakpoints[node] = None

    def clear_breakpoint(self, node: Node) -> None:
        """Do not stop there."""
        self._settle.breakpoints.pop(node, None)
