"""Other spaces, as the runs of one scheduler read them.

A run reads other spaces through `cells.far.FarReads`. The host knows which spaces these are, and connects them; here is
what the scheduler asks of it. A program with one space has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from headwater.cells.pending_commit import Mark, ReadKey
from headwater.cells.span_records import SpanKey
from headwater.cells.transaction import Transaction
from headwater.scheduler.graph.node import DocPath, Node
from headwater.store.observations import FarSeen
from headwater.values.notifications import FarInvalid


class Far(Protocol):
    """The other spaces."""

    def with_far(self, tx: Transaction, reads: dict[ReadKey, Mark | None]) -> dict[ReadKey, Mark | None]:
        """The reads of a run, with those in other spaces under far keys. Changes of them are notified from now on."""

    def keys_of(self, tx: Transaction, reads: Iterable[ReadKey]) -> tuple[object, ...]:
        """What a run has read: equal to that of its last run if it has read the same, in the same order."""

    def look(self) -> None:
        """Let the other spaces take in what they were notified of: then it is known which proxy nodes are current."""

    def is_outdated(self, tx: Transaction) -> bool:
        """Whether something that a run has read in another space is another value now, or another error."""

    def seen(self, reads: Iterable[ReadKey], spans: Mapping[SpanKey, bytes]) -> tuple[FarSeen, ...] | None:
        """What an observation has of the far ones among these reads, and of these far spans, which are current.

        None if one of them depends on something undecided, or if nothing is known of the log it is in.
        """

    def absent(self, seen: Sequence[FarSeen]) -> str:
        """The space that is not open here, of those that a stored run has read; empty if all are."""

    def install(self, node: Node, seen: Sequence[FarSeen]) -> tuple[ReadKey, ...]:
        """The reads of a stored run in other spaces. Changes of them are notified from now on."""

    def changed_since(self, rows: Sequence[tuple[Node, Sequence[FarSeen]]]) -> dict[Node, list[DocPath]]:
        """What has changed in other spaces since these stored runs. One question for each space."""

    def await_space(self, node: Node, seen: Sequence[FarSeen]) -> None:
        """A stored run has read a space that is not open. The node is restored if that is opened before it runs."""

    def make_current(self, proxy: Node) -> None:
        """A proxy node has run: if the far functions are not current nevertheless, it waits."""

    def hurry(self, proxy: Node) -> None:
        """The functions that a proxy node waits for run without their debounce."""

    def runs_of(self, proxy: Node) -> int:
        """How often the functions that a proxy node stands for have run: its own runs may have found it waiting."""

    def is_open(self, space: str) -> bool:
        """Whether a space that functions here have read, by its id, is connected: changes there are notified."""

    def take_invalid(self, notice: FarInvalid) -> None:
        """Functions of another space are not current: invalidate the proxy nodes of their results."""

    def demand_from(self, node: Node) -> int:
        """How many documents that live functions of other spaces read it writes: each is a reason to be live."""
