"""One run in one transaction: beginning, end, retry.

The host calls the author's function between begin and end. The reads are registered before the writes
are applied, so that nothing that changes in between is missed.

Length: each way in which a run ends changes the same state of the node, so all of them are in one class.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from headwater.cells.kept_reads import RunReads, changed_keys, without_kept
from headwater.cells.pending_commit import Mark, ReadKey
from headwater.cells.replica import Replica
from headwater.cells.run_result import commit_result
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status as TxStatus
from headwater.errors import HeadwaterError, NotReadyError
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import NOTHING_RARE, DocPath, Node, NodeKind, NodeStatus
from headwater.scheduler.runs.attempt import Attempt
from headwater.scheduler.runs.far_port import Far
from headwater.scheduler.runs.function_errors import (
    Report,
    function_error,
    is_final,
    is_forgotten,
    no_result,
    set_error,
    store_recovered,
    unstorable,
    unstored,
)
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.outdated_reads import changed_read
from headwater.scheduler.runs.persistence import Persistence
from headwater.scheduler.runs.result_scope import commit_own, narrowest
from headwater.scheduler.runs.seen_failures import has_news, other_outcome
from headwater.scheduler.runs.span_checks import far_cause, register_spans, span_overtaken
from headwater.scheduler.scheduler_limits import FAILURES_LONGEST, FAILURES_MAX
from headwater.scheduler.trace import (
    NodeInvalidated,
    RunDiscarded,
    RunFailed,
    RunFinished,
    RunStarted,
    RunSuspended,
    Trace,
)
from headwater.store.commit import Conflict
from headwater.values.address import address_text
from headwater.values.author_text import describe, with_calls
from headwater.values.tree import Value, freeze

_CLEAN: Final = NodeStatus.CLEAN
_OPEN: Final = TxStatus.OPEN
_REJECTED: Final = TxStatus.REJECTED

REJECTED: Final = "its commit was rejected"
"""The reason of an attempt that had ended and does not count."""

TAKEN_UP: Final = "before the run that it had taken up"
"""The cause of a node that repeats a run of an earlier node of its function."""


class Runner:
    """Begins and ends attempts. The only writer of the run fields of a node."""

    def __init__(
        self,
        replica: Replica,
        *,
        graph: Graph,
        gates: Gates,
        invalidation: Invalidation,
        persistence: Persistence,
        trace: Trace,
        now: Callable[[], float],
        report: Report,
        space: str,
    ) -> None:
        self._space = space
        self._replica = replica
        self._graph = graph
        self._gates = gates
        self._invalidation = invalidation
        self._persistence = persistence
        self._trace = trace
        self._now = now
        self._report = report
        # The nodes whose functions are running now, outermost first; and the suspended attempts.
        self.stack: list[Node] = []
        self.in_flight: dict[Node, Attempt] = {}
        self.runs = 0
        self.pass_number = 0
        # Called before and after the end of an attempt that counts: for diagnosis.
        self.before: Callable[[Attempt], None] | None = None
        self.after: Callable[[Attempt], None] | None = None
        # The same, for pieces that the attempt has started.
        self.ended: Callable[[Attempt], None] | None = None
        # Not a fixed tuple: compiled code would make a new one for each run.
        self._on_decided: tuple[Callable[[Transaction], None], ...] = (self._decided,)
        # Called with the transaction of each attempt, and before a result is written, where the replica is partial: see
        # `Arrivals`.
        self.guard: Callable[[Transaction], None] | None = None
        self.reach: Callable[[Node], None] | None = None
        # The other spaces that runs read; None in a program with one space.
        self.far: Far | None = None
        # Called where it has to be known which proxy nodes are current; None while there are none.
        self.look: Callable[[], None] | None = None

    @property
    def innermost(self) -> Node | None:
        """The node whose function is running now."""
        return self.stack[-1] if self.stack else None

    # -- the beginning -------------------------------------------------------------------------------------

    def begin(self, node: Node, *, pulled: bool = False) -> Attempt:
        """Begin an attempt in a transaction of its own, with the node and the causes (I8)."""
        spec = node.spec
        causes = self._invalidation.clean(node)
        tx = Transaction(self._replica, read_only=spec.read_only)
        tx.node, tx.triggers, tx.is_running = node, causes, True
        if self._invalidation.failures:
            tx.failures = self._invalidation.failures
        if spec.change_group is not None:
            tx.change_group = spec.change_group
        rare = node.rare
        if rare is not NOTHING_RARE and rare.surface:
            tx.surface = rare.surface
        if self.guard is not None:
            self.guard(tx)
        now = self._now()
        attempt = Attempt(self, node, tx, self._replica.version, now, node.fn, pulled)
        if self._gates.tracks_changes:
            self._gates.begins(node, asked=pulled and not node.live_refs)
        if rare is not NOTHING_RARE and rare.error is not None:
            attempt.before = rare.error
            if not spec.is_async:
                # While an attempt is suspended, callers get the last result.
                rare.error = rare.trace = None
        node.attempt, node.running, node.last_causes = attempt, True, causes
        node.runs += 1
        self.runs += 1
        if node.pass_number != self.pass_number:
            node.pass_number, node.pass_runs = self.pass_number, 1
        else:
            node.pass_runs += 1
        self.stack.append(node)
        if self._trace.on:
            names = tuple(address_text(*cause, self._graph.far_names) for cause in causes)
            demand = "pulled" if pulled and not node.live_refs else "live"
            first = node.runs == 1
            self._trace.emit(RunStarted(now, node.id, node.runs, self.pass_number, node.rank, demand, names, first))
        return attempt

    # -- the end -------------------------------------------------------------------------------------------

    def finish(self, attempt: Attempt) -> None:  # noqa: C901, PLR0912, PLR0915  # every run ends here: in one piece
        """The function has returned or raised, or is suspended."""
        node, tx = attempt.node, attempt.tx
        if attempt.suspended:
            self._suspend(attempt)
            return
        tx.is_running = False
        stack = self.stack
        if stack and stack[-1] is node:
            stack.pop()
        node.running, node.attempt = False, None
        if self.in_flight:
            self.in_flight.pop(node, None)
        if node.removed:
            # Nothing of it is stored.
            if tx.is_open:
                tx.abort()
            return
        if node.spec.is_proxy:
            self._finish_proxy(attempt)
            return
        error, value, ended = attempt.error, None, tx.ended_with
        if tx.status is not _OPEN:
            if ended is None:
                # Ended from outside, as at the close of a space.
                return
            error = no_result(node) if error is None else error
        elif error is None and node.outputs:
            try:
                result, kind = attempt.result, node.result_type
                value = freeze(result) if kind is None else kind.to_stored(result)
            except Exception as refused:  # noqa: BLE001  # what an author's function returns is the author's
                error = refused
        if self._invalidation.inbox:
            self._drain_while_running(node)
        journal = tx.journal if ended is None else ended[0]
        reads = journal.entries if journal.is_plain else journal.reads()
        is_overtaken = False
        if tx.spans is not None or node.rare.spans or (tx.views is not None and tx.has_far_spans):
            register_spans(self._graph, node, tx)
        if tx.keeping is not None or node.rare.kept is not None:
            reads, is_overtaken = self._keep_reads(node, tx, reads)
        elif tx.views is not None or node.rare.has_far:
            self._register(node, reads, tx)
        elif tuple(reads) != node.reads or node.spec.declared_reads:
            self._graph.apply_reads(node, reads)
            node.result_scope = narrowest(reads)
        if (
            is_overtaken
            or (self._replica.version != attempt.version and changed_read(self._replica, tx, reads) is not None)
            or (tx.spans is not None and self._changed_span(node, tx) is not None)
            or (tx.views is not None and self.far is not None and self.far.is_outdated(tx))
            or (
                (tx.called is not None or tx.failures != self._invalidation.failures)
                and other_outcome(tx, (key[0] for key in reads), self._graph) is not None
            )
        ):
            self._outdated(attempt, error)
            return
        if self.before is not None and ended is None:
            self.before(attempt)
        if ended is not None:
            self._ended_early(attempt, error, reads)
        elif error is not None:
            self._failed(attempt, error, reads)
        elif node.outputs or tx.wrote or attempt.before is not None:
            self._commit(attempt, value, reads)
        else:
            tx.end()
            if node.fingerprint is not None:
                self._persistence.note(node, tx, reads)
            self._done(attempt, changed=False)
        if node.status is not _CLEAN:
            # Invalid while it was suspended, and unchanged at its end.
            self._invalidation.offer_again(node)

    def _register(self, node: Node, reads: dict[ReadKey, Mark | None], tx: Transaction) -> None:
        """Register the reads of a run, or of its last one, in other spaces too. The commit names its own only."""
        seen: tuple[object, ...] = ()
        if tx.views is not None and self.far is not None:
            seen, known = self.far.keys_of(tx, reads), node.rare.far_reads
            if known is not None and known[0] is node.reads and known[1] == seen and not node.spec.declared_reads:
                return
            reads = self.far.with_far(tx, reads)
        self._graph.apply_reads(node, reads)
        node.result_scope = narrowest(reads)
        rare = node.own_rare()
        rare.has_far, rare.far_reads = bool(seen), (node.reads, seen) if seen else None

    def _finish_proxy(self, attempt: Attempt) -> None:
        """The functions of another space were asked for: a change of their result is in the inbox."""
        node, tx = attempt.node, attempt.tx
        if tx.is_open:
            tx.end()
        node.last_at_ms = self._now()
        self._invalidation.drain()
        if self.far is not None:
            self.far.make_current(node)
        if self._trace.on:
            self._trace.emit(RunFinished(node.last_at_ms, node.id, node.runs, 0.0, False, 0))

    def _keep_reads(
        self, node: Node, tx: Transaction, reads: dict[ReadKey, Mark | None]
    ) -> tuple[dict[ReadKey, Mark | None], bool]:
        """Register the reads of a run that has reused a part of them, or whose next run may do so.

        Returns those that its commit has to name, and whether one of the others has changed during the run.
        """
        before, keeping = node.rare.kept, tx.keeping
        parts = {} if keeping is None else keeping.parts
        is_reused = keeping is not None and keeping.is_reused
        is_named = bool(node.outputs) or tx.wrote or node.fingerprint is not None
        if keeping is not None and is_reused and is_named and tx.is_open:
            # They go to the store, with a commit or as an observation: one by one. A change until now is in the inbox.
            keeping.record_as_of_now(tx)
            reads = tx.journal.reads()
            self._drain_while_running(node)
        is_overtaken = is_reused and (before is None or before.is_overtaken or tx.is_rejected)
        rest = without_kept(reads, parts)
        if node.rare.has_far is not (tx.views is not None):
            node.own_rare().has_far = tx.views is not None
        if tx.views is not None and self.far is not None:
            rest = tuple(self.far.with_far(tx, dict.fromkeys(rest)))
        if before is None or not before.is_same(parts, rest) or node.spec.declared_reads:
            whole: dict[ReadKey, Mark | None] = {}
            for part in parts.values():
                whole.update(part.keys)
            whole.update(dict.fromkeys(rest))
            change = None if before is None or node.spec.declared_reads else changed_keys(before, parts, rest)
            if change is None:
                self._graph.apply_reads(node, whole)
            else:
                self._graph.change_reads(node, tuple(whole), change.added, change.gone)
            if change is None or node.result_scope or narrowest(dict.fromkeys(change.added)):
                node.result_scope = narrowest(whole)
        if parts:
            node.own_rare().kept = RunReads(parts, rest)
        elif before is not None:
            node.rare.kept = None
        return reads, is_overtaken

    def _drain_while_running(self, node: Node) -> None:
        """Take in changes while it counts as running: they are compared with its reads."""
        node.running = True
        self._invalidation.drain()
        node.running = False

    def _ended_early(self, attempt: Attempt, error: Exception | None, reads: Mapping[ReadKey, Mark | None]) -> None:
        """The function has ended its transaction itself. Its reads are registered nevertheless."""
        node, tx = attempt.node, attempt.tx
        tx.ended_with = None
        if error is not None:
            self._failed(attempt, error, reads)
        else:
            self._done(attempt, changed=False)
        if tx.local_seq is not None:
            # Committed: if the store rejects it, the function runs again.
            node.commit = tx
            tx.on_settled(self._decided)

    def _leave(self, node: Node) -> None:
        stack = self.stack
        if stack and stack[-1] is node:
            stack.pop()
        node.running, node.attempt = False, None
        if self.in_flight:
            self.in_flight.pop(node, None)

    def _commit(self, attempt: Attempt, value: Value, reads: Mapping[ReadKey, Mark | None]) -> None:  # noqa: C901  # likewise
        node, tx = attempt.node, attempt.tx
        before, wrote = node.commit, False
        # The result is written, whatever is there.
        tx.gate = None
        try:
            if node.outputs:
                if self.reach is not None:
                    self.reach(node)
                if node.fingerprint is not None:
                    self._persistence.observe(node, tx)
                tx.read_only = ""
                # Before the commit is sent: it may be decided at once.
                tx.callbacks = (*tx.callbacks, *self._on_decided) if tx.callbacks else self._on_decided
                node.commit = tx
                if tx.wrote and (before is not None or tx.observes is not None):
                    # I1: this commit replaces the previous one: it must contain all outputs of the node.
                    # I7: the observation is committed with the result, even if that is unchanged.
                    tx.put(node.outputs[0], value)
                wrote = commit_own(node, tx, value) if node.result_scope else commit_result(tx, node.outputs[0], value)
                if not wrote:
                    node.commit = before
                    if node.fingerprint is not None:
                        self._persistence.note(node, tx, reads, value)
            elif tx.wrote:
                wrote = True
                tx.callbacks += self._on_decided
                node.commit = tx
                self._persistence.note_writes(node, tx, reads)
                tx.commit()
            else:
                tx.end()
                if node.fingerprint is not None:
                    self._persistence.note(node, tx, reads)
        except HeadwaterError as error:
            # A limit, or a closed space: nothing was written.
            node.commit = before
            self._failed(attempt, error, reads)
            return
        if attempt.before is not None or node.rare.known_failure is not None:
            set_error(node, None)
            self._persistence.failing.drop(node)
            self._invalidation.failure_changed(node, tx)
        self._done(attempt, changed=wrote)

    def _done(self, attempt: Attempt, *, changed: bool) -> None:
        node = attempt.node
        if attempt.tx.views is not None:
            # Each holds the other: released here, both go without the collector.
            attempt.tx.views = None
        now = self._now()
        ms = node.last_ms = now - attempt.started
        # The same object for a node that runs once, as most do.
        node.total_ms = node.total_ms + ms if node.total_ms else ms
        node.last_at_ms = now
        if node.gate is not None or ms >= 1:
            self._gates.ran(node, now, ms)
        if self._invalidation.inbox:
            self._invalidation.drain()
        if self._trace.on:
            self._trace.emit(RunFinished(now, node.id, node.runs, ms, changed, len(node.reads)))
        if self.ended is not None:
            self.ended(attempt)
        if self.after is not None:
            self.after(attempt)

    def _failed(self, attempt: Attempt, error: Exception, reads: Mapping[ReadKey, Mark | None]) -> None:
        """Register the reads until the error, since a change of them may fix it. Its writes are rolled back."""
        node, tx = attempt.node, attempt.tx
        set_error(node, error)
        if tx.is_open:
            tx.abort()
        if self._trace.on:
            self._trace.emit(RunFailed(self._now(), node.id, node.runs, describe(error)))
        is_news = self._persistence.note_failure(node, tx, reads, error, attempt.before)
        if is_news:
            self._invalidation.failure_changed(node, tx)
        else:
            self._invalidation.failed_as_before(node)
        self._done(attempt, changed=False)
        is_raised = node.spec.has_callers and (attempt.pulled or self._is_called(node))
        # Something is not ready: the node runs again when that has arrived or failed.
        if is_raised or isinstance(error, NotReadyError):
            return
        if is_news or node.spec.kind is NodeKind.EFFECT:
            self._report(function_error(node, attempt.causes, self._space), node.spec.home)

    def _is_called(self, node: Node) -> bool:
        """Whether a live caller of its result gets the error. Readers of its other outputs do not."""
        return any(reader.is_live for reader in self._graph.readers_of(node.outputs[0]) if reader is not node)

    # -- when it does not count ----------------------------------------------------------------------------

    def _changed_span(self, node: Node, tx: Transaction) -> DocPath | None:
        return span_overtaken(self._graph, tx, partial(self._drain_while_running, node))

    def _outdated(self, attempt: Attempt, error: Exception | None) -> None:
        """Its reads changed during the run: roll back its writes. External effects remain."""
        node, tx = attempt.node, attempt.tx
        if tx.is_open:
            tx.abort()
        if error is not None and node.spec.kind is NodeKind.EFFECT and not isinstance(error, NotReadyError):
            node.own_rare().error = error
            self._report(function_error(node, attempt.causes, self._space), node.spec.home)
        # Its error does not count either.
        set_error(node, attempt.before)
        self._discard(attempt, "what it read changed while it ran")

    def interrupted(self, attempt: Attempt, reason: str) -> None:
        """Undo the start of an attempt: after Ctrl-C, a retry, a full stack, or a cancellation."""
        node, tx = attempt.node, attempt.tx
        self._leave(node)
        if tx.is_open:
            tx.abort()
        node.runs -= 1
        if node.rare.error is not attempt.before:
            node.own_rare().error = attempt.before
        if not node.removed:
            self._discard(attempt, reason, undone=not node.has_value)

    def again(self, attempt: Attempt) -> None:
        """A suspended attempt asks for a retry. This counts for the pass in which it began."""
        self.interrupted(attempt, "asked to be run again")
        attempt.node.pass_number = self.pass_number + 1

    def _discard(self, attempt: Attempt, reason: str, *, undone: bool = False) -> None:
        node = attempt.node
        attempt.tx.views = None
        self._invalidation.discard(node, attempt.causes, undone=undone)
        if self._trace.on:
            self._trace.emit(RunDiscarded(self._now(), node.id, node.runs, reason))

    def _decided(self, tx: Transaction) -> None:
        """The commit of a run is decided. A rolled back run is repeated for the same causes (I8)."""
        node = tx.node
        assert isinstance(node, Node)
        is_rejected = tx.status is _REJECTED
        if is_rejected:
            self._persistence.rejected(node)
        if node.commit is not tx:
            # A later run has written since, or there was nothing to write.
            return
        if node.removed:
            # Each holds the other: released here, both go without the collector.
            node.commit = None
            return
        if not is_rejected:
            # Release it.
            node.commit = None
            if node.rare is not NOTHING_RARE:
                store_recovered(node)
            if node.gate is not None:
                self._gates.stored(node)
            return
        if not isinstance(tx.verdict, Conflict) and not is_forgotten(tx):
            # No conflict: the store failed.
            if tx.error is None or is_final(tx.error):
                # No retry. What it has started stays registered until its next run.
                store_recovered(node)
                self._gates.refused(node)
                report = unstorable(node, tx)
                self._has_no_result_but(node, report)
                self._report(report, node.spec.home)
                return
            self._store_failed(node, tx, tx.error)
        self.repeat(node, tx)

    def repeat(self, node: Node, tx: Transaction) -> None:
        """The run that a node rests on, its own or an adopted run, was rolled back."""
        self._invalidation.discard(node, tx.triggers)
        if self._trace.on:
            now = self._now()
            for cause in tx.triggers if tx.node is not node else ():
                # The removed node of that run was invalidated by them, and this one was not.
                self._trace.emit(NodeInvalidated(now, node.id, address_text(*cause), TAKEN_UP))
            self._trace.emit(RunDiscarded(now, node.id, node.runs, REJECTED))

    def _store_failed(self, node: Node, tx: Transaction, error: HeadwaterError) -> None:
        """The store may accept it later, as when the disk is full. Some retries at once, then ever less often."""
        rare = node.own_rare()
        rare.store_error = unstored(node, error)
        is_first = rare.store_failures == FAILURES_MAX
        if rare.store_failures < FAILURES_MAX:
            rare.store_failures += 1
            return
        rare.store_failures = min(rare.store_failures + 1, FAILURES_LONGEST)
        self._gates.back_off_store(node, rare.store_failures - FAILURES_MAX - 1)
        self._has_no_result_but(node, rare.store_error)
        if is_first:
            self._report(unstorable(node, tx, is_over=False), node.spec.home)

    def _has_no_result_but(self, node: Node, error: HeadwaterError) -> None:
        """The store did not take its result: without an earlier one, its callers get the error."""
        if not self.has_result(node):
            node.own_rare().error = error
            self._invalidation.failed_as_before(node)
            if self._trace.on:
                self._trace.emit(RunFailed(self._now(), node.id, node.runs, describe(error)))

    # -- while it waits ------------------------------------------------------------------------------------

    def _suspend(self, attempt: Attempt) -> None:
        node = attempt.node
        if self.stack and self.stack[-1] is node:
            self.stack.pop()
        node.running = False
        self.in_flight[node] = attempt
        if self._trace.on:
            self._trace.emit(RunSuspended(self._now(), node.id, node.runs))
        self.waits(attempt)

    def waits(self, attempt: Attempt) -> None:
        """An attempt is suspended: register its reads so far, and invalidate it if one of them has changed."""
        node, tx = attempt.node, attempt.tx
        if node.attempt is not attempt or not tx.is_open or node.removed:
            return
        self._invalidation.drain()
        reads, above = tx.journal.reads(), tuple(node.above)
        whole = reads
        if tx.views is not None and self.far is not None:
            whole, node.own_rare().has_far = self.far.with_far(tx, reads), True
            if self.far.is_outdated(tx) and node.status is _CLEAN:
                far = next((key for key in whole if key not in reads), None)
                place = far_cause(tx) if far is None else (far[0], far[1])
                self._invalidation.mark(node, place, "while it waited")
        if self._graph.apply_reads(node, whole):
            node.result_scope = narrowest(whole)
            attempt.not_yet_read |= {doc for doc in above if doc not in node.above}
        changed = None
        if tx.spans is not None or node.rare.spans or tx.has_far_spans:
            register_spans(self._graph, node, tx)
            changed = self._changed_span(node, tx)
        if changed is None and self._replica.version != attempt.looked:
            # Not in `version`: the end is compared with the beginning.
            attempt.looked = self._replica.version
            changed = changed_read(self._replica, tx, reads)
        if changed is not None:
            self._invalidation.mark(node, changed, "while it waited")
            return
        if has_news(tx, self._invalidation.failures):
            other = other_outcome(tx, (key[0] for key in reads), self._graph)
            if other is not None and node.status is _CLEAN:
                self._invalidation.mark(node, (other, ()), "while it waited")

    def may_be_read(self, node: Node) -> bool:
        """Whether a suspended run has not come so far as its last one, which read the result of this node."""
        return any(doc in attempt.not_yet_read for attempt in self.in_flight.values() for doc in node.outputs[:1])

    def has_result(self, node: Node) -> bool:
        """Whether a caller gets a result or an error without a run. The first result may have been rolled back."""
        if node.spec.is_proxy or not node.outputs or node.rare.error is not None:
            return True
        return not self._replica.is_absent(node.outputs[0])

    def is_hidden(self, node: Node) -> bool:
        """Whether its first result was overtaken and rolled back, and has no verdict yet, which would repeat the run.

        What overtook it may be no dependency, such as a peek.
        """
        if node.commit is None or node.attempt is not None or node.rare.error is not None or not node.outputs:
            return False
        return self._replica.is_absent(node.outputs[0])

    def raised(self, node: Node) -> Exception | None:
        """The error for a caller of a computation, with its original traceback."""
        error: Exception | None = node.rare.error
        if error is not None:
            with_calls(error, node.rare.trace)
        return error
