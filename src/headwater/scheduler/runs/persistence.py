"""Observations of runs: what is stored with a commit, and what an opening restores.

Out: the commit of a run carries its observation, or only the digest if it is unchanged. The observation of a run that
wrote nothing, or failed, is stored with the next commit. An observation has the reads of the run, the arguments of its
calls of functions with parameters, and the errors of its calls.

In: a node with the same fingerprint and the result of the stored run is restored as clean; if one of its reads has
changed since, as invalid. A node whose last run failed is fresh: its run compares the error with the stored one, and
notifies readers of a difference. In all other cases a node is fresh, with a reason (I7).

Length: what is stored of a run and what an opening makes of it are two directions of one format.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Final, TypeAlias

from headwater.cells.far import is_undecided
from headwater.cells.pending_commit import Mark, ReadKey
from headwater.cells.replica import Replica
from headwater.cells.span_reads import span_reads_now
from headwater.cells.span_records import SpanKey
from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import NODE_TRANSITIONS, DocPath, Node, NodeSignal, NodeStatus
from headwater.scheduler.runs import span_checks
from headwater.scheduler.runs.failing import FailingNodes, called_doc, recorded_failures, set_seen
from headwater.scheduler.runs.far_port import Far
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.observed_reads import depth_of, is_sound, reads_of
from headwater.scheduler.runs.restore_order import row_key, rows_in_turn
from headwater.scheduler.runs.resumed_node import CHANGED_CODE, FAILED, NOTHING, UNMADE, Resumed
from headwater.scheduler.scheduler_limits import SPLIT_MAX
from headwater.scheduler.trace import NodeRestored, Trace
from headwater.store.backend import ObservationRow
from headwater.store.commit import Committed, PendingRead, Read
from headwater.store.observations import (
    DIGEST_BYTES,
    NO_EXTRA,
    Arguments,
    Called,
    Extra,
    FarSeen,
    Observation,
    decode_observation,
    digest_of,
    encode_observation,
    fingerprint_of,
)
from headwater.store.resumption import Listing
from headwater.values.address import Depth, address_text, is_far
from headwater.values.author_text import same_message
from headwater.values.ids import NEVER, DocKey, Seq
from headwater.values.notifications import Kind
from headwater.values.tree import ABSENT, Maybe, Path, same

Changed: TypeAlias = Callable[[DocKey, list[tuple[Path, Depth]], Seq], bool]
"""Whether a commit after a seq has changed one of these places of a document, or may have."""

_Found: TypeAlias = dict[Node, tuple[ObservationRow, Observation]]
"""Nodes with their rows."""

SINCE: Final = "while not open"
"""The cause of a node that is restored as invalid: a change while the space was not open."""

_NEVER_RAN: Final = NodeStatus.NEVER_RAN
_RESTORED: Final = NodeSignal.RESTORED

_UNWRITTEN: Final = (NEVER, False)  # the head of a document that was never written
CALLS_KEY: Final = b"\xa1c"
"""The key of `Extra.calls` as stored: it is in every body with calls, and in few others."""

PLAIN: Final = b""
"""What a node has recorded after its first run, if that follows from its reads and its fingerprint alone. The digest is
computed when it runs again: most nodes do not, and many would keep it."""

ADOPTED: Final = "adopted"
"""The outcome of a node that need not run because another runtime has run it."""


class Persistence:
    """Stores and restores observations."""

    def __init__(self, replica: Replica, graph: Graph, gates: Gates, invalidation: Invalidation, trace: Trace) -> None:
        self._gates = gates
        self._replica = replica
        self._graph = graph
        self._invalidation = invalidation
        self._trace = trace
        self._now = gates.now
        self.failing = FailingNodes(graph)
        # The other spaces that runs read; None in a program with one space.
        self.far: Far | None = None
        # Nodes whose last run has read something undecided in another space: noted when that is decided.
        self.late: dict[Node, None] = {}
        # The number of nodes restored as clean; and the others, by their ids.
        self.restored = 0
        self.missed: dict[str, Resumed] = {}

    # -- out -----------------------------------------------------------------------------------------------

    def observe(self, node: Node, tx: Transaction) -> None:
        """Attach the observation of a run to its commit. The reads of the run are registered already."""
        body = node.recorded
        if node in self.late and self.failing.is_empty and node.rare.seen_failures is None and is_undecided(tx):
            # As after each write in another space: noted later, as its last run.
            node.recorded = None
            return
        if (
            body is None
            or len(body) != DIGEST_BYTES
            or tx.reads_outside
            or node.rare.seen_failures is not None
            or node.rare.spans
            or not self.failing.is_empty
        ):
            # Otherwise, as for most runs, it is the digest of the last one: the first case of `_body`.
            body = self._body(node, tx)
        if body is not None:
            tx.observes = (node.stored_as or node.outputs[0], body)

    def note(self, node: Node, tx: Transaction, reads: Mapping[ReadKey, Mark | None], value: Maybe = ABSENT) -> None:
        """Store the observation of a run without writes with the next commit, if it is still valid then.

        The same holds for its result: another commit may have changed it, or its commit was rolled back.
        """
        body = self._body(node, tx, whole=True)
        # It may not be stored after all: the next commit must not refer to it.
        node.recorded = None
        if body is None:
            return
        self._put_note(node, body, reads, value)

    def note_writes(self, node: Node, tx: Transaction, reads: Mapping[ReadKey, Mark | None]) -> None:
        """Store the observation of a run that writes and has no result, such as that of a sink, once it is accepted.

        Called before its commit. Its own writes do not make it outdated (I5).
        """
        body = self._body(node, tx, whole=True)
        node.recorded = None
        if body is not None:
            own = frozenset(doc for doc, _ in tx.written())
            spans = tuple(span_checks.near_spans(node))
            tx.callbacks = (*tx.callbacks, partial(self._accepted, node, node.runs, body, reads, own, spans))

    def _accepted(  # noqa: PLR0917  # called in one place
        self,
        node: Node,
        run: int,
        body: bytes,
        reads: Mapping[ReadKey, Mark | None],
        own: Collection[DocKey],
        spans: Iterable[SpanKey],
        tx: Transaction,
    ) -> None:
        verdict = tx.verdict
        if not isinstance(verdict, Committed) or node.rare.noted_run > run:
            # In the latter case a later run has its own there.
            return
        seen: list[Read | PendingRead] = []
        for (doc, path, bits), mark in reads.items():
            if doc in own:
                seen.append(Read(doc, path, verdict.seq, depth_of(bits)))
            elif mark is None:
                return
            else:
                seen.append(mark.read(doc, path, depth_of(bits)))
        with self._replica.lock:
            node.own_rare().noted_run = run
            named = tuple([span_checks.as_of(each, verdict.seq) for each in spans])
            self._replica.observations.put(row_key(node), body, seen, named)

    def note_failure(
        self,
        node: Node,
        tx: Transaction,
        reads: Mapping[ReadKey, Mark | None],
        error: Exception,
        before: Exception | None,
    ) -> bool:
        """Record a failed run, on which results of readers may depend. Returns whether readers must be notified."""
        is_news = not same_message(error, before)
        if is_news and node.rare.known_failure is not None:
            # The first run of this opening: in an earlier opening it may have failed in the same way.
            failure = fingerprint_of(error)
            is_news = failure != node.rare.known_failure
            if not is_news:
                # The others have seen it, and stay restored (I7).
                for reader in self.failing.not_seen_by(node, failure):
                    self._invalidation.mark(reader, (node.outputs[0], ()), Kind.COMMIT, node)
        if node.outputs:
            self.failing.add(node)
        node.recorded = None
        if node.rare.known_failure is not None:
            node.rare.known_failure = None
        self._note_failed(node, tx, reads, error)
        return is_news

    def _note_failed(self, node: Node, tx: Transaction, reads: Mapping[ReadKey, Mark | None], error: Exception) -> None:
        if node.fingerprint is None:
            return
        if node.result_scope or tx.reads_outside or node.rare.has_far:
            return
        failed = Extra(error=fingerprint_of(error))
        self._put_note(node, encode_observation(node.taken_fingerprint(), node.reads, failed), reads)

    def _put_note(self, node: Node, body: bytes, reads: Mapping[ReadKey, Mark | None], *values: Maybe) -> None:
        seen = [mark.read(doc, path, depth_of(bits)) for (doc, path, bits), mark in reads.items() if mark is not None]
        if len(seen) != len(reads):
            return
        for index, doc in enumerate(node.outputs):
            mark = self._replica.snapshot(doc)
            if not index and values and not same(mark.value, values[0]):
                return
            seen.append(mark.read(doc, (), Depth.DEEP))
        if not node.outputs:
            # As `_accepted`, which asks for it, is for runs without a result.
            node.own_rare().noted_run = node.runs
        with self._replica.lock:
            spans = span_reads_now(self._replica, span_checks.near_spans(node))
            if node.rare.spans and self._invalidation.has_shifts:
                # One of them may have changed, and the node is not notified of it yet.
                return
            self._replica.observations.put(row_key(node), body, seen, spans)

    def _body(self, node: Node, tx: Transaction, *, whole: bool = False) -> bytes | None:
        """The stored form of this run; its digest, if it is unchanged. None: nothing is stored."""
        if node.fingerprint is None:
            return None
        recorded, failures = node.recorded, self.failing.above(node)
        is_as_before = (failures or None) == node.rare.seen_failures
        is_near = not node.rare.has_far and not node.rare.spans
        if recorded is not None and is_as_before and not whole and not tx.reads_outside and is_near:
            if len(recorded) != DIGEST_BYTES:
                body = recorded or encode_observation(node.taken_fingerprint(), node.reads)
                node.recorded = recorded = digest_of(body)
            return recorded
        node.recorded = None
        set_seen(node, failures)
        if node.result_scope or tx.reads_outside or node.status is not NodeStatus.CLEAN:
            # Invalid already: a failure that it has read may be over, and no document shows that.
            return None
        extra = self._extra(node)
        if extra is None:
            return None
        if node.rare.has_far:
            return self._far_body(node, node.taken_fingerprint(), extra, tx)
        body = encode_observation(node.taken_fingerprint(), node.reads, extra)
        node.recorded = PLAIN if extra is NO_EXTRA else digest_of(body)
        span_checks.set_noted_spans(node)
        return body

    def _far_body(self, node: Node, code: bytes, extra: Extra, tx: Transaction | None = None) -> bytes | None:
        """The stored form of a run that has read other spaces. None if that cannot be stored now: see `note_late`."""
        waits = tx is not None and is_undecided(tx)
        seen = None if self.far is None or waits else self.far.seen(node.reads, span_checks.far_spans_of(node))
        if seen is None:
            self.late[node] = None
            return None
        self.late.pop(node, None)
        span_checks.set_noted_spans(node)
        near = [read for read in node.reads if not is_far(read[0])]
        return encode_observation(code, near, Extra(calls=extra.calls, far=seen, spans=extra.spans))

    def note_late(self) -> None:
        """Store the observations of runs that had read something undecided in another space, as far as it is decided.

        Nothing has changed meanwhile, or the node would be invalid.
        """
        for node in list(self.late):
            if node.removed or not node.rare.has_far or node.attempt is not None or not node.is_clean:
                # A later run has its own observation.
                del self.late[node]
            else:
                self.note_again(node)

    def _extra(self, node: Node) -> Extra | None:
        """What the reads of a run do not describe: spans and some calls. None: a call of them cannot be repeated."""
        spans = span_checks.spans_seen(node)
        if not node.above:
            return Extra(spans=spans) if spans else NO_EXTRA
        failures, made = self.failing.above(node), node.rare.made_before
        calls: dict[DocKey, Called] = {}
        for index, (doc, _, _) in enumerate(node.reads):
            if doc not in node.above or doc in calls:
                continue
            arguments = None
            for writer in self._graph.writers_of(doc):
                if writer.spec.is_instance and doc not in made:
                    arguments = writer.called_with
                    if arguments is None or doc != writer.outputs[0]:
                        # Only its own run makes that node again. The node itself has a row.
                        return None
            error = failures.get(doc)
            if arguments is not None or error is not None:
                calls[doc] = Called(index, arguments, error)
        return Extra(calls=tuple(calls.values()), spans=spans) if calls or spans else NO_EXTRA

    def body_again(self, node: Node, code: bytes) -> bytes | None:
        """The stored form of a run with the same reads as the last one."""
        extra = self._extra(node)
        if extra is None or node.rare.has_far:
            return None if extra is None else self._far_body(node, code, extra)
        return encode_observation(code, node.reads, extra)

    def note_again(self, node: Node) -> None:
        """Store the observation of a restored node once more, with the next commit.

        A node of the same function with other inputs may have run since, and its observation may be on the way to the
        store.
        """
        body = None if node.fingerprint is None else self.body_again(node, node.taken_fingerprint())
        if body is not None:
            near = node.reads if not node.rare.has_far else [read for read in node.reads if not is_far(read[0])]
            self._put_note(node, body, {read: self._replica.snapshot(read[0]) for read in near})

    def rejected(self, node: Node) -> None:
        """A commit of the node was rolled back, and with it the stored observation."""
        node.recorded = None

    # -- in ------------------------------------------------------------------------------------------------

    def calls_of(self, node: Node, row: ObservationRow, listing: Listing) -> list[tuple[DocKey, Arguments]]:
        """The results of functions with parameters that a stored run has read, with the arguments of its calls.

        Empty if the row is not valid for this node. Their nodes must exist before the node is restored.
        """
        observation, _ = self._valid(node, row, listing)
        if observation is None or observation.extra is None or observation.extra.error is not None:
            return []
        calls = observation.extra.calls
        return [(called_doc(observation, call), call.arguments) for call in calls if call.arguments is not None]

    def restore_all(
        self,
        nodes: Iterable[Node],
        listing: Listing,
        changed: Changed,
        unmade: Collection[Node] = (),
        shifted: span_checks.Shifted = span_checks.all_shifted,
    ) -> None:
        """Restore nodes from stored observations. Nothing runs, and unchanged documents are not read.

        `unmade`: nodes whose calls cannot be repeated. `shifted`: what has changed in spans; otherwise all may have.
        """
        rows = rows_in_turn(nodes, listing)
        restored, unchanged = self._restore_rows(rows, listing, unmade)
        # All failures of the rows are known now, and can be compared with those that readers have seen.
        if not self.failing.is_empty:
            restored |= unchanged
        elif self._trace.on:
            for node in unchanged:
                self._count_restored(node)
        else:
            self.restored += len(unchanged)
        far = [(node, found[1].extra.far) for node, found in restored.items() if node.rare.has_far and found[1].extra]
        since = self.far.changed_since(far) if far and self.far is not None else {}
        span_checks.add_shifted(since, self._replica, [(node, row.seq) for node, (row, _) in restored.items()], shifted)
        outdated = {
            node: self._since(node, *found, listing, changed, besides=since.get(node, []))
            for node, found in restored.items()
        }
        for _, node in rows if not self.failing.is_empty else ():
            if node.rare.known_failure is not None:
                self._tell_readers_before(node, restored)
        for node, causes in outdated.items():
            for cause in causes:
                self._invalidation.mark(node, cause, SINCE)
            if causes:
                self._gates.at_once(node)
                # If it is observed already, it was put aside for its delay.
                self._invalidation.offer_again(node)

    def _restore_rows(
        self, rows: list[tuple[ObservationRow | None, Node]], listing: Listing, unmade: Collection[Node]
    ) -> tuple[_Found, _Found]:
        """Restore nodes. Returns those whose rows are valid; separately those with nothing but unchanged reads."""
        restored: _Found = {}
        unchanged: _Found = {}
        for row, node in rows:
            if node in unmade:
                self._tell(node, "fresh", UNMADE)
                continue
            observation = self._restore(node, row, listing)
            if row is None or observation is None:
                continue
            quick = observation.extra is None and self._is_unchanged(node, row.seq, listing)
            (unchanged if quick else restored)[node] = (row, observation)
        return restored, unchanged

    def _is_unchanged(self, node: Node, seq: Seq, listing: Listing) -> bool:
        """Whether none of its reads was written after its run."""
        heads, is_layered = listing.heads, self._replica.is_layered
        for doc, _, _ in node.reads:
            head = heads.get(doc, _UNWRITTEN)
            if head is None or head[0] > seq or is_layered(doc):
                return False
        return True

    def outdate(self, node: Node, doc: DocKey) -> None:
        """A restored node was not notified of changes of a read: it has to run."""
        self.restored -= 1
        self._tell(node, "dirty", f"{address_text(doc, (), self._graph.far_names)} may have changed since")
        self._invalidation.mark(node, (doc, ()), SINCE)
        self._gates.at_once(node)
        self._invalidation.offer_again(node)

    def _tell_readers_before(self, node: Node, restored: Collection[Node]) -> None:
        """Notify readers that were registered before a failed node: they have not seen its failure."""
        for reader in self._graph.readers_of(node.outputs[0]):
            if reader not in restored and reader.has_value and reader is not node:
                self._invalidation.mark(reader, (node.outputs[0], ()), SINCE)

    def _restore(self, node: Node, row: ObservationRow | None, listing: Listing) -> Observation | None:
        """Restore one node, if its row is valid."""
        observation, miss = self._valid(node, row, listing)
        if observation is None or row is None:
            self._tell(node, "fresh", miss)
            return None
        if observation.extra is not None and observation.extra.error is not None:
            # Only a run can raise the error again for callers. It compares it with the error that readers have seen.
            if node.outputs:
                node.own_rare().known_failure = observation.extra.error
                self.failing.add(node)
            self._tell(node, "fresh", FAILED)
            return None
        if observation.extra is not None and (miss := span_checks.restore_spans(self._graph, node, observation)):
            self._tell(node, "fresh", miss)
            return None
        far = () if observation.extra is None else observation.extra.far
        if far:
            if self._restore_far(node, observation, far):
                return observation
            # For the case that the space is opened before the node runs.
            listing.rows[row.doc] = row
            return None
        self._install(node, reads_of(observation))
        if row.doc not in listing.inherited:
            # A row of another branch cannot be referred to on this one. The digest of a row of this branch is
            # computed when needed: most nodes never run again.
            node.recorded = row.body
        return observation

    def _restore_far(self, node: Node, observation: Observation, seen: tuple[FarSeen, ...]) -> bool:
        """Restore a node whose run has read other spaces, if these are open. Returns whether they are."""
        absent = "another space" if self.far is None else self.far.absent(seen)
        if self.far is None or absent:
            self._tell(node, "fresh", f"it has read {absent}, which is not open")
            if self.far is not None:
                self.far.await_space(node, seen)
            return False
        self._install(node, (*reads_of(observation), *self.far.install(node, seen)))
        node.own_rare().has_far = True
        return True

    def _install(self, node: Node, reads: tuple[ReadKey, ...]) -> None:
        self._graph.install_reads(node, reads)
        if node.runs or node in self._invalidation.invalid:
            self._invalidation.forget(node)
        # I7: as if it had just run; and if a read has changed since, as if it had been notified.
        if node.status is _NEVER_RAN:
            # As the table says; nearly all are.
            node.status = NODE_TRANSITIONS[_NEVER_RAN, _RESTORED]
        else:
            node.signal(_RESTORED)
        node.restored = True

    @staticmethod
    def _changed_places(
        doc: DocKey, places: list[tuple[Path, Depth]], row: ObservationRow, changed: Changed
    ) -> list[Path]:
        """The changed places of a document; for many places, the document as a whole.

        Each question replays the later log entries of the document.
        """
        if len(places) > SPLIT_MAX:
            return [()]
        if len(places) == 1:
            return [places[0][0]]
        return [each[0] for each in places if changed(doc, [each], row.seq)] or [places[0][0]]

    def _since(
        self,
        node: Node,
        row: ObservationRow,
        observation: Observation,
        listing: Listing,
        changed: Changed,
        *,
        besides: list[DocPath],
    ) -> list[DocPath]:
        """Everything that has changed since the stored run of a node, as causes (I8)."""
        newer: dict[DocKey, list[tuple[Path, Depth]]] = {}
        for doc, path, bits in node.reads:
            if self._is_newer(doc, row.seq, listing):
                newer.setdefault(doc, []).append((path, depth_of(bits)))
        causes: list[DocPath] = []
        for doc, places in newer.items():
            if changed(doc, places, row.seq):
                causes += [(doc, path) for path in self._changed_places(doc, places, row, changed)]
        causes += besides
        told, now = recorded_failures(observation), self.failing.above(node)
        set_seen(node, told)
        others = [doc for doc in {**told, **now} if told.get(doc) != now.get(doc)]
        causes += [(doc, ()) for doc in others if (doc, ()) not in causes]
        if causes:
            reason = f"{address_text(causes[0][0], (), self._graph.far_names)} has changed since"
            if len(others) == len(causes):
                reason = f"whether {address_text(others[0])} fails, or how, has changed since its last run"
            self._tell(node, "dirty", reason)
            return causes
        self._count_restored(node)
        return []

    def _count_restored(self, node: Node) -> None:
        self.restored += 1
        if self._trace.on:
            self._trace.emit(NodeRestored(self._now(), node.id, "restored", ""))

    def take_up(
        self,
        node: Node,
        reads: tuple[ReadKey, ...],
        recorded: bytes,
        told: dict[DocKey, bytes],
    ) -> None:
        """Install the observation of another node of the same function, which is still valid."""
        self._install(node, reads)
        node.recorded = recorded
        set_seen(node, told)
        self._count_restored(node)
        self.note_again(node)

    def adopt(self, node: Node, reads: tuple[ReadKey, ...], body: bytes) -> None:
        """Install the reads of a run of another runtime, which have the same values here."""
        self._graph.install_reads(node, reads)
        self._invalidation.adopt(node)
        node.recorded = body
        set_seen(node, self.failing.above(node))
        node.own_rare().adopted += 1
        if self._trace.on:
            self._trace.emit(NodeRestored(self._now(), node.id, ADOPTED, "another runtime has run it"))

    def _is_newer(self, doc: DocKey, seq: Seq, listing: Listing) -> bool:
        """Whether it was written since, or here without a decision, which the store does not know yet."""
        return listing.is_newer(doc, seq) or self._replica.is_layered(doc)

    def _valid(self, node: Node, row: ObservationRow | None, listing: Listing) -> tuple[Observation | None, str]:
        """The stored observation, if it belongs to this node and its result; otherwise the reason."""
        if row is None:
            return None, NOTHING
        observation = decode_observation(row.body)
        if observation is None or (observation.extra is not None and not is_sound(observation)):
            return None, "what is kept of it cannot be read"
        if node.fingerprint is None or observation.fingerprint != node.taken_fingerprint():
            return None, CHANGED_CODE
        is_plain = observation.extra is None and self._is_result_of(node, row.seq, listing)
        miss = "" if is_plain else self._other_result(node, row, observation, listing)
        return (None, miss) if miss else (observation, "")

    def _other_result(self, node: Node, row: ObservationRow, observation: Observation, listing: Listing) -> str:
        """Why its documents are not those of the stored run; empty if they are."""
        has_failed = observation.extra is not None and observation.extra.error is not None
        if node.outputs and not has_failed and not listing.exists(node.outputs[0]):
            return "its result is gone"
        for doc in node.outputs:
            if self._is_newer(doc, row.seq, listing):
                by = "by another program, or by a later run that cannot be kept"
                return f"{address_text(doc)} was written after the run that is kept, {by}"
        return ""

    def _is_result_of(self, node: Node, seq: Seq, listing: Listing) -> bool:
        """Whether its only output exists, and is surely that of a run: so for nearly every node."""
        if len(node.outputs) != 1:
            return False
        head = listing.heads.get(node.outputs[0])
        return head is not None and head[1] and head[0] <= seq and not self._replica.is_layered(node.outputs[0])

    def _tell(self, node: Node, outcome: str, reason: str) -> None:
        self.missed[node.id] = Resumed(node.id, outcome, reason)
        if self._trace.on:
            self._trace.emit(NodeRestored(self._now(), node.id, outcome, reason))
