"""Counts, snapshots and explanations of nodes.

Reads everything, writes nothing: no decision depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from headwater.cells.replica import Replica
from headwater.cells.span_records import split_index
from headwater.errors import ClosedError, NotOpen
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import DocPath, Node, NodeKind, NodeStatus
from headwater.scheduler.graph.registry import Registry
from headwater.scheduler.inspect.graph_snapshot import Edge, NodeView, Snapshot, SourceView
from headwater.scheduler.passes.settle import Settle
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.runs.persistence import Persistence
from headwater.scheduler.runs.resumed_node import NOTHING
from headwater.scheduler.runs.runner import Runner
from headwater.scheduler.runs.span_checks import far_spans_of
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.store.collection_record import kind_of_index
from headwater.values.address import address_text, is_far, split_far
from headwater.values.author_text import describe
from headwater.values.duration import written_ms
from headwater.values.ids import DocKey

SHOWN_MAX = 8
"""Names in one sentence."""


class SchedulerStats(msgspec.Struct, frozen=True):
    """Counts of everything, since the scheduler began."""

    computations: int
    effects: int
    live: int
    invalid: int
    never_ran: int
    restored: int
    """Nodes that have not run here: their results are from an earlier opening."""
    in_flight: int
    gated: int
    reads: int
    """Places in the index of readers."""
    runs: int
    passes: int
    visits: int
    """Places of that index that were compared with changes."""
    live_writes: int
    """Changes of reference counts that track which nodes are live."""


class ActionStats(msgspec.Struct, frozen=True):
    """Counts and times of one node."""

    name: str
    run_count: int
    invalidated: int
    total_ms: float
    average_ms: float
    last_ms: float
    last_at_ms: float
    reads: int
    error: str


class FilterStats(msgspec.Struct, frozen=True):
    """The number of invalidations and of runs: the difference was saved."""

    invalidated: int
    """How often a value changed that some node had read."""
    executed: int
    filtered: int
    """Invalidations without a run of their own: the node was not observed, or several led to one run."""


class GraphQueries:
    """Answers about nodes."""

    def __init__(  # noqa: PLR0917  # the parts it looks at
        self,
        registry: Registry,
        graph: Graph,
        gates: Gates,
        runner: Runner,
        settle: Settle,
        replica: Replica,
        persistence: Persistence,
        now: Callable[[], float],
        space: str,
    ) -> None:
        self._registry = registry
        self._graph = graph
        self._gates = gates
        self._runner = runner
        self._settle = settle
        self._replica = replica
        self._persistence = persistence
        self._now = now
        self._space = space

    # -- counts --------------------------------------------------------------------------------------------

    def stats(self) -> SchedulerStats:
        """Counts of everything."""
        nodes = list(self._registry.nodes)
        effects = sum(node.kind is NodeKind.EFFECT for node in nodes)
        return SchedulerStats(
            computations=len(nodes) - effects,
            effects=effects,
            live=sum(node.is_live for node in nodes),
            invalid=sum(node.status is NodeStatus.INVALID for node in nodes),
            never_ran=sum(node.status is NodeStatus.NEVER_RAN for node in nodes),
            restored=sum(node.restored and not node.runs for node in nodes),
            in_flight=len(self._runner.in_flight),
            gated=len(self._gates.waiting()),
            reads=len(self._graph.index),
            runs=self._runner.runs,
            passes=self._runner.pass_number,
            visits=self._graph.index.visits,
            live_writes=self._graph.liveness.writes,
        )

    def action_stats(self, node: Node) -> ActionStats:
        """Counts and times of one node."""
        return ActionStats(
            name=node.name,
            run_count=node.runs,
            invalidated=node.invalidated,
            total_ms=node.total_ms,
            average_ms=node.total_ms / node.runs if node.runs else 0.0,
            last_ms=node.last_ms,
            last_at_ms=node.last_at_ms,
            reads=len(node.reads),
            error="" if node.rare.error is None else describe(node.rare.error),
        )

    def filter_stats(self) -> FilterStats:
        """How many invalidations, and how many runs they led to."""
        nodes = list(self._registry.nodes)
        invalidated = sum(node.invalidated for node in nodes)
        # The first run of a node has no invalidation.
        executed = sum(max(node.runs - (not node.restored), 0) for node in nodes)
        return FilterStats(invalidated, executed, max(invalidated - executed, 0))

    def unread(self, nodes: Iterable[Node]) -> set[Node]:
        """The nodes among these without a reader, live or dormant, and without a running reader."""
        attempts = [node.attempt for node in [*self._runner.stack, *self._runner.in_flight] if node.attempt is not None]
        at_work = {doc for attempt in attempts for doc, _, _ in attempt.tx.journal.reads()}
        return {
            node
            for node in nodes
            if not node.is_live
            and node.attempt is None
            and not self._graph.readers(node)
            and at_work.isdisjoint(node.outputs)
        }

    # -- the picture ---------------------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """All nodes and what lies between them."""
        nodes = list(self._registry.nodes)
        edges: dict[Edge, None] = {}
        sources: dict[str, str] = {}
        for node in nodes:
            for doc in dict.fromkeys(key[0] for key in node.reads):
                writers = [writer for writer in self._graph.writers_of(doc) if writer is not node]
                for writer in writers:
                    edges[Edge(writer.id, node.id, "data")] = None
                if not writers and doc not in node.outputs:
                    named = address_text(doc, (), self._graph.far_names)
                    sources[named] = self._far_space(doc)
                    edges[Edge(f"doc:{named}", node.id, "data")] = None
            for other in self._graph.materializers(node):
                edges[Edge(other.id, node.id, "envelope")] = None
            if node.parent is not None and not node.parent.removed:
                edges[Edge(node.parent.id, node.id, "parent")] = None
        return Snapshot(
            space=self._space,
            at_ms=int(self._now()),
            seq=self._replica.seq,
            nodes=tuple(self.view(node) for node in nodes),
            sources=tuple(SourceView(f"doc:{address}", address, space) for address, space in sources.items()),
            edges=tuple(edges),
        )

    def view(self, node: Node) -> NodeView:
        """The node, as a snapshot has it."""
        code, names = getattr(node.origin, "__code__", None), self._graph.far_names
        return NodeView(
            id=node.id,
            name=node.name,
            piece=node.piece,
            kind=node.spec.kind.value,
            status=node.status.value,
            live=node.is_live,
            why_live=self._why_live(node),
            rank=node.rank,
            runs=node.runs,
            restored=node.restored,
            invalidated=node.invalidated,
            mean_ms=round(node.total_ms / node.runs, 3) if node.runs else 0.0,
            error="" if node.rare.error is None else describe(node.rare.error),
            gate=self._gate_words(node),
            in_flight=node in self._runner.in_flight,
            parent=node.parent.id if node.parent is not None and not node.parent.removed else None,
            outputs=tuple(address_text(doc, (), names) for doc in node.outputs),
            envelopes=tuple(address_text(*place) for place in node.spec.side_write_envelope),
            reads=tuple(address_text(doc, path, names) for doc, path, _ in node.reads),
            file=getattr(code, "co_filename", ""),
            line=getattr(code, "co_firstlineno", 0),
            space=self._far_space(node.outputs[0]) if node.spec.is_proxy else "",
        )

    def _far_space(self, doc: DocKey) -> str:
        """The name of the space of a far document, or its id; nothing for a document of this space."""
        if not is_far(doc):
            return ""
        space, _ = split_far(doc)
        return self._graph.far_names.get(space, space)

    # -- in words ------------------------------------------------------------------------------------------

    def why(self, node: Node) -> str:
        """Why a node last ran, why it does not run now, and what would invalidate it."""
        return "\n".join([self._state(node), self._last(node), self._not_now(node), self._wakers(node)])

    def _state(self, node: Node) -> str:
        what = (
            "an effect"
            if node.kind is NodeKind.EFFECT
            else "a materializer"
            if node.is_materializer
            else "a computation"
        )
        live = f"live: {self._why_live(node)}" if node.is_live else "dormant: no live node reads it"
        if node.resting and node.parent is not None:
            live = f"asleep: {node.parent.title} is not observed"
        return f"{node.title} is {what}, {node.status.value}, {live}"

    def _last(self, node: Node) -> str:
        if not node.runs:
            return self._before(node)
        times = "once" if node.runs == 1 else f"{node.runs} times"
        if node.last_causes:
            because = f"because {self._listed(node.last_causes)} changed"
        else:
            is_first = node.runs == 1 and not node.restored
            because = f"because {self._why_first(node)}" if is_first else "because its value was asked for"
        failed = f"; it raised {describe(node.rare.error)}" if node.rare.error is not None else ""
        often = "once" if node.rare.adopted == 1 else f"{node.rare.adopted} times"
        adopted = f"; {often} the result of another runtime was adopted instead" if node.rare.adopted else ""
        return f"It ran {times}, the last time {because}, for {node.last_ms:.1f} ms{failed}{adopted}"

    def _why_first(self, node: Node) -> str:
        """Why the first run in this opening was necessary, as `explain_resume` says it."""
        missed = None if node.rare.adopted else self._persistence.missed.get(node.id)
        return "it had not run before" if missed is None or missed.reason == NOTHING else missed.reason

    def _before(self, node: Node) -> str:
        """For a node that has not run here: what was restored from earlier openings."""
        missed = self._persistence.missed.get(node.id)
        if node.rare.adopted:
            return "It has not run here: the result of another runtime was adopted"
        if node.restored:
            since = f", and {missed.reason}" if missed is not None else ""
            return f"It has not run here: its last run, in an earlier opening, was restored{since}"
        if missed is not None:
            return f"It has not run yet; nothing could be restored from an earlier opening: {missed.reason}"
        return "It has not run yet"

    def _not_now(self, node: Node) -> str:
        if node.removed:
            return "It does not run: it was removed"
        if node.running:
            return "It is running"
        if node.attempt is not None:
            return "It is under way and waits for something outside"
        if node.is_clean:
            return f"It does not run now: nothing it read has changed since{self._closed(node)}"
        return self._held_up(node)

    def _closed(self, node: Node) -> str:
        """The spaces that it has read and that are closed now: nothing of them can change for it."""
        far = self._runner.far
        if far is None or not node.rare.has_far:
            return ""
        ids = dict.fromkeys(split_far(doc)[0] for doc, _, _ in node.reads if is_far(doc))
        ids |= dict.fromkeys(split_index(key.index)[0] for key in far_spans_of(node))
        closed = [self._graph.far_names.get(each, each) for each in ids if not far.is_open(each)]
        if not closed:
            return ""
        which = f"space {closed[0]!r} is" if len(closed) == 1 else f"spaces {', '.join(map(repr, closed))} are"
        return f"; {which} closed here: it keeps the values that it has read there until that is opened again"

    def _held_up(self, node: Node) -> str:
        since = f" ({self._listed(node.invalid_causes)} changed)" if node.invalid_causes else ""
        if not node.is_live and not node.has_value:
            return "It does not run: it is not observed"
        if not node.is_live:
            return f"It does not run although it is {node.status.value}{since}: it is not observed"
        if node in self._settle.breakpoints and self._settle.stopped_at is node:
            return "It does not run: there is a breakpoint at it"
        left = self._gates.eligible_at(node) - self._now()
        if left > 0:
            return f"It does not run yet{since}: {self._gate_words(node)}"
        ahead = [other for other in dict.fromkeys(self._graph.sources(node)) if not other.is_clean and other.is_live]
        if ahead:
            return f"It waits for {_names(ahead)}, which {'comes' if len(ahead) == 1 else 'come'} first"
        return f"It runs in the next pass{since}"

    def _wakers(self, node: Node) -> str:
        writers = list(dict.fromkeys(self._graph.sources(node)))
        written = {doc for writer in writers for doc in writer.outputs}
        places = [(doc, path) for doc, path, _ in node.reads if doc not in written]
        wakers = [f"a change of {self._listed(places)}"] if places else []
        if node.rare.spans:
            kinds = list(dict.fromkeys(self._collection(key.index) for key in node.rare.spans))
            wakers.append(f"a change of what it has found in the collection{'s' * (len(kinds) > 1)} {_joined(kinds)}")
        if writers:
            wakers.append(f"another result of {_names(writers)}")
        if isinstance(node.rare.error, NotOpen | ClosedError):
            wakers.append("the opening of what was not open")
        if node.resting and node.parent is not None:
            wakers.append(f"a reader of {node.parent.title}")
        elif not node.is_live:
            wakers.append("a reader, or a call")
        return f"It would be woken by {', or '.join(wakers)}" if wakers else "Nothing wakes it: it read nothing"

    def _collection(self, index: str) -> str:
        """The kind of its documents; of another space, with the name of that."""
        space, own = split_index(index)
        kind = kind_of_index(own)
        return f"{self._graph.far_names.get(space, space)}:{kind}" if space else kind

    def _why_live(self, node: Node) -> str:
        spec = node.spec
        if spec.kind is NodeKind.EFFECT:
            return "effect"
        if spec.side_write_envelope:
            return "materializer"
        if self._registry.is_eager(spec):
            return "eager"
        if node.provisional:
            return "provisional"
        return "read by live nodes" if node.is_live else ""

    def _gate_words(self, node: Node) -> str:
        gate = node.gate
        if gate is None:
            return ""
        words: list[str] = []
        if gate.debounce_ms:
            words.append(f"debounce {written_ms(gate.debounce_ms)}")
        elif gate.auto_debounce_ms:
            words.append(f"debounce {written_ms(gate.auto_debounce_ms)}, because it is slow")
        if gate.throttle_ms:
            words.append(f"throttle {written_ms(gate.throttle_ms)}")
        if gate.backoff_ms:
            words.append(f"rests {written_ms(gate.backoff_ms)}, because it does not settle")
        left = self._gates.eligible_at(node) - self._now()
        if left > 0 and not node.is_clean:
            words.append(f"eligible in {written_ms(max(round(left), 1))}")
        return ", ".join(words)

    def _listed(self, places: Iterable[DocPath]) -> str:
        return _joined([address_text(doc, path, self._graph.far_names) for doc, path in places])

    def diagnosis(self) -> list[str]:
        """Nodes that do not settle, and nodes in a cycle."""
        nodes = list(self._registry.nodes)
        found = [
            f"{node.title} does not settle: it ran {RUNS_MAX} times in one pass and rests for "
            f"{written_ms(node.gate.backoff_ms)}; it was woken by {self._listed(node.last_causes)}"
            for node in nodes
            if node.gate is not None and node.gate.backoff_ms
        ]
        cycles = {id(node.rare.cycle): node.rare.cycle for node in nodes if node.rare.cycle is not None}
        as_registered = [sorted(cycle, key=lambda node: node.order) for cycle in cycles.values()]
        found += [f"{_names(cycle)} read each other in a cycle" for cycle in as_registered]
        found += [f"{node.title} fails: {describe(node.rare.error)}" for node in nodes if node.rare.error is not None]
        return found


def _names(nodes: Iterable[Node]) -> str:
    return _joined([f"{node.title}" for node in nodes])


def _joined(names: list[str]) -> str:
    shown = names[:SHOWN_MAX]
    if len(names) > SHOWN_MAX:
        shown.append(f"{len(names) - SHOWN_MAX} more")
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}" if shown else "nothing"
