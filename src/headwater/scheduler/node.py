"""The node record: everything that is known about one function in one open space, and the table of its statuses.

Must never know: other nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from types import TracebackType
from typing import Final

from headwater.cells.journal import Entry
from headwater.cells.transaction import Transaction
from headwater.errors import InvariantError
from headwater.values.ids import DocKey
from headwater.values.schema import Schema


class Status(Enum):
    """Whether a node's last run still counts."""

    NEVER_RAN = "never ran"
    CLEAN = "clean"
    INVALID = "invalid"


class Signal(Enum):
    """What can happen to a node."""

    STARTED = "attempt-started"
    CHANGED = "something-it-read-changed"
    TAKEN_BACK = "attempt-taken-back"


TRANSITIONS: Final[dict[tuple[Status, Signal], Status]] = {
    # Clean before the call, not after: a change that lands while the function runs can make it invalid again.
    (Status.NEVER_RAN, Signal.STARTED): Status.CLEAN,
    (Status.INVALID, Signal.STARTED): Status.CLEAN,
    (Status.CLEAN, Signal.CHANGED): Status.INVALID,
    (Status.INVALID, Signal.CHANGED): Status.INVALID,
    (Status.CLEAN, Signal.TAKEN_BACK): Status.INVALID,
    (Status.INVALID, Signal.TAKEN_BACK): Status.INVALID,
}


@dataclass(slots=True, eq=False, kw_only=True)
class Node:
    """One function in one open space. Comments name a field's only writer."""

    # Fixed at registration.
    name: str
    fn: Callable[[], object]
    order: int
    # Where a computation's result stands, and its type; None for a sink.
    result: DocKey | None = None
    schema: Schema | None = None
    # signal(): see TRANSITIONS.
    status: Status = Status.NEVER_RAN
    # Scheduler._invalid and _take: waits for a pass to look at it.
    queued: bool = False
    # Readers.replace: what the last run read.
    reads: list[Entry] = field(default_factory=list)
    # Scheduler._attempt: the transaction of the last run, what it raised and from where, how often it ran.
    tx: Transaction | None = None
    error: Exception | None = None
    trace: TracebackType | None = None
    running: bool = False
    # Greater than that of every computation it read; 0 until it has finished once.
    rank: int = 0
    # Scheduler._attempt and _subscribe: its function is at work, and what it read before does not count any more.
    reading: bool = False
    runs: int = 0

    @property
    def is_clean(self) -> bool:
        """Its last run still counts, as far as it has been told."""
        return self.status is Status.CLEAN

    def signal(self, signal: Signal) -> None:
        """Move on, as the table says."""
        after = TRANSITIONS.get((self.status, signal))
        if after is None:
            raise InvariantError(f"node {self.name}: {signal.value} while {self.status.value}", node=self.name)
        self.status = after
