"""What can be asked of a scheduler, and switched on to look at it while it works.

No decision depends on any of it: the same nodes run in the same order, looked at or not. (A breakpoint only ends a pass
early; the next one goes on.)

Must never know: when a node runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.errors import UserCodeError
from headwater.scheduler.events.event import HandlerRecord
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node, NodeKind
from headwater.scheduler.graph.registry import Registry
from headwater.scheduler.inspect.event_queries import EventCounts, EventQueries
from headwater.scheduler.inspect.function_errors import ErrorReports
from headwater.scheduler.inspect.graph_snapshot import Snapshot
from headwater.scheduler.inspect.idempotency import Difference, IdempotencyCheck
from headwater.scheduler.inspect.introspection import ActionStats, FilterStats, GraphQueries, SchedulerStats
from headwater.scheduler.inspect.trace import Trace, TraceListener, TraceRecord
from headwater.scheduler.passes.invalidation import Invalidation
from headwater.scheduler.passes.pull import Puller
from headwater.scheduler.passes.settle import Settle


class Onlooker:
    """The side of a scheduler that people and tools look at."""

    graph: Graph
    invalidation: Invalidation
    trace: Trace
    reports: ErrorReports
    introspection: GraphQueries
    inquiry: EventQueries
    diagnosis: IdempotencyCheck
    registry: Registry
    _settle: Settle
    _pull: Puller

    def is_effect(self, node: Node) -> bool:
        """Runs for what it does."""
        return node.kind is NodeKind.EFFECT

    def is_computation(self, node: Node) -> bool:
        """Runs for its result."""
        return node.kind is NodeKind.COMPUTATION

    def is_invalid(self, node: Node) -> bool:
        """Has to run if anybody wants it. What has come and was not looked through yet counts."""
        self.invalidation.drain()
        return not node.is_clean

    def get_dependents(self, node: Node) -> list[Node]:
        """Who reads what it writes."""
        return list(dict.fromkeys(self.graph.readers(node)))

    def unread(self, nodes: Iterable[Node]) -> set[Node]:
        """Of these, those that nobody has read, looked at or not, nor is just reading."""
        return self.introspection.unread(nodes)

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
        """All nodes and handlers, and what lies between them."""
        return self.inquiry.drawn_into(self.introspection.snapshot())

    def get_event_counts(self) -> EventCounts:
        """What became of events."""
        return self.inquiry.counts()

    def why(self, node: Node | HandlerRecord) -> str:
        """In words: why it last ran, why it does not run now, what would wake it; of a handler, what waits for it."""
        return self.inquiry.why(node) if isinstance(node, HandlerRecord) else self.introspection.why(node)

    def set_trace_enabled(self, kind: str, on: bool) -> None:  # noqa: FBT001  # as the specification has it
        """Keep records of a kind."""
        self.trace.keep(kind, on=on)

    def get_trace(self, kind: str | None = None) -> list[TraceRecord]:
        """The records that were kept."""
        return self.trace.kept(kind)

    def on_error(self, listener: Callable[[UserCodeError], None]) -> Callable[[], None]:
        """Be told of what goes wrong in functions, besides whoever is told anyway. Returns what ends it."""
        return self.reports.listen(listener)

    def on_trace(self, listener: TraceListener) -> Callable[[], None]:
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

    def recheck_restored(self) -> None:
        """The idempotency check, of what was restored and has not run since, if everything above is valid."""
        self.invalidation.drain()
        self.diagnosis.check_restored(
            self.registry.nodes,
            lambda node: all(each.is_clean and each.attempt is None for each in self._pull.upstream(node)),
        )

    def set_breakpoint(self, node: Node) -> None:
        """Stop the pass before it runs; the next pass runs it."""
        self._settle.breakpoints[node] = None

    def clear_breakpoint(self, node: Node) -> None:
        """Do not stop there."""
        self._settle.breakpoints.pop(node, None)
