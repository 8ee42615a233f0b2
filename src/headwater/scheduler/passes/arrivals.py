"""Runs that met a missing document, repeated when it arrives.

Such a run gets no value. It ends as not ready and is not reported; a handler is called again. The arrival of a document
is reported through the same channel as changes, because the document may be what the run assumed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headwater.cells.linked_documents import linked
from headwater.cells.not_ready import not_ready
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.errors import OfflineError
from headwater.scheduler.events.handling import EventDispatcher
from headwater.scheduler.events.readiness import Readiness
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.invalidation import Invalidation
from headwater.scheduler.runs.result_scope import own_doc
from headwater.scheduler.runs.runner import Runner
from headwater.values.ids import DocKey
from headwater.values.notifications import Arrived

AHEAD_FIRST: Final = 64
"""Documents that are requested for a run besides the missing document. A run may read one element of a long list."""

AHEAD_GROWTH: Final = 4
"""How many times as many are requested for the next attempt: a run that reads 50,000 documents takes six attempts."""

AHEAD_NODES_MAX: Final = 1_000
"""Nodes for which that is remembered."""


class Arrivals:
    """The runs and events that wait for missing documents."""

    def __init__(
        self,
        replica: Replica,
        ready: Readiness,
        tell: Callable[[Arrived], None],
        unpark: Callable[[], None],
        space: str,
    ) -> None:
        self._replica = replica
        self._ready = ready
        self._unpark = unpark
        self._space = space
        self._waiting: dict[tuple[DocKey, Node], None] = {}
        # How many documents are requested ahead for the next attempt of a node.
        self._ahead: dict[Node, int] = {}
        # Documents that events wait for, each with the function that reports its arrival.
        self._fetched: dict[DocKey, Callable[[], None]] = {}
        replica.on_arrived = lambda docs: tell(Arrived(tuple(docs)))

    def attach(self, runner: Runner, events: EventDispatcher, invalidation: Invalidation) -> None:
        """Connect to the runner, the dispatcher and the invalidation, where the replica is partial."""
        if self._replica.is_partial:
            runner.guard, runner.reach = self.guard, self.reach
            events.expect, invalidation.on_arrived = self.expect, self.arrived

    @property
    def docs(self) -> list[DocKey]:
        """The documents that runs wait for."""
        return list(dict.fromkeys(doc for doc, _ in tuple(self._waiting)))

    def guard(self, tx: Transaction) -> None:
        """Guard a run: a read of a missing document ends it."""
        tx.gate = lambda doc: self._look(tx, doc)

    def _look(self, tx: Transaction, doc: DocKey) -> None:
        replica = self._replica
        if replica.is_loaded(doc):
            self._check(tx, doc)
        else:
            # Together with the next reads: if the first arrived alone, the run would be repeated for it alone.
            with replica.requests:
                self._check(tx, doc)

    def _check(self, tx: Transaction, doc: DocKey) -> None:
        node = tx.node
        assert isinstance(node, Node)
        try:
            if not self._replica.is_missing(doc):
                return
        except OfflineError:
            # Told to the caller. The replica reports the document when the server is back.
            self._waiting[doc, node] = None
            raise
        self._waiting[doc, node] = None
        if not self._replica.is_missing(doc):
            # It arrived meanwhile, and only earlier readers were notified.
            self._waiting.pop((doc, node), None)
            return
        with self._replica.requests:
            self._request_next(tx, node)
        # The function may catch the error and return a result, which then depends on something that is no read.
        tx.reads_outside = True
        raise not_ready(doc, self._space)

    def _request_next(self, tx: Transaction, node: Node) -> None:
        """Request the likely next reads of a run together, instead of one run for each: more with each attempt."""
        most = left = self._ahead.get(node, AHEAD_FIRST)
        for value in map(tx.snapshot_of, tx.docs):
            # In the order of the list: `linked` starts at the end.
            for other in reversed(list(linked(value))):
                left -= self._replica.is_missing(other)
                if not left:
                    break
            if not left:
                break
        if left < most:
            if len(self._ahead) >= AHEAD_NODES_MAX:
                self._ahead.clear()
            self._ahead[node] = most * AHEAD_GROWTH

    def reach(self, node: Node) -> None:
        """A run is about to write its result over the present one. If that cannot be asked for, the run is repeated."""
        for doc in (node.outputs[0], own_doc(node)) if node.result_scope else node.outputs[:1]:
            try:
                self._replica.is_missing(doc)
            except OfflineError:
                self._waiting[doc, node] = None
                raise

    def expect(self, doc: DocKey) -> None:
        """A handler is about to read a document: if it is missing, the event waits. The caller holds the lock."""
        if doc not in self._fetched and self._replica.is_missing(doc):
            self._fetched[doc] = self._ready.loading((doc,))

    def arrived(self, arrived: Arrived, mark: Callable[[Node, DocKey], None]) -> None:
        """These documents are here. The caller holds the lock."""
        come = frozenset(arrived.docs)
        fetched = [doc for doc in dict.fromkeys(arrived.docs) if doc in self._fetched]
        for doc in fetched:
            self._fetched.pop(doc)()
        if fetched:
            # The arrival may be reported in the middle of a pass that has parked them.
            self._unpark()
        for doc, node in [each for each in tuple(self._waiting) if each[0] in come]:
            self._waiting.pop((doc, node), None)
            if not node.removed:
                mark(node, doc)
