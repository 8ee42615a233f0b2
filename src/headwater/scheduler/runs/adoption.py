"""Results that another runtime derived, adopted without a run.

Several runtimes have the same functions open on one space. When one has run a function, the others receive its result
and its observation. With the same fingerprint, and the same values of all reads, a run here would have the same result:
it is left out. In all other cases the function runs (I7).

The decision depends on the current documents, not on the order of notifications: a late one changes nothing, because
by then a read is newer, or the function has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from headwater.cells.replica import Replica
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.failing import called_doc, recorded_failures
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.observed_reads import is_sound, reads_of
from headwater.scheduler.runs.persistence import Persistence
from headwater.store.observations import DIGEST_BYTES, Observation, decode_observation, digest_of
from headwater.values.address import is_far
from headwater.values.ids import DocKey, Seq
from headwater.values.notifications import Derived, Kind


class Adoption:
    """Adopts results of other runtimes. The only writer of `Node.peer_observation`."""

    def __init__(self, replica: Replica, graph: Graph, persistence: Persistence, invalidation: Invalidation) -> None:
        self._replica = replica
        self._graph = graph
        self._persistence = persistence
        self._invalidation = invalidation

    def consider(self, derived: Derived) -> None:
        """Adopt a result, if a run here would have the same."""
        writers = self._graph.writers_of(derived.doc)
        if len(writers) != 1:
            return
        node = writers[0]
        if node.is_clean:
            self._check_replaced(node, derived)
        if node.fingerprint is None or node.outputs[0] != derived.doc or not derived.body:
            return
        if len(derived.body) != DIGEST_BYTES:
            node.own_rare().peer_observation = derived.body
        if node.is_clean or not _is_free(node):
            return
        print_ = node.taken_fingerprint()
        body = self._body_of(node, derived.body, print_)
        observation = None if body is None else decode_observation(body)
        if body is None or observation is None or observation.fingerprint != print_:
            return
        extra = observation.extra
        if not is_sound(observation) or (extra is not None and (extra.far or extra.spans)):
            # What it has read in other spaces, and in indexes, is not compared here.
            return
        reads = reads_of(observation)
        docs = {*node.outputs, *(doc for doc, _, _ in reads)}
        # In one step: a write after the check must notify the readers that are registered here.
        with self._replica.lock:
            if self._are_as_of(docs, derived.seq) and self._calls_are_as_there(node, observation):
                self._persistence.adopt(node, reads, body)

    def _check_replaced(self, node: Node, derived: Derived) -> None:
        """The result of a clean node was replaced: run it again, if one of its reads is newer than the result.

        Changes of one step are notified together: a read may have changed, and changed back.
        """
        if node.outputs[0] != derived.doc or not _is_free(node):
            return
        with self._replica.lock:
            is_shown = self._is_notified(derived.doc) and self._replica.is_as_of(derived.doc, derived.seq)
            here = [doc for doc, _, _ in node.reads if not is_far(doc) and self._is_notified(doc)]
            is_current = not is_shown or self._are_as_of(here, derived.seq)
        if not is_current:
            self._invalidation.mark(node, (derived.doc, ()), Kind.INTEGRATE)

    def _is_notified(self, doc: DocKey) -> bool:
        """Whether changes of a document arrive here. Of a document that is not loaded, a client hears nothing.

        A complete replica may not have loaded it either, if the function was restored.
        """
        if not self._replica.is_partial:
            self._replica.read(doc)
        return self._replica.is_loaded(doc)

    def _calls_are_as_there(self, node: Node, observation: Observation) -> bool:
        """Whether the functions that the run called exist here with these arguments, and fail here if they failed."""
        told = recorded_failures(observation)
        reads = reads_of(observation)
        calls = () if observation.extra is None else observation.extra.calls
        return told == self._persistence.failing.among((doc for doc, _, _ in reads), node) and all(
            called_doc(observation, call) in self._graph.writers for call in calls
        )

    def _are_as_of(self, docs: Iterable[DocKey], seq: Seq) -> bool:
        """Whether the reads are the same here as in the store when it accepted the result."""
        return all(self._replica.is_as_of(doc, seq) for doc in docs)

    def _body_of(self, node: Node, told: bytes, code: bytes) -> bytes | None:
        """The full observation; None if its digest is not known here."""
        if len(told) != DIGEST_BYTES:
            return told
        return next((body for body in self._known(node, code) if digest_of(body) == told), None)

    def _known(self, node: Node, code: bytes) -> Iterator[bytes]:
        if node.rare.peer_observation is not None:
            yield node.rare.peer_observation
        if node.recorded and len(node.recorded) != DIGEST_BYTES:
            yield node.recorded
        body = self._persistence.body_again(node, code) if node.reads else None
        if body is not None:
            yield body


def _is_free(node: Node) -> bool:
    """Whether no attempt is running, and a run would have no other effect than its result."""
    if node.attempt is not None or node.running or node.removed or node.spec.is_fed:
        return False
    # Callers are notified of an error, and of its end. Results in a user's scope, and writes elsewhere, only a run
    # can produce.
    is_well = node.rare.error is None and node.rare.known_failure is None
    return is_well and not node.result_scope and not node.is_materializer
