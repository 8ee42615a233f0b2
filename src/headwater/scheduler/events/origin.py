"""What a transaction has started; undone if it does not commit.

Work that follows from a transaction may begin before the store has decided; it survives only if the transaction commits
(I10). After a rejection the launched work is stopped here at once; the store refuses what was sent already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import Final

from headwater.cells.pending_commit import PendingCommit, call_all
from headwater.cells.replica import Replica
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import SETTLED, Status
from headwater.scheduler.trace import OriginDecided, Trace
from headwater.values.ids import LocalSeq


class OriginState(Enum):
    """The state of an origin."""

    OPEN = "open"
    """It still runs: nothing that follows from it may begin."""
    PENDING = "pending"
    """Visible here; the store has not decided."""
    COMMITTED = "committed"
    FAILED = "failed"


_STATES: Final = {
    Status.OPEN: OriginState.OPEN,
    Status.PENDING: OriginState.PENDING,
    Status.COMMITTED: OriginState.COMMITTED,
    Status.REJECTED: OriginState.FAILED,
    Status.ABORTED: OriginState.FAILED,
}


class Origin:
    """One transaction and what it has started, each with the function that stops it.

    Or a commit of an earlier opening, from the folder of a client, that has sent events and is not decided yet.
    """

    __slots__ = ("count", "id", "is_near", "on_decided", "stops", "tx")

    def __init__(self, tx: Transaction | PendingCommit, number: str, *, is_near: bool) -> None:
        self.tx = tx
        # The seed of the ids of its events: different for each attempt.
        self.id = number
        self.count = 0
        # Of the same session: a commit can require that it was accepted. Otherwise its verdict is awaited.
        self.is_near = is_near
        self.stops: list[Callable[[], None]] = []
        self.on_decided: list[Callable[[], None]] = []

    @property
    def state(self) -> OriginState:
        """The state of the transaction."""
        tx = self.tx
        if isinstance(tx, Transaction):
            return _STATES[tx.status]
        if not tx.settled:
            return OriginState.PENDING
        return OriginState.COMMITTED if tx.accepted else OriginState.FAILED

    @property
    def name(self) -> str:
        """The display name of the transaction."""
        if isinstance(self.tx, Transaction):
            return self.tx.name or "a transaction"
        return "a transaction of an earlier opening"

    @property
    def local_seq(self) -> LocalSeq | None:
        """The number of its commit in the session; None if it has sent none."""
        return self.tx.local_seq if isinstance(self.tx, Transaction) else self.tx.commit.local_seq


class Origins:
    """The undecided origins."""

    def __init__(self, replica: Replica, trace: Trace, now: Callable[[], float]) -> None:
        self._replica = replica
        self._trace = trace
        self._now = now
        self._launches: dict[Transaction, Origin] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._launches)

    def __iter__(self) -> Iterator[Origin]:
        return iter(list(self._launches.values()))

    def of(self, tx: Transaction) -> Origin:
        """The record of a transaction, made when it first starts something. Not stored after its end."""
        found = self._launches.get(tx)
        if found is not None:
            return found
        self._count += 1
        made = Origin(tx, f"{self._replica.opening}.{self._count}", is_near=tx.replica is self._replica)
        if tx.status not in SETTLED:
            self._launches[tx] = made
            tx.follow(self._ended, lambda: None)
        return made

    def attach(self, tx: Transaction, stop: Callable[[], None], on_decided: Callable[[], None] | None = None) -> Origin:
        """Something was started in a transaction: it is stopped if that, or the savepoint around this code, fails."""
        launch = self.of(tx)
        if launch.state is OriginState.FAILED:
            stop()
            return launch
        if launch.state is OriginState.COMMITTED:
            return launch
        launch.stops.append(stop)
        if on_decided is not None:
            launch.on_decided.append(on_decided)
        if tx.status is Status.OPEN:
            tx.launch(lambda: self._undo(launch, stop))
        return launch

    @staticmethod
    def _undo(launch: Origin, stop: Callable[[], None]) -> None:
        launch.stops.remove(stop)
        stop()

    def _ended(self, tx: Transaction) -> None:
        launch = self._launches.pop(tx)
        stops, launch.stops = launch.stops, []
        told, launch.on_decided = launch.on_decided, []
        if self._trace.on:
            came_to_be = launch.state is OriginState.COMMITTED
            self._trace.emit(OriginDecided(self._now(), "", launch.id, launch.name, came_to_be))
        if launch.state is OriginState.FAILED:
            # I10: what a failed attempt has started is stopped. Its next attempt starts it again.
            # In reverse order: a piece that was started twice returns to its state before the first start.
            call_all([lambda _, stop=stop: stop() for stop in reversed(stops)], launch)  # type: ignore[misc]
        for tell in told:
            tell()
