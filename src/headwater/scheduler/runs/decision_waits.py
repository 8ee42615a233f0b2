"""Runs that asked whether a document is decided, repeated when that changes.

The replica reports on the documents in the dict that is kept here; while it is empty, this costs nothing. An answer
counts for the run that got it: the next run asks again, or does not depend on it any more.
"""

from __future__ import annotations

from collections.abc import Callable

from headwater.cells.replica import Replica
from headwater.scheduler.graph.node import Node
from headwater.values.ids import DocKey
from headwater.values.notifications import Change, Kind, Notification
from headwater.values.tree import ABSENT


class DecisionWaits:
    """The nodes that asked about a document, and the answers."""

    def __init__(self, replica: Replica, tell: Callable[[Notification], None]) -> None:
        self._replica = replica
        self._askers: dict[DocKey, dict[Node, None]] = {}
        # With the number of the run that asked.
        self._answers: dict[Node, tuple[int, dict[DocKey, bool]]] = {}
        replica.status_docs = self._askers
        replica.on_status = lambda doc: tell(Notification(Kind.STATUS, (Change(doc, (), ABSENT, ABSENT),)))

    def __len__(self) -> int:
        """The number of nodes that asked."""
        return len(self._answers)

    def record(self, node: Node, doc: DocKey, *, pending: bool) -> None:
        """Record the answer that a run got."""
        run, answers = self._answers.get(node, (0, {}))
        if run != node.runs:
            self.forget(node)
            answers = {}
            self._answers[node] = (node.runs, answers)
        # The first answer counts: the run may depend on it.
        answers.setdefault(doc, pending)
        self._askers.setdefault(doc, {})[node] = None

    def recheck(self, doc: DocKey, tell: Callable[[Node], None]) -> None:
        """The state of a document may have changed: invalidate the nodes that got another answer."""
        now = self._replica.is_layered(doc)
        for node in list(self._askers.get(doc, ())):
            run, answers = self._answers[node]
            if run != node.runs or node.removed:
                self.forget(node)
            elif answers[doc] is not now:
                self.forget(node)
                tell(node)

    def forget(self, node: Node) -> None:
        """Forget the answers of a node that runs again, or was removed."""
        _, answers = self._answers.pop(node, (0, {}))
        for doc in answers:
            askers = self._askers[doc]
            del askers[node]
            if not askers:
                del self._askers[doc]
