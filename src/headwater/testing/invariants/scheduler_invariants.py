"""Invariants of the scheduler, checked at rest and over traces.

`check` is for a scheduler at rest, `check_trace` for all records since its start, `SchedulerWatch` for each attempt as
it starts. They include the invariants of `event_invariants` and `restore_invariants`, except for the check that
compares with the log. Every index is computed again from the records, without shortcuts, and compared. The first
violation raises an InvariantError with the invariant and the record.

`docs/internals/invariants.md` says what each invariant promises, and which code upholds it.

Length: one invariant after another, so that all of them are in one module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from typing import Final

from headwater.cells.kept_reads import RunReads
from headwater.cells.pending_commit import ReadKey
from headwater.scheduler.graph.node import NOTHING_RARE, Node, NodeKind, NodeStatus, RareFields
from headwater.scheduler.runs.persistence import ADOPTED
from headwater.scheduler.runs.pull import MADE_ROOM
from headwater.scheduler.runs.resumed_node import FAILED
from headwater.scheduler.runs.runner import REJECTED
from headwater.scheduler.scheduler import Scheduler
from headwater.scheduler.scheduler_limits import BACKOFF_MAX_MS, BACKOFF_MS, FAILURES_LONGEST, RUNS_MAX
from headwater.scheduler.trace import (
    DemandChanged,
    NodeInvalidated,
    NodeRegistered,
    NodeRestless,
    NodeRestored,
    PassEnded,
    RunDiscarded,
    RunFailed,
    RunFinished,
    RunStarted,
    TraceRecord,
)
from headwater.testing.invariants import event_invariants, restore_invariants
from headwater.testing.invariants.event_invariants import broken
from headwater.testing.invariants.span_invariants import spans_are_exact
from headwater.values.address import is_far
from headwater.values.ids import DocKey


def check(scheduler: Scheduler) -> None:
    """All invariants at rest: after `idle`, before anything else happens."""
    for claim in AT_REST:
        claim(scheduler)


def check_trace(records: Sequence[TraceRecord]) -> None:
    """All invariants over a trace. Nodes registered before the first record are checked as far as possible."""
    for claim in OVER_TRACE:
        claim(records)


class SchedulerWatch:
    """Listens from now on: stores every record, and checks each attempt as it starts."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.records: list[TraceRecord] = []
        self._scheduler = scheduler
        self._events = event_invariants.EventWatch(scheduler, self.records)
        self._unlisten = scheduler.trace.listen(self._heard)

    def check(self) -> None:
        """All invariants over the received records, and violations that were found during a handler."""
        for error in self._events.found:
            raise error
        check_trace(self.records)

    def end(self) -> None:
        """Stop listening."""
        self._unlisten()
        self._events.end()

    def _heard(self, record: TraceRecord) -> None:
        self.records.append(record)
        self._events.heard(record)
        if isinstance(record, RunStarted):
            node = self._scheduler.runner.stack[-1]
            i8_stamp(node)
            i9_turn(self._scheduler, node)


# --- the graph, made again -------------------------------------------------------------------------------------


class _Edges:
    """Writers of documents, and readers of written documents, from the records alone."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.nodes = list(scheduler.registry.nodes)
        self.writers: dict[DocKey, list[Node]] = {}
        for node in self.nodes:
            for doc in node.outputs:
                self.writers.setdefault(doc, []).append(node)
        self.docs: dict[Node, list[DocKey]] = {}
        for node in self.nodes:
            docs = dict.fromkeys(doc for doc, _, _ in node.reads)
            docs.update((doc, None) for doc in node.spec.declared_reads if is_declared(scheduler, node, doc))
            self.docs[node] = list(docs)
        # Once for each document.
        self.sources = {
            node: [writer for doc in self.docs[node] for writer in self.writers.get(doc, ()) if writer is not node]
            for node in self.nodes
        }

    def cycles(self) -> dict[Node, frozenset[Node]]:
        """For each node that reads itself through others, all nodes of such cycles. Found by walking from each node."""
        above = {node: self._above(node) for node in self.nodes}
        return {
            node: frozenset(other for other in above[node] if node in above[other])
            for node in self.nodes
            if node in above[node]
        }

    def _above(self, node: Node) -> set[Node]:
        found: set[Node] = set()
        todo = [node]
        while todo:
            for source in self.sources[todo.pop()]:
                if source not in found:
                    found.add(source)
                    todo.append(source)
        return found


def is_declared(scheduler: Scheduler, node: Node, doc: DocKey) -> bool:
    """Its place in the order still follows from its declared reads."""
    return node in scheduler.graph._declared.get(doc, ())  # noqa: SLF001  # looked at, not touched


# --- over the records, at rest --------------------------------------------------------------------------------


def i1_live_consistency(scheduler: Scheduler) -> None:
    """A live node has run on the current values, unless time, its own write or a breakpoint delays it."""
    if scheduler.invalidation.inbox or scheduler.runner.stack:
        raise broken("I1", "the scheduler is not at rest: a change is not processed, or a function is running", None)
    stopped = scheduler._settle.stopped_at is not None  # noqa: SLF001  # looked at, not touched
    for node in scheduler.registry.nodes:
        is_excused = node.attempt is not None or scheduler.gates.is_held(node) or (stopped and node.queued)
        if node.is_live and not node.is_clean and not is_excused:
            raise broken("I1", "it is observed, not up to date, and nothing delays it", node)


def i2_liveness(scheduler: Scheduler) -> None:  # noqa: C901  # one reason after another
    """Live nodes have a reason of their own, a live reader, or one in another space. References are counted exactly."""
    edges = _Edges(scheduler)
    live: set[Node] = set()
    todo: list[Node] = []
    lent = scheduler._settle.lent  # noqa: SLF001  # looked at, not touched
    far = scheduler.persistence.far
    for node in edges.nodes:
        spec = node.spec
        is_eager = scheduler.registry.is_eager(spec)
        standing = (spec.kind is NodeKind.EFFECT or is_eager or bool(spec.side_write_envelope)) and not node.resting
        reasons = standing + node.provisional + (far.demand_from(node) if far is not None else 0)
        if node.demand != reasons:
            raise broken("I2", f"it has {reasons} reasons of its own, not {node.demand}", node)
        if node.provisional is not (node in lent) or (node.provisional and node.runs and node.attempt is None):
            raise broken("I2", "it is wanted only because of who made it, and that should be over, or noted", node)
        if node.demand:
            todo.append(node)
    while todo:
        node = todo.pop()
        if node not in live:
            live.add(node)
            todo += edges.sources[node]
    refs = {node: node.demand for node in edges.nodes}
    for node in live:
        for source in edges.sources[node]:
            refs[source] += 1
    for node in edges.nodes:
        if node.live_refs != refs[node]:
            raise broken("I2", f"it should hold {refs[node]} references, not {node.live_refs}", node)


def i8_provenance(scheduler: Scheduler) -> None:
    """An undecided transaction names its node. Only an invalid node has causes, which wait for an attempt."""
    for node in scheduler.registry.nodes:
        if node.attempt is not None:
            i8_stamp(node)
        if node.commit is not None and node.commit.node is not node:
            raise broken("I8", "what it has written names another node", node)
        if node.invalid_causes and node.status is not NodeStatus.INVALID:
            raise broken("I8", "it is not invalid, and has causes for being so", node)


def i8_stamp(node: Node) -> None:
    """The transaction of an attempt names its node and its causes."""
    attempt = node.attempt
    if attempt is None or attempt.tx.node is not node or attempt.tx.triggers != node.last_causes:
        raise broken("I8", "the transaction of its attempt names another node, or other causes", node)


def i9_ranks(scheduler: Scheduler) -> None:
    """A reader's rank is greater than that of its writers. The nodes of a cycle share one rank; cycles are exact."""
    edges = _Edges(scheduler)
    cycles = edges.cycles()
    for node in edges.nodes:
        cycle = cycles.get(node, frozenset())
        if frozenset(node.rare.cycle or ()) != cycle:
            raise broken("I9", f"its cycle should be {sorted(map(repr, cycle))}, not {node.rare.cycle}", node)
        for source in edges.sources[node]:
            if source in cycle:
                if source.rank != node.rank or source.rare.cycle is not node.rare.cycle:
                    raise broken("I9", f"{source!r} is in the same cycle with rank {source.rank}", node)
            elif source.rank >= node.rank:
                raise broken("I9", f"it reads {source!r}, whose rank is {source.rank}", node)
    if scheduler.graph.liveness.has_cycles is not bool(cycles):
        raise broken("I9", f"that there are cycles should be known to be {bool(cycles)}", None)


def i9_turn(scheduler: Scheduler, node: Node) -> None:
    """When an attempt starts, no writer of its reads outside its cycle waits that could run."""
    attempt = node.attempt
    if attempt is None or attempt.pulled or len(scheduler.runner.stack) > 1:
        return
    number, gates = scheduler.runner.pass_number, scheduler.gates
    for source in [*scheduler.graph.sources(node), *scheduler.graph.materializers(node)]:
        is_spent = source.pass_number == number and source.pass_runs >= RUNS_MAX
        could_run = source.is_live and not source.is_clean and source.attempt is None and not gates.is_held(source)
        in_ring = source.rare.cycle is not None and source.rare.cycle is node.rare.cycle
        # A materializer and its reader may depend on each other: then any order is correct.
        if could_run and not is_spent and not in_ring and not _is_above(scheduler, node, source):
            raise broken("I9", f"it starts before {source!r}, which writes what it reads", node)


def _is_above(scheduler: Scheduler, node: Node, other: Node) -> bool:
    """The other node depends on an output of this one, as far as envelopes show."""
    found = {other}
    todo = [other]
    while todo:
        current = todo.pop()
        for source in [*scheduler.graph.sources(current), *scheduler.graph.materializers(current)]:
            if source not in found:
                found.add(source)
                todo.append(source)
    return node in found


def edges_are_exact(scheduler: Scheduler) -> None:
    """The maps of writers, envelopes, declared reads, and of reads that a node writes equal the records."""
    graph, edges = scheduler.graph, _Edges(scheduler)
    writers = {doc: tuple(nodes) if len(nodes) > 1 else nodes[0] for doc, nodes in edges.writers.items()}
    if graph.writers != writers:
        raise broken("edges", f"the map of writers is not that of the records: {graph.writers}", None)
    envelopes: dict[DocKey, tuple[object, ...]] = {}
    for node in edges.nodes:
        for place in node.spec.side_write_envelope:
            envelopes[place[0]] = (*envelopes.get(place[0], ()), (place, node))
        declared = [is_declared(scheduler, node, doc) for doc in node.spec.declared_reads]
        if (node.status is NodeStatus.NEVER_RAN and not all(declared)) or (node.runs and any(declared)):
            raise broken("edges", "what it is known to read counts until it has run, and no longer", node)
        written = {doc for doc in edges.docs[node] if doc in edges.writers}
        by_others = {doc for doc in written if edges.writers[doc] != [node]}
        if not by_others <= node.above.keys() <= written:
            raise broken("edges", f"of what it reads, {sorted(by_others)} is written by others", node)
    if graph.envelopes != envelopes:
        raise broken("edges", "the map of envelopes is not that of the records", None)


def index_is_exact(scheduler: Scheduler) -> None:
    """The index of readers has exactly the reads of the records."""
    nodes = scheduler.registry.nodes
    wanted = {(doc, path, bool(bits), node) for node in nodes for doc, path, bits in node.reads}
    found = list(scheduler.graph.index.entries())
    if len(found) != len(scheduler.graph.index) or len(found) != len(wanted) or set(found) != wanted:
        odd = [f"{doc}{list(path)} of {node!r}" for doc, path, _, node in {*found} ^ wanted]
        raise broken("index", f"the index and what was read differ by {odd}", None)


def waiting_is_exact(scheduler: Scheduler) -> None:
    """Queue, gates, invalid nodes and suspended attempts equal the records."""
    queued = scheduler.queue.nodes()
    if len(set(queued)) != len(queued) or any(not node.queued for node in queued):
        raise broken("queue", f"a node is in it twice, or does not know: {queued}", None)
    invalid = {node for node in scheduler.registry.nodes if node.outputs and node.status is NodeStatus.INVALID}
    # And nodes that never ran, although their result was read.
    awaited = {
        source
        for node in scheduler.registry.nodes
        for source in scheduler.graph.sources(node)
        if source.status is NodeStatus.NEVER_RAN and node.status is not NodeStatus.NEVER_RAN
    }
    noted = scheduler.invalidation.invalid.keys()
    never_ran = {node for node in noted if node.status is NodeStatus.NEVER_RAN and not node.removed}
    if noted - never_ran != invalid or not awaited <= noted:
        raise broken("invalid", f"{(noted - never_ran) ^ invalid | awaited - noted} is in one place only", None)
    entries = [(until, node) for until, _, node in scheduler.gates.heap]
    in_flight = scheduler.runner.in_flight
    for node in scheduler.registry.nodes:
        if node.queued is not (node in queued):
            raise broken("queue", "it should know whether it is queued", node)
        if node.attempt is not in_flight.get(node):
            raise broken("flight", "its attempt is not the running one", node)
        waits_until = 0.0 if node.gate is None else node.gate.waits_until
        if waits_until and (waits_until, node) not in entries:
            raise broken("gates", "it waits for a time, and nothing will wake it", node)
        is_wanted = node.is_live and not node.is_clean and node.attempt is None
        if is_wanted and scheduler.gates.is_held(node) and not 0 < waits_until <= scheduler.gates.eligible_at(node):
            raise broken("gates", "it is held up, and is not woken when it may run", node)


def records_are_whole(scheduler: Scheduler) -> None:
    """Each record is consistent; FIELDS lists the check of each field."""
    now = scheduler.runner._now()  # noqa: SLF001  # looked at, not touched
    for node in scheduler.registry.nodes:
        for what, holds in _fitting(node, scheduler.runner.pass_number, now):
            if not holds:
                raise broken("record", what, node)
    orders = [node.order for node in scheduler.registry.nodes]
    if orders != sorted(set(orders)):
        raise broken("record", f"nodes are not kept as they were registered: {orders}", None)
    places = [node.position for node in scheduler.registry.nodes]
    if len(set(places)) != len(places) or any(node.position > node.order for node in scheduler.registry.nodes):
        raise broken("record", f"two nodes have one place, or one has a place that is to come: {places}", None)


def _is_all(kept: RunReads, reads: tuple[ReadKey, ...]) -> bool:
    """The parts and the rest are all reads of a run, and nothing else."""
    found = set(kept.rest)
    for part in kept.parts.values():
        found |= part.keys.keys()
    return found == set(reads)


def _is_unwritten() -> bool:
    """The shared record of rare fields has the values of a new one."""
    names = [each.name for each in fields(RareFields)]
    made = RareFields()
    return all(getattr(NOTHING_RARE, name) == getattr(made, name) for name in names)


def _fitting(node: Node, pass_number: int, now: float) -> Iterable[tuple[str, bool]]:
    spec = node.spec
    is_new = node.status is NodeStatus.NEVER_RAN
    yield "the rare fields that most nodes share are those of none", node.rare is not NOTHING_RARE or _is_unwritten()
    yield "it has a result or is an effect", bool(node.outputs) is (spec.kind is NodeKind.COMPUTATION)
    yield "effects come after computations", spec.tier == (1 if not node.outputs else 2 if node.is_materializer else 0)
    yield "it may write its other outputs", {(doc, ()) for doc in node.outputs[1:]} <= set(node.rare.surface)
    yield "what its documents are named by is its own", node.cause == ("run", node.name, node.order)
    yield "no node is its own parent", node.parent is not node
    yield "a declared parent is its parent", node.declared_parent in (None, node.parent)
    fingerprint = None if isinstance(node.fingerprint, bytes) else node.fingerprint
    functions = (node.fn, node.to_stored, *filter(None, (fingerprint, node.origin, node.on_unread)))
    yield "what it calls can be called", all(map(callable, functions))
    yield "both calls for its readers are there, or none", (node.rare.on_live is None) is (node.rare.on_dormant is None)
    yield (
        "the row of a computation has the name of its result",
        node.stored_as in (None, *node.outputs[:1]) or not node.outputs,
    )
    yield "instances have arguments, and others have none", node.called_with is None or spec.is_instance
    yield "a node reads no result that it makes", not set(node.outputs) & set(node.rare.made_before)
    yield "it is there", not node.removed
    yield "at rest nothing is at work", not node.running
    yield "what never ran has nothing of a run", not is_new or not (node.commit or node.reads or node.runs)
    yield "an attempt has a transaction of its own", node.attempt is None or node.attempt.tx.node is node
    yield "a node that waits for a verdict has written", node.commit is None or node.commit.node is node
    yield "where an error comes from goes with it", node.rare.trace is None or node.rare.error is not None
    yield (
        "what fails has a time of its failure",
        node.failed_at > 0 or (node.rare.error is None and node.failed_at == 0),
    )
    yield "it ran in a pass that was", 0 <= node.pass_number <= pass_number and node.pass_runs >= 0
    yield "a failing store is tried less and less often", 0 <= node.rare.store_failures <= FAILURES_LONGEST
    yield (
        "what the store says is known with its failures",
        (node.rare.store_error is None) is (node.rare.store_failures == 0),
    )
    yield "its result is as narrow as what it read", not node.result_scope or not node.result_scope.startswith("space")
    has_far = any(is_far(doc) for doc, _, _ in node.reads)
    yield "it is known whether it reads other spaces", node.rare.has_far or not has_far
    yield "reads of other spaces are compared only if there are some", node.rare.far_reads is None or node.rare.has_far
    yield "reads that it may keep are its reads", node.rare.kept is None or _is_all(node.rare.kept, node.reads)
    kept = node.recorded
    yield (
        "what was kept of it is what it can be known by",
        kept is None or node.fingerprint is not None,
    )
    yield (
        "what was restored has been run, if not here",
        not node.restored or (node.fingerprint is not None and not is_new),
    )
    yield "an observation is that of a run here", 0 <= node.rare.noted_run <= node.runs
    failures = bool(node.rare.seen_failures) or node.rare.known_failure is not None
    yield "failures that were kept are of what can be known by what it is", not failures or node.fingerprint is not None
    is_told = node.rare.adopted > 0 or node.rare.peer_observation is not None
    yield "a run that is adopted has a fingerprint", not is_told or node.fingerprint is not None
    yield "what was adopted has been run, if not here", not node.rare.adopted or not is_new
    moments = [moment for moment in (node.changed_at, node.run_changed_at) if moment is not None]
    yield "news is not of tomorrow", all(moment <= now for moment in moments)
    yield "counts do not go below nothing", node.runs >= 0 and node.invalidated >= 0
    yield "times fit", 0 <= node.last_ms <= node.total_ms + 1e-6 and node.last_at_ms <= now


# --- over the trace -------------------------------------------------------------------------------------------


def i2_dormancy(records: Sequence[TraceRecord]) -> None:
    """A node that starts is live, or has a caller."""
    live: dict[str, bool] = {record.node: False for record in records if isinstance(record, NodeRegistered)}
    for record in records:
        if isinstance(record, DemandChanged):
            live[record.node] = record.live
        elif isinstance(record, RunStarted) and live.get(record.node, record.demand == "live") != (
            record.demand == "live"
        ):
            raise broken("I2", "the trace and the record differ on whether it is live", record)


def i3_value_gated(records: Sequence[TraceRecord]) -> None:
    """A node starts again only after it was invalidated, or if its last attempt was discarded."""
    has_reason: dict[str, bool] = {}
    for record in records:
        if isinstance(record, NodeRegistered | NodeInvalidated | RunDiscarded):
            has_reason[record.node] = True
        elif isinstance(record, RunStarted):
            if not has_reason.get(record.node, True):
                raise broken("I3", "it starts again, and nothing it read has changed", record)
            has_reason[record.node] = False


def i5_self_stability(records: Sequence[TraceRecord]) -> None:
    """No node is invalidated by its own run. A run without writes invalidates no node, except by failing."""
    caused: dict[str, NodeInvalidated] = {}
    # Nodes whose last attempt failed, and nodes that fail as far as their readers were notified.
    failed: set[str] = set()
    failing: set[str] = set()
    for record in records:
        node = record.node
        if isinstance(record, RunStarted):
            caused.pop(node, None)
            failed.discard(node)
        elif isinstance(record, RunFailed):
            failed.add(node)
            failing.add(node)
        elif isinstance(record, NodeRestored) and record.reason == FAILED:
            failing.add(node)
        elif isinstance(record, NodeInvalidated):
            if record.by == node:
                raise broken("I5", "it is invalid because of what it wrote itself", record)
            caused[record.by] = record
        elif isinstance(record, RunFinished):
            if not record.changed and node in caused and node not in failing:
                raise broken("I5", f"it wrote nothing, and has caused {caused[node]}", record)
            if node not in failed:
                failing.discard(node)


def i6_bounds(records: Sequence[TraceRecord]) -> None:  # noqa: C901, PLR0912  # one bound after another
    """In one pass no node starts more often than the limit. A node that does not settle backs off, longer each time."""
    starts: dict[str, int] = {}
    # Live nodes that ran since the last pass, for callers outside of any pass: the next pass shows if they settle.
    called: set[str] = set()
    number = ended = 0
    rests: dict[str, int] = {}
    until: dict[str, float] = {}
    for record in records:
        node = record.node
        if isinstance(record, RunStarted):
            if record.pass_number != number:
                # An interrupted attempt has no end.
                starts, number = {}, record.pass_number
            # After the end of a pass its number stays, for callers outside of any pass.
            if number > ended:
                starts[node] = starts.get(node, 0) + 1
            elif record.demand == "live":
                called.add(node)
            else:
                # A dormant node has settled when its call ends.
                rests.pop(node, None)
            if starts.get(node, 0) > RUNS_MAX:
                raise broken("I6", f"it starts more than {RUNS_MAX} times in one pass", record)
            if record.first:
                # A node that never finished has no value for its caller, so the caller need not wait.
                until.pop(node, None)
            if record.at_ms < until.get(node, 0):
                raise broken("I6", f"it did not settle, and should rest until {until[node]:g}", record)
        elif isinstance(record, RunDiscarded) and record.reason == MADE_ROOM:
            # It was discarded because the stack was full, and starts again after the node that it calls: not counted as
            # a run.
            starts[node] = starts.get(node, 0) - 1
        elif isinstance(record, NodeRestless):
            rests[node] = rests.get(node, 0) + 1
            until[node] = record.at_ms + min(BACKOFF_MS * 2 ** (rests[node] - 1), BACKOFF_MAX_MS)
            # It ran in this pass, and is still invalid at its end.
            starts.pop(node, None)
            called.discard(node)
        elif isinstance(record, PassEnded):
            for settled in (*starts, *called):
                rests.pop(settled, None)
            starts, called, ended = {}, set(), record.number


def i8_causes(records: Sequence[TraceRecord]) -> None:
    """A node that starts names all causes since its last start, and those of a discarded attempt."""
    wanted: dict[str, dict[str, None]] = {record.node: {} for record in records if isinstance(record, NodeRegistered)}
    # All causes it ever had: a rejected commit may be older than the last attempt.
    named: dict[str, set[str]] = {}
    started: dict[str, RunStarted] = {}
    for record in records:
        node = record.node
        if isinstance(record, NodeInvalidated):
            wanted.setdefault(node, {})[record.cause] = None
        elif isinstance(record, RunFinished):
            started.pop(node, None)
        elif isinstance(record, NodeRestored) and record.outcome == ADOPTED:
            wanted[node] = {}
        elif isinstance(record, RunDiscarded) and node in started and record.reason != REJECTED:
            wanted.setdefault(node, {}).update(dict.fromkeys(started[node].causes))
        elif isinstance(record, RunStarted):
            if node in named or node in wanted:
                _same_causes(record, wanted.get(node, {}), named.get(node, set()))
            named.setdefault(node, set()).update(record.causes)
            started[node], wanted[node] = record, {}


def _same_causes(record: RunStarted, wanted: dict[str, None], earlier: set[str]) -> None:
    """Above the limit only the documents of the places are stored."""
    causes = set(record.causes)
    documents = {cause.partition("/")[0] for cause in wanted}
    is_told = all(cause in causes or cause.partition("/")[0] in causes for cause in wanted)
    if not is_told or not causes <= wanted.keys() | documents | earlier:
        raise broken("I8", f"it was invalidated by {list(wanted)}", record)


# --- the lists ------------------------------------------------------------------------------------------------

AT_REST: Final[tuple[Callable[[Scheduler], None], ...]] = (
    records_are_whole,
    edges_are_exact,
    index_is_exact,
    spans_are_exact,
    waiting_is_exact,
    i2_liveness,
    i9_ranks,
    i8_provenance,
    i1_live_consistency,
    *event_invariants.AT_REST,
)

OVER_TRACE: Final[tuple[Callable[[Sequence[TraceRecord]], None], ...]] = (
    i2_dormancy,
    i3_value_gated,
    i5_self_stability,
    i6_bounds,
    i8_causes,
    *event_invariants.OVER_TRACE,
    *restore_invariants.OVER_TRACE,
)

FIELDS: Final[dict[str, Callable[[Scheduler], None]]] = {
    **dict.fromkeys(("spec", "name", "fn", "order", "position"), records_are_whole),
    **dict.fromkeys(("surface", "parent", "declared_parent", "rare", "made_before"), records_are_whole),
    **dict.fromkeys(("result_type", "fingerprint", "origin", "stored_as", "piece", "called_with"), records_are_whole),
    **dict.fromkeys(("on_unread", "on_live", "on_dormant"), records_are_whole),
    **dict.fromkeys(
        ("removed", "running", "attempt", "error", "trace", "failed_at", "result_scope"), records_are_whole
    ),
    **dict.fromkeys(("pass_number", "pass_runs", "runs", "invalidated"), records_are_whole),
    **dict.fromkeys(("store_failures", "store_error"), records_are_whole),
    **dict.fromkeys(
        ("restored", "recorded", "noted_run", "adopted", "kept", "has_far", "far_reads"),
        records_are_whole,
    ),
    **dict.fromkeys(("peer_observation", "seen_failures", "known_failure"), records_are_whole),
    **dict.fromkeys(("total_ms", "last_ms", "last_at_ms", "changed_at", "run_changed_at"), records_are_whole),
    **dict.fromkeys(("outputs", "above"), edges_are_exact),
    "reads": index_is_exact,
    **dict.fromkeys(("spans", "noted_spans"), spans_are_exact),
    **dict.fromkeys(("queued", "gate"), waiting_is_exact),
    **dict.fromkeys(("demand", "live_refs", "provisional", "resting"), i2_liveness),
    **dict.fromkeys(("rank", "cycle"), i9_ranks),
    **dict.fromkeys(("invalid_causes", "last_causes", "commit"), i8_provenance),
    "status": i1_live_consistency,
}
"""The check of each field of a node and of its rare fields. A field that is not in here has no check."""
