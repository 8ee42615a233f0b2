"""Queries about a scheduler, and switches for tracing, breakpoints and the idempotency check.

No decision depends on any of it: the same nodes run in the same order. A breakpoint only ends a pass early; the next
pass continues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headwater.errors import UserCodeError
from headwater.scheduler.events.event import HandlerRecord
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node, NodeKind
from headwater.scheduler.graph.registry import Registry
from headwater.scheduler.inspect.event_queries import EventCounts, EventQueries
from headwater.scheduler.inspect.graph_snapshot import NodeView, Snapshot
from headwater.scheduler.inspect.idempotency import Difference, IdempotencyCheck
from headwater.scheduler.inspect.introspection import ActionStats, FilterStats, GraphQueries, SchedulerStats
from headwater.scheduler.passes.settle import Settle
from headwater.scheduler.runs.function_errors import ErrorReports
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.pull import Puller
from headwater.scheduler.trace import Trace, TraceListener, TraceRecord


class Inspection:
    """The queries and switches of one scheduler."""

    def __init__(
        self,
        *,
        graph: Graph,
        invalidation: Invalidation,
        trace: Trace,
        reports: ErrorReports,
        graph_queries: GraphQueries,
        event_queries: EventQueries,
        idempotency: IdempotencyCheck,
        registry: Registry,
        settle: Settle,
        puller: Puller,
    ) -> None:
        self._graph = graph
        self._invalidation = invalidation
        self._trace = trace
        self._reports = reports
        self._graph_queries = graph_queries
        self._event_queries = event_queries
        self._idempotency = idempotency
        self._registry = registry
        self._settle = settle
        self._puller = puller

    def is_effect(self, node: Node) -> bool:
        """The node runs for its effect."""
        return node.kind is NodeKind.EFFECT

    def is_computation(self, node: Node) -> bool:
        """The node runs for its result."""
        return node.kind is NodeKind.COMPUTATION

    def is_invalid(self, node: Node) -> bool:
        """The node is not clean, pending notifications included."""
        self._invalidation.drain()
        return not node.is_clean

    def get_dependents(self, node: Node) -> list[Node]:
        """The nodes that read its outputs."""
        return list(dict.fromkeys(self._graph.readers(node)))

    def unread(self, nodes: Iterable[Node]) -> set[Node]:
        """The nodes among these without a reader, live or dormant, and without a running reader."""
        return self._graph_queries.unread(nodes)

    def get_stats(self) -> SchedulerStats:
        """Counts of the whole scheduler."""
        return self._graph_queries.stats()

    def get_action_stats(self, node: Node) -> ActionStats:
        """Counts and times of one node."""
        return self._graph_queries.action_stats(node)

    def get_filter_stats(self) -> FilterStats:
        """The number of invalidations, and of runs they led to."""
        return self._graph_queries.filter_stats()

    def get_graph_snapshot(self) -> Snapshot:
        """All nodes and handlers with their edges."""
        return self._event_queries.drawn_into(self._graph_queries.snapshot())

    def get_event_counts(self) -> EventCounts:
        """The number of events by outcome."""
        return self._event_queries.counts()

    def why(self, node: Node | HandlerRecord) -> str:
        """In words: why it last ran, why it does not run now, what would invalidate it; for a handler, its queue."""
        return self._event_queries.why(node) if isinstance(node, HandlerRecord) else self._graph_queries.why(node)

    def set_trace_enabled(self, kind: str, on: bool) -> None:  # noqa: FBT001  # as the specification has it
        """Store the records of one kind, or stop."""
        self._trace.enable(kind, on=on)

    def get_trace(self, kind: str | None = None) -> list[TraceRecord]:
        """The stored records."""
        return self._trace.records(kind)

    def on_error(self, listener: Callable[[UserCodeError], None]) -> Callable[[], None]:
        """Call the listener with every error of a function. Returns the function that unsubscribes."""
        return self._reports.listen(listener)

    def on_trace(self, listener: TraceListener) -> Callable[[], None]:
        """Call the listener with every trace record. Returns the function that unsubscribes."""
        return self._trace.listen(listener)

    def on_pass(self, watcher: Callable[[], None]) -> Callable[[], None]:
        """Call `watcher` at the end of each pass, in its thread. Returns the function that ends it."""
        return self._trace.on_pass(watcher)

    def get_node_views(self, nodes: Iterable[Node]) -> tuple[NodeView, ...]:
        """Some nodes, as a snapshot has them, and all handlers."""
        views = map(self._graph_queries.view, nodes)
        handlers = self._event_queries.drawn_into(Snapshot(space="", at_ms=0, seq=0)).nodes
        return (*views, *handlers)

    def run_diagnosis(self) -> list[str]:
        """In words: nodes that do not settle, cycles, and failing nodes."""
        return self._graph_queries.diagnosis()

    def set_idempotency_check(self, on: bool) -> None:  # noqa: FBT001  # as the specification has it
        """Run every computation twice, and record differences."""
        self._idempotency.check_idempotency(on=on)

    def get_idempotency_violations(self) -> list[Difference]:
        """The recorded differences."""
        return list(self._idempotency.differences)

    def recheck_restored(self) -> None:
        """Apply the idempotency check to restored nodes that have not run since, if their inputs are valid."""
        self._invalidation.drain()
        self._idempotency.check_restored(
            self._registry.nodes,
            lambda node: all(each.is_clean and each.attempt is None for each in self._puller.upstream(node)),
        )

    def set_breakpoint(self, node: Node) -> None:
        """End the pass before this node runs; the next pass runs it."""
        self._settle.breakpoints[node] = None

    def clear_breakpoint(self, node: Node) -> None:
        """Remove the breakpoint."""
        self._settle.breakpoints.pop(node, None)
