"""From a change to the nodes that read it.

Commits, commits of others, rollbacks and failures all come this way. A notification waits in the inbox until `drain`.
Nothing runs here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from headwater.cells.member_shifts import FarShift, VisibleShift
from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.edges import Graph
from headwater.scheduler.graph.node import NO_CAUSES, NODE_TRANSITIONS, DocPath, Node, NodeSignal, NodeStatus
from headwater.scheduler.runs.decision_waits import DecisionWaits
from headwater.scheduler.runs.gates import Gates
from headwater.scheduler.scheduler_limits import CAUSES_MAX
from headwater.scheduler.trace import NodeInvalidated, Trace
from headwater.values.address import address_text, far_key
from headwater.values.frozen import FrozenDict
from headwater.values.ids import DocKey
from headwater.values.notifications import Arrived, Change, Derived, FarInvalid, Kind, Notification
from headwater.values.tree import ABSENT, Value

_STARTED: Final = NodeSignal.STARTED
_CHANGED: Final = NodeSignal.CHANGED
_CLEAN: Final = NodeStatus.CLEAN
_INVALID: Final = NodeStatus.INVALID
_CHANGED_CLEAN: Final = NODE_TRANSITIONS[_CLEAN, _CHANGED]
_COMMIT: Final = Kind.COMMIT
_STATUS: Final = Kind.STATUS


class Invalidation:
    """Notifications in, invalid nodes out."""

    def __init__(
        self, graph: Graph, gates: Gates, trace: Trace, now: Callable[[], float], offer: Callable[[Node], None]
    ) -> None:
        self._graph = graph
        self._gates = gates
        self._trace = trace
        self._now = now
        # Nodes that asked whether a document is decided.
        self.decision_waits: DecisionWaits | None = None
        # Settle: called with a live node that is not clean.
        self.offer = offer
        # Appended to by every thread that commits; consumed by the holder of the lock.
        self.inbox: deque[Notification | Derived | Arrived | FarInvalid] = deque()
        # Adoption: the result of another runtime may replace a run here.
        self.on_derived: Callable[[Derived], None] = lambda _: None
        # Arrivals: called with arrived documents, to mark the runs that missed them.
        self.on_arrived: Callable[[Arrived, Callable[[Node, DocKey], None]], None] = lambda *_: None
        # Far: called with a notice that functions of another space are not current.
        self.on_far: Callable[[FarInvalid], None] = lambda _: None
        # Bridges, if other spaces read this one: called with each computation that becomes invalid, and with each whose
        # error has changed.
        self.abroad: Callable[[Node], None] | None = None
        self.failed_abroad: Callable[[Node], None] | None = None
        # Counts the runs that failed, and those after which callers no longer get an error.
        self.failures = 0
        # How many runs had begun when a new node was last given a number, and that number.
        self._announced = (-1, -1)
        # Invalid computations: while there are none, every clean computation is valid.
        self.invalid: dict[Node, None] = {}
        graph.on_awaited = self._await

    def drain(self) -> None:  # noqa: C901  # every change passes here: in one piece
        """Match the notifications in the inbox with the readers."""
        inbox = self.inbox
        while inbox:
            notification = inbox.popleft()
            if type(notification) is not Notification:
                self._receive_other(notification)  # type: ignore[arg-type]  # the kinds that are left
                continue
            source, kind = notification.source, notification.kind
            own: object = None
            group: str | None = None
            if kind is _COMMIT:
                if type(source) is Transaction:
                    # A rollback concerns all readers: they still have the value.
                    own, group = source.node, source.change_group
            elif kind is _STATUS:
                self._look_at_status(notification.changes[0])
                continue
            for change in notification.changes:
                cause = (change.doc, change.path)
                for node in self._graph.index.match(change):
                    # I5: a run is not invalidated by its own writes, by identity and not by name. A running one
                    # checks at its end whether its reads are still current.
                    if node is own or node.running:
                        if node.rare.kept is not None and node is not own:
                            node.rare.kept.is_overtaken = True
                        continue
                    if group is not None and node.spec.change_group == group:
                        continue
                    self.mark(node, cause, kind, own)
            if notification.shifts:
                self._match_shifts(notification, own, group)

    @property
    def has_shifts(self) -> bool:
        """Whether changes in indexes wait to be matched."""
        return any(isinstance(each, Notification) and each.shifts for each in list(self.inbox))

    def _match_shifts(self, notification: Notification, own: object, group: str | None) -> None:
        """Match changes in indexes with the nodes that read these, by the same rules."""
        spans, hit = self._graph.spans, dict[Node, DocKey]()
        for shift in notification.shifts:
            if isinstance(shift, FarShift):
                for node in spans.match(shift.shift, shift.space):
                    hit.setdefault(node, far_key(shift.space, shift.shift.doc))
                continue
            assert isinstance(shift, VisibleShift)
            for node in spans.match(shift):
                hit.setdefault(node, shift.doc)
        for node, doc in spans.changed_answers():
            hit.setdefault(node, doc)
        for node, doc in hit.items():
            if node is own or node.running:
                if node.rare.kept is not None and node is not own:
                    node.rare.kept.is_overtaken = True
            elif group is None or node.spec.change_group != group:
                self.mark(node, (doc, ()), notification.kind, own)

    def _receive_other(self, notification: Derived | Arrived | FarInvalid) -> None:
        if isinstance(notification, Derived):
            self.on_derived(notification)
        elif isinstance(notification, FarInvalid):
            self.on_far(notification)
        else:
            self.on_arrived(notification, lambda node, doc: self.mark(node, (doc, ()), Kind.PULL))

    def _look_at_status(self, change: Change) -> None:
        assert self.decision_waits is not None
        self.decision_waits.recheck(change.doc, lambda node: self.mark(node, (change.doc, ()), _STATUS))

    def mark(self, node: Node, cause: DocPath, change: Kind | str, by: object = None) -> None:
        """Note that a value this node read has changed. Nothing runs here (I2)."""
        node.invalidated += 1
        if node.invalid_causes:
            self.add_causes(node, (cause,))
        else:
            node.invalid_causes = {cause: None}
        if node.status is _CLEAN:
            # As the table says; most nodes are.
            node.status = _CHANGED_CLEAN
        else:
            node.signal(_CHANGED)
        if node.outputs and node.status is _INVALID:
            self.invalid[node] = None
            if self.abroad is not None:
                self.abroad(node)
        if self._gates.tracks_changes or node.gate is not None:
            self._gates.invalidated(node, by)
        if self._trace.on:
            source = by.id if isinstance(by, Node) else ""
            read = address_text(*cause, self._graph.far_names)
            self._trace.emit(NodeInvalidated(self._now(), node.id, read, _named(change), source))
        if node.attempt is not None:
            if node.spec.on_invalid == "restart":
                node.attempt.cancel()
        elif node.live_refs:
            self.offer(node)

    def discard(self, node: Node, causes: tuple[DocPath, ...], *, undone: bool = False) -> None:
        """Discard an attempt: it is repeated for the same causes.

        Or it is undone, if it was the first and had no other cause.
        """
        self.add_causes(node, causes)
        # What has changed during the attempt is no cause: the next one reads everything.
        if node.rare.kept is not None:
            node.rare.kept = None
        undone = undone and not node.invalid_causes
        node.signal(NodeSignal.UNDONE if undone else NodeSignal.DISCARDED)
        if undone and not self._graph.is_awaited(node):
            self.invalid.pop(node, None)
        elif node.outputs:
            # Or the node has never run, and its output was read.
            self.invalid[node] = None
            if self.abroad is not None:
                self.abroad(node)
        if node.live_refs:
            self.offer(node)

    def offer_again(self, node: Node) -> None:
        """Offer a node that became invalid during its attempt, or does not wait any more."""
        if node.live_refs:
            self.offer(node)

    def _await(self, node: Node) -> None:
        if not node.spec.is_fed:
            self.invalid[node] = None
            if self.abroad is not None:
                self.abroad(node)

    def forget(self, node: Node) -> None:
        """Forget a removed node."""
        self.invalid.pop(node, None)
        if self.decision_waits:
            self.decision_waits.forget(node)

    def adopt(self, node: Node) -> None:
        """The run of another runtime replaces a run here: drop the causes."""
        node.signal(NodeSignal.RESTORED)
        self.invalid.pop(node, None)
        node.invalid_causes = NO_CAUSES
        if node.rare.kept is not None:
            node.rare.kept = None

    def clean(self, node: Node) -> tuple[DocPath, ...]:
        """An attempt begins. Returns its causes (I8)."""
        node.status = NODE_TRANSITIONS[node.status, _STARTED]
        if node.outputs:
            self.invalid.pop(node, None)
        if not node.invalid_causes:
            return ()
        causes, before = tuple(node.invalid_causes), node.last_causes
        node.invalid_causes = NO_CAUSES
        # The same objects again, if the same has changed: a commit that is on its way keeps them.
        return before if causes == before else causes

    @staticmethod
    def add_causes(node: Node, causes: tuple[DocPath, ...]) -> None:
        """Add causes; above a limit, only their documents."""
        kept = node.invalid_causes
        if not kept:
            node.invalid_causes = dict.fromkeys(causes)
            return
        if len(kept) > CAUSES_MAX:
            # Only documents already. A node with a thousand causes gets each at the same cost.
            kept.update(dict.fromkeys((doc, ()) for doc, _ in causes))
            return
        for cause in causes:
            if (cause[0], ()) not in kept:
                kept[cause] = None
        if len(kept) > CAUSES_MAX:
            node.invalid_causes = dict.fromkeys((doc, ()) for doc, _ in kept)

    def failed_as_before(self, node: Node) -> None:
        """A computation fails, as in an earlier opening: no reader is notified."""
        self.failures += 1
        node.failed_at = node.failed_at or self.failures

    def failure_changed(self, node: Node, source: Transaction | None = None, *, runs: int = -1) -> bool:
        """A computation fails, no longer fails, or fails with another error: callers get something else.

        Readers are notified as of a change of the whole document. Returns whether there are any. Runs and transactions
        that have called it and are not over yet find it by themselves (`seen_failures.other_outcome`).

        `runs`, for a new node: how many runs have begun so far. New nodes that are registered one after the other share
        a number, because no run has begun between them.
        """
        if runs < 0 or node.failed_at or (runs, self.failures) != self._announced:
            self.failures += 1
            self._announced = (runs, self.failures)
        node.failed_at = self.failures
        if self.failed_abroad is not None:
            self.failed_abroad(node)
        if not node.outputs or node.outputs[0] not in self._graph.index.docs:
            return False
        self.inbox.append(Notification(Kind.COMMIT, (Change(node.outputs[0], (), ABSENT, _SOMETHING),), source))
        return True


def _named(change: Kind | str) -> str:
    return change if isinstance(change, str) else change.value


_SOMETHING: Value = FrozenDict()
"""Differs from nothing at every path, by the rules of matching."""
